"""Elements of an SVG as text: whatever comes from outside is escaped here, and nowhere else."""

from __future__ import annotations

import re
from html import escape
from typing import Literal

from roofline.text import clean

_FORBIDDEN = re.compile("[^\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML does not allow, beside the control characters that are gone by then."""

Anchor = Literal["start", "middle", "end"]
ANCHORS: dict[str, Anchor] = {"left": "end", "right": "start", "center": "middle"}
"""Where a text is held that stands on a side of its place."""


def safe(text: str) -> str:
    """Text for content and attributes.

    >>> safe('<b> & "c"')
    '&lt;b&gt; &amp; &quot;c&quot;'
    """
    return escape(_FORBIDDEN.sub("", clean(text)))


def name(text: str) -> str:
    """Text as part of an id.

    >>> name("memory budget")
    'memory-budget'
    """
    return re.sub(r"[^A-Za-z0-9_-]", "-", text)


def px(value: float) -> str:
    """Pixels, to a tenth.

    >>> px(12.04), px(-0.01)
    ('12', '0')
    """
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


def element(tag: str, *content: str, **attributes: str | float) -> str:
    """An element around content that is SVG already. Attributes are named as in Python: `stroke_width`, `class_`.

    >>> element("rect", x=1, y=2.26, class_="f-blue")
    '<rect x="1" y="2.3" class="f-blue"/>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{safe(value) if isinstance(value, str) else px(value)}"'
        for key, value in attributes.items()
    )
    return f"<{tag}{written}>{''.join(content)}</{tag}>" if content else f"<{tag}{written}/>"


def text(words: str, x: float, y: float, *, anchor: Anchor = "start", size: float = 12, class_: str = "f-text") -> str:
    """A line of text whose middle is at height y."""
    return element("text", safe(words), x=x, y=y + 0.35 * size, text_anchor=anchor, font_size=size, class_=class_)


def titled(shape: str, words: str) -> str:
    """A shape with a text that is shown under the pointer."""
    return element("g", element("title", safe(words)), shape) if words else shape
