"""Explanations: a formula as text, LaTeX and MathML, with symbols and with numbers, its value and its source.

Totals of an operator have symbols of their own, by which the formula of one explanation refers to another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import isclose
from typing import Any

import sympy

from roofline.cost import FIELDS
from roofline.errors import InputError
from roofline.formulas.latex import latex, name, substituted, text
from roofline.formulas.mathml import mathml, substituted_mathml
from roofline.formulas.symbolic import described, evaluate, quantity, symbol
from roofline.numeric import Expr
from roofline.specs.source import Assumption

ROOFLINE = 'Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009, https://doi.org/10.1145/1498765.1498785'
SCALING_BOOK = 'Austin et al., "How to Scale Your Model", 2025, https://jax-ml.github.io/scaling-book/roofline'


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanation:
    """One quantity, derived. `parts` explain the quantities that the main formula is made of.

    A notebook shows it as a table of formulas; `print` shows what `roofline explain` prints.
    """

    subject: str
    formula: str
    latex: str
    substituted: str
    """The formula with numbers instead of symbols, nothing worked out."""
    substituted_latex: str
    mathml: str
    substituted_mathml: str
    value: int | float | None
    """The number; an int where it is whole, None where there is no limit."""
    unit: str
    source: str
    about: str = ""
    """What the quantity is, in a few words."""
    low: float | None = None
    """With `high`, the 80 % interval of an estimate; None: the value has none."""
    high: float | None = None
    assumptions: tuple[Assumption, ...] = ()
    legend: tuple[tuple[str, int | float, str], ...] = ()
    """Symbol, value, meaning with unit: every symbol of the formula and of its parts, once."""
    parts: tuple[Explanation, ...] = ()
    expression: Any = field(default=None, compare=False)
    """The formula as a SymPy expression; None where it is none (an equation, a limit that does not exist)."""
    numbers: Mapping[Any, Any] = field(default_factory=dict, compare=False)
    """The number of each symbol of `expression`."""

    def __str__(self) -> str:
        from roofline.predict.explain.rendering import text

        return text(self)

    def __repr__(self) -> str:
        value = "no limit" if self.value is None else f"{self.value!r} {self.unit}"
        return f"<Explanation of {self.subject}: {self.formula} = {value}>"

    def _repr_html_(self) -> str:
        from roofline.predict.explain.rendering import html

        return html(self)

    def _repr_latex_(self) -> str:
        from roofline.predict.explain.rendering import equation

        return f"$\\displaystyle {equation(self)}$"


def explanation(
    subject: str,
    expr: Expr,
    values: Mapping[Any, Any],
    *,
    unit: str,
    source: str,
    about: str = "",
    value: float | None = None,
    assumptions: Iterable[Assumption] = (),
    parts: Iterable[Explanation] = (),
) -> Explanation:
    """Return the explanation of an expression and its value.

    Args:
        subject: the quantity or the path of the operator.
        expr: the formula in symbols.
        values: the number of each symbol of it.
        unit: of the value.
        source: the reference of the formula.
        about: what the quantity is.
        value: its number as it was computed elsewhere, to the last digit; None: the formula's own.
        assumptions: choices that the value depends on.
        parts: explanations of quantities that the formula refers to.

    Raises:
        InputError: the formula does not give `value`.
    """
    listed = tuple(parts)
    symbols = sorted(getattr(expr, "free_symbols", ()), key=lambda one: (described(one).order, one.name))
    legend = {
        one.name: (name(one), _plain(values[one]), f"{described(one).meaning} [{described(one).unit}]") for one in symbols
    }
    for part in listed:
        legend |= {entry[0]: entry for entry in part.legend if entry not in legend.values()}
    evaluated = _plain(evaluate(expr, values))
    if value is not None and not isclose(evaluated, value, rel_tol=1e-9, abs_tol=1e-15):
        raise InputError(f"{subject} has no short closed form for these options: analyze finds {value:.6g} {unit}")
    return Explanation(
        subject=subject,
        formula=text(expr),
        latex=latex(expr),
        substituted=substituted(expr, values),
        substituted_latex=substituted(expr, values, as_latex=True),
        mathml=mathml(expr),
        substituted_mathml=substituted_mathml(expr, values),
        value=evaluated if value is None else value,
        unit=unit,
        source=source,
        about=about,
        assumptions=tuple(assumptions),
        legend=tuple(legend.values()),
        parts=listed,
        expression=sympy.sympify(expr, strict=True),
        numbers={one: values[one] for one in symbols},
    )


def unit_of(meaning: str) -> str:
    """Return the unit in brackets at the end of a meaning, as a legend has it; "1" where there is none.

    >>> unit_of("weights read [bytes]"), unit_of("share")
    ('bytes', '1')
    """
    return meaning.rpartition("[")[2].removesuffix("]") if meaning.endswith("]") else "1"


def _plain(value: Any) -> int | float:
    return int(value) if float(value).is_integer() else float(value)


# Field of the cost -> how its total is written: name, LaTeX, unit, meaning.
_OF_COST = {
    "matrix_flops": ("F_matrix", r"F_{\mathrm{matrix}}", "FLOP", "FLOP of matrix products"),
    "vector_flops": ("F_vector", r"F_{\mathrm{vector}}", "FLOP", "FLOP of everything else"),
    "weight_bytes": ("D_weights", r"D_{\mathrm{weights}}", "bytes", "weights read"),
    "activation_bytes": ("D_activations", r"D_{\mathrm{activations}}", "bytes", "activations read and written"),
    "kv_read_bytes": ("D_kv_read", r"D_{\mathrm{kv,read}}", "bytes", "KV cache read"),
    "kv_write_bytes": ("D_kv_write", r"D_{\mathrm{kv,write}}", "bytes", "KV cache written"),
    "state_read_bytes": ("D_state_read", r"D_{\mathrm{state,read}}", "bytes", "recurrent state read"),
    "state_write_bytes": ("D_state_write", r"D_{\mathrm{state,write}}", "bytes", "recurrent state written"),
    "link_bytes": ("D_link", r"D_{\mathrm{link}}", "bytes", "sent over the link"),
    "messages": ("messages", r"N_{\mathrm{messages}}", "messages", "steps of communication, one after another"),
}
_FROM_THESE = {
    "bytes": ("D", "D", "bytes", "traffic of device memory"),
    "time_bound": ("t_bound", r"t_{\mathrm{bound}}", "s", "shortest time"),
}
DERIVED = ("bytes", "arithmetic_intensity", "time_bound")
WORK = ("matrix_flops", "vector_flops")
MEMORY_TRAFFIC = tuple(name for name in FIELDS if name.endswith("_bytes") and name != "link_bytes")


def total(subject: str) -> sympy.Symbol:
    """Return the symbol of a field of the cost, or of a quantity derived from the fields, by the subject of its explanation.

    >>> total("weight_bytes"), total("arithmetic_intensity")
    (D_weights, I)
    """
    if subject == "arithmetic_intensity":
        return symbol("I")
    return quantity(*{**_OF_COST, **_FROM_THESE}[subject])


def symbol_of(subject: str) -> str:
    """Return the name of the symbol that `total` has for a subject; "" if it has none.

    >>> symbol_of("weight_bytes"), symbol_of("ttft")
    ('D_weights', '')
    """
    known = {**_OF_COST, **_FROM_THESE}
    return str(known[subject][0]) if subject in known else ""


def meaning(subject: str) -> str:
    """Return the meaning of a field of the cost, or of a quantity derived from the fields, in words.

    >>> meaning("weight_bytes"), meaning("arithmetic_intensity")
    ('weights read', 'arithmetic intensity')
    """
    return described(total(subject)).meaning


def traffic(moved: Iterable[str]) -> Expr:
    """Return the sum of these kinds of traffic of device memory, in symbols (bytes)."""
    return sum(map(total, moved))


def intensity(worked: Iterable[str], moved: str) -> Expr:
    """Return these kinds of FLOP per byte of `moved`, in symbols."""
    return sum(map(total, worked)) / total(moved)


def peak(subject: str) -> sympy.Symbol:
    """Return the symbol of the rate that limits a field of the cost: a peak (FLOP/s), or the memory bandwidth (bytes/s)."""
    if subject == "vector_flops":
        return quantity("P_v", "P_v", "FLOP/s", "fp32 peak outside the matrix units")
    return symbol("P" if subject == "matrix_flops" else "beta")


def bound(subjects: Iterable[str]) -> Expr:
    """Return the longest of the times that each resource is busy, in symbols (seconds): a total over its rate."""
    times = [total(name) / peak(name) for name in subjects]
    # NB: unevaluated: of symbols that know nothing of each other none can be left out, which SymPy takes long to find
    return sympy.Max(*times, evaluate=False) if len(times) > 1 else times[0]


def derived(fields: Collection[str]) -> dict[str, Expr]:
    """Return traffic, intensity and shortest time in symbols, of a step whose operators have these fields of the cost.

    >>> derived(["matrix_flops", "weight_bytes", "activation_bytes"])["arithmetic_intensity"]
    F_matrix/D
    """
    moved, worked = ([name for name in names if name in fields] for names in (MEMORY_TRAFFIC, WORK))
    return {
        "bytes": traffic(moved),
        "arithmetic_intensity": intensity(worked, "bytes"),
        "time_bound": bound([*worked, "bytes"]),
    }


def unit(field: str) -> str:
    """Return the unit of a field of the cost."""
    return _OF_COST[field][2]
