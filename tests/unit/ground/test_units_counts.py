"""Counts of tokens, sequences and devices on the command line and in Python."""

from __future__ import annotations

import pytest

from roofline.errors import UnitError
from roofline.units import parse_count


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4096", 4096),
        ("8k", 8 * 1024),
        ("8K", 8 * 1024),
        ("1M", 1024 * 1024),
        ("0.5k", 512),
        ("1.5k", 1536),
        ("131,072", 131_072),
        ("131_072", 131_072),
        (" 7 ", 7),
        ("1e3", 1000),
        ("2.5E+5", 250_000),
        (7, 7),
        (0, 0),
    ],
)
def test_counts(text: object, value: int) -> None:
    """Plain and grouped digits; k is 1024 and M its square, because contexts are powers of two."""
    assert parse_count(text) == value


@pytest.mark.parametrize(
    "text", ["1.5", "0.3k", "1e-3", "1.5e0", "1e1000", "8kb", "8 tokens", "", "k", "-", "eight", "1.5.2", "0x10"]
)
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    """A count that is no whole number is refused."""
    with pytest.raises(UnitError, match="must be a whole number"):
        parse_count(text, "batch")


@pytest.mark.parametrize("value", [True, False, 1.5, float("inf"), None, [1], b"8"])
def test_other_types_are_refused(value: object) -> None:
    """True is not 1 sequence, and 1.5 not a whole number of them."""
    with pytest.raises(UnitError, match="batch must be a whole number"):
        parse_count(value, "batch")


def test_minimum_is_named() -> None:
    """Below the minimum the message says what was asked for, the minimum, and what came."""
    with pytest.raises(UnitError, match="batch must be at least 1, not -1"):
        parse_count("-1", "batch", minimum=1)
    with pytest.raises(UnitError, match="batch must be at least 1, not 0"):
        parse_count(0, "batch", minimum=1)
    assert parse_count(0, "context", minimum=0) == 0


def test_limit_is_what_a_float_holds_exactly() -> None:
    """2^53 is the last whole number after which floats have gaps: float(2^53 + 1) == 2^53."""
    assert float(2**53 + 1) == 2**53
    assert parse_count(2**53) == 2**53
    assert parse_count(str(2**53)) == 2**53
    for beyond in (2**53 + 1, str(2**53 + 1), 10**400):
        with pytest.raises(UnitError, match=r"at most 2\^53"):
            parse_count(beyond)


def test_huge_text_is_refused() -> None:
    """A megabyte of digits is neither parsed nor echoed whole."""
    with pytest.raises(UnitError) as caught:
        parse_count("9" * 10**6)
    assert len(str(caught.value)) < 300
