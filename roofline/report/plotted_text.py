"""Texts for plotly, which reads markup in them."""

from __future__ import annotations

from roofline.report.letters import shorten

_HIDDEN = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Marks that turn the direction of text."""


def plain(text: str) -> str:
    """Text in which plotly's markup finds nothing, without control characters.

    >>> plain("<b>a</b> & b")
    '&lt;b&gt;a&lt;/b&gt; &amp; b'
    """
    shown = "".join([letter for letter in text if letter >= " " and not ("\x7f" <= letter <= "\x9f") and letter not in _HIDDEN])
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def hover(text: str) -> str:
    """A text for under the pointer: its lines, each of a bearable length."""
    return "<br>".join([plain(shorten(line, 110)) for line in text.split("\n")[:14]])


def halo(colour: str) -> str:
    """A shadow all around a text, which keeps hatches away from its letters."""
    return f"0 0 2px {colour}, 0 0 3px {colour}, 0 0 4px {colour}, 0 0 5px {colour}"
