"""Operators and weights of blocks that few models have, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from small_models import GQA, MOE, WIDTH, small_model

import roofline
from roofline.blocks.checkpoint import layer_weights
from roofline.graph.build import build
from roofline.predict.parameters import TWO_BYTES
from roofline.predict.request import prepare
from roofline.specs.deployment import Conventions, Deployment
from roofline.specs.workload import Segment, decode

TOKENS = 16


def _operators(layer: dict[str, Any], precision: Any = TWO_BYTES, step: Any = None, **conventions: Any) -> dict[str, Any]:
    """Operators of a model of one such layer, by their names in the layer."""
    deployment = Deployment(conventions=Conventions(**conventions))
    graph = build(small_model(layer), deployment, precision, step or decode(TOKENS, 1024))
    return {path.partition("/")[2]: operator for path, (operator, _) in dict(graph).items()}


def _weights(layer: dict[str, Any]) -> dict[str, Any]:
    model = small_model(layer)
    return {weight.key: weight for weight in layer_weights(model, next(iter(model.layer_types.values())))}


@pytest.fixture(scope="module")
def fp32() -> Any:
    """Everything in four bytes."""
    return prepare("gpt2", "h100-sxm", dtype="fp32").precision


def test_norms_of_parallel_blocks() -> None:
    """One norm for both, or one for each."""
    shared, own = (
        [name for name in _weights({"parallel": True, "parallel_norms": count}) if name.startswith("norm")] for count in (1, 2)
    )
    assert len(shared) == 1
    assert len(own) == 2


def test_biases_of_experts() -> None:
    """Each of 8 experts has a bias per inner element of gate and up, and one per element of the width of down."""
    with_bias, without = (_weights({"mlp": {**MOE, "bias": on}}) for on in (True, False))
    assert [with_bias[f"experts.{name}"].bias for name in ("gate", "up", "down")] == [32, 32, WIDTH]
    assert [without[f"experts.{name}"].bias for name in ("gate", "up", "down")] == [0, 0, 0]


def test_a_router_that_looks_up_chooses_nothing() -> None:
    """Experts by the token's id: the router weighs them all the same."""
    chosen, looked_up = (_operators({"mlp": {**MOE, "hash_routing": on}}) for on in (False, True))
    assert "moe/choose" in chosen
    assert "moe/choose" not in looked_up
    assert "moe/router" in looked_up


@pytest.mark.every_case
@pytest.mark.parametrize(("gate", "gates", "spread"), [("headwise", 4, 8), ("elementwise", 4 * 8, 1)])
def test_output_gates_of_latent_attention(gate: str, gates: int, spread: int) -> None:
    """4 heads of 8 elements: a gate per head for all its elements, or one for each."""
    mixer = {
        "kind": "mla", "num_attention_heads": 4, "kv_lora_rank": 32, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
        "v_head_dim": 8, "output_gate": gate,
    }  # fmt: skip
    operators = _operators({"mixer": mixer})
    assert operators["attention/gate_proj"].n == gates
    assert (operators["attention/output_gate"].width, operators["attention/output_gate"].spread) == (gates, spread)


def test_formats_inside_recurrent_mixers(fp32: Any) -> None:
    """In fp32 a projection of 3 x 2 heads of 8 elements reads 4 bytes per weight; a SiLU of them moves 4 per element twice."""
    kda = _operators({"mixer": {"kind": "kda", "linear_num_heads": 2, "linear_head_dim": 8}}, fp32)
    (projection,) = [operator for name, operator in kda.items() if name.endswith("/qkv_proj")]
    assert projection.cost().weight_bytes == 3 * 16 * WIDTH * 4
    lightning = _operators({"mixer": {"kind": "lightning_attention", "num_attention_heads": 2, "head_dim": 8}}, fp32)
    (activation,) = [
        operator for name, operator in lightning.items() if name.endswith("/activation") and not name.startswith("mlp")
    ]
    assert activation.cost().activation_bytes == 2 * TOKENS * 3 * 16 * 4


def test_norms_without_weights_and_the_window_of_compressed_attention() -> None:
    """DeepSeek-V4-Flash: queries of each head are normed without a weight; 128 tokens are kept uncompressed."""
    model = roofline.load_model("deepseek-v4-flash")
    graph = dict(build(model, Deployment(), TWO_BYTES, decode(TOKENS, 1024)))
    norms = [operator for path, (operator, _) in graph.items() if path.endswith("/q_b_norm")]
    assert norms
    assert {operator.parameters for operator in norms} == {0}
    caches = {mixer.cache() for mixer in model.mixers}
    assert {(cache.elements, cache.window) for cache in caches} == {(512, 128)}


def test_a_rotation_of_the_indexer_of_blocks() -> None:
    """Of one rotated element, of all, and of none."""
    mixer = {**GQA, "kind": "block_sparse_gqa", "index_head_dim": 16, "index_block_size": 64, "index_topk_blocks": 4}
    ropes = {
        rotary: _operators({"mixer": mixer | ({} if rotary is None else {"rotary_dim": rotary})}).get("attention/indexer/rope")
        for rotary in (0, 2, None)
    }
    assert ropes[0] is None
    assert (ropes[2].rotary_dim, ropes[None].rotary_dim) == (2, 16)


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("keys", "lengths", "reader"),
    [
        ({"attention_chunk_size": 64}, (170, 150), 170),  # both see nothing of the prefix: chunks start at 128
        ({"attention_chunk_size": 64}, (130, 100), 100),  # the second sees tokens 64 to 89, the first none
        ({"attention_chunk_size": 64}, (120, 100), 120),  # both see tokens 64 to 89
        ({"sliding_window": 64}, (120, 100), 100),  # tokens 57 to 89, and 37 to 89
    ],
)
def test_a_prefix_is_read_by_the_segment_that_sees_most_of_it(
    keys: dict[str, int], lengths: tuple[int, int], reader: int
) -> None:
    """Of the first 90 tokens, which both sequences share: by the first segment, unless the second sees more of them."""
    step = tuple(Segment(1, 1, cached, decode=True) for cached in lengths)
    operators = _operators({"mixer": {**GQA, **keys}}, step=step, shared_prefix=90)
    reads = {operator.cached: operator.prefix_reads for name, operator in operators.items() if "core" in name}
    assert reads == {cached: int(cached == reader) for cached in lengths}


def test_a_second_pass_weighs_two_outputs() -> None:
    """12 heads of 16 elements: a gate per head and token, and a sum of both outputs."""
    looped = {"mixer": {**GQA, "kind": "loop_attention", "sliding_window": 64}, "shared_weights": True}
    graph = dict(build(small_model({}, looped), Deployment(), TWO_BYTES, decode(TOKENS, 1024)))
    (total,) = [operator for path, (operator, _) in graph.items() if path.endswith("/loop_sum")]
    (weighed,) = [operator for path, (operator, _) in graph.items() if path.endswith("/loop_weigh")]
    assert total.elements == TOKENS * 12 * 16
    assert (weighed.rows, weighed.width, weighed.spread) == (TOKENS, 12, 16)
