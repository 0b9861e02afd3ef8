"""Slides of a lesson, made from its items: what is shown becomes slides, all else becomes the presenter's notes.

Prose goes to the notes. Of it a slide has the sentences with a **bold** phrase, lists, and tables. What does not fit on a slide
goes on on the next one; neighbours that say little share one: a sentence leads to the formula after it, a takeaway stands below
the figure that shows it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import unescape
from itertools import groupby, zip_longest
from math import ceil, inf
from string import ascii_lowercase

from roofline.report.figure import Figure
from roofline.report.html import escape
from roofline.teach.lessons.draw.canvas import Drawing
from roofline.teach.lessons.drawn import Drawn
from roofline.teach.lessons.execute import ExecutedCell, ExecutedLesson
from roofline.teach.lessons.figures import Plot
from roofline.teach.lessons.formula import Formula
from roofline.teach.lessons.items import Item, Lesson, Table, Takeaway, Text, flattened
from roofline.teach.lessons.live.play import Play
from roofline.teach.lessons.published import Published
from roofline.teach.lessons.questions import Part, Question, WorkedProblem
from roofline.teach.lessons.slide_blocks import (
    FOOT,
    HEAD,
    KICKER,
    MOST_COMPARED,
    MOST_ROWS,
    MOST_SOLVED,
    MOST_WORDS,
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
    Compared,
    Equation,
    Legend,
    Link,
    Note,
    Picture,
    Plan,
    Points,
    Prose,
    Remember,
    Step,
    Verdict,
    bound,
    chunks,
    drawn_at,
    enlarged,
    joined_lists,
    key_sentences,
    narrowed,
    num_lines,
    plotted,
    rows_of,
    sentences,
    size_of,
    whole,
)
from roofline.teach.markdown import Ids, html_of, inline_of


@dataclass(frozen=True, slots=True)
class Slide:
    """A slide.

    Attributes:
        kind: "title", "goals", "points", "question", "answer", "figure", "beside", "table", "formula", "published", "takeaway",
            "code", "play", "worked", "solution" or "exercise".
        label: its number, such as "7". Pictures that take the place of one another share a number: "7", "7b", "7c".
        kicker: the line above the title, as HTML; "" for none.
        title: as HTML.
        body: as HTML; "{title}" stands for the id of the title. An element with `data-step` appears with a press of its own.
        notes: of the presenter, as HTML.
        part: the index of the part of the plan; -1 before the first.
        size: pixels of its letters, of `SIZES`.
    """

    kind: str
    label: str
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
    listed: tuple[Published, ...] = ()
    """Published figures of the slide."""
    alternative: bool = False
    """Whether it takes the place of the slide before, such as the next step of a drawing."""

    @property
    def space(self) -> float:
        """Pixels for the body."""
        lines = _title_lines(self.title + (" continued" if self.more else ""))
        return TALL - HEAD - lines * TITLE_LINE - (KICKER if self.kicker else 0.0) - FOOT

    def tall(self, size: float) -> float:
        """Pixels that the body takes."""
        return sum(block.height(size) for block in self.blocks)

    @property
    def words(self) -> int:
        """Of its text; not those of tables, code and formulas."""
        prose = (re.sub(r"<(table|pre|math).*?</\1>", "", block.html(), flags=re.DOTALL) for block in self.blocks)
        return sum(len(re.sub(r"<[^>]+>", " ", html).split()) for html in prose)

    def grow(self) -> None:
        """Take the largest letters with which the body leaves some space; the smallest at pictures and code."""
        most = SIZES[0] if self.kind in ("title", "takeaway", "points") else SIZES[1]
        if any(isinstance(block, Picture | Code) for block in self.blocks):
            most = SIZES[-1]
        self.size = next((size for size in SIZES if size <= most and self.tall(size) <= ROOMY * self.space), SIZES[-1])

    @property
    def picture(self) -> Picture | None:
        """Its picture, if it has one."""
        return next((block for block in self.blocks if isinstance(block, Picture)), None)

    def fill(self) -> None:
        """Make the picture as high as what else there is leaves space."""
        if picture := self.picture:
            picture.fit(self.space - sum(block.height(self.size) for block in self.blocks if block is not picture))


def _title_lines(title: str, wide: float = WIDE) -> int:
    return num_lines(unescape(re.sub(r"<[^>]+>", "", title)), 42, wide)  # 40 pixels, bold


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

    def finished(self) -> list[_Draft]:
        """Return the slides after those that say little have joined their neighbours, with pictures of their final size."""
        listed: list[_Draft] = []
        for draft, after in zip_longest(self.drafts, self.drafts[1:]):
            last = listed[-1] if listed else None
            leads = after and draft.kind == "points" and _join(replace(draft, blocks=[*draft.blocks]), after)
            if leads and last and draft.cell != last.cell and after.kind not in ("points", "takeaway"):
                leads = not (last.picture and after.picture)  # below the one it is as good as above the other
            else:
                leads = False
            if last is None or leads or not _join(last, draft):
                listed.append(draft)
        for draft in listed:
            draft.fill()
        return listed

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
            self.add("takeaway", inline_of(self.heading), [Prose(item.text)], "Takeaway")
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
            self.worked(item)
        elif isinstance(item, Play):
            self.play(item)
        else:
            self.add("points", inline_of(self.heading), [Prose(item.plain())])

    def head(self, head: Lesson) -> None:
        """Title with the plan; goals, with what one needs before."""
        self.add("title", inline_of(self.lesson.title), [Prose(head.about, "about"), Plan(head.plan)])
        self.add("goals", "After this lesson you can", [Points(head.goals, kind="list")])
        before = "\n".join(f"* {entry}" for entry in head.prerequisites)
        self.note(html_of(f"What one needs before:\n\n{before}"))

    def prose(self, text: Text, *, in_full: bool) -> None:
        """Text with computed numbers: its key sentences, and all of it in the notes."""
        blocks: list[Block] = []
        for kind, piece in chunks(text.text):
            if kind != "prose" or in_full:
                blocks += whole(piece)
            elif keys := key_sentences(piece):
                blocks.append(Points(keys))
        if not blocks:
            self.note(text.html(self.ids))
            return
        self.notes.append(text.html(self.ids))
        self.add("points", inline_of(self.heading), joined_lists(blocks))

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
        picture = Picture(partial(plotted, replace(figure, key=self.ids.once(figure.key))), least_height(figure))
        self._filled("figure", escape(figure.title), figure.note, kicker, picture)

    def _filled(self, kind: str, title: str, note: str, kicker: str, picture: Picture) -> _Draft:
        """Add a slide of a picture, with its note."""
        blocks = _short(note)
        self.add(kind, title, blocks, kicker)
        draft = self.drafts[-1]
        draft.blocks.insert(0, picture)
        draft.size = SIZES[-1]
        if note and not blocks:
            self.note(html_of(note))
        return draft

    def drawn(self, drawn: Drawn, kicker: str = "") -> None:
        """Drawings, each replacing the one before, in one size; what is seen is in the notes, in words."""
        titles = {drawing.title for drawing in drawn.drawings}
        listed: list[tuple[Drawing, str]] = []
        for number, drawing in enumerate(drawn.drawings):
            tells = drawn.choices and len(titles) < len(drawn.drawings)  # else titles say which one it is
            listed.append((drawing, f"{escape(drawn.about)}: {escape(drawn.choices[number])}" if tells else kicker))
        for number, (drawing, above) in enumerate(listed):
            self.drawing(drawing, above, *together(listed)[number], alone=len(listed) == 1)
            self.drafts[-1].alternative = number > 0

    def drawing(self, drawing: Drawing, kicker: str, beside: bool, scale: float, *, alone: bool) -> None:
        """One drawing, with its note if that is below the title too; if it is `alone`, other things may join it."""
        if beside:
            title = escape(re.sub(r"(?<=\w)-(?=\w)", "\u2011", drawing.title))  # a narrow column
            self._filled("beside", title, "", kicker, Picture(lambda _: enlarged(drawing.svg, SMALLEST / scale)))
            if drawing.note:
                self.note(html_of(drawing.note))
        else:
            least = least_scale(drawing, scale) * size_of(drawing.svg)[1] if alone else inf
            picture = Picture(partial(drawn_at, drawing.svg, most=inf if alone else scale), least)
            self._filled("figure", escape(drawing.title), drawing.note, kicker, picture)
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
        """What is published and what is computed: a table of several, or a slide each."""
        table = Compared(listed)
        if len(listed) > 1 and table.words <= MOST_COMPARED and table.height(SIZES[-1]) <= TALL - HEAD - TITLE_LINE - FOOT:
            self.add("published", "Published and computed", [table])
            self.drafts[-1].listed = tuple(listed)
            return
        for entry in listed:
            about = _capital(escape(entry.about.replace("-", "\u2011")))  # names of models are not broken
            self.add("published", about, [Verdict(entry, caption=False)], f"Published figure {entry.row.id}")
            self.drafts[-1].listed = (entry,)

    def question(self, question: Question) -> None:
        """A prediction, whose question is the title."""
        if question.kind != "predict":
            self.exercise(question)
            return
        key = question.key
        title, text = ask_of(question.text)
        if title and title[-1] not in "?.!":
            title += " \u2026"  # the choices go on with it
        options: Block = Choices(key.choices, int(key.value)) if key.choices else Answer(question.right)
        self.add("question", inline_of(title or self.heading), [*whole(text), options], "Predict first")
        draft = self.drafts[-1]
        self.reasons(question, draft, inline_of(title) if title and num_lines(title, 24) == 1 else "")
        draft.notes.append(_mistakes(question))

    def exercise(self, question: Question) -> None:
        """A line on the slide of all exercises; the problem with its solution is in the notes."""
        entry = f"{question.title} (`{question.template}`)"
        last = self.drafts[-1]
        if last.kind == "exercise" and isinstance(last.blocks[0], Points):
            last.blocks[0] = Points((*last.blocks[0].entries, entry), kind="list")
            last.grow()
        else:
            link = f'<p><a href="../{self.lesson.name}.html">The page of the lesson</a> checks your answers.</p>\n'
            self.add("exercise", "Exercises", [Points([entry], kind="list"), Link(link)])
        solution = "".join(html_of(part) if isinstance(part, str) else part.html(self.ids) for part in question.after)
        self.drafts[-1].notes.append(
            f"<h4>{inline_of(question.title)}</h4>\n{html_of(question.text)}<p><strong>{inline_of(question.right)}</strong></p>\n"
            f"{solution}{_mistakes(question)}"
        )

    def reasons(self, question: Question, draft: _Draft, kicker: str) -> None:
        """Why an answer is right: on the slide of the question, shown with the answer, if it fits; or else on the next ones."""
        if not self.revealed(draft, question.after):
            draft.notes.append("<p>The next press shows the answer, the one after it why.</p>\n")
            self.flow("answer", inline_of(f"Answer: {question.right}"), question.after, kicker)

    def worked(self, item: WorkedProblem) -> None:
        """A problem, and its solution: shown with a press if it is short, or else on the next slides."""
        title = _capital(inline_of(item.title))
        self.flow("worked", title, item.problem, "Worked problem")
        if not self.revealed(self.drafts[-1], item.solution):
            self.flow("solution", title, item.solution, "Solution")

    def revealed(self, draft: _Draft, parts: Sequence[Part]) -> bool:
        """Put parts on a slide, where a press shows them, if they are short enough; return whether that is so."""
        before, self.notes = self.notes, []
        pieces = [self.blocks_of(part) for part in parts]
        both = replace(draft, blocks=[*draft.blocks, *(Step(block) for piece in pieces for block in piece)])
        fits = all(pieces) and both.words <= MOST_SOLVED and both.tall(SIZES[-1]) <= draft.space
        if fits:
            draft.blocks = both.blocks
            draft.notes += self.notes
            draft.grow()
        self.notes = before
        return fits

    def flow(self, kind: str, title: str, parts: Sequence[Part], kicker: str = "") -> None:
        """Texts and items one below the other, on as many slides as they take; pictures on slides of their own."""
        blocks: list[Block] = []
        for part in [one for entry in parts for one in (flattened(entry) if isinstance(entry, Item) else [entry])]:
            fitting = self.blocks_of(part)
            blocks += fitting
            if fitting or isinstance(part, str):
                continue
            if blocks:
                self.add(kind, title, _shortened(blocks, kicker), kicker)
                blocks = []
            above = title if kind == "answer" else kicker
            if isinstance(part, Table):
                self.table(part, kicker=above)
            elif isinstance(part, Plot):
                self.figure(part.figure, above)
            elif isinstance(part, Drawn):
                self.drawn(part, above)
            else:
                self.item(part, in_full=True)
        if blocks:
            self.add(kind, title, _shortened(blocks, kicker), kicker)

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
        """What to try on the lesson's page, where pictures move."""
        link = f'<p><a href="../{self.lesson.name}.html#play">Move it on the page of the lesson</a></p>\n'
        self.notes.append(html_of(play.intro))
        tries: list[Block] = [Points(play.tries, kind="list")] if play.tries else [Prose(play.intro)]
        self.add("play", inline_of(self.heading), [*tries, Link(link)])


_LEADING = ("points", "formula", "published", "table", "figure", "code", "question")
"""Kinds of slides that a few sentences may lead to, on the same slide."""
_FOLLOWING = {
    "takeaway": ("points", "formula", "published", "table", "answer", "question", "figure", "code"),
    "points": ("formula", "published", "table", "answer", "figure", "exercise", "code"),
    "published": ("formula", "published", "answer", "question"),
}
"""Kinds of slides to which others are added below."""


def _join(last: _Draft, draft: _Draft) -> bool:
    """Put a slide that says little on the one before, if both are readable together; return whether that is so."""
    leads = last.kind == "points" and draft.kind in _LEADING
    if not (last.part == draft.part and not draft.more and (leads or last.kind in _FOLLOWING.get(draft.kind, ()))):
        return False
    if draft.kind == "question" and (last.words > MOST_WORDS / 2 or any(isinstance(block, Cells) for block in last.blocks)):
        return False
    both_listed = bool(last.listed and draft.listed)
    blocks = _with_comparison(last, draft) if both_listed else joined_lists([*last.blocks, *_below(last, draft)])
    both = replace(last, blocks=blocks, listed=(*last.listed, *draft.listed))
    if leads and draft.kind != "points":
        both.kind, both.title, both.kicker = draft.kind, draft.title, draft.kicker
    elif both_listed and last.kind == "published":
        both.title, both.kicker = "Published and computed", ""
    omitted = [block for block in blocks if block.optional]
    if both.picture or both.tall(SIZES[-1]) > both.space:
        both.blocks = [block for block in blocks if not block.optional]
        both.notes = [*last.notes, *(block.html() for block in omitted)]
    is_wordy = both.words > MOST_WORDS and last.cell != draft.cell and not both_listed
    if not blocks or is_wordy or both.tall(SIZES[-1]) > both.space:
        return False
    last.kind, last.title, last.kicker, last.cell = both.kind, both.title, both.kicker, draft.cell
    last.blocks, last.listed, last.notes = both.blocks, both.listed, [*both.notes, *draft.notes]
    last.size = SIZES[-1]
    last.grow()
    return True


def _below(last: _Draft, draft: _Draft) -> list[Block]:
    """What a slide shows below another one; below a question it waits for the answer."""
    blocks = list(draft.blocks)
    if draft.kind == "takeaway":
        blocks = [Remember(block) for block in blocks]
    elif draft.kind == "published" and last.kind != "points":
        blocks = [Verdict(entry, caption=True) for entry in draft.listed]
    return [Step(block) for block in blocks] if last.kind == "question" else blocks


def _with_comparison(last: _Draft, draft: _Draft) -> list[Block]:
    """What a slide shows with the published figures of both in a table; nothing if that says too much."""
    table = Compared((*last.listed, *draft.listed))
    is_last = isinstance(last.blocks[-1], Verdict | Compared)  # else the order would change
    if table.words > MOST_COMPARED or not is_last:
        return []
    return [*(block for block in last.blocks if not isinstance(block, Verdict | Compared)), table]


def _shortened(blocks: list[Block], kicker: str) -> list[Block]:
    """These blocks, with formulas in numbers alone if they do not fit on a slide."""
    space = TALL - HEAD - TITLE_LINE - (KICKER if kicker else 0.0) - FOOT
    if len(blocks) == 1 or sum(block.height(SIZES[-1]) for block in blocks) <= space:
        return blocks
    return [block.brief() if isinstance(block, Equation) else block for block in blocks]


def _mistakes(question: Question) -> str:
    if not question.wrong_answers:
        return ""
    listed = "\n".join(f"* {wrong}: {hint}" for wrong, hint in question.wrong_answers)
    return html_of(f"Usual wrong answers:\n\n{listed}")


def _short(note: str) -> list[Block]:
    """A note that is short enough to stand below its picture."""
    return [Note(note)] if note and num_lines(note, 24) <= 2 else []


def arranged(drawing: Drawing, kicker: str = "", *, allow_left: bool = True) -> tuple[bool, float]:
    """Return how a slide shows a drawing: whether beside its title, where there is no space for its note, and how large.

    Args:
        drawing: which is shown.
        kicker: the line above its title; "" for none.
        allow_left: whether its title may stand to the left of it.
    """
    wide, high = size_of(drawing.svg)
    space = TALL - HEAD - _title_lines(drawing.title) * TITLE_LINE - (KICKER if kicker else 0.0) - FOOT
    beside = min(SIDE_WIDTH / wide, (TALL - 96) / high)
    if allow_left and beside > min(PICTURE_WIDE / wide, space / high):
        return True, beside
    note = sum(block.height(SIZES[-1]) for block in _short(drawing.note))
    return False, min(PICTURE_WIDE / wide, (space - note) / high)


def together(listed: Sequence[tuple[Drawing, str]]) -> list[tuple[bool, float]]:
    """Return `arranged` of drawings, with the lines above their titles, that take the place of one another.

    None of them is beside its title unless all are, and all have one scale, if their letters allow it.
    """
    each = [arranged(drawing, kicker) for drawing, kicker in listed]
    below = [arranged(drawing, kicker, allow_left=all(beside for beside, _ in each)) for drawing, kicker in listed]
    scale = min(scale for _, scale in below)
    if any(drawing.canvas.faults(SMALLEST / scale) for drawing, _ in listed):
        return each
    return [(beside, scale) for beside, _ in below]


def least_scale(drawing: Drawing, most: float) -> float:
    """Return how small a drawing may be shown, with letters that are enlarged and still do not touch; at most `most`."""
    for tenths in range(6, 10):
        if not drawing.canvas.faults(SMALLEST / (most * tenths / 10)):
            return most * tenths / 10
    return most


def least_height(figure: Figure) -> float:
    """Return how high a figure has to be, in pixels of a slide: bars need space for their numbers."""
    bars = [series for series in figure.series if series.kind == "bars" and figure.y.scale == "category"]
    rows = len({name for series in bars for name in series.y}) * (1 if any(series.base for series in bars) else len(bars))
    return max(340.0, 150.0 + 26.0 * rows)


def ask_of(text: str) -> tuple[str, str]:
    """Return the question of a text, which is the title of its slide, and the rest; "" and all of it if there is no short one.

    >>> ask_of("A step takes 20 ms. How many steps are there in a second?")
    ('A step takes 20 ms. How many steps are there in a second?', '')
    >>> ask_of("Eight devices have an expert each. " * 3 + "How many bytes are sent? Write a unit.")[0]
    'How many bytes are sent?'
    """
    pieces = [piece for kind, piece in chunks(text) if kind == "prose"]
    if pieces == [text.strip()] and _title_lines(inline_of(text)) <= 2:
        return text.strip(), ""
    for piece in reversed(pieces):
        listed = sentences(piece)
        for at in range(len(listed) - 1, -1, -1):
            if listed[at].endswith("?") and _title_lines(inline_of(listed[at])) <= 2:
                rest = " ".join(listed[:at] + listed[at + 1 :])
                return listed[at], text.replace(piece, rest).strip()
    return "", text


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
    made: list[Slide] = []
    number = letter = 0
    for draft in builder.finished():
        number, letter = (number, letter + 1) if draft.alternative else (number + 1, 0)
        made.append(_slide(draft, f"{number}{ascii_lowercase[letter] if letter else ''}"))
    return made


def _slide(draft: _Draft, label: str) -> Slide:
    more = ' <span class="more">continued</span>' if draft.more else ""
    return Slide(
        kind=draft.kind,
        label=label,
        kicker=draft.kicker,
        title=bound(re.sub(r"(?<=\w) (?=\d)", "\u00a0", draft.title)) + more,  # "Llama 3.1 8B" is not broken
        body="".join(block.html() for block in draft.blocks),
        notes="".join(draft.notes),
        part=draft.part,
        size=draft.size,
    )
