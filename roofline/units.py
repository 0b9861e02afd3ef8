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

# Unit -> the spellings of it, without prefix, and the prefixes that make sense with it.
_BIG = ("", "k", "K", "M", "G", "T", "P", "E")
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi")
_UNITS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "FLOP/s": (("FLOP/s", "OP/s", "FLOPS", "OPS"), _BIG),
    "byte/s": (("B/s", "byte/s", "bytes/s"), _BIG + _BINARY),
    "byte": (("B", "byte", "bytes"), _BIG + _BINARY),
    "s": (("s",), ("", "m", "u", "µ", "n")),
    "Hz": (("Hz",), _BIG),
    "W": (("W",), _BIG),
}

_EXAMPLES = {
    "FLOP/s": '"312 TFLOP/s"', "byte/s": '"2039 GB/s"', "byte": '"80 GiB"', "s": '"50 ms"', "Hz": '"1410 MHz"', "W": '"400 W"',
}  # fmt: skip

_QUANTITY = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-zµ]+(?:/s)?)?\s*")


def parse_quantity(text: object, unit: str) -> int | float:
    """A quantity in base units: FLOP/s, byte/s, byte, s, Hz or W. Whole numbers come back as int.

    >>> parse_quantity("3.35 TB/s", "byte/s")
    3350000000000
    >>> parse_quantity("80 GiB", "byte")
    85899345920
    >>> parse_quantity("50 ms", "s")
    0.05
    """
    example = _EXAMPLES[unit]
    if not isinstance(text, str):
        raise UnitError(f"{text!r} has no unit: write a quantity with one, such as {example}")
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise UnitError(f"cannot read {text!r} as a quantity: write one such as {example}")
    number, suffix = match.groups()
    if suffix is None:
        raise UnitError(f"{text!r} has no unit: write a quantity with one, such as {example}")
    spellings, prefixes = _UNITS[unit]
    scale = next(
        (_PREFIXES[prefix] for spelling in spellings for prefix in prefixes if suffix == prefix + spelling),
        None,
    )
    if scale is None:
        raise UnitError(f"{suffix!r} in {text!r} is not a unit of {_meaning(unit)}: write a quantity such as {example}")
    if len(number) > 40 or abs(int(number.lower().partition("e")[2] or 0)) > 30:
        raise UnitError(f"{text!r} is beyond anything this tool can mean: write a quantity such as {example}")
    value = Fraction(number.replace("_", "")) * scale
    if value < 0:
        raise UnitError(f"{text!r} is negative: {_meaning(unit)} cannot be")
    return int(value) if value.denominator == 1 else float(value)


def _meaning(unit: str) -> str:
    return {
        "FLOP/s": "a rate of computation", "byte/s": "a bandwidth", "byte": "an amount of memory", "s": "a time",
        "Hz": "a clock", "W": "a power",
    }[unit]  # fmt: skip


_COUNT = re.compile(r"\s*([+-]?\d[\d_,]*(?:\.\d+)?)\s*([kKmM]?)\s*")
# Above this a float no longer holds every whole number, so that a JSON reader and a NumPy sweep would disagree with us.
MAX_COUNT = 2**53


def parse_count(text: object, what: str = "count", minimum: int = 0) -> int:
    """A whole number of tokens, sequences or devices; `8k` is 8192 and `1M` is 1048576.

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
