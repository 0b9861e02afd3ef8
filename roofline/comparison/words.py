"""A count and its noun, in notes and reasons."""

from __future__ import annotations


def counted(count: float, noun: str, digits: int | None = 0) -> str:
    """A count with its noun; `digits` after the point, or None for as many as it has.

    >>> counted(1, "request"), counted(2000, "token"), counted(0.5, "request", None), counted(1.0, "request", 1)
    ('1 request', '2,000 tokens', '0.5 requests', '1.0 requests')
    """
    text = f"{count:g}" if digits is None else f"{count:,.{digits}f}"
    return f"{text} {noun}{'' if text == '1' else 's'}"
