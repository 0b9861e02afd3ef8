"""Parsers of single values of traffic: rates, percentiles, shares, factors, times."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from roofline.errors import InputError
from roofline.units import SECONDS, parse_quantity

_RATE = re.compile(r"([^\s/]+)\s*(?:req(?:uest)?s?|r)?\s*(?:/\s*(\w+))?")
_LOWEST, _HIGHEST = 0.5, 0.999
_TINY, _HUGE = 1e-9, 1e9
"""Bounds of a rate, requests/s."""


def number(value: object, what: str) -> float:
    """Convert a number or a text to a finite float.

    Args:
        value: what the user gave.
        what: what it must be, for the message.

    Raises:
        InputError: a boolean, NaN, an infinity, or no number.
    """
    try:
        parsed = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]  # what float() refuses is refused
    except (TypeError, ValueError):
        parsed = math.nan
    if not math.isfinite(parsed):
        raise InputError(f"must be {what}, not {str(value)[:60]!r}")
    return parsed


def parse_rate(value: object, of: str = "requests") -> float:
    """Parse a rate into requests/s: `8`, `8/s`, `8 requests/s`, `300/min`, `7200/h`; `of` is the word for messages.

    Raises:
        InputError: no rate, another unit, or outside 1e-9 to 1e9 requests/s.

    >>> parse_rate(8), parse_rate("300 requests/min"), parse_rate("7200/h")
    (8.0, 5.0, 2.0)
    """
    allowed = f"a number of {of}/s above 0, such as 8, or 300/min"
    match = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    rate = number(match[1] if match else value, allowed)
    if match and match[2] is not None and match[2] not in SECONDS:
        raise InputError(f"must be {allowed}, not {str(value)[:60]!r}: it may be per s, min, h or day")
    rate /= SECONDS[match[2]] if match and match[2] else 1
    if not _TINY <= rate <= _HUGE:
        limits = f"from 1e-9 to 1e9 {of}/s"
        raise InputError(f"must be {allowed if rate <= 0 else limits}, not {str(value)[:60]!r}")
    return rate


def parse_weight(value: object) -> float:
    """Parse the weight of a class: a number above 0, at most a million and at least a millionth.

    Raises:
        InputError: another value.
    """
    weight = number(value, "a number above 0, such as 2")
    if not 1e-6 <= weight <= 1e6:
        raise InputError(f"must be from 1e-6 to 1e6, not {str(value)[:60]!r}")
    return weight


def parse_percentile(value: object) -> float:
    """Parse the share of requests that have to meet an objective into a fraction: `95`, `p95`, `95%` and `0.95` are 0.95.

    Raises:
        InputError: no number, or outside p50 to p99.9.

    >>> parse_percentile("p99.9"), parse_percentile(0.5), parse_percentile("95")
    (0.999, 0.5, 0.95)
    """
    allowed = "a percentile from p50 to p99.9, such as 95, p95 or 0.95"
    text = str(value).strip().lower()
    bare = text.removeprefix("p").removesuffix("%").strip()
    number(False if isinstance(value, bool) else bare, allowed)
    if len(bare) > 20:
        raise InputError(f"must be {allowed}, not {text[:60]!r}")
    exact = Fraction(bare)
    percentile = float(exact if exact < 1 and bare == text else exact / 100)
    if not _LOWEST <= percentile <= _HIGHEST:
        raise InputError(f"must be {allowed}, not {text[:60]!r}")
    return percentile


def parse_share(value: object) -> float:
    """Parse a share into a fraction from 0 to below 1: `0.3` or `30%`.

    Raises:
        InputError: no number, or outside that range.

    >>> parse_share("30%"), parse_share(0)
    (0.3, 0.0)
    """
    allowed = "a fraction from 0 to below 1, such as 0.3 or 30%"
    text = value.strip() if isinstance(value, str) else value
    percent = isinstance(text, str) and text.endswith("%")
    share = number(text[:-1] if isinstance(text, str) and percent else text, allowed) / (100 if percent else 1)
    if not 0 <= share < 1:
        raise InputError(f"must be {allowed}, not {str(value)[:60]!r}")
    return share


def parse_burstiness(value: object) -> float:
    """Parse the coefficient of variation of the times between arrivals, 0 to 1000; 1 is Poisson.

    Raises:
        InputError: no number, or outside that range.
    """
    allowed = (
        "the standard deviation of the times between arrivals over their mean: 1 for Poisson arrivals, 0 for a steady beat"
    )
    burstiness = number(value, allowed)
    if not 0 <= burstiness <= 1e3:
        raise InputError(f"must be {allowed}, not {str(value)[:60]!r}")
    return burstiness


def parse_peak_factor(value: object) -> float:
    """Parse peak load over mean load, 1 to 1e6.

    Raises:
        InputError: no number, or outside that range.
    """
    allowed = "the peak load over the mean load, 1 or more, such as 2.5"
    factor = number(value, allowed)
    if not 1 <= factor <= 1e6:
        raise InputError(f"must be {allowed}, not {str(value)[:60]!r}")
    return factor


def parse_seconds(value: object) -> float:
    """Parse a time into seconds: a text with a unit, or, from Python, a number of seconds.

    Raises:
        InputError: no time, another unit, not above 0.

    >>> parse_seconds("50 ms"), parse_seconds("10 min"), parse_seconds(2.0)
    (0.05, 600.0, 2.0)
    """
    allowed = 'a time above 0, such as "50 ms"'
    seconds = float(parse_quantity(value, "s")) if isinstance(value, str) else number(value, allowed)
    if seconds <= 0:
        raise InputError(f"must be {allowed}, not {str(value)[:60]!r}")
    return seconds
