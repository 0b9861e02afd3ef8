"""Tables of computed numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from roofline.errors import InputError
from roofline.formatting import number
from roofline.teach.lessons.item import Ids, Item
from roofline.teach.lessons.prose import checked, inline_of


class Tabled(Item):
    """Rows under heads. Columns whose cells are all numbers are set to the right."""

    def __init__(self, columns: Sequence[str], rows: Iterable[Sequence[str | float]], title: str, note: str) -> None:
        self.columns, self.title, self.note = tuple(columns), checked(title), checked(note)
        given = [tuple(row) for row in rows]
        for row in given:
            if len(row) != len(self.columns):
                raise InputError(f"table {title!r}: a row of {len(row)} cells under {len(self.columns)} columns")
        self.right = tuple(all(_is_number(row[at]) for row in given) and bool(given) for at in range(len(self.columns)))
        self.rows = tuple(tuple(cell if isinstance(cell, str) else number(cell) for cell in row) for row in given)

    def html(self, ids: Ids) -> str:
        """With its title above, in a box that scrolls sideways."""
        name = ids.fresh("table")
        heads = "".join(
            f'<th scope="col"{_class(right)}>{inline_of(text)}</th>'
            for text, right in zip(self.columns, self.right, strict=True)
        )
        body = "".join(f"<tr>{self._cells(row)}</tr>\n" for row in self.rows)
        note = f'<p class="note">{inline_of(self.note)}</p>\n' if self.note else ""
        return (
            f'<div class="table">\n<p class="title" id="{name}">{inline_of(self.title)}</p>\n{note}'
            f'<div class="scroll" role="group" tabindex="0" aria-labelledby="{name}">\n<table aria-labelledby="{name}">\n'
            f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n</div>\n</div>\n"
        )

    def _cells(self, row: tuple[str, ...]) -> str:
        found = ""
        for at, text in enumerate(row):
            head = at == 0 and not self.right[0]
            tag, scope = ("th", ' scope="row"') if head else ("td", "")
            found += f"<{tag}{scope}{_class(self.right[at])}>{inline_of(text)}</{tag}>"
        return found

    def markdown(self) -> str:
        """A table of pipes."""
        rules = ["---:" if right else "---" for right in self.right]
        lines = [self.columns, tuple(rules), *self.rows]
        listed = "\n".join("| " + " | ".join(text.replace("|", r"\|") for text in row) + " |" for row in lines)
        note = f"\n\n{self.note}" if self.note else ""
        return f"**{self.title}**{note}\n\n{listed}"


def _is_number(cell: str | float) -> bool:
    """Whether a cell is one, or says one with a unit or a sign before it."""
    return not isinstance(cell, str) or (cell != "" and (cell[0].isdigit() or cell in ("–", "∞")))


def _class(right: bool) -> str:
    return ' class="number"' if right else ""


def table(columns: Sequence[str], rows: Iterable[Sequence[str | float]], *, title: str, note: str = "") -> Tabled:
    """Rows of texts and numbers; numbers are written in full, or to four digits. `amount(...)` says one with its unit."""
    return Tabled(columns, rows, title, note)
