"""Quantities with units: the one place where "3.35 TB/s" becomes a number; `formatting` is the way back.

Decimal prefixes are powers of ten, binary ones (Ki, Mi, Gi, Ti) powers of two; nothing is ever converted by rule from
one to the other. A naked number is refused: it is the commonest way in which calculators of this kind go wrong.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import SupportsIndex

from roofline.errors import UnitError

_PREFIXES: dict[str, int | Fraction] = {
    "": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50,
    "m": Fraction(1, 10**3), "u": Fraction(1, 10**6), "µ": Fraction(1, 10**6), "n": Fraction(1, 10**9),
}  # fmt: skip

_BIG = ("", "k", "K", "M", "G", "T", "P", "E")
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi")


def _spelled(units: tuple[str, ...], prefixes: tuple[str, ...]) -> dict[str, int | Fraction]:
    """Each spelling with each prefix, in base units."""
    return {prefix + unit: _PREFIXES[prefix] for unit in units for prefix in prefixes}


SECONDS: dict[str, int] = {
    "s": 1, "sec": 1, "second": 1, "seconds": 1, "min": 60, "minute": 60, "minutes": 60,
    "h": 3600, "hour": 3600, "hours": 3600, "day": 86400, "days": 86400,
}  # fmt: skip
"""Seconds in each unit of time from the second up, by its spellings. `m` is not one: it could mean milliseconds."""

# Base unit -> what is written after the number, and how many base units that is.
_UNITS: dict[str, dict[str, int | Fraction]] = {
    "FLOP/s": _spelled(("FLOP/s", "OP/s", "FLOPS", "OPS"), _BIG),
    "byte/s": _spelled(("B/s", "byte/s", "bytes/s"), _BIG + _BINARY),
    "byte": _spelled(("B", "byte", "bytes"), _BIG + _BINARY),
    "s": {**_spelled(("s",), ("", "m", "u", "µ", "n")), **SECONDS},
    "Hz": _spelled(("Hz",), _BIG),
    "W": _spelled(("W",), _BIG),
}

_EXAMPLES = {
    "FLOP/s": '"312 TFLOP/s"', "byte/s": '"2039 GB/s"', "byte": '"80 GiB"', "s": '"50 ms"', "Hz": '"1410 MHz"', "W": '"400 W"',
}  # fmt: skip
_ALLOWED = {
    "FLOP/s": "FLOP/s or OP/s, with k, M, G, T, P or E before it",
    "byte/s": "B/s, with k, M, G, T, P, E, Ki, Mi, Gi, Ti or Pi before it",
    "byte": "B, with k, M, G, T, P, E, Ki, Mi, Gi, Ti or Pi before it",
    "s": "ns, us, ms, s, min, h or days",
    "Hz": "Hz, with k, M or G before it",
    "W": "W, with k or M before it",
}
"""The units that an error names."""

_QUANTITY = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-zµ]+(?:/s)?)?\s*")


def parse_quantity(text: object, unit: str) -> int | float:
    """Return a quantity in base units, as an int where it is whole.

    Args:
        text: a number with a unit, such as "3.35 TB/s".
        unit: the base unit: FLOP/s, byte/s, byte, s, Hz or W.

    Raises:
        UnitError: no number, no unit, a unit of something else, a negative or absurdly large quantity.

    >>> parse_quantity("3.35 TB/s", "byte/s")
    3350000000000
    >>> parse_quantity("80 GiB", "byte")
    85899345920
    >>> parse_quantity("50 ms", "s"), parse_quantity("1.5 h", "s")
    (0.05, 5400)
    """
    how = f"such as {_EXAMPLES[unit]} (units: {_ALLOWED[unit]})"
    if not isinstance(text, str):
        raise UnitError(f"{text!r} has no unit: write a quantity with one, {how}")
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise UnitError(f"cannot read {text!r} as {_meaning(unit)}: write one {how}")
    number, suffix = match.groups()
    if suffix is None:
        raise UnitError(f"{text!r} has no unit: write a quantity with one, {how}")
    if (scale := _UNITS[unit].get(suffix)) is None:
        raise UnitError(f"{suffix!r} in {text!r} is not a unit of {_meaning(unit)}: write a quantity {how}")
    if len(number) > 40 or abs(int(number.lower().partition("e")[2] or 0)) > 30:
        raise UnitError(f"{text!r} is beyond anything this tool can mean: write a quantity {how}")
    value = Fraction(number.replace("_", "")) * scale
    if value < 0:
        raise UnitError(f"{text!r} is negative: {_meaning(unit)} cannot be")
    return int(value) if value.denominator == 1 else float(value)


def _meaning(unit: str) -> str:
    return {
        "FLOP/s": "a rate of computation", "byte/s": "a bandwidth", "byte": "an amount of memory", "s": "a time",
        "Hz": "a clock", "W": "a power",
    }[unit]  # fmt: skip


_COUNT = re.compile(r"\s*([+-]?\d[\d_,]*(?:\.\d+)?(?:[eE]\+?\d{1,2})?)\s*([kKmM]?)\s*")
# Above this a float no longer holds every whole number, so that a JSON reader and a NumPy sweep would disagree with us.
MAX_COUNT = 2**53


def parse_count(text: object, what: str = "count", minimum: int = 0) -> int:
    """Return a whole number of tokens, sequences or devices.

    Args:
        text: a whole number, or text: `8k` is 8192, `1M` is 1048576 and `1e3` is 1000; commas and underscores group digits.
        what: what is counted, for messages.
        minimum: the smallest number allowed.

    Raises:
        UnitError: no whole number, one below `minimum`, or one above 2^53.

    >>> parse_count("8k")
    8192
    """
    if isinstance(text, bool) or not isinstance(text, (int, float, str, SupportsIndex)):
        raise UnitError(f"{what} must be a whole number, not {text!r}")
    if isinstance(text, float) and not text.is_integer():
        raise UnitError(f"{what} must be a whole number, not {text!r}")
    if not isinstance(text, str):
        value = int(text)  # also NumPy's
    else:
        match = _COUNT.fullmatch(text)
        if not match or len(text) > 60:
            raise UnitError(f"{what} must be a whole number such as 4096 or 4k, not {text[:60]!r}")
        digits, suffix = match.groups()
        exact = Fraction(digits.replace(",", "").replace("_", "")) * {"": 1, "k": 2**10, "m": 2**20}[suffix.lower()]
        if exact.denominator != 1:
            raise UnitError(f"{what} must be a whole number, and {text!r} is {float(exact)}")
        value = int(exact)
    if value < minimum:
        raise UnitError(f"{what} must be at least {minimum}, not {value:,}")
    if value > MAX_COUNT:
        raise UnitError(f"{what} must be at most 2^53 = {MAX_COUNT:,} (above it floats lose whole numbers)")
    return value
