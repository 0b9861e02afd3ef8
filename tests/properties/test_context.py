"""Attention that devices share: shares add up, whatever the lengths, the mask and the number of devices."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.operators.attention import Attention, single_device_lengths
from roofline.operators.base import Operator
from roofline.operators.latent_attention import LatentAttention

SIZES = st.integers(1, 16)


def operators(**more: Any) -> list[Operator]:
    return [
        Attention(n_heads=8, n_kv_heads=2, head_dim=16, **more),
        LatentAttention(n_heads=8, r_kv=32, d_nope=16, d_rope=8, d_v=16, absorbed=True, **more),
        LatentAttention(n_heads=8, r_kv=32, d_nope=16, d_rope=8, d_v=16, **more),
    ]


dimensions = st.fixed_dictionaries(
    {
        "batch": st.integers(1, 64),
        "new": st.integers(1, 5000),
        "cached": st.integers(0, 5000),
        "mask": st.sampled_from(["causal", "full"]),
        "eager": st.booleans(),
    }
)


@pytest.mark.slow
@given(dimensions, SIZES)
def test_shares_add_up(given_: dict[str, Any], ranks: int) -> None:
    """FLOP of products; of keys the bytes too, of queries no fewer than every key for each device."""
    every = zip(operators(**given_), operators(**given_, query_ranks=ranks), operators(**given_, key_ranks=ranks), strict=True)
    for whole, queries, keys in every:
        one, of_queries, of_keys = whole.cost(), queries.cost(), keys.cost()
        assert ranks * of_queries.matrix_flops == pytest.approx(one.matrix_flops, rel=1e-12)
        assert ranks * of_keys.matrix_flops == pytest.approx(one.matrix_flops, rel=1e-12)
        assert ranks * of_queries.vector_flops == pytest.approx(one.vector_flops, rel=1e-12)
        assert of_queries.kv_read_bytes == one.kv_read_bytes
        assert ranks * of_keys.kv_read_bytes == pytest.approx(one.kv_read_bytes, rel=1e-12)
        assert of_queries.activation_bytes <= one.activation_bytes


@given(st.integers(1, 100), st.integers(0, 100), st.integers(1, 8))
def test_timed_by_as_many_pairs(pieces: int, cached: int, ranks: int) -> None:
    """The attention that stands for a prompt's share has its pairs, exactly; that for a decode's has its keys."""
    new = pieces * 2 * ranks
    kept, before = single_device_lengths(new, cached, ranks, None)
    assert ranks * (kept * before + kept * (kept + 1) / 2) == new * cached + new * (new + 1) / 2
    assert sum(single_device_lengths(1, ranks * 7 - 1, None, ranks)) == 7
