"""Published figures: what a lecture or a poster prints, what is computed here, and whether the two agree.

The rows are in `published_figures.csv`, with the lesson that each belongs to. A lesson whose number does not bear out the
verdict of a row is refused. Citations are recorded, so that a test can list the figures that no lesson cites.
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
from roofline.teach.lessons.items import Item
from roofline.teach.markdown import Ids, checked, inline_of
from roofline.teach.quantities import amount

Verdict = Literal["exact", "limit", "approximate", "derived", "disputed", "qualitative"]
_FILE = Path(__file__).with_name("published_figures.csv")
_VERDICTS: dict[str, str] = {
    "exact": "exact",
    "limit": "exact in the limit",
    "approximate": "approximate",
    "derived": "derived",
    "disputed": "disputed",
    "qualitative": "qualitative",
}
_POSTER = "https://sc24.conference-program.com/presentation/?id=post251&sess=sess487"
SOURCES: dict[str, tuple[str, str]] = {
    "lecture": (
        "lecture *LLM Inference System Characteristics*",
        (
            "The lecture *LLM Inference System Characteristics*, which works through Llama-3.1-8B on an A100; neither author, "
            "year nor address are on its slides."
        ),
    ),
    "poster": (
        f"poster of [Ye et al., 2024]({_POSTER})",
        (
            "Jie Ye, Bogdan Nicolae, Anthony Kougkas, Xian-He Sun: Uncover the Overhead and Resource Usage for Handling KV "
            f"Cache Overflow in LLM Inference. Poster, SC24, 2024. [Programme]({_POSTER})."
        ),
    ),
    "vidur": (
        "[Vidur, 2024](https://arxiv.org/abs/2405.05465)",
        (
            "Amey Agrawal et al.: Vidur: A Large-Scale Simulation Framework for LLM Inference. MLSys 2024. "
            "[arXiv:2405.05465](https://arxiv.org/abs/2405.05465)."
        ),
    ),
    "tutorial": (
        "[Kim and Ailamaki, 2024](https://arxiv.org/abs/2412.18022)",
        (
            "Kyoungmin Kim, Anastasia Ailamaki: Trustworthy and Efficient LLMs Meet Databases. Tutorial, 2024. "
            "[arXiv:2412.18022](https://arxiv.org/abs/2412.18022)."
        ),
    ),
}
"""Where figures are published: in short, beside a figure, and in full, as in docs/published-figures.md; Markdown."""
_CLOSE = 0.001
"""By how much, as a share, a number may differ from an exact limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One published figure.

    Attributes:
        id: such as "F02".
        source: where it is published, a key of `SOURCES`.
        lesson: the number of the lesson that cites it.
        subject: what it is a figure of, such as a model.
        quantity: what it measures.
        setting: under which conditions.
        printed: its text in the source.
        value: the number in `unit`; None if it is a shape or a formula.
        unit: as in `amount`.
        tolerance: by how much the computed number may differ, as a share of `value`.
        verdict: how the two agree.
        holds: what is exactly true, as text.
    """

    id: str
    source: str
    lesson: int
    subject: str
    quantity: str
    setting: str
    printed: str
    value: float | None
    unit: str
    tolerance: float
    verdict: Verdict
    holds: str


@cache
def rows() -> dict[str, Row]:
    """Return all published figures by id."""
    with _FILE.open(encoding="utf-8", newline="") as file:
        return {entry["id"]: _row(entry) for entry in csv.DictReader(file)}


def _row(entry: dict[str, str]) -> Row:
    verdict = entry["verdict"]
    if verdict not in _VERDICTS:
        raise UnknownNameError("verdict", verdict, _VERDICTS)
    if entry["source"] not in SOURCES:
        raise UnknownNameError("source", entry["source"], SOURCES)
    return Row(
        id=entry["id"],
        source=entry["source"],
        lesson=int(entry["lesson"]),
        subject=entry["subject"],
        quantity=entry["quantity"],
        setting=entry["setting"],
        printed=entry["printed"],
        value=float(entry["value"]) if entry["value"] else None,
        unit=entry["unit"],
        tolerance=float(entry["tolerance"] or 0),
        verdict=verdict,  # type: ignore[arg-type]  # one of the words above
        holds=entry["holds"],
    )


class Published(Item):
    """A published figure, what was computed, and the verdict."""

    def __init__(self, row: Row, computed: str) -> None:
        self.row, self.computed = row, checked(computed)

    def html(self, ids: Ids) -> str:
        """Return a box with the role of a note."""
        row, name = self.row, ids.fresh("published")
        return (
            f'<div class="published" role="note" aria-labelledby="{name}" data-figure="{row.id}" '
            f'data-verdict="{row.verdict}">\n'
            f'<p class="kind" id="{name}">Published figure {row.id}: {escape(self.about)}</p>\n'
            f"<dl>\n<dt>published</dt><dd>{inline_of(self.cited)}</dd>\n<dt>computed</dt><dd>{inline_of(self.computed)}</dd>\n"
            f'<dt>verdict</dt><dd><strong class="verdict">{self.verdict}</strong>. {inline_of(row.holds)}</dd>\n'
            "</dl>\n</div>\n"
        )

    @property
    def verdict(self) -> str:
        """How published and computed agree, in words."""
        return _VERDICTS[self.row.verdict]

    @property
    def about(self) -> str:
        """Quantity, subject and setting, with commas between; the subject once."""
        row = self.row
        subject = "" if row.subject in row.quantity else row.subject
        return ", ".join(part for part in (row.quantity, subject, row.setting) if part)

    @property
    def cited(self) -> str:
        """What is printed, and where, as Markdown."""
        return f"{self.row.printed} ({SOURCES[self.row.source][0]})"

    def markdown(self) -> str:
        """Return a quotation of four lines."""
        row = self.row
        return (
            f"> **Published figure {row.id}: {self.about}**\n>\n> published: {self.cited}\n>\n> computed: {self.computed}\n>\n"
            f"> verdict: **{self.verdict}**. {row.holds}"
        )


_cited: list[Published] = []


@contextmanager
def citations() -> Iterator[list[Published]]:
    """Collect the citations made inside the block, in order."""
    before = list(_cited)
    _cited.clear()
    cited: list[Published] = []
    try:
        yield cited
    finally:
        cited.extend(_cited)
        _cited[:] = before


def published(id: str, computed: float | str, *, agrees: bool | None = None) -> Published:
    """Cite a published figure with what is computed.

    Args:
        id: of the row.
        computed: a number in the row's unit; for a row without a number the outcome in words.
        agrees: for a row without a number, whether the outcome agrees with it.

    Raises:
        UnknownNameError: there is no such row.
        InputError: the outcome contradicts the verdict of the row.
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
        raise InputError(f"{id}: published {row.printed}, computed {text}; that is not {_VERDICTS[row.verdict]}")
    made = Published(row, text)
    _cited.append(made)
    return made


def _agrees(row: Row, computed: float) -> bool:
    value = row.value or 0.0
    if row.verdict == "exact":
        return computed == value
    tolerance = _CLOSE if row.verdict == "disputed" else max(row.tolerance, _CLOSE if row.verdict == "limit" else 0)
    return abs(computed - value) <= tolerance * abs(value)
