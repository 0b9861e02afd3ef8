"""Pages that stand elsewhere in the repository and belong to the site."""

from __future__ import annotations

import os
import re
from pathlib import Path

from generate import DOCS, FOLDER, ROOT
from generate.links import ADOPTED, moved, place

_PICTURE = re.compile(r'<picture>\s*<source [^>]*srcset="([^"]+)">\s*<img alt="([^"]+)" src="([^"]+)">\s*</picture>')


def pages() -> dict[str, str]:
    """Each as it is, with its links moved and its pictures as images of the site."""
    texts = {}
    for name in ADOPTED:
        at, file = place(name), ROOT / name
        text = moved(file.read_text(encoding="utf-8"), read_at=file.parent, shown_at=at.parent)
        texts[str(at.relative_to(DOCS / FOLDER))] = _with_images(text, read_at=file.parent, shown_at=at.parent)
    return texts


def _with_images(text: str, *, read_at: Path, shown_at: Path) -> str:
    """HTML pictures, which GitHub shows in light and dark, as two images of which the theme shows one."""

    def images(match: re.Match[str]) -> str:
        dark, alt, light = match.groups()
        return "\n\n".join(
            f":::{{image}} {os.path.relpath(read_at / source, shown_at)}\n:class: only-{mode}\n:alt: {alt}\n:::"
            for source, mode in ((light, "light"), (dark, "dark"))
        )

    return _PICTURE.sub(images, text)
