"""What operators compute and move beside what the examples in their docstrings show, by hand."""

from __future__ import annotations

import pytest

from roofline.operators.activation import Activation
from roofline.operators.add import Add
from roofline.operators.attention import Attention, shared_prefix_in_window, single_device_lengths
from roofline.operators.causal_conv import CausalConv
from roofline.operators.collectives import AllReduce, AllToAll, ExpertRouting
from roofline.operators.delta_rule import DeltaRule
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import GroupedGemm, expert_load_imbalance
from roofline.operators.index_scores import IndexScores
from roofline.operators.latent_attention import LatentAttention
from roofline.operators.linear_attention import LinearAttention
from roofline.operators.norm import Norm


def test_keys_of_a_shared_prefix_are_read_once() -> None:
    """Three sequences of 8 keys share 4: 3 x 4 of their own and 4, of 8 elements in 2 bytes."""
    scores = IndexScores(batch=3, new=1, cached=7, n_heads=2, head_dim=8, shared_prefix=4)
    assert scores.cost().kv_read_bytes == (3 * (8 - 4) + 4) * 8 * 2


def _latent(**options: object) -> LatentAttention:
    return LatentAttention(batch=1, n_heads=2, r_kv=16, d_nope=4, d_rope=2, d_v=3, **options)  # type: ignore[arg-type]


def test_eager_scores_cross_memory_four_times() -> None:
    """Two new tokens after three: each of 2 x 2 queries has a row of 5 scores, which is written, read, written and read."""
    fused, eager = (_latent(new=2, cached=3, eager=on).cost().activation_bytes for on in (False, True))
    assert eager - fused == 4 * (2 * 2) * 5 * 2


def test_partial_sums_of_context_parallel_devices_are_fp32() -> None:
    """On two devices with half of the keys each, each of 2 queries leaves a logarithm of 4 bytes too."""
    whole, divided = (_latent(new=1, cached=7, absorbed=True, key_ranks=ranks).cost() for ranks in (None, 2))
    assert divided.activation_bytes - whole.activation_bytes == 2 * 4
    assert divided.kv_read_bytes == whole.kv_read_bytes / 2 == 4 * (16 + 2) * 2


def test_peers_in_a_node() -> None:
    """Of a group over every second device, 8 neighbours have 4; a lone member counts as a pair."""
    assert AllReduce(elements=1, world=8).peers(8) == 8
    assert AllReduce(elements=1, world=8, stride=2).peers(8) == 4
    assert AllReduce(elements=1, world=8, stride=8).peers(8) == 2


def test_prefix_that_a_window_left() -> None:
    """A window of 128 holds the newest 127 cached tokens and the new one: after 500 cached tokens it begins at token 373."""
    assert shared_prefix_in_window(400, 500, 128) == 400 - 373


def test_one_of_several_devices_that_divide_the_keys() -> None:
    """4096 keys over 4 devices are 1024 each, of which one is the new token's."""
    assert single_device_lengths(1, 4095, None, 4) == (1, 1023)
    assert single_device_lengths(8, 4, None, 4) == (8, 0)  # 12/4 = 3 keys are fewer than the new tokens
    attention = Attention(batch=1, new=1, cached=4095, n_heads=4, n_kv_heads=2, head_dim=8, key_ranks=4).on_one_device
    assert (attention.new, attention.cached, attention.key_ranks) == (1, 1023, None)


def test_products_are_measured_by_the_number_of_their_matrices() -> None:
    """One product per head is a batched one in records and fits, a single one is not."""
    assert Gemm(m=2, n=3, k=4).measured_as == "gemm"
    assert Gemm(m=2, n=3, k=4, batch=8).measured_as == "bmm"


def test_what_has_no_weights_has_no_parameters() -> None:
    """An addition and an activation hold nothing; weights that are borrowed are held elsewhere, and read all the same."""
    assert Add(elements=8).parameters == Activation(rows=2, width=4).parameters == 0
    norm = Norm(rows=2, width=8)
    borrowed = norm.borrowing()
    assert (norm.parameters, borrowed.parameters) == (8, 0)
    assert borrowed.cost() == norm.cost()
    bare = Norm(rows=2, width=8, weight=False)
    assert bare.borrowing() is bare


def test_rows_of_the_device_with_most() -> None:
    """8 tokens choose 2 of 4 experts, of which a device has half: 8 rows on the mean; the fullest has more."""
    even = GroupedGemm(tokens=8, n=4, k=4, experts=4, top_k=2, local_experts=2)
    fullest = GroupedGemm(tokens=8, n=4, k=4, experts=4, top_k=2, local_experts=2, imbalance=2.0)
    assert even.rows == 8 * 2 * 2 / 4
    assert fullest.rows == even.rows * expert_load_imbalance(2.0, 4, 2, 2) > even.rows


@pytest.mark.every_case
@pytest.mark.parametrize(("per_channel", "decays"), [(True, 8), (False, 1)])
def test_decays_of_a_delta_rule_in_one_chunk(per_channel: bool, decays: int) -> None:
    """Of 2 tokens in a chunk 3 pairs are seen, 1 of them below the diagonal; a decay is of a head or of an element of a key.

    A decay per element scales queries and keys (2 x 2 tokens x 8 elements), one per head the pairs (3 x 3 and 1 more); to make
    them takes 9 FLOP each per token.
    """
    rule = DeltaRule(batch=1, new=2, cached=0, n_heads=1, n_key_heads=1, d_k=8, d_v=4, chunk_size=2, per_channel=per_channel)
    vector = rule._in_chunks()[1]
    assert vector == (2 * (4 * 8 + 3 * 4) + 2 * 1 * 8 * 4) + (2 * 2 * 8 if per_channel else 3 * 3 + 1) + 9 * 2 * decays
    assert rule.parameters == 1 + decays


@pytest.mark.every_case
@pytest.mark.parametrize(("selective", "pair", "token"), [(False, 1, 0), (True, 3, 9 + 3 * 4)])
def test_decays_of_linear_attention_in_one_chunk(selective: bool, pair: int, token: int) -> None:
    """2 tokens see 3 pairs. A selective decay takes 2 FLOP more per pair, and per token 9 and 3 per element of a value."""
    shape = LinearAttention(batch=1, new=2, cached=0, n_heads=1, n_groups=1, d_k=8, d_v=4, chunk_size=2, selective=selective)
    assert shape.cost().vector_flops == pair * 3 + 2 * (8 + 2 * 4) + 2 * 1 * 8 * 4 + 2 * token


def test_a_convolution_ends_in_an_activation() -> None:
    """4 multiply-adds per output, and 4 FLOP of SiLU unless it is left out."""
    with_it, without = (
        CausalConv(tokens=2, sequences=1, resumed=0, channels=3, kernel=4, **options).cost().vector_flops
        for options in ({}, {"activation": False})
    )
    assert (with_it, without) == ((2 * 4 + 4) * 6, 2 * 4 * 6)


def test_tokens_cross_only_where_their_experts_are() -> None:
    """16 devices in nodes of 8: a token's 2 experts are on 2(1 - 1/4) = 1.5 of 2 nodes, half of which are its own.

    In one node nothing crosses. Where experts are is unknown without a routing.
    """
    routing = ExpertRouting(top_k=2)
    exchange = AllToAll(elements=64, world=16, routing=routing)
    assert exchange._across(8) == 1.5 * (1 - 8 / 16)
    assert exchange._across(16) == 0
    assert AllToAll(elements=64, world=16)._across(8) == 0
