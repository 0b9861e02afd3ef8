"""What `explain` answers: a formula in every tongue, with symbols and with numbers, its value, and where it is from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from roofline.formulas.latex import latex, name, substituted, text
from roofline.formulas.mathml import mathml, substituted_mathml
from roofline.formulas.symbolic import described, evaluate
from roofline.numeric import Expr
from roofline.specs.assumption import Assumption


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One quantity, derived. `parts` explain the quantities that the main formula is made of."""

    subject: str
    formula: str
    latex: str
    substituted: str
    """The formula with numbers in the place of symbols, nothing worked out."""
    substituted_latex: str
    mathml: str
    substituted_mathml: str
    value: int | float | None
    """The number; an int where it is whole, None where there is no limit."""
    unit: str
    source: str
    assumptions: tuple[Assumption, ...] = ()
    legend: tuple[tuple[str, int | float, str], ...] = ()
    """Symbol, value, meaning with unit: every symbol of the formula and of its parts, once."""
    parts: tuple[Explanation, ...] = ()


def explanation(
    subject: str,
    expr: Expr,
    values: Mapping[Any, Any],
    *,
    unit: str,
    source: str,
    assumptions: Iterable[Assumption] = (),
    parts: Iterable[Explanation] = (),
) -> Explanation:
    """An expression and the values of its symbols, written out."""
    listed = tuple(parts)
    own = {
        found: described(found)
        for found in sorted(getattr(expr, "free_symbols", ()), key=lambda s: (described(s).order, s.name))
    }
    legend = {
        found.name: (name(found), _plain(values[found]), f"{entry.meaning} [{entry.unit}]") for found, entry in own.items()
    }
    for part in listed:
        legend |= {entry[0]: entry for entry in part.legend if entry not in legend.values()}
    return Explanation(
        subject=subject,
        formula=text(expr),
        latex=latex(expr),
        substituted=substituted(expr, values),
        substituted_latex=substituted(expr, values, as_latex=True),
        mathml=mathml(expr),
        substituted_mathml=substituted_mathml(expr, values),
        value=_plain(evaluate(expr, values)),
        unit=unit,
        source=source,
        assumptions=tuple(assumptions),
        legend=tuple(legend.values()),
        parts=listed,
    )


def _plain(value: Any) -> int | float:
    return int(value) if float(value).is_integer() else float(value)
