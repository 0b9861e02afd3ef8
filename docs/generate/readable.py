"""What the theme leaves out of a page for those who use a keyboard or have it read to them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Markup as Sphinx and the theme write it, and as it is kept. Nothing on the right is found again on the left.
_CHANGES = (
    ("<pre>", '<pre tabindex="0">'),  # what scrolls can be reached and scrolled
    ('<div class="table-wrapper', '<div tabindex="0" role="group" aria-label="table" class="table-wrapper'),
    ('role="heading">', 'role="heading" aria-level="2">'),
    ('<aside class="sidebar-drawer">', '<aside aria-label="All pages" class="sidebar-drawer">'),
    ('<aside class="toc-drawer', '<aside aria-label="This page" class="toc-drawer'),
    ('<th class="head"><p></p></th>', "<td></td>"),  # a column without a name has no heading
)


def readable(html: str) -> str:
    """A page with these changes.

    >>> readable(readable("<pre>a</pre>"))
    '<pre tabindex="0">a</pre>'
    """
    for written, kept in _CHANGES:
        html = html.replace(written, kept)
    return html


def finish(app: Sphinx, problem: Exception | None) -> None:
    """All pages of a site that was built."""
    if problem is not None or app.builder.format != "html":
        return
    for file in Path(app.outdir).rglob("*.html"):
        html = file.read_text(encoding="utf-8")
        if (changed := readable(html)) != html:
            file.write_text(changed, encoding="utf-8")
