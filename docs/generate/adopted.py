"""Pages that stand elsewhere in the repository and belong to the site."""

from __future__ import annotations

from generate import DOCS, FOLDER, ROOT
from generate.links import ADOPTED, moved, place


def pages() -> dict[str, str]:
    """Each as it is, with its links moved."""
    found = {}
    for name in ADOPTED:
        at, file = place(name), ROOT / name
        text = moved(file.read_text(encoding="utf-8"), read_at=file.parent, shown_at=at.parent)
        found[str(at.relative_to(DOCS / FOLDER))] = text
    return found
