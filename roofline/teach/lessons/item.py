"""What every part of a lesson is: something with a form for pages, one for notebooks, and one of plain text."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable


class Ids:
    """Names for elements of one page, each once: `predict-1`, `predict-2`."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def fresh(self, kind: str) -> str:
        """The next name of a kind; the first of those that are names already stays as it is."""
        self._counts[kind] += 1
        return f"{kind}-{self._counts[kind]}"

    def once(self, name: str) -> str:
        """A name, with a number behind it where it is taken."""
        self._counts[f"={name}"] += 1
        count = self._counts[f"={name}"]
        return name if count == 1 else f"{name}-{count}"


class Item(ABC):
    """A part of a lesson."""

    @abstractmethod
    def html(self, ids: Ids) -> str:
        """For a page, which has the styles and the script."""

    @abstractmethod
    def markdown(self) -> str:
        """For a notebook: Markdown with LaTeX, what is hidden in `details`."""

    def plain(self) -> str:
        """For a terminal."""
        return re.sub(r"</?(?:details|summary)>|\*\*", "", self.markdown()).strip()

    def _repr_markdown_(self) -> str:
        return self.markdown()

    def __repr__(self) -> str:
        return self.plain()


class Several(Item):
    """Parts, one below the other."""

    def __init__(self, parts: Iterable[Item]) -> None:
        self.parts = tuple(parts)

    def html(self, ids: Ids) -> str:
        """All of them."""
        return "".join(part.html(ids) for part in self.parts)

    def markdown(self) -> str:
        """All of them."""
        return "\n\n".join(part.markdown() for part in self.parts)


def show(*parts: Item) -> Several:
    """Several parts as the value of one cell."""
    return Several(parts)
