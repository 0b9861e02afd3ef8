"""Quantities with units: decimal and binary prefixes, and what is refused."""

from __future__ import annotations

import pytest

from roofline.errors import UnitError
from roofline.units import parse_quantity


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("312 TFLOP/s", "FLOP/s", 312 * 10**12),
        ("312 TFLOPS", "FLOP/s", 312 * 10**12),
        ("624 TOP/s", "FLOP/s", 624 * 10**12),
        ("1.5 PFLOP/s", "FLOP/s", 15 * 10**14),
        ("2039 GB/s", "byte/s", 2039 * 10**9),
        ("3.35 TB/s", "byte/s", 3350 * 10**9),
        ("1 GiB/s", "byte/s", 2**30),
        ("80 GB", "byte", 80 * 10**9),
        ("80 GiB", "byte", 80 * 2**30),
        ("81559 MiB", "byte", 81559 * 2**20),
        ("1 TiB", "byte", 2**40),
        ("1410 MHz", "Hz", 1410 * 10**6),
        ("400 W", "W", 400),
        ("2 s", "s", 2),
        ("80GiB", "byte", 80 * 2**30),  # the space is a matter of taste
        (" 80 GiB ", "byte", 80 * 2**30),
        ("1_000 B", "byte", 1000),
        ("1e3 B", "byte", 1000),
        ("0 B", "byte", 0),
    ],
)
def test_whole_quantities_are_exact_ints(text: str, unit: str, value: int) -> None:
    """A decimal prefix is a power of ten, a binary one a power of two, and whole numbers stay ints."""
    parsed = parse_quantity(text, unit)
    assert parsed == value
    assert isinstance(parsed, int)


@pytest.mark.parametrize(("text", "value"), [("50 ms", 0.05), ("3 us", 3e-6), ("3 µs", 3e-6), ("7 ns", 7e-9)])
def test_fractions_of_a_second(text: str, value: float) -> None:
    """Times may be fractions: milli, micro (in both spellings), nano."""
    assert parse_quantity(text, "s") == value


def test_decimal_fractions_do_not_round() -> None:
    """3.35 TB/s is exactly 3,350,000,000,000 B/s although 3.35 is no binary fraction."""
    assert parse_quantity("3.35 TB/s", "byte/s") == 335 * 10**10
    assert parse_quantity("0.1 GB", "byte") == 10**8


def test_gigabyte_and_gibibyte_differ_by_7_percent() -> None:
    """GB is never read as GiB: 2^30 is 1.073741824 times 10^9."""
    assert parse_quantity("1 GiB", "byte") - parse_quantity("1 GB", "byte") == 73_741_824


@pytest.mark.parametrize("naked", ["2039", "2039.5", "1e12", " 80 "])
def test_naked_text_is_refused(naked: str) -> None:
    """A number without a unit is refused, and the message shows how to write one."""
    with pytest.raises(UnitError, match=r'has no unit.*"2039 GB/s"'):
        parse_quantity(naked, "byte/s")


@pytest.mark.parametrize("naked", [80, 80.0, True, None, [80]])
def test_naked_number_is_refused(naked: object) -> None:
    """A Python number has no unit either."""
    with pytest.raises(UnitError, match="has no unit"):
        parse_quantity(naked, "byte")


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("312 TFLOP/s", "byte/s"),
        ("2039 GB/s", "byte"),
        ("80 GB", "byte/s"),
        ("50 ms", "Hz"),
        ("80 Gb", "byte"),  # bits
        ("400 Gbit/s", "byte/s"),
        ("1 mB", "byte"),  # a thousandth of a byte is no amount of memory
        ("1 GiFLOP/s", "FLOP/s"),  # rates of computation have no binary prefixes
        ("1 Ts", "s"),
        ("1 tb/s", "byte/s"),
    ],
)
def test_wrong_unit_is_refused(text: str, unit: str) -> None:
    """Another quantity's unit, bits for bytes, or a prefix without sense is refused."""
    with pytest.raises(UnitError, match="is not a unit of"):
        parse_quantity(text, unit)


@pytest.mark.parametrize("text", ["-1 GB", "-0.5 GB"])
def test_negative_is_refused(text: str) -> None:
    """No quantity here can be negative."""
    with pytest.raises(UnitError, match="negative"):
        parse_quantity(text, "byte")


@pytest.mark.parametrize("text", ["1e999999999 B", "1e31 B", "1e-31 B", "9" * 41 + " B"])
def test_huge_exponents_are_refused_at_once(text: str) -> None:
    """10^999999999 would fill memory as an exact fraction: it is refused before it is computed."""
    with pytest.raises(UnitError, match="beyond anything"):
        parse_quantity(text, "byte")


@pytest.mark.parametrize(
    "text", ["", "GB", "eighty GB", "80 GB extra words", "0x10 GB", "nan GB", "inf GB", "1.2.3 GB", "1e GB"]
)
def test_what_is_no_number_is_refused(text: str) -> None:
    """Text that is no number with a unit is an error, never a guess."""
    with pytest.raises(UnitError):
        parse_quantity(text, "byte")
