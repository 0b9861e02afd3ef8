"""Sparse and compressed attention: closed forms against counting one by one."""

from __future__ import annotations

import numpy as np
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.blocks.base import Cache
from roofline.formulas.symbolic import evaluate
from roofline.numeric import floor_div
from roofline.operators.attention import Mask
from roofline.operators.compress import Compress
from roofline.operators.compressed_attention import CompressedAttention
from roofline.operators.index_scores import IndexScores
from roofline.operators.latent_attention import LatentAttention
from roofline.operators.sparse_counts import entries, entries_read, entry_pairs

TOKENS, NEW = st.integers(0, 400), st.integers(1, 60)
GROUP, CHOSEN = st.none() | st.integers(1, 130), st.none() | st.integers(1, 90)
MASK = st.sampled_from(("causal", "full"))


def visible(position: int, group: int | None) -> list[range]:
    """The tokens of each entry that the query at a position (from 0) may see: those that end at it or before."""
    size = group or 1
    return [range(end - size, end) for end in range(size, position + 2, size)]


def seen(new: int, cached: int, group: int | None, chosen: int | None) -> int:
    """Pairs, one query and one entry at a time; of more than `chosen` entries a query takes that many."""
    found = 0
    for position in range(cached, cached + new):
        for nth, tokens in enumerate(visible(position, group)):
            assert tokens[-1] <= position
            found += chosen is None or nth < chosen
    return found


@given(new=NEW, cached=TOKENS, group=GROUP, chosen=CHOSEN)
def test_pairs(new: int, cached: int, group: int | None, chosen: int | None) -> None:
    """Sum over queries of min(visible entries, chosen), for prompts, chunks and decode."""
    assert entry_pairs(new, cached, group, chosen, "causal") == seen(new, cached, group, chosen)


@given(new=NEW, cached=TOKENS, group=GROUP, chosen=CHOSEN)
def test_full_pairs(new: int, cached: int, group: int | None, chosen: int | None) -> None:
    """Every query meets all entries that the last one sees, chosen or not."""
    assert entry_pairs(new, cached, group, chosen, "full") == new * len(visible(cached + new - 1, group))


@given(cached=TOKENS, first=NEW, second=NEW, group=GROUP, chosen=CHOSEN)
def test_chunks_add_up(cached: int, first: int, second: int, group: int | None, chosen: int | None) -> None:
    """A prompt in two chunks has the pairs of the prompt in one."""
    whole = entry_pairs(first + second, cached, group, chosen, "causal")
    assert whole == sum(
        entry_pairs(new, before, group, chosen, "causal") for new, before in ((first, cached), (second, cached + first))
    )


@settings(deadline=None)
@given(new=NEW, cached=TOKENS, group=st.integers(1, 130), chosen=CHOSEN, mask=MASK)
def test_tongues(new: int, cached: int, group: int, chosen: int | None, mask: Mask) -> None:
    """Arrays and symbols count as ints do; a symbol for one new token is not taken for the number 1."""
    wanted = entry_pairs(new, cached, group, chosen, mask)
    arrays = [None if value is None else np.array([float(value)]) for value in (new, cached, group, chosen)]
    assert entry_pairs(*arrays, mask)[0] == wanted
    symbols = sympy.symbols("new cached group chosen", nonnegative=True, integer=True)
    given_symbols = [
        None if value is None else symbol for symbol, value in zip(symbols, (new, cached, group, chosen), strict=True)
    ]
    values = {symbol: value for symbol, value in zip(symbols, (new, cached, group, chosen), strict=True) if value is not None}
    assert evaluate(entry_pairs(*given_symbols, mask), values) == wanted


@given(cached=TOKENS, group=GROUP, chosen=CHOSEN)
def test_one_query_reads_what_it_sees(cached: int, group: int | None, chosen: int | None) -> None:
    """At decode keys read are keys seen."""
    assert entries_read(1, cached, group, chosen) == entry_pairs(1, cached, group, chosen, "causal")


@given(new=NEW, cached=TOKENS, group=GROUP, chosen=CHOSEN)
def test_no_more_is_read_than_there_is(new: int, cached: int, group: int | None, chosen: int | None) -> None:
    """At least what the last query sees, at most all entries."""
    least = len(visible(cached + new - 1, group))
    read = entries_read(new, cached, group, chosen)
    assert (least if chosen is None else min(least, chosen)) <= read <= entries(cached + new, group)


@given(tokens=TOKENS, group=st.integers(1, 130))
def test_what_is_kept(tokens: int, group: int) -> None:
    """Entries are whole groups; a step makes those that it completes, so that all steps make what is kept."""
    assert Cache(1, ratio=group).retained(tokens) == floor_div(tokens, group) == tokens // group
    steps = [Compress(batch=1, new=1, cached=before, ratio=group, width=1) for before in range(tokens)]
    assert sum(step.made for step in steps) == tokens // group


DIMENSIONS = {"batch": 2, "n_heads": 3, "r_kv": 16, "d_nope": 8, "d_rope": 4, "d_v": 8}


@given(new=NEW, cached=TOKENS, more=st.integers(0, 100))
def test_choice_of_all_is_dense(new: int, cached: int, more: int) -> None:
    """With as many chosen as there are tokens, sparse attention costs what dense attention does."""
    dense = LatentAttention(new=new, cached=cached, absorbed=True, **DIMENSIONS)
    sparse = LatentAttention(new=new, cached=cached, absorbed=True, chosen=new + cached + more, **DIMENSIONS)
    assert sparse.cost() == dense.cost()


@given(new=NEW, cached=TOKENS, chosen=st.integers(1, 90))
def test_masked_dense_forms_ignore_the_choice(new: int, cached: int, chosen: int) -> None:
    """Expanded, the choice is a mask over dense attention; under the full mask it is nothing."""
    for structure in ({"absorbed": False}, {"absorbed": True, "mask": "full"}):
        dense = LatentAttention(new=new, cached=cached, **structure, **DIMENSIONS)
        assert LatentAttention(new=new, cached=cached, chosen=chosen, **structure, **DIMENSIONS).cost() == dense.cost()


@given(cached=st.integers(0, 5000), window=st.integers(1, 200), group=st.integers(1, 130), chosen=CHOSEN)
def test_decode_of_compressed_attention(cached: int, window: int, group: int, chosen: int | None) -> None:
    """min(s, w) tokens and min(floor(s/r), k) entries, of 8 elements in 3 heads for one query."""
    core = CompressedAttention(
        batch=1, new=1, cached=cached, n_heads=3, head_dim=8, window=window, ratio=group, chosen=chosen
    ).cost()
    compressed = (cached + 1) // group
    keys = min(cached + 1, window) + (compressed if chosen is None else min(compressed, chosen))
    assert core.matrix_flops == keys * 3 * (2 * 8 + 2 * 8)
    assert core.kv_read_bytes == keys * 8 * 2


@given(new=NEW, cached=TOKENS, group=GROUP)
def test_indexer_scores_every_visible_key(new: int, cached: int, group: int | None) -> None:
    """Each pair: 5 heads x 2 x (16 + 1 for its weight); one score."""
    scores = IndexScores(batch=3, new=new, cached=cached, n_heads=5, head_dim=16, ratio=group)
    pairs = 3 * seen(new, cached, group, None)
    assert scores.scores == pairs
    assert scores.cost().matrix_flops == pairs * 5 * 2 * 17
