"""The reading list: what each lesson rests on, and which texts were opened for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ruamel.yaml import YAML

from roofline.teach.term.syllabus import UNITS


@dataclass(frozen=True, slots=True)
class Text:
    """A text to read.

    Attributes:
        text: authors, title, year and the parts that matter, Markdown.
        url: its address; of a page of this project's documentation the path.
        opened: the day on which it was last read for the list, as YYYY-MM-DD; "" if it was not.
    """

    text: str
    url: str
    opened: str

    @property
    def status(self) -> str:
        """Whether the text itself was read for the list."""
        if self.url.startswith("docs/"):
            return "of this project"
        return f"opened {self.opened}" if self.opened else "not opened for this list"


@cache
def reading_list() -> dict[str, Text]:
    """The texts by key."""
    entries = YAML(typ="safe").load(Path(__file__).with_name("reading.yaml"))
    return {
        key: Text(text=entry["text"], url=entry["url"], opened=str(entry["opened"] or "")) for key, entry in entries.items()
    }


def markdown() -> str:
    """The list as Markdown: a table of lessons and what to read before and after them."""
    texts = reading_list()
    lines = [
        "# Reading list",
        "",
        "What each lesson is based on. The first entry of a lesson is to be read before it, an hour at most; the others are",
        "for those who want the derivation from another side. An entry that was not opened for this list is cited from what",
        "is known of it: open it before you assign it.",
        "",
        "| lesson | read | |",
        "|---|---|---|",
    ]
    for unit in UNITS:
        for place, key in enumerate(unit.reading):
            one = texts[key]
            name = f"**{one.text}**" if place == 0 and "*" not in one.text else one.text
            link = f"[{one.url.split('//')[-1]}]({one.url})" if one.url.startswith("http") else f"`{one.url}`"
            lines.append(f"| {unit.number if place == 0 else ''} | {name}, {link} | {one.status} |")
    return "\n".join(lines) + "\n"
