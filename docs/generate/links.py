"""Links of pages as they stand in the repository, changed to where the site has what they name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from generate import DOCS, FOLDER, ROOT

# Pages outside docs/ that the site has too, by their names there.
ADOPTED = {
    "README.md": "readme",
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changelog",
    "SECURITY.md": "security-policy",
    "measurements/README.md": "measurements",
    "benchmarks/README.md": "benchmarks",
    "lessons/README.md": "course",
    "lessons/instructor/README.md": "instructor",
    "lessons/instructor/marking-scheme.md": "marking-scheme",
    "lessons/instructor/reading-list.md": "reading-list",
}

_BLOCK = re.compile(r"(^ {0,3}```.*?^ {0,3}```[ ]*$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def place(name: str) -> Path:
    """Where the site has an adopted page."""
    return DOCS / FOLDER / "project" / f"{ADOPTED[name]}.md"


def moved(text: str, *, read_at: Path, shown_at: Path) -> str:
    """The text of a page that was written in one folder and is shown in another. Folders are named, not linked.

    >>> at = DOCS / "guides"
    >>> moved("[a](../../README.md#set-up) [b](../why.md) [c](https://d.e)", read_at=at, shown_at=at)
    '[a](../_generated/project/readme.md#set-up) [b](../why.md) [c](https://d.e)'
    """

    def link(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        name, hash, anchor = target.partition("#")
        if re.match(r"[a-z+]+:", target) or not name:
            return match[0]
        file = Path(os.path.normpath(read_at / name))
        if file.is_dir():
            return label
        known = str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else ""
        file = place(known) if known in ADOPTED else file
        return f"{image}[{label}]({os.path.relpath(file, shown_at)}{hash}{anchor})"

    return outside_code(text, lambda part: _LINK.sub(link, part))


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change what stands outside fenced blocks."""
    return "".join(part if index % 2 else change(part) for index, part in enumerate(_BLOCK.split(text)))
