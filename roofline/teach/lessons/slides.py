"""Slides of a lesson, made from its items: what is shown becomes slides, all else becomes the presenter's notes.

Prose goes to the notes. Of it a slide has the sentences with a **bold** phrase, lists, and tables. What does not fit on a slide
goes on on the next one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import unescape
from itertools import groupby
from math import ceil

from roofline.report.figure import Figure
from roofline.report.html import escape
from roofline.teach.lessons.draw.canvas import Drawing
from roofline.teach.lessons.drawn import Drawn
from roofline.teach.lessons.execute import ExecutedCell, ExecutedLesson
from roofline.teach.lessons.figures import Plot
from roofline.teach.lessons.formula import Formula
from roofline.teach.lessons.items import Item, Lesson, Table, Takeaway, Text, flattened
from roofline.teach.lessons.live.play import Play
from roofline.teach.lessons.live.run import evaluate
from roofline.teach.lessons.live.view import picture_figure
from roofline.teach.lessons.published import Published
from roofline.teach.lessons.questions import Part, Question, WorkedProblem
from roofline.teach.lessons.slide_blocks import (
    FOOT,
    HEAD,
    KICKER,
    MOST_ROWS,
    PICTURE_WIDE,
    ROOMY,
    SIDE_WIDTH,
    SIZES,
    SMALLEST,
    TALL,
    TITLE_LINE,
    WIDE,
    Answer,
    Block,
    Cells,
    Choices,
    Code,
    Equation,
    Legend,
    Link,
    Note,
    Picture,
    Points,
    Prose,
    Step,
    Verdict,
    chunks,
    enlarged,
    joined_lists,
    key_sentences,
    narrowed,
    num_lines,
    plotted,
    rows_of,
    size_of,
    whole,
)
from roofline.teach.markdown import Ids, html_of, inline_of


@dataclass(frozen=True, slots=True)
class Slide:
    """A slide.

    Attributes:
        kind: "title", "goals", "plan", "points", "question", "answer", "figure", "table", "formula", "published", "takeaway",
            "code", "play", "worked", "solution" or "exercise".
        kicker: the line above the title, as HTML; "" for none.
        title: as HTML.
        body: as HTML; "{title}" stands for the id of the title. An element with `data-step` appears with a press of its own.
        notes: of the presenter, as HTML.
        part: the index of the part of the plan; -1 before the first.
        size: pixels of its letters, of `SIZES`.
    """

    kind: str
    kicker: str
    title: str
    body: str
    notes: str
    part: int
    size: int


# From cells to slides


@dataclass(slots=True)
class _Draft:
    kind: str
    kicker: str
    title: str
    blocks: list[Block]
    notes: list[str]
    part: int
    cell: int
    size: int = SIZES[-1]
    more: bool = False

    @property
    def space(self) -> float:
        """Pixels for the body."""
        lines = _title_lines(self.title + (" continued" if self.more else ""))
        return TALL - HEAD - lines * TITLE_LINE - (KICKER if self.kicker else 0.0) - FOOT

    def tall(self, size: float) -> float:
        """Pixels that the body takes."""
        return sum(block.height(size) for block in self.blocks)

    def takes(self, blocks: Sequence[Block]) -> bool:
        """Whether there is space for these blocks below what is there, and the slide is of a kind that goes on."""
        if self.kind not in ("table", "formula", "published", "points") or any(block.optional for block in self.blocks):
            return False
        return self.tall(SIZES[-1]) + sum(block.height(SIZES[-1]) for block in blocks) <= self.space

    def grow(self) -> None:
        """Take the largest letters with which the body leaves some space."""
        self.size = next((size for size in SIZES if self.tall(size) <= ROOMY * self.space), SIZES[-1])


def _title_lines(title: str, wide: float = WIDE) -> int:
    return num_lines(unescape(re.sub(r"<[^>]+>", "", title)), 40, wide)


class _Builder:
    """Goes through the cells of a lesson and lays out slides."""

    def __init__(self, lesson: ExecutedLesson) -> None:
        self.lesson, self.ids = lesson, Ids()
        self.drafts: list[_Draft] = []
        self.notes: list[str] = []
        self.heading, self.part, self.cell = lesson.head.title, -1, 0

    def add(self, kind: str, title: str, blocks: Sequence[Block], kicker: str = "") -> None:
        """Add a slide with these blocks, and further ones for what does not fit."""
        waiting, first = list(blocks), len(self.drafts)
        draft = self._draft(kind, title, kicker)
        while waiting:
            block = waiting.pop(0)
            left = draft.space - draft.tall(SIZES[-1])
            if block.height(SIZES[-1]) <= left:
                draft.blocks.append(block)
                continue
            if block.optional:
                draft.notes.append(block.html())
                continue
            halves = block.split(SIZES[-1], left)
            if halves is not None:
                draft.blocks.append(halves[0])
                waiting.insert(0, halves[1])
            elif draft.blocks:
                waiting.insert(0, block)
            else:
                draft.blocks.append(block)  # higher than a slide
                continue
            draft = self._draft(kind, title, kicker, more=True)
        group = self.drafts[first:]
        for one in group:
            one.grow()
        for one in group:
            one.size = min(each.size for each in group)

    def _draft(self, kind: str, title: str, kicker: str, *, more: bool = False) -> _Draft:
        draft = _Draft(kind, kicker, title, [], self.notes, self.part, self.cell, more=more)
        self.notes = []
        self.drafts.append(draft)
        return draft

    def note(self, html: str) -> None:
        """Put text into the notes: of the last slide, if it is of this cell, or else of the next one."""
        if self.drafts and self.drafts[-1].cell == self.cell:
            self.drafts[-1].notes.append(html)
        else:
            self.notes.append(html)

    # Cells

    def markdown(self, executed: ExecutedCell) -> None:
        """Prose: its lists and key sentences are shown; all of it is in the notes."""
        tags, text = executed.cell.tags, executed.cell.text
        blocks: list[Block] = []
        read: list[str] = []
        for kind, piece in chunks(text):
            if kind == "heading":
                self.heading = piece
                self.part += text.startswith("## ") and piece == text.partition("\n")[0].removeprefix("## ").strip()
                continue
            read.append(f"```\n{piece}\n```" if kind == "code" else piece)
            if "notes" in tags:
                continue
            if kind != "prose" or "slide" in tags:
                blocks += whole(piece if kind != "code" else read[-1])
            elif keys := key_sentences(piece):
                blocks.append(Points(keys))
        if "slide" not in tags and read:
            self.notes.append(html_of("\n\n".join(read)))
        if blocks:
            self.add("points", inline_of(self.heading), joined_lists(blocks))

    def code(self, executed: ExecutedCell) -> None:
        """Code that is shown, what it printed, and items."""
        items = flattened(executed.value) if isinstance(executed.value, Item) else []
        if "notes" in executed.cell.tags:
            self.notes += [item.html(self.ids) for item in items]
            return
        blocks: list[Block] = [Code(executed.cell.text)] if executed.cell.open else []
        printed = executed.printed or ("" if items or executed.value is None else repr(executed.value))
        if printed:
            blocks.append(Code(printed.rstrip("\n")))
        if blocks:
            self.add("code", inline_of(self.heading), blocks)
        for kind, group in groupby(items, type):
            listed = list(group)
            if issubclass(kind, Formula):
                self.formulas([item for item in listed if isinstance(item, Formula)])
            elif issubclass(kind, Published):
                self.published([item for item in listed if isinstance(item, Published)])
            else:
                for item in listed:
                    self.item(item, in_full="slide" in executed.cell.tags)

    # Items

    def item(self, item: Item, *, in_full: bool) -> None:
        """Add the slides of one item; `in_full`: prose is shown whole."""
        if isinstance(item, Lesson):
            self.head(item)
        elif isinstance(item, Takeaway):
            self.add("takeaway", "Takeaway", [Prose(item.text)])
        elif isinstance(item, Text):
            self.prose(item, in_full=in_full)
        elif isinstance(item, Table):
            self.table(item)
        elif isinstance(item, Plot):
            self.figure(item.figure)
        elif isinstance(item, Drawn):
            self.drawn(item)
        elif isinstance(item, Question):
            self.question(item)
        elif isinstance(item, WorkedProblem):
            self.flow("worked", _capital(inline_of(item.title)), item.problem, "Worked problem")
            self.flow("solution", _capital(inline_of(item.title)), item.solution, "Solution")
        elif isinstance(item, Play):
            self.play(item)
        else:
            self.add("points", inline_of(self.heading), [Prose(item.plain())])

    def head(self, head: Lesson) -> None:
        """Title; goals; plan, with what one needs before."""
        self.add("title", inline_of(self.lesson.title), [Prose(head.about, "about")])
        self.add("goals", "After this lesson you can", [Points(head.goals, kind="list")])
        rows = [(f"{minutes} min", part) for minutes, part in head.plan]
        minutes = sum(minutes for minutes, _ in head.plan)
        before = "\n".join(f"* {entry}" for entry in head.prerequisites)
        self.add("plan", f"Plan, {minutes} minutes", [Cells(Table(("time", "part"), rows, "Plan", ""))])
        self.note(html_of(f"What one needs before:\n\n{before}"))

    def prose(self, text: Text, *, in_full: bool) -> None:
        """Text with computed numbers: its key sentences go below what the same cell shows, if there is space for them."""
        blocks: list[Block] = []
        for kind, piece in chunks(text.text):
            if kind != "prose" or in_full:
                blocks += whole(piece)
            elif keys := key_sentences(piece):
                blocks.append(Points(keys))
        if not blocks:
            self.note(text.html(self.ids))
            return
        joined = joined_lists(blocks)
        last = self.drafts[-1] if self.drafts and self.drafts[-1].cell == self.cell else None
        if last and last.takes(joined):
            last.blocks += joined
            last.notes.append(text.html(self.ids))
            last.grow()
            return
        self.notes.append(text.html(self.ids))
        self.add("points", inline_of(self.heading), joined)

    def table(self, table: Table, kind: str = "table", kicker: str = "") -> None:
        """A table: in pieces of about nine rows, and of as many columns as are readable."""
        first = len(self.drafts)
        count = ceil(len(table.rows) / MOST_ROWS)
        each = ceil(len(table.rows) / max(count, 1))
        for piece in narrowed(table):
            for start in range(0, len(piece.rows), each):
                blocks: list[Block] = [Cells(rows_of(piece, start, start + each))]
                if table.note and start == 0:
                    blocks.append(Note(table.note))
                self.add(kind, inline_of(table.title), blocks, kicker)
                self.drafts[-1].more = self.drafts[-1].more or len(self.drafts) > first + 1
        for draft in self.drafts[first:]:
            draft.size = min(each.size for each in self.drafts[first:])

    def figure(self, figure: Figure, kicker: str = "") -> None:
        """A figure: its caption is the title, its note stands below it if it is short."""
        self._filled("figure", escape(figure.title), figure.note, kicker)
        draft = self.drafts[-1]
        tall = draft.space - draft.tall(SIZES[-1])
        draft.blocks.insert(0, Picture(plotted(replace(figure, key=self.ids.once(figure.key)), tall), tall))

    def _filled(self, kind: str, title: str, note: str, kicker: str) -> None:
        """Begin a slide of a picture, with its note."""
        blocks = _short(note)
        self.add(kind, title, blocks, kicker)
        if note and not blocks:
            self.note(html_of(note))

    def drawn(self, drawn: Drawn, kicker: str = "") -> None:
        """Drawings, a slide each; what is seen is in the notes, in words."""
        for number, drawing in enumerate(drawn.drawings):
            above = f"{escape(drawn.about)}: {escape(drawn.choices[number])}" if drawn.choices else kicker
            self.drawing(drawing, above)

    def drawing(self, drawing: Drawing, kicker: str) -> None:
        """One drawing, with its note if that is below the title too."""
        beside, scale = arranged(drawing, kicker)
        svg = enlarged(drawing.svg, SMALLEST / scale)
        if beside:
            self.add("beside", escape(drawing.title), [Picture(svg, TALL / 2)], kicker)
            if drawing.note:
                self.note(html_of(drawing.note))
        else:
            self._filled("figure", escape(drawing.title), drawing.note, kicker)
            draft = self.drafts[-1]
            draft.blocks.insert(0, Picture(svg, draft.space - draft.tall(SIZES[-1])))
        self.note(f"<p>{escape(drawing.words)}</p>\n")

    def formulas(self, formulas: Sequence[Formula]) -> None:
        """One formula with its symbols, or several with captions."""
        if len(formulas) == 1:
            formula = formulas[0]
            legend: list[Block] = [Legend(formula)] if formula.legend and formula.explanation.legend else []
            self.add("formula", inline_of(formula.title or self.heading), [Equation(formula), *legend])
        else:
            self.add("formula", inline_of(self.heading), [Equation(formula, formula.title) for formula in formulas])
            for formula in formulas:
                if formula.legend and formula.explanation.legend:
                    self.note(formula.symbols())

    def published(self, listed: Sequence[Published]) -> None:
        """What is published and what is computed: two on a slide if they fit, or a slide each."""
        waiting = list(listed)
        while waiting:
            two: list[Block] = [Verdict(entry, caption=True) for entry in waiting[:2]]
            if len(two) == 2 and sum(block.height(SIZES[-1]) for block in two) <= TALL - HEAD - TITLE_LINE - FOOT:
                self.add("published", "Published and computed", two)
                del waiting[:2]
            else:
                entry = waiting.pop(0)
                title = _capital(escape(entry.about.replace("-", "\u2011")))  # names of models are not broken
                self.add("published", title, [Verdict(entry, caption=False)], f"Published figure {entry.row.id}")

    def question(self, question: Question) -> None:
        """A prediction, or an exercise with its solution in the notes."""
        key = question.key
        options: Block = Choices(key.choices, int(key.value)) if key.choices else Answer(question.right)
        blocks: list[Block] = [*whole(question.text), options]
        if question.kind == "predict":
            self.add("question", "Predict first", blocks)
            draft = self.drafts[-1]
            self.reasons(question, draft)
        else:
            blocks.append(Prose(f"Template of the worksheets: `{question.template}`", "note"))
            self.add("exercise", inline_of(question.title), blocks, "Exercise")
            draft = self.drafts[-1]
            draft.notes.append(f"<p><strong>{inline_of(question.right)}</strong></p>\n")
            for part in question.after:
                draft.notes.append(html_of(part) if isinstance(part, str) else part.html(self.ids))
        if question.wrong_answers:
            listed = "\n".join(f"* {wrong}: {hint}" for wrong, hint in question.wrong_answers)
            draft.notes.append(html_of(f"Usual wrong answers:\n\n{listed}"))

    def reasons(self, question: Question, draft: _Draft) -> None:
        """Why an answer is right: on the slide of the question, shown with the answer, if it fits; or else on the next ones."""
        texts = [part.text if isinstance(part, Text) else part for part in question.after]
        short = [Step(Prose(text)) for text in texts if isinstance(text, str)]
        if len(short) == len(texts) and draft.tall(SIZES[-1]) + sum(one.height(SIZES[-1]) for one in short) <= draft.space:
            draft.blocks += short
            draft.grow()
        else:
            draft.notes.append("<p>The next press shows the answer, the one after it why.</p>\n")
            self.flow("answer", inline_of(f"Answer: {question.right}"), question.after)

    def flow(self, kind: str, title: str, parts: Sequence[Part], kicker: str = "") -> None:
        """Texts and items one below the other, on as many slides as they take; pictures on slides of their own."""
        blocks: list[Block] = []
        for part in [one for entry in parts for one in (flattened(entry) if isinstance(entry, Item) else [entry])]:
            fitting = self.blocks_of(part)
            blocks += fitting
            if fitting or isinstance(part, str):
                continue
            if blocks:
                self.add(kind, title, blocks, kicker)
                blocks = []
            if isinstance(part, Table):
                self.table(part, kicker=kicker or title)
            elif isinstance(part, Plot):
                self.figure(part.figure, kicker or title)
            elif isinstance(part, Drawn):
                self.drawn(part, kicker or title)
            else:
                self.item(part, in_full=True)
        if blocks:
            self.add(kind, title, blocks, kicker)

    def blocks_of(self, part: Part) -> list[Block]:
        """What is on a slide among other things; nothing if the part takes slides of its own."""
        if isinstance(part, str | Text):
            return whole(part if isinstance(part, str) else part.text)
        if isinstance(part, Formula):
            if part.legend and part.explanation.legend:
                self.notes.append(part.symbols())
            return [Equation(part, part.title)]
        if isinstance(part, Published):
            return [Verdict(part, caption=True)]
        if isinstance(part, Table) and len(part.rows) <= MOST_ROWS and len(narrowed(part)) == 1:
            return [Cells(rows_of(part, 0, len(part.rows)), part.title), *([Note(part.note)] if part.note else [])]
        return []

    def play(self, play: Play) -> None:
        """What to try on the lesson's page, and its pictures as they are at first."""
        link = f'<p><a href="../{self.lesson.name}.html#play">Move it on the page of the lesson</a></p>\n'
        self.add(
            "play",
            inline_of(self.heading),
            [Prose(play.intro), *([Points(play.tries, kind="list")] if play.tries else []), Link(link)],
        )
        run = evaluate(play.values)
        for name in play.block["pictures"]:
            figure = picture_figure(name, run)
            self.figure(
                replace(figure, key=f"play-{name}"), f'<a href="../{self.lesson.name}.html#play">Move it on the page</a>'
            )


def _short(note: str) -> list[Block]:
    """A note that is short enough to stand below its picture."""
    return [Note(note)] if note and num_lines(note, 24) <= 2 else []


def arranged(drawing: Drawing, kicker: str = "") -> tuple[bool, float]:
    """Return how a slide shows a drawing: whether beside its title, where there is no space for its note, and how large.

    Args:
        drawing: which is shown.
        kicker: the line above its title; "" for none.
    """
    wide, high = size_of(drawing.svg)
    space = TALL - HEAD - _title_lines(drawing.title) * TITLE_LINE - (KICKER if kicker else 0.0) - FOOT
    beside = min(SIDE_WIDTH / wide, (TALL - 96) / high)
    if beside > min(PICTURE_WIDE / wide, space / high):
        return True, beside
    note = sum(block.height(SIZES[-1]) for block in _short(drawing.note))
    return False, min(PICTURE_WIDE / wide, (space - note) / high)


def _capital(title: str) -> str:
    return title[:1].upper() + title[1:]


def slides(lesson: ExecutedLesson) -> list[Slide]:
    """Return the slides of a lesson, in order.

    Args:
        lesson: after its execution.
    """
    builder = _Builder(lesson)
    for number, executed in enumerate(lesson.cells):
        builder.cell = number
        if number == 0:
            builder.notes.append(html_of(executed.cell.text.partition("\n")[2]))
        elif executed.cell.kind == "markdown":
            builder.markdown(executed)
        else:
            builder.code(executed)
    if builder.notes and builder.drafts:
        builder.drafts[-1].notes += builder.notes
    return [_slide(draft) for draft in builder.drafts]


def _slide(draft: _Draft) -> Slide:
    more = ' <span class="more">continued</span>' if draft.more else ""
    return Slide(
        kind=draft.kind,
        kicker=draft.kicker,
        title=re.sub(r"(?<=\w) (?=\d)", "\u00a0", draft.title) + more,  # "Llama 3.1 8B" is not broken
        body="".join(block.html() for block in draft.blocks),
        notes="".join(draft.notes),
        part=draft.part,
        size=draft.size,
    )
