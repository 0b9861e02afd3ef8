"""Text with computed numbers in it, and the box that a section ends with."""

from __future__ import annotations

from roofline.teach.lessons.item import Ids, Item
from roofline.teach.lessons.prose import checked, html_of, inline_of


class Said(Item):
    """Markdown."""

    def __init__(self, text: str) -> None:
        self.text = checked(text)

    def html(self, ids: Ids) -> str:
        """As prose."""
        return html_of(self.text, ids)

    def markdown(self) -> str:
        """As it is."""
        return self.text


class Takeaway(Said):
    """What to remember, in a box."""

    def html(self, ids: Ids) -> str:
        """A note of its own."""
        name = ids.fresh("takeaway")
        return (
            f'<div class="takeaway" role="note" aria-labelledby="{name}">\n<p class="kind" id="{name}">Takeaway</p>\n'
            f"<p>{inline_of(self.text)}</p>\n</div>\n"
        )

    def markdown(self) -> str:
        """A quotation."""
        return f"> **Takeaway.** {self.text}"


def say(text: str) -> Said:
    """Prose with computed numbers, as `say(f"... {amount(found, 'bytes')} ...")`. Between dollars stands a symbol alone."""
    return Said(text)


def takeaway(text: str) -> Takeaway:
    """The sentence or two to go home with."""
    return Takeaway(text)
