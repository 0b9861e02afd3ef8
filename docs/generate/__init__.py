"""Pages that are written from the code when the site is built. One file a kind of page; each has `pages()`: text by path."""

from __future__ import annotations

from pathlib import Path

FOLDER = "_generated"
DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
