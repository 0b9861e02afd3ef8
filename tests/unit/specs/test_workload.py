"""Steps: segments of sequences with new and with cached tokens."""

from __future__ import annotations

import pytest

from roofline.errors import InputError
from roofline.specs.workload import Segment, decode, parse_segments, prefill, sequences, tokens


def test_segments_are_read_and_written() -> None:
    """COUNTxNEW@CACHED, with 4k = 4096; a segment of one new token is decode."""
    step = parse_segments("32x1@4k, 1x512@0")
    assert step == (Segment(32, 1, 4096, decode=True), Segment(1, 512, 0, decode=False))
    assert ",".join(map(str, step)) == "32x1@4096,1x512@0"


def test_totals() -> None:
    """Tokens are counts times new tokens; sequences are the counts."""
    step = parse_segments("32x1@4k,2x512@0")
    assert tokens(step) == 32 * 1 + 2 * 512
    assert sequences(step) == 34


def test_prefill_and_decode_are_segments() -> None:
    """Prefill is (B, p, 0), decode (B, 1, s)."""
    assert prefill(4, 100) == (Segment(4, 100, 0),)
    assert decode(4, 100) == (Segment(4, 1, 100, decode=True),)


@pytest.mark.parametrize(
    "text", ["", ",", "32", "32x1", "x1@2", "0x1@2", "1x0@2", "1x1@-1", "1x1@2@3", "axb@c", "1.5x1@2", "1x1@2;1x1@2"]
)
def test_wrong_segments(text: str) -> None:
    """What is no segment is refused; counts and new tokens start at 1, cached tokens at 0."""
    with pytest.raises(InputError):
        parse_segments(text)
