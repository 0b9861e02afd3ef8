"""A class set: a range of seeds, and the key of all their sheets as rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from roofline.errors import InputError
from roofline.teach.worksheets.sheet import MOST, Sheet
from roofline.teach.worksheets.solution import right_answer
from roofline.teach.worksheets.units import BASE

LARGEST = 2000
"""Sheets of one set."""


def parse_seeds(text: str) -> list[int]:
    """Seeds from a range or a list of both.

    Raises:
        InputError: something else, an end before the start, too many, one twice.

    >>> parse_seeds("1..4"), parse_seeds("7,9,11..12")
    ([1, 2, 3, 4], [7, 9, 11, 12])
    """
    found: list[int] = []
    for part in text.split(","):
        first, dots, last = part.strip().partition("..")
        if not first.isdecimal() or (dots and not last.isdecimal()) or len(part) > 40:
            raise InputError(f"cannot read seeds {text[:60]!r}: write a range such as 1..120, or a list such as 3,5,9..20")
        start, end = int(first), int(last or first)
        if end < start or end > MOST:
            raise InputError(f"seeds {part.strip()[:40]!r}: the first is at most the last, and both are at most {MOST:,}")
        if len(found) + end - start >= LARGEST:
            raise InputError(f"seeds {text[:60]!r} are more than {LARGEST:,}: write several sets")
        found += range(start, end + 1)
    if len(set(found)) < len(found):
        raise InputError(f"seeds {text[:60]!r} name one twice")
    return found


def key(sheets: Iterable[Sheet]) -> list[dict[str, Any]]:
    """One row a problem of each sheet: what is right, in base units and as it is shown."""
    return [
        {
            "seed": sheet.seed,
            "problem": entry.number,
            "template": entry.template,
            "answer": right_answer(entry.problem) if entry.problem.answer.choices else entry.problem.answer.value,
            "unit": BASE.get(entry.problem.answer.kind, "choice") or "1",
            "tolerance": entry.problem.answer.tolerance,
            "shown": right_answer(entry.problem),
            "minutes": entry.minutes,
        }
        for sheet in sheets
        for entry in sheet.problems
    ]
