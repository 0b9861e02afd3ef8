"""Published figures: what a lecture or a poster says, beside what is computed here, and whether the two agree.

The rows are in `published_figures.csv`, with the lesson that each belongs to. A lesson that says of a row what its verdict does
not bear is refused, so that text and numbers cannot part; what was cited is kept, so that a test can list what is not.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from roofline.errors import InputError, UnknownNameError
from roofline.formatting import number
from roofline.report.html import escape
from roofline.teach.lessons.item import Ids, Item
from roofline.teach.lessons.numbers import amount
from roofline.teach.lessons.prose import checked, inline_of

Verdict = Literal["exact", "limit", "approximate", "derived", "disputed", "qualitative"]
FILE = Path(__file__).with_name("published_figures.csv")
_WORDS: dict[str, str] = {
    "exact": "exact",
    "limit": "exact in the limit",
    "approximate": "approximate",
    "derived": "derived",
    "disputed": "disputed",
    "qualitative": "qualitative",
}
_CLOSE = 0.001
"""A limit, and a disputed figure, is another number from here on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure. `said` is how it is printed there, `value` the number, None where it is a shape or a formula.

    `tolerance` is by how much it may differ, as a share; `holds` says what is exactly so.
    """

    id: str
    lesson: int
    subject: str
    quantity: str
    setting: str
    said: str
    value: float | None
    unit: str
    tolerance: float
    verdict: Verdict
    holds: str


@cache
def rows() -> dict[str, Row]:
    """All rows by id."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return {entry["id"]: _row(entry) for entry in csv.DictReader(file)}


def _row(entry: dict[str, str]) -> Row:
    verdict = entry["verdict"]
    if verdict not in _WORDS:
        raise UnknownNameError("verdict", verdict, _WORDS)
    return Row(
        id=entry["id"],
        lesson=int(entry["lesson"]),
        subject=entry["subject"],
        quantity=entry["quantity"],
        setting=entry["setting"],
        said=entry["said"],
        value=float(entry["value"]) if entry["value"] else None,
        unit=entry["unit"],
        tolerance=float(entry["tolerance"] or 0),
        verdict=verdict,  # type: ignore[arg-type]  # one of the words above
        holds=entry["holds"],
    )


class Published(Item):
    """A row beside what was computed."""

    def __init__(self, row: Row, computed: str) -> None:
        self.row, self.computed = row, checked(computed)

    def html(self, ids: Ids) -> str:
        """A note of its own."""
        row, name = self.row, ids.fresh("published")
        return (
            f'<div class="published" role="note" aria-labelledby="{name}" data-figure="{row.id}" '
            f'data-verdict="{row.verdict}">\n'
            f'<p class="kind" id="{name}">Published figure {row.id}: {escape(self.about)}</p>\n'
            f"<dl>\n<dt>published</dt><dd>{inline_of(row.said)}</dd>\n<dt>computed</dt><dd>{inline_of(self.computed)}</dd>\n"
            f'<dt>verdict</dt><dd><strong class="verdict">{_WORDS[row.verdict]}</strong>. {inline_of(row.holds)}</dd>\n</dl>\n'
            "</div>\n"
        )

    @property
    def about(self) -> str:
        """Of what, and where."""
        row = self.row
        return ", ".join(part for part in (row.quantity, row.subject, row.setting) if part)

    def markdown(self) -> str:
        """A quotation of four lines."""
        row = self.row
        return (
            f"> **Published figure {row.id}: {self.about}**\n>\n> published: {row.said}\n>\n> computed: {self.computed}\n>\n"
            f"> verdict: **{_WORDS[row.verdict]}**. {row.holds}"
        )


_cited: list[Published] = []


@contextmanager
def citations() -> Iterator[list[Published]]:
    """What is cited from here on, in order."""
    before = list(_cited)
    _cited.clear()
    found: list[Published] = []
    try:
        yield found
    finally:
        found.extend(_cited)
        _cited[:] = before


def published(id: str, computed: float | str, *, agrees: bool | None = None) -> Published:
    """A published figure beside what is computed: a number in the row's unit; for a row that has no number the outcome in
    words, with `agrees` as the lesson computed it.

    Raises:
        UnknownNameError: there is no such row.
        InputError: the outcome is not what the row's verdict says.
    """
    known = rows()
    if id not in known:
        raise UnknownNameError("published figure", id, known)
    row = known[id]
    if row.value is None:
        if agrees is None:
            raise InputError(f"{id} has no number: say with agrees=... whether what was computed agrees")
        holds, text = agrees, str(computed) if isinstance(computed, str) else number(computed)
    else:
        if isinstance(computed, str):
            raise InputError(f"{id} is a number in {row.unit}: give the computed one, not {computed!r}")
        holds, text = _agrees(row, computed), amount(computed, row.unit)
    if holds == (row.verdict == "disputed"):
        raise InputError(f"{id}: published {row.said}, computed {text}; that is not {_WORDS[row.verdict]}")
    made = Published(row, text)
    _cited.append(made)
    return made


def _agrees(row: Row, computed: float) -> bool:
    value = row.value or 0.0
    if row.verdict == "exact":
        return computed == value
    room = _CLOSE if row.verdict == "disputed" else max(row.tolerance, _CLOSE if row.verdict == "limit" else 0)
    return abs(computed - value) <= room * abs(value)
