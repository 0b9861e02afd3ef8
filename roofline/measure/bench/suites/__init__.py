"""Suites: which points are worth measuring on a device of some size.

A suite is a function of a scope, and needs no torch. Tier 0 says most per point (a few of each op); tier 1 is the plan; tier 2
fills the grids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from roofline.errors import UnknownNameError
from roofline.measure.bench.point import SUITES, Point, Scope, Suite, in_order
from roofline.measure.bench.suites.hardware import ceilings, collectives, transfers
from roofline.measure.bench.suites.operators import operators

__all__ = ["COLD", "MOST_SETS", "Scope", "plan", "suites"]

_SUITES: dict[Suite, Callable[[Scope], Iterator[Point]]] = {
    "ceilings": ceilings,
    "operators": operators,
    "transfers": transfers,
    "collectives": collectives,
}
COLD = 4
"""A call is cold if the sets of inputs that take turns have at least this many times the bytes of the last cache."""
MOST_SETS = 1024
"""The maximum number of sets of inputs; a point that is too small to be cold with that is measured and recorded as warm."""


def suites(name: str) -> tuple[Suite, ...]:
    """The suite of a name, or every one for "all".

    Raises:
        UnknownNameError: if there is none.
    """
    if name == "all":
        return SUITES
    if name not in SUITES:
        raise UnknownNameError("suite", name, [*SUITES, "all"], list_all=True)
    return (next(suite for suite in SUITES if suite == name),)


def plan(names: Iterable[Suite], scope: Scope) -> list[Point]:
    """The points of suites within a scope, each once, in the order in which they are to be measured."""
    points: dict[str, Point] = {}
    for name in names:
        for point in _SUITES[name](scope):
            reachable = point.cache == "warm" or point.cost.bytes * MOST_SETS >= COLD * scope.cache_bytes
            reachable_point = point if reachable else replace(point, cache="warm")
            points.setdefault(str(reachable_point), reachable_point)
    return in_order(list(points.values()))
