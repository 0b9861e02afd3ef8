"""How long a lesson is: words that its page shows, figures, predictions, exercises, minutes; and the limits of these."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html.parser import HTMLParser

from roofline.teach.lessons.build import page
from roofline.teach.lessons.execute import ExecutedLesson

MOST_WORDS = 3000
MOST_MINUTES = 50
FIGURES = range(4, 7)
WORDS_A_MINUTE = 180
"""Of a text with numbers in it."""
BEFORE = "(before the first part)"
BEGIN, END = "<!-- extent: written by lessons/build.py -->", "<!-- end of extent -->"

_VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"})
_NEVER = frozenset({"script", "style", "template", "svg", "button", "nav", "select", "textarea"})
"""Elements whose text is not read, whatever their class."""
_NOT_READ = frozenset({"unseen", "entry", "bench", "choices", "feedback", "skip"})
"""Classes of what is hidden, or is a control. `bench` is all that moves in a `play`; its introduction is read."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How long a lesson is.

    Attributes:
        name: of the source, without its ending.
        title: with the number.
        parts: words of each part, by its heading; `BEFORE` is what stands above the first, goals and plan among it.
        figures: plots, those of `play` among them.
        drawings: drawings of the lesson.
        predictions: questions to answer before the page goes on.
        exercises: problems of worksheets.
        minutes: of the plan.
    """

    name: str
    title: str
    parts: dict[str, int]
    figures: int
    drawings: int
    predictions: int
    exercises: int
    minutes: int

    @property
    def words(self) -> int:
        """Words of the whole page, answers and solutions shown, code folded."""
        return sum(self.parts.values())

    @property
    def reading_minutes(self) -> int:
        """Minutes of reading, at `WORDS_A_MINUTE`."""
        return round(self.words / WORDS_A_MINUTE)

    def beyond(self) -> list[str]:
        """Return the limits that the lesson passes, as text: empty if it keeps all."""
        least, most = FIGURES[0], FIGURES[-1]
        return [
            *([f"{self.words:,} words, of {MOST_WORDS:,}"] if self.words > MOST_WORDS else []),
            *([f"{self.minutes} minutes, of {MOST_MINUTES}"] if self.minutes > MOST_MINUTES else []),
            *([f"{self.figures} figures, of {least} to {most}"] if self.figures not in FIGURES else []),
        ]


def extent(lesson: ExecutedLesson) -> Extent:
    """Return how long a lesson is, counted on its page."""
    reader = _Reader()
    reader.feed(page(lesson))
    reader.close()
    return Extent(
        lesson.name, lesson.title, reader.parts, reader.figures, reader.drawings, reader.questions["predict"],
        reader.questions["exercise"], sum(minutes for minutes, _ in lesson.head.plan),
    )  # fmt: skip


class _Reader(HTMLParser):
    """Counts what a reader of a page sees in its `main`, with all answers open and everything else folded."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: dict[str, int] = {BEFORE: 0}
        self.figures, self.drawings, self.questions = 0, 0, {"predict": 0, "exercise": 0}
        self._open: list[tuple[str, bool]] = []
        """Tags that are open, each with whether what is in it is read."""
        self._heading: list[str] | None = None
        self._frames = 0

    def _reads(self) -> bool:
        return bool(self._open) and self._open[-1][1]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        kinds = set(given.get("class", "").split())
        if tag in _VOID or not (self._open or tag == "main"):
            return
        if tag == "figure":
            self.drawings += "drawn" in kinds
            self.figures += "drawn" not in kinds
            self._frames = 0
        if "data-ask" in given:
            self.questions[given["data-ask"]] += 1
        if tag == "h2" and "id" in given and "minor" not in kinds:
            self._heading = []
        self._frames += "frame" in kinds
        reads = tag == "main" or (self._reads() and self._is_read(tag, kinds) and "hidden" not in given)
        if tag == "math" and reads:
            self._count(1)  # a formula is a word
            reads = False
        self._open.append((tag, reads))

    def _is_read(self, tag: str, kinds: set[str]) -> bool:
        """Whether the text of an element is read where that around it is."""
        if tag == "details":
            return "answer" in kinds
        if tag == "pre":
            return "printed" in kinds
        if "frame" in kinds:  # of a drawing with choices one is there at a time
            return self._frames == 1
        return tag not in _NEVER and not kinds & _NOT_READ

    def handle_endtag(self, tag: str) -> None:
        if not self._open or tag in _VOID:
            return
        while self._open and self._open.pop()[0] != tag:
            pass
        if tag == "h2" and self._heading is not None:
            title = " ".join("".join(self._heading).split())
            self._heading = None
            self.parts[title] = len(title.split())

    def handle_data(self, data: str) -> None:
        if not self._reads():
            return
        if self._heading is not None:
            self._heading.append(data)
        else:
            self._count(sum(any(letter.isalnum() for letter in word) for word in data.split()))

    def _count(self, words: int) -> None:
        self.parts[next(reversed(self.parts))] += words


def listed(extents: Iterable[Extent]) -> str:
    """Return the extents as a Markdown table, with the limits below the heads."""
    least, most = FIGURES[0], FIGURES[-1]
    rows = [
        f"| {one.title} | {one.words:,} | {one.reading_minutes} | {one.figures} | {one.drawings} | {one.predictions} | "
        f"{one.exercises} | {one.minutes} |"
        for one in extents
    ]
    head = [
        "| lesson | words | minutes to read | figures | drawings | predictions | exercises | minutes of the plan |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        f"| *limit* | *{MOST_WORDS:,}* | | *{least} to {most}* | | | | *{MOST_MINUTES}* |",
    ]
    return "\n".join([*head, *rows])


def with_table(text: str, extents: Iterable[Extent]) -> str:
    """Return a page of Markdown with the table between its two markers.

    Raises:
        ValueError: a marker is missing.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no place for the table: {BEGIN} and {END} are not both there")
    return f"{before}{BEGIN}\n\n{listed(extents)}\n\n{END}{after}"


def by_part(one: Extent) -> str:
    """Return the words of each part of a lesson, as text."""
    lines = [f"{words:6,}  {part}" for part, words in one.parts.items()]
    beyond = f"   beyond: {'; '.join(one.beyond())}" if one.beyond() else ""
    counts = f"{one.words:,} words, {one.reading_minutes} min to read, {one.figures} figures, {one.drawings} drawings"
    return "\n".join([f"{one.title}: {counts}{beyond}", *lines])
