"""How much room a text takes, as far as that can be told without its font."""

from __future__ import annotations

_NARROW = "iljrtfI.,:;|'!()[] "
_WIDE = "mwMW@%—…"


def text_width(text: str, size: float) -> float:
    """Pixels of a text in a sans-serif face of `size` pixels, rather more than less.

    >>> text_width("ms", 10) < text_width("MS", 10) < text_width("100 ms", 10)
    True
    """
    widths = [_letter(letter) for letter in text]
    return size * sum(widths)


def _letter(letter: str) -> float:
    if letter in _NARROW:
        return 0.36
    if letter in _WIDE:
        return 0.9
    if "A" <= letter <= "Z":
        return 0.71
    return 0.61 if letter < "\u1100" else 1.0


def shorten(text: str, most: int) -> str:
    """At most `most` characters, the last an ellipsis where some are missing.

    >>> shorten("achievable", 6), shorten("roof", 6)
    ('achie…', 'roof')
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"
