"""Numbers as text again."""

from __future__ import annotations

import pytest

from roofline import formatting
from roofline.units import parse_quantity


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (312e12, "FLOP/s", "312 TFLOP/s"),
        (2039e9, "B/s", "2.039 TB/s"),
        (1e9, "B", "1 GB"),
        (999, "B", "999 B"),
        (0.05, "s", "50 ms"),
        (2.5e-6, "s", "2.5 µs"),
        (1.0, "s", "1 s"),
        (0, "FLOP", "0 FLOP"),
    ],
)
def test_quantity(value: float, unit: str, text: str) -> None:
    """The largest decimal prefix that leaves at least 1."""
    assert formatting.quantity(value, unit) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (80 * 2**30, "80 GiB"),
        (128 * 2**10, "128 KiB"),
        (512, "512 B"),
        (1.5 * 2**40, "1.5 TiB"),
        (0, "0 B"),
        (-(2**31), "-2 GiB"),
    ],
)
def test_binary(value: float, text: str) -> None:
    """The largest binary prefix that leaves at least 1, also of what is missing (negative)."""
    assert formatting.binary(value) == text


@pytest.mark.parametrize(("unit", "symbol"), [("FLOP/s", "FLOP/s"), ("byte/s", "B/s"), ("byte", "B"), ("Hz", "Hz"), ("W", "W")])
@pytest.mark.parametrize("value", [1, 17, 312 * 10**12, 2039 * 10**9])
def test_what_is_written_can_be_read(value: int, unit: str, symbol: str) -> None:
    """Text that this module writes is text that it reads, with the same number behind it."""
    assert parse_quantity(formatting.quantity(value, symbol, 6), unit) == value
