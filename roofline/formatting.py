"""Numbers for people: one function for each kind of quantity. Pages run a translation of this module.

The terminal, pages, lessons, worksheets and messages call these functions. Numbers are rounded before their form is chosen,
so that nothing prints as "1e+03" or "1000 ms".
"""

from __future__ import annotations

ABSENT = "–"
"""Stands for a value that there is not."""

_PREFIXES = (
    ("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0),
)  # fmt: skip
_SMALL_PREFIXES = (("", 1.0), ("m", 1e-3), ("µ", 1e-6), ("n", 1e-9))
_BINARY_PREFIXES = (
    ("PiB", 2.0**50), ("TiB", 2.0**40), ("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10), ("B", 1.0),
)  # fmt: skip
_HALF = 0.5


def number(value: float, digits: int = 4) -> str:
    """Return a plain number to `digits` significant digits; numbers from 1,000 on with all digits before the point, in groups.

    >>> number(3130.4), number(0.5), number(1234567), number(31.25), number(999.96)
    ('3,130', '0.5', '1,234,567', '31.25', '1,000')
    >>> number(999.96, 3), number(0.000012345)
    ('1,000', '1.234e-05')
    """
    text = f"{value:.{digits}g}"
    return f"{value:,.0f}" if abs(float(text)) >= 1000 else text


def plural(value: float, noun: str) -> str:
    """Return a number with its noun, which gets an "s" unless the number is 1.

    >>> plural(1, "sequence"), plural(2048, "token"), plural(0.5, "request")
    ('1 sequence', '2,048 tokens', '0.5 requests')
    """
    text = f"{value:,.0f}" if value == int(value) else number(value)
    return f"{text} {noun}" if value == 1 else f"{text} {noun}s"


def quantity(value: float, unit: str, digits: int = 4) -> str:
    """Return a quantity with the decimal prefix that keeps its number below 1,000.

    Seconds have prefixes below one only.

    Args:
        value: in `unit`, without a prefix.
        unit: such as "B/s", "FLOP" or "s".
        digits: significant digits.

    >>> quantity(2.039e12, "B/s"), quantity(0.00763, "s"), quantity(0, "FLOP"), quantity(3600, "s")
    ('2.039 TB/s', '7.63 ms', '0 FLOP', '3,600 s')
    >>> quantity(0.99996, "s", 3), quantity(0.0997, "s", 2), quantity(0.1249, "s", 2), quantity(999.6e9, "B", 3)
    ('1 s', '100 ms', '125 ms', '1 TB')
    """
    if value == 0:
        return f"0 {unit}"
    prefixes = _SMALL_PREFIXES if unit == "s" else _PREFIXES
    prefix, scale = next(((name, size) for name, size in prefixes if _reaches(value, size, digits)), prefixes[-1])
    text = f"{value / scale:.{digits}g}"
    scaled = float(text)
    if abs(scaled) >= 1000 or "e+" in text:  # as many digits before the point, or more
        text = f"{value / scale:,.0f}"
    return f"{text} {prefix}{unit}"


def _reaches(value: float, size: float, digits: int) -> bool:
    """Whether a value, rounded, is at least one of a unit: 999.96 ms to three digits are 1 s."""
    half: float = _HALF * 0.1**digits
    return abs(value) >= size * (1 - half)


_SPELLED = {"FLOP/s": "FLOP/s", "bytes/s": "B/s", "FLOP": "FLOP", "bytes": "B", "s": "s"}
"""Units of formulas, and how they are written after a prefix."""
_COUNTED = ("FLOP", "bytes")
_LONG = 1e5


def in_formula(value: float, unit: str) -> str:
    """Return a number as people write it in a formula, with its unit; "" where the number alone is written.

    Rates, prices and times have a unit, and counts of bytes and FLOP from 100,000 on.

    >>> in_formula(312e12, "FLOP/s"), in_formula(15009857536, "bytes"), in_formula(2, "bytes"), in_formula(4096, "elements")
    ('312 TFLOP/s', '15.01 GB', '', '')
    """
    if unit.endswith("/h"):
        return f"{money(value)} {unit}"
    if unit not in _SPELLED or (unit in _COUNTED and abs(value) < _LONG):
        return ""
    return quantity(value, _SPELLED[unit])


def binary(value: float, digits: int = 4) -> str:
    """Return bytes with a binary prefix, as drivers and engines print them.

    >>> binary(85899345920), binary(131072), binary(0)
    ('80 GiB', '128 KiB', '0 B')
    """
    unit, size = next(((name, size) for name, size in _BINARY_PREFIXES if abs(value) >= size), ("B", 1.0))
    scaled = value / size
    return f"{scaled:.{digits}g} {unit}" if abs(scaled) < 10**digits else f"{scaled:,.0f} {unit}"


def seconds(value: float | None, digits: int = 3) -> str:
    """Return a time in seconds with a prefix; a dash for None.

    >>> seconds(0.0123456), seconds(None)
    ('12.3 ms', '–')
    """
    return ABSENT if value is None else quantity(value, "s", digits)


def about(value: float, unit: str = "s") -> str:
    """Return an estimated quantity with as many digits as an estimate deserves: two, or three where the first is a 1.

    >>> about(0.0681), about(0.01214), about(2e12, "FLOP/s"), about(15e-3)
    ('68 ms', '12.1 ms', '2.0 TFLOP/s', '15.0 ms')
    """
    return fixed(value, unit, about_digits(value))


def fixed(value: float, unit: str, digits: int) -> str:
    """Return a quantity as `quantity` does, but with all its significant digits, zeros too, as columns of numbers have them.

    >>> fixed(0.0048, "s", 3), fixed(0.05, "s", 3), fixed(0.5, "s", 3), fixed(0, "s", 3)
    ('4.80 ms', '50.0 ms', '500 ms', '0 s')
    """
    text, prefixed = quantity(value, unit, digits).split(" ")
    missing = digits - len(text.replace(".", "").replace(",", ""))
    if missing > 0 and value != 0:
        text += ("" if "." in text else ".") + "0" * missing
    return f"{text} {prefixed}"


def about_digits(value: float) -> int:
    """Return the number of significant digits of an estimate: two, or three where the first is a 1.

    >>> about_digits(0.0681), about_digits(0.0121), about_digits(0)
    (2, 3, 2)
    """
    return 3 if f"{abs(value):.1e}".startswith("1") else 2


def about_number(value: float) -> str:
    """Return an estimated number without a unit, in groups of three digits.

    >>> about_number(15042), about_number(82.4), about_number(0.0317)
    ('15,000', '82', '0.032')
    """
    return number(float(f"{value:.{about_digits(value) - 1}e}"))


def in_cell(value: float) -> str:
    """Return a number for a cell of a map: two significant digits, zeros too, and no decimals from 10 on.

    >>> in_cell(123.4), in_cell(12.1), in_cell(9.96), in_cell(4), in_cell(0.997), in_cell(0.7), in_cell(0.0968)
    ('123', '12', '10', '4.0', '1.0', '0.70', '0.097')
    """
    if value >= 9.95:
        return f"{value:,.0f}"
    if value >= 0.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.0995 else f"{value:.2g}"


def about_range(low: float, high: float) -> str:
    """Return an interval of estimated times in seconds, with its unit once where both ends have the same.

    >>> about_range(0.0562, 0.0941), about_range(0.0000005, 0.12)
    ('56 to 94 ms', '500 ns to 120 ms')
    """
    first, last = about(low), about(high)
    unit = last.split(" ")[1]
    return f"{first.removesuffix(' ' + unit)} to {last}"


def duration(value: float, digits: int = 3) -> str:
    """Return how long something lasts: in minutes, hours or days from two of each on, else as `seconds` does.

    >>> duration(90), duration(5400), duration(43200), duration(3 * 86400)
    ('90 s', '90 min', '12 h', '3 days')
    """
    if value >= 2 * 86400:
        return f"{number(value / 86400, digits)} days"
    if value >= 2 * 3600:
        return f"{number(value / 3600, digits)} h"
    return f"{number(value / 60, digits)} min" if value >= 120 else quantity(value, "s", digits)


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """Return an interval of times in seconds, in brackets after a space; "" where an end is None.

    >>> interval(0.0123, 0.5), interval(None, 1.0)
    (' (12.3 ms to 500 ms)', '')
    """
    return "" if low is None or high is None else f" ({seconds(low, digits)} to {seconds(high, digits)})"


def percent(share: float | None, decimals: int | None = None, *, digits: int = 3, sign: bool = False) -> str:
    """Return a share in percent; a dash for None.

    Args:
        share: a fraction: 0.5 is 50 %.
        decimals: places after the point; None: as many as give `digits` significant digits.
        digits: significant digits, where `decimals` is None.
        sign: whether positive shares have a plus.

    >>> percent(0.95), percent(0.99983, digits=4), percent(0.106, 1), percent(0.05, 0, sign=True), percent(None)
    ('95 %', '99.98 %', '10.6 %', '+5 %', '–')
    """
    if share is None:
        return ABSENT
    value = share * 100
    plus = "+" if sign and value >= 0 else ""
    return f"{plus}{number(value, digits) if decimals is None else f'{value:,.{decimals}f}'} %"


def about_percent(share: float | None, *, sign: bool = False) -> str:
    """Return a measured share or error in percent: one decimal below 10 %, none from there on; a dash for None.

    >>> about_percent(0.0744), about_percent(0.924), about_percent(-0.0009, sign=True), about_percent(0.0999)
    ('7.4 %', '92 %', '-0.1 %', '10 %')
    """
    return percent(share, 1 if share is not None and abs(share) < 0.0995 else 0, sign=sign)


def money(value: float) -> str:
    """Return an amount of money without its currency: two decimals; three significant digits below 1.

    >>> money(8.85), money(12345.6), money(0.03599), money(0.1649)
    ('8.85', '12,345.60', '0.036', '0.165')
    """
    return f"{value:.3g}" if 0 < abs(value) < 1 else f"{value:,.2f}"
