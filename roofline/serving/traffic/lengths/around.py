"""Lengths drawn around a nominal one, as load generators do."""

from __future__ import annotations

import re

from roofline.errors import InputError
from roofline.serving.traffic.lengths.base import Lengths
from roofline.serving.traffic.lengths.parse import parse_lengths

_SPREAD = re.compile(r"(\d+\.?\d*|\.\d+)\s*-\s*(\d+\.?\d*|\.\d+)")
_MOST = 100.0
_TRIFLE = 1e-9


def parse_spread(value: object) -> tuple[float, float]:
    """The shares of a nominal length between which lengths are drawn: `0.8-1`.

    What tools call a range ratio is one number of two meanings: R is `R-1` in SGLang's `bench_serving`, and `(1-R)-(1+R)` in
    `vllm bench serve` (older copies of `benchmark_serving.py` have the first).

    >>> parse_spread("0.8-1")
    (0.8, 1.0)

    Raises:
        InputError: it is no such pair.
    """
    allowed = "two shares of the lengths between which they are drawn, such as 0.8-1 or 0.9-1.1"
    match = _SPREAD.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise InputError(f"must be {allowed}, not {str(value)[:60]!r}")
    low, high = float(match[1]), float(match[2])
    if not low <= high <= _MOST or not high:
        raise InputError(f"must be {allowed}, the lower one first, not {str(value)[:60]!r}")
    return low, high


def around(nominal: Lengths, spread: tuple[float, float]) -> Lengths:
    """Every whole length from the one share of a nominal length to the other, equally likely; at least 1 token.

    >>> str(around(parse_lengths("1024"), (0.8, 1.0)))
    'uniform:819:1024'

    Raises:
        InputError: the nominal length is a distribution already.
    """
    length = nominal.minimum
    if nominal.maximum != length:
        raise InputError(f"{nominal} has a spread of its own: give one length, such as 1024")
    low, high = (max(int(length * share + _TRIFLE), 1) for share in spread)
    return parse_lengths(low if low == high else f"uniform:{low}:{high}")
