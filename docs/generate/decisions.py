"""The index of the decisions: a line a page, with its first sentence."""

from __future__ import annotations

from generate import DOCS
from generate.table import table, toctree

_HEAD = """\
# Decisions

What could have been decided otherwise, and why it was not. One short page each, in the order in which they were made.
"""


def pages() -> dict[str, str]:
    """One page."""
    files = sorted((DOCS / "decisions").glob("*.md"))
    rows = []
    for file in files:
        title = file.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        number, _, words = title.partition(" ")
        rows.append([number.rstrip(".").zfill(4), f"[{words}](../../decisions/{file.name})"])
    names = [f"../../decisions/{file.stem}" for file in files]
    return {"decisions/index.md": "\n".join([_HEAD, table(["number", "decision"], rows), "", toctree(names), ""])}
