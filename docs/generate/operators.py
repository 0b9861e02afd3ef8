"""The catalogue of operators: docstring, dimensions, and the formulas of its cost, from the code that computes it."""

from __future__ import annotations

import sys
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import sympy
from sphinx.pycode import ModuleAnalyzer

from generate.docstring import first, markdown, prose, source
from generate.table import table, toctree
from roofline.cost import FIELDS
from roofline.dtypes import BF16, Dtypes, Precision
from roofline.formulas.latex import latex
from roofline.formulas.symbolic import quantity, symbol, symbolic_precision
from roofline.operators import OPERATORS
from roofline.predict.explain.explanation import meaning, total, unit
from roofline.symbols import BY_NAME

if TYPE_CHECKING:
    from roofline.operators.base import Operator

# Fields that are a quantity of the nomenclature under a longer name.
_SAME = {
    "batch": "B", "new": "S_q", "cached": "S_c", "n_kv_heads": "n_kv", "head_dim": "d_head", "v_head_dim": "d_v", "window": "w",
    "tokens": "T", "experts": "E",
}  # fmt: skip

_HEAD = """\
# Operators

What a model does is a list of operators; what one of them costs is a few lines of arithmetic. Each page has the operator's
docstring, and the formulas that its code gives when it is called with symbols: nothing is typed twice. An operator is [one
class](../../extending.md#an-operator), with an example that a test runs.

Symbols are those of the [nomenclature](../../nomenclature.md); other dimensions have their names in the code. `roofline
explain MODEL PATH` puts a model's numbers in.
"""


# Structures whose formulas are shown beside those of the default; a number stands for the symbol of a dimension.
_ALSO: dict[str, tuple[dict[str, Any], ...]] = {
    "activation": ({"gated": False},),
    "attention": ({"window": 1}, {"eager": True}),
    "delta_rule": ({"recurrent": True},),
    "latent_attention": ({"absorbed": True},),
    "linear_attention": ({"recurrent": True},),
    "norm": ({"gated": True},),
}
_LONG = 240  # characters of LaTeX, from which on a formula is written in parts


class Formula(NamedTuple):
    """A field of the cost: in words, in LaTeX, its unit, and what stands for parts of it."""

    meaning: str
    latex: str
    unit: str
    where: list[str]


def pages() -> dict[str, str]:
    """A page an operator, and their index."""
    rows = [[f"[`{kind}`]({kind}.md)", first(_about(cls))] for kind, cls in OPERATORS.items()]
    index = "\n".join([_HEAD, table(["operator", "what it is"], rows), "", toctree(OPERATORS), ""])
    return {"operators/index.md": index, **{f"operators/{kind}.md": _page(kind, cls) for kind, cls in OPERATORS.items()}}


def _about(cls: type[Operator]) -> str | None:
    """What the operator is: its module says so, or the class where several share a module."""
    return sys.modules[cls.__module__].__doc__ if cls.__module__.endswith(f".{cls.kind}") else cls.__doc__


def _page(kind: str, cls: type[Operator]) -> str:
    found = formulas(cls)
    lines = [f"# {kind}", first(_about(cls)), "## Cost", *_shown(found)]
    if absent := [name for name in cls.dimensions() if name not in _needed(cls)]:
        lines.append(f"Without {_listed(absent)}, and with every switch as it is by default.")
    for switches in _ALSO.get(kind, ()):
        said = ", ".join(f"{name}={value}" if isinstance(value, bool) else name for name, value in switches.items())
        same = {one.meaning: one.latex for one in found}
        changed = [one for one in formulas(cls, **switches) if same.get(one.meaning) != one.latex]
        lines += [f"### With `{said}`", *_shown(changed)]
    lines += ["## Derivation", markdown(cls.__doc__)]
    if not source(cls.__doc__) and (inherited := source(cls.__mro__[1].__doc__)):
        lines.append(f"Source: {inherited}")
    lines += ["## Fields", table(["field", "symbol", "meaning", "default"], _fields(cls))]
    lines.append(f"Code: `{cls.__module__}.{cls.__name__}`")
    return "\n\n".join(lines) + "\n"


def _shown(found: list[Formula]) -> list[str]:
    lines = []
    for one in found:
        lines += [f"{one.meaning[0].upper()}{one.meaning[1:]} [{one.unit}]:", f"$$\n{one.latex}\n$$"]
        if one.where:
            lines.append("where " + ", ".join(f"${part}$" for part in one.where))
    return lines


def formulas(cls: type[Operator], **switches: Any) -> list[Formula]:
    """Formulas of all fields of the cost that are not 0; `switches` that are a number stand for a symbol."""
    plain = Precision(weight=BF16.weight, activation=BF16.activation, kv=BF16.kv, state=BF16.state)
    precision, _ = symbolic_precision(plain)
    dtypes = Dtypes(weight=precision.weight, activation=precision.activation, kv=precision.kv, state=precision.state)
    given = {name: value if isinstance(value, bool) else _symbol(name) for name, value in switches.items()}
    cost = cls(dtypes=dtypes, **{name: _symbol(name) for name in _needed(cls)}, **given).cost()
    found = []
    for name in FIELDS:
        expr = sympy.sympify(getattr(cost, name), strict=True)
        if expr != 0:
            where, short = _in_parts(expr)
            parts = [f"{latex(part)} = {latex(value)}" for part, value in where]
            found.append(Formula(meaning(name), f"{latex(total(name))} = {latex(short)}", unit(name), parts))
    return found


def _in_parts(expr: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """A long formula, with a name for what stands in it more than once."""
    if len(latex(expr)) < _LONG:
        return [], expr
    names = (quantity(f"x_{index}", f"x_{{{index}}}", "", "") for index in range(1, 100))
    where, (short,) = sympy.cse(expr, symbols=names)
    return where, short


def _needed(cls: type[Operator]) -> list[str]:
    return [one.name for one in fields(cls) if one.name in cls.dimensions() and one.default is MISSING]


def _symbol(name: str) -> Any:
    if known := _known(name):
        return symbol(known)
    base, _, below = name.partition("_")
    latex = f"{base}_{{{_upright(below)}}}" if below and len(base) == 1 else _upright(name)
    return quantity(name, latex, "", name)


def _known(name: str) -> str:
    """The quantity of the nomenclature that a field is, if it is one."""
    known = _SAME.get(name, name)
    return known if known in BY_NAME and known != "k" else ""  # k: an inner width here, experts of a token there


def _upright(name: str) -> str:
    spaced = name.replace("_", r"\_")
    return name if len(name) == 1 else rf"\mathrm{{{spaced}}}"


def _fields(cls: type[Operator]) -> list[list[str]]:
    notes = _notes(cls)
    rows = []
    for one in fields(cls):
        if one.name == "dtypes":
            continue
        dimension = one.name in cls.dimensions()
        symbol = _symbol(one.name) if dimension else None
        described = prose(BY_NAME[known].meaning) if dimension and (known := _known(one.name)) else ""
        shown = f"${latex(symbol)}$" if symbol is not None else ""
        default = "" if one.default is MISSING else f"`{one.default!r}`"
        about = notes.get(one.name) or described or ("" if dimension else f"`{one.type}`")
        rows.append([f"`{one.name}`", shown, about, default])
    return rows


def _notes(cls: type[Operator]) -> dict[str, str]:
    """The text beneath a field, of the class and of those that it derives from."""
    found: dict[str, str] = {}
    for base in reversed([one for one in cls.__mro__ if one.__module__.startswith("roofline.")]):
        texts = ModuleAnalyzer.for_module(base.__module__).find_attr_docs()
        found |= {name: prose(" ".join(text)) for (owner, name), text in texts.items() if owner == base.__name__}
    return found


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
