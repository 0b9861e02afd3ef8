"""The numbers of a distribution's text."""

from __future__ import annotations

import math

from roofline.errors import InputError, UnitError
from roofline.serving.traffic.lengths.base import Kind
from roofline.units import MAX_COUNT, parse_count


def split(kind: Kind, arguments: str, least: int, needs: str, most: int | None = None) -> list[str]:
    """The parts between the colons, of which there have to be so many."""
    parts = [part.strip() for part in arguments.split(":")]
    if not least <= len(parts) <= (most or least) or not all(parts):
        given = f"{kind.word}:{arguments}"
        raise InputError(f"{given!r} is not {kind.form}: it needs {needs}, such as {kind.example}")
    return parts


def positive(text: str, what: str, example: str) -> float:
    """A number of tokens above 0, which need not be whole: a mean or a standard deviation. `8k` is 8192.

    >>> positive("8k", "the mean", ""), positive("211.4", "the mean", "")
    (8192.0, 211.4)
    """
    try:
        value = float(text)
    except ValueError:
        try:
            value = float(parse_count(text, what))
        except UnitError:
            raise InputError(f"{what} must be a number of tokens, not {text[:60]!r}; write {example}") from None
    if not 0 < value < math.inf:
        raise InputError(f"{what} must be more than 0 and finite, not {text[:60]}; write {example}")
    if value > MAX_COUNT:
        raise InputError(f"{what} must be at most 2^53 tokens, not {text[:60]}")
    return value
