"""Items of a lesson: text, takeaway, table, and the head. Each renders itself for pages, notebooks and terminals."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from roofline.errors import InputError
from roofline.formatting import number
from roofline.teach.markdown import Ids, checked, html_of, inline_of, slug


class Item(ABC):
    """A part of a lesson."""

    @abstractmethod
    def html(self, ids: Ids) -> str:
        """Return HTML for a page, which has the styles and the script; `ids` makes the names of its elements."""

    @abstractmethod
    def markdown(self) -> str:
        """Return Markdown with LaTeX for a notebook; hidden text is in `details`."""

    def plain(self) -> str:
        """Return text for a terminal."""
        return re.sub(r"</?(?:details|summary)>|\*\*", "", self.markdown()).strip()

    def _repr_markdown_(self) -> str:
        return self.markdown()

    def __repr__(self) -> str:
        return self.plain()


class Group(Item):
    """Several items, one below the other."""

    def __init__(self, parts: Iterable[Item]) -> None:
        self.parts = tuple(parts)

    def html(self, ids: Ids) -> str:
        """The HTML of all parts."""
        return "".join(part.html(ids) for part in self.parts)

    def markdown(self) -> str:
        """The Markdown of all parts."""
        return "\n\n".join(part.markdown() for part in self.parts)


def show(*parts: Item) -> Group:
    """Return several items as the value of one cell."""
    return Group(parts)


def flattened(item: Item) -> list[Item]:
    """Return the items that a group is made of, or the item itself."""
    return [one for part in item.parts for one in flattened(part)] if isinstance(item, Group) else [item]


class Text(Item):
    """Prose in Markdown."""

    def __init__(self, text: str) -> None:
        self.text = checked(text)

    def html(self, ids: Ids) -> str:
        """The text as HTML."""
        return html_of(self.text, ids)

    def markdown(self) -> str:
        """The text itself."""
        return self.text


class Takeaway(Text):
    """What to remember, in a box."""

    def html(self, ids: Ids) -> str:
        """A box with the role of a note."""
        name = ids.fresh("takeaway")
        return (
            f'<div class="takeaway" role="note" aria-labelledby="{name}">\n<p class="kind" id="{name}">Takeaway</p>\n'
            f"<p>{inline_of(self.text)}</p>\n</div>\n"
        )

    def markdown(self) -> str:
        """A quotation."""
        return f"> **Takeaway.** {self.text}"


def say(text: str) -> Text:
    """Return prose with computed numbers, as `say(f"... {amount(size, 'bytes')} ...")`.

    Raises:
        InputError: a text between dollars is not a symbol of the nomenclature, or a formula is typed.
    """
    return Text(text)


def takeaway(text: str) -> Takeaway:
    """Return the box that a section ends with: a sentence or two to remember."""
    return Takeaway(text)


class Table(Item):
    """A table. Columns whose cells are all numbers are aligned right."""

    def __init__(self, columns: Sequence[str], rows: Iterable[Sequence[str | float]], title: str, note: str) -> None:
        self.columns, self.title, self.note = tuple(columns), checked(title), checked(note)
        listed = [tuple(row) for row in rows]
        for row in listed:
            if len(row) != len(self.columns):
                raise InputError(f"table {title!r}: a row of {len(row)} cells under {len(self.columns)} columns")
        self.right = tuple(all(_is_number(row[at]) for row in listed) and bool(listed) for at in range(len(self.columns)))
        self.rows = tuple(tuple(cell if isinstance(cell, str) else number(cell) for cell in row) for row in listed)

    def html(self, ids: Ids) -> str:
        """A table below its title, in a box that scrolls sideways."""
        name = ids.fresh("table")
        note = f'<p class="note">{inline_of(self.note)}</p>\n' if self.note else ""
        return (
            f'<div class="table">\n<p class="title" id="{name}">{inline_of(self.title)}</p>\n{note}'
            f'<div class="scroll" role="group" tabindex="0" aria-labelledby="{name}">\n{self.grid(name)}</div>\n</div>\n'
        )

    def grid(self, name: str) -> str:
        """The table alone; `name` is the id of the element that is its title."""
        heads = "".join(
            f'<th scope="col"{_class(right)}>{inline_of(text)}</th>'
            for text, right in zip(self.columns, self.right, strict=True)
        )
        body = "".join(f"<tr>{self._cells(row)}</tr>\n" for row in self.rows)
        return f'<table aria-labelledby="{name}">\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n'

    def _cells(self, row: tuple[str, ...]) -> str:
        cells = ""
        for at, text in enumerate(row):
            head = at == 0 and not self.right[0]
            tag, scope = ("th", ' scope="row"') if head else ("td", "")
            cells += f"<{tag}{scope}{_class(self.right[at])}>{inline_of(text)}</{tag}>"
        return cells

    def markdown(self) -> str:
        """A Markdown table."""
        rules = ["---:" if right else "---" for right in self.right]
        lines = [self.columns, tuple(rules), *self.rows]
        listed = "\n".join("| " + " | ".join(text.replace("|", r"\|") for text in row) + " |" for row in lines)
        note = f"\n\n{self.note}" if self.note else ""
        return f"**{self.title}**{note}\n\n{listed}"


def _is_number(cell: str | float) -> bool:
    """Whether a cell is a number, or a text that begins with one."""
    return not isinstance(cell, str) or (cell != "" and (cell[0].isdigit() or cell in ("–", "∞")))


def _class(right: bool) -> str:
    return ' class="number"' if right else ""


def table(columns: Sequence[str], rows: Iterable[Sequence[str | float]], *, title: str, note: str = "") -> Table:
    """Return a table of computed numbers.

    Args:
        columns: the headings.
        rows: texts and numbers; numbers are written in full, or to four digits. `amount(...)` formats one with its unit.
        title: the caption.
        note: a remark below the caption.

    Raises:
        InputError: a row has not as many cells as there are columns.
    """
    return Table(columns, rows, title, note)


_MINUTES = 50


@dataclass(frozen=True, eq=False, repr=False)
class Lesson(Item):
    """Number, title, one sentence; goals, prerequisites, plan."""

    number: int
    title: str
    about: str
    goals: tuple[str, ...]
    prerequisites: tuple[str, ...]
    plan: tuple[tuple[int, str], ...]
    exercises: tuple[str, ...]

    def html(self, ids: Ids) -> str:
        """Three lists; the parts of the plan link to the sections with these names."""
        del ids
        plan = "".join(
            f'<tr><td class="number">{minutes} min</td><td><a href="#{slug(part)}">{inline_of(part)}</a></td></tr>\n'
            for minutes, part in self.plan
        )
        return (
            '<div class="head">\n<div>\n<h2 class="minor" id="goals">After this lesson you can</h2>\n'
            f"{_list(self.goals)}</div>\n"
            f'<div>\n<h2 class="minor" id="prerequisites">What you need before</h2>\n{_list(self.prerequisites)}</div>\n'
            f'<div>\n<h2 class="minor" id="plan">Plan, {_MINUTES} minutes</h2>\n<table>\n<thead><tr>'
            f'<th scope="col" class="number">Time</th><th scope="col">Part</th></tr></thead>\n'
            f"<tbody>\n{plan}</tbody>\n</table>\n</div>\n</div>\n"
        )

    def markdown(self) -> str:
        """The same three lists."""
        goals = "\n".join(f"* {goal}" for goal in self.goals)
        before = "\n".join(f"* {entry}" for entry in self.prerequisites)
        plan = "\n".join(f"| {minutes} min | {part} |" for minutes, part in self.plan)
        return (
            f"**After this lesson you can**\n\n{goals}\n\n**What you need before**\n\n{before}\n\n"
            f"**Plan, {_MINUTES} minutes**\n\n| time | part |\n|---:|---|\n{plan}"
        )


def _list(entries: Sequence[str]) -> str:
    return "<ul>\n" + "".join(f"<li>{inline_of(entry)}</li>\n" for entry in entries) + "</ul>\n"


def lesson(
    number: int,
    title: str,
    about: str,
    *,
    goals: Sequence[str],
    prerequisites: Sequence[str],
    plan: Sequence[tuple[int, str]],
    exercises: Sequence[str] = (),
) -> Lesson:
    """Return the head of a lesson.

    Args:
        number: of the lesson, as in the name of its file.
        title: its title.
        about: one sentence.
        goals: what the reader can do afterwards.
        prerequisites: what the reader needs.
        plan: (minutes, section) for the sections (`## ...`) of the lesson in their order, 50 minutes in total.
        exercises: the worksheet templates that the lesson uses.

    Raises:
        InputError: the minutes are not 50.
    """
    spent = sum(minutes for minutes, _ in plan)
    if spent != _MINUTES:
        raise InputError(f"lesson {number}: the plan takes {spent} minutes, not {_MINUTES}")
    for text in (about, *goals, *prerequisites):
        checked(text)
    return Lesson(number, title, about, tuple(goals), tuple(prerequisites), tuple(plan), tuple(exercises))
