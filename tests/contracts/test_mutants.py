"""Mutation tests: what is changed, one change at a time, and the list of changes that no test can notice."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
from mutation.mutate import equivalent
from mutation.sites import HOOK, built, sites_of, source_of

pytestmark = pytest.mark.same_calls  # reads sources as text

SOURCE = '''
LIMIT = 3


def price(a, b=2, *, free=False):
    """Doc: 1 + 1."""
    if free:
        raise ValueError(f"{a + 1}")
    total = max(a * b, LIMIT)
    total += 1
    return total if a < b and not free else -total
'''


def _mutants() -> list[str]:
    return [site.mutant for site in sites_of("price.py", SOURCE)]


def test_what_is_changed() -> None:
    """Every kind of change in the order of the source; neither the docstring nor the message of the error is changed."""
    assert _mutants() == [
        "3 -> 4",
        "2 -> 3",
        "False -> True",
        "if free -> if not free",
        "a * b -> a / b",
        "max(a * b, LIMIT) -> min(a * b, LIMIT)",
        "max(a * b, LIMIT) -> LIMIT",
        "max(a * b, LIMIT) -> a * b",
        "1 -> 2",
        "total += 1 -> total -= 1",
        "a < b -> a <= b",
        "not free -> free",
        "a < b and (not free) -> a < b or not free",
        "-total -> total",
        "return total if a < b and (not free) else -total -> return None",
    ]


@pytest.mark.parametrize(
    ("mutant", "expected"),
    [
        ("", (5, -13, -4)),  # max(1 x 4, 3) + 1; -(max(4 x 3, 3) + 1); -(max(1 x 1, 3) + 1)
        ("a * b -> a / b", (4, -4, -4)),  # max(1/4, 3) + 1; max(4/3, 3) + 1
        ("max(a * b, LIMIT) -> LIMIT", (4, -4, -4)),
        ("max(a * b, LIMIT) -> a * b", (5, -13, -2)),
        ("total += 1 -> total -= 1", (3, -11, -2)),
        ("a < b -> a <= b", (5, -13, 4)),
        ("-total -> total", (5, 13, 4)),
        ("3 -> 4", (5, -13, -5)),
    ],
)
def test_a_chosen_mutant_alone_is_in_effect(mutant: str, expected: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """All are built into one module; the one that is chosen changes the result, and without one nothing does."""
    chosen = {site.name for site in sites_of("price.py", SOURCE) if site.mutant == mutant}
    assert len(chosen) == (1 if mutant else 0)
    names = frozenset(site.name for site in sites_of("price.py", SOURCE))
    monkeypatch.setattr(builtins, HOOK, chosen.__contains__, raising=False)
    namespace: dict[str, Any] = {}
    exec(compile(built("price.py", SOURCE, names), "price.py", "exec"), namespace)  # noqa: S102
    price = namespace["price"]
    assert (price(1, 4), price(4, 3), price(1, 1)) == expected


def test_names_stay_when_lines_move() -> None:
    """A mutant is known by function, line and change: not by where the line is. Equal changes of a line are counted."""
    moved = "# more\n\n" + SOURCE
    assert [site.name for site in sites_of("price.py", moved)] == [site.name for site in sites_of("price.py", SOURCE)]
    twice = sites_of("twice.py", "def f(a):\n    return 1 + a + 1\n")
    assert [site.mutant for site in twice if site.kind == "constant"] == ["1 -> 2", "1 -> 2 (2)"]
    assert len({site.name for site in twice}) == len(twice)


@pytest.mark.slow
def test_equivalent_mutants_are_there() -> None:
    """Each entry of the list names a change of the present source: one of a line that went is removed from the list."""
    listed = equivalent()
    present = {site.key for module in {key[0] for key in listed} for site in sites_of(module, source_of(module))}
    assert not [key for key in listed if key not in present]
    assert all(reason.strip() for reason in listed.values())
