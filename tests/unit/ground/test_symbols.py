"""The nomenclature: one symbol for one thing."""

from __future__ import annotations

from collections import Counter

import pytest

from roofline.symbols import TABLE


@pytest.mark.parametrize("part", ["name", "latex", "hf_key"])
def test_no_symbol_stands_for_two_things(part: str) -> None:
    """Neither in code nor on paper; and no key has two symbols."""
    counts = Counter(getattr(symbol, part) for symbol in TABLE)
    assert not [name for name, count in counts.items() if name and count > 1]
