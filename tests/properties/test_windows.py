"""Masks counted in closed form, against every pair looked at."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from roofline.operators.attention import Attention, keys_read, pairs, shared_prefix_in_window

LIGHT = settings(deadline=None, max_examples=200)
lengths = st.integers(0, 40)
windows = st.none() | st.integers(1, 50)


def _seen(query: int, key: int, window: int | None, *, chunked: bool) -> bool:
    """Whether a query sees a key (positions from 0, cached tokens first): itself and window - 1 before it.

    In chunks: itself and those before it that stand in the same chunk of `window` tokens.
    """
    if window is not None and chunked:
        return key <= query and key // window == query // window
    return key <= query and (window is None or key > query - window)


@LIGHT
@given(new=st.integers(1, 40), cached=lengths, window=windows, chunked=st.booleans())
@example(new=1, cached=0, window=1, chunked=False)
@example(new=40, cached=0, window=40, chunked=False)
@example(new=2, cached=39, window=40, chunked=False)
@example(new=1, cached=8, window=8, chunked=True)
@example(new=40, cached=7, window=8, chunked=True)
def test_pairs(new: int, cached: int, window: int | None, *, chunked: bool) -> None:
    """A double loop over queries and keys counts what the formula says."""
    queries, keys = range(cached, cached + new), range(cached + new)
    counted = sum(_seen(query, key, window, chunked=chunked) for query in queries for key in keys)
    assert pairs(new, cached, window, "causal", chunked=chunked) == counted


@LIGHT
@given(new=st.integers(1, 40), cached=lengths, window=windows, chunked=st.booleans())
def test_keys(new: int, cached: int, window: int | None, *, chunked: bool) -> None:
    """Keys that at least one query sees; with a full mask every query of a sliding layer meets each of them."""
    queries, keys = range(cached, cached + new), range(cached + new)
    counted = sum(any(_seen(query, key, window, chunked=chunked) for query in queries) for key in keys)
    assert keys_read(new, cached, window, chunked=chunked) == counted
    if not chunked:
        assert pairs(new, cached, window, "full") == new * counted


@LIGHT
@given(prefix=lengths, cached=lengths, window=windows, chunked=st.booleans())
def test_shared_prefix_in_sight(prefix: int, cached: int, window: int | None, *, chunked: bool) -> None:
    """Of the first tokens, those that are cached and that the next query sees."""
    counted = sum(_seen(cached, key, window, chunked=chunked) for key in range(min(prefix, cached)))
    assert shared_prefix_in_window(prefix, cached, window, chunked=chunked) == counted


@LIGHT
@given(new=st.integers(1, 40), cached=lengths, chunk=st.integers(1, 50))
def test_a_whole_chunk_layer_reads_what_its_cache_keeps(new: int, cached: int, chunk: int) -> None:
    """Unmasked, every query meets the new keys and those that the cache keeps: one less than a chunk before them."""
    core = Attention(
        batch=1, new=new, cached=cached, n_heads=1, n_kv_heads=1, head_dim=1, window=chunk, chunked=True, mask="full"
    )
    assert core.cost().matrix_flops == 4 * new * (new + len(range(cached)[-(chunk - 1) :] if chunk > 1 else ()))
