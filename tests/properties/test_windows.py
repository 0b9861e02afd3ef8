"""Masks counted in closed form, against every pair looked at."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from roofline.operators.attention import keys_read, pairs, shared_in_sight

LIGHT = settings(deadline=None, max_examples=200)
lengths = st.integers(0, 40)
windows = st.none() | st.integers(1, 50)


def _seen(query: int, key: int, window: int | None) -> bool:
    """Whether a query sees a key (positions from 0, cached tokens first): itself and window - 1 before it."""
    return key <= query and (window is None or key > query - window)


@LIGHT
@given(new=st.integers(1, 40), cached=lengths, window=windows)
@example(new=1, cached=0, window=1)
@example(new=40, cached=0, window=40)
@example(new=2, cached=39, window=40)
def test_pairs(new: int, cached: int, window: int | None) -> None:
    """A double loop over queries and keys counts what the formula says."""
    counted = sum(_seen(query, key, window) for query in range(cached, cached + new) for key in range(cached + new))
    assert pairs(new, cached, window, "causal") == counted


@LIGHT
@given(new=st.integers(1, 40), cached=lengths, window=windows)
def test_keys(new: int, cached: int, window: int | None) -> None:
    """Keys that at least one query sees; with a full mask every query meets each of them."""
    counted = sum(any(_seen(query, key, window) for query in range(cached, cached + new)) for key in range(cached + new))
    assert keys_read(new, cached, window) == counted
    assert pairs(new, cached, window, "full") == new * counted


@LIGHT
@given(prefix=lengths, cached=lengths, window=windows)
def test_shared_prefix_in_sight(prefix: int, cached: int, window: int | None) -> None:
    """Of the first tokens, those that are cached and that the next query sees."""
    counted = sum(_seen(cached, key, window) for key in range(min(prefix, cached)))
    assert shared_in_sight(prefix, cached, window) == counted
