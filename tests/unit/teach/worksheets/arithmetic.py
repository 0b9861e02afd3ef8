"""Numbers out of the texts of problems, for tests that work them out by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator

from roofline.teach.worksheets import TEMPLATES, make
from roofline.teach.worksheets.problem import Problem

PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "m": 1e-3, "µ": 1e-6}


def problems(name: str, seeds: int = 60) -> Iterator[Problem]:
    """The problems of a template, by seed."""
    return (make(TEMPLATES[name], seed) for seed in range(seeds))


def numbers(pattern: str, text: str) -> list[float]:
    """The numbers of a pattern's groups; a comma stands between thousands."""
    match = re.search(pattern, text, re.DOTALL)
    assert match, text
    return [float(number.replace(",", "")) for number in match.groups()]


def amount(pattern: str, text: str) -> float:
    """A quantity with a decimal prefix in base units, where the pattern has AMOUNT."""
    match = re.search(pattern.replace("AMOUNT", r"([\d.,]+) ([kMGTPmµ]?)(?:B/s|B|FLOP/s|s)\b"), text, re.DOTALL)
    assert match, text
    return float(match[1].replace(",", "")) * PREFIXES[match[2]]


def by_name(problem: Problem) -> dict[str, float]:
    """Wrong numbers by the name of their mistake."""
    return {name: one.value for one in problem.mistakes for name in one.name.split(", or ")}
