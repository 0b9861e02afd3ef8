"""A rule from columns to operators, and what it sees of a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from roofline.dtypes import Dtypes
from roofline.numeric import Expr
from roofline.operators.base import Operator

Operators = dict[str, tuple[Operator, Expr]]
"""Operators by name, and how often each runs."""


@dataclass(frozen=True, slots=True)
class Call:
    """The columns that are filled: numbers (or arrays of them, one element a row), texts, and the formats."""

    dtypes: Dtypes
    numbers: Mapping[str, Expr]
    texts: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Expr:
        return self.numbers[name]

    def get(self, name: str, default: Expr) -> Expr:
        """A number, or the default where the column is empty."""
        return self.numbers.get(name, default)

    def text(self, name: str) -> str:
        """A text; empty where the column is."""
        return self.texts.get(name, "")

    def elements(self, name: str = "bytes") -> Expr:
        """Elements of the activations' format in so many bytes."""
        return self.numbers[name] / self.dtypes.activation.bytes


@dataclass(frozen=True, slots=True)
class Rule:
    """An op: the columns that it needs, those that it looks at where they are filled, and its operators.

    `at_least` gives the smallest value of a column where it is not 1; `order` holds pairs of columns of which the first
    must not be more than the second; `divides` pairs of which the first must divide the second; `allowed` the only values
    of a column. `shape` names the columns that say which layer of which model it is, whatever the traffic: a fit is judged on
    shapes that it has not seen.
    """

    op: str
    needs: tuple[str, ...]
    operators: Callable[[Call], Operators]
    shape: tuple[str, ...]
    optional: tuple[str, ...] = ()
    at_least: Mapping[str, int] = field(default_factory=dict)
    order: tuple[tuple[str, str], ...] = ()
    divides: tuple[tuple[str, str], ...] = ()
    allowed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
