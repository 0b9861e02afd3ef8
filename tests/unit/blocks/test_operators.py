"""Operators and weights of blocks that few models have, by hand."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest
from fuzz.choices import Choices
from fuzz.specs import section
from pydantic import ValidationError
from small_models import GQA, MOE, WIDTH, small_model

import roofline
from roofline.blocks import kinds
from roofline.blocks.base import kv_all_gather, merge_partial_outputs, query_all_gather
from roofline.blocks.checkpoint import layer_weights, non_layer_weights
from roofline.dtypes import parse_dtype
from roofline.graph.build import build
from roofline.predict.parameters import TWO_BYTES, count_parameters
from roofline.predict.request import prepare
from roofline.specs.deployment import Conventions, Deployment
from roofline.specs.workload import Segment, decode, prefill

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


def _drawn(role: Any, kind: str) -> Iterator[dict[str, Any]]:
    """Layers with a block of a kind whose keys are drawn, as far as they go together."""
    for seed in range(40):
        tape = random.Random(f"{kind} {seed}").randbytes(200)  # noqa: S311 - no secret
        layer = {role: section(Choices(tape), kinds(role)[kind])}
        with suppress(ValidationError):
            small_model(layer)
            yield layer


KINDS = [(role, kind) for role in ("mixer", "mlp") for kind in kinds(role) if kind != "loop_attention"]  # type: ignore[arg-type]
"""All but the one that reads the cache of a layer before it."""


@pytest.mark.every_case
@pytest.mark.parametrize(("role", "kind"), KINDS, ids=[kind for _, kind in KINDS])
def test_blocks_of_any_keys(role: str, kind: str, fp32: Any) -> None:
    """In fp32 each operator has fp32, and the parameters of operators are those of its tensors in a checkpoint."""
    layers = list(islice(_drawn(role, kind), 4))
    assert len(layers) == 4
    for layer in layers:
        for step in (decode(TOKENS, 1024), prefill(2, 512)):
            for name, operator in _operators(layer, fp32, step).items():
                assert (operator.dtypes.weight.name, operator.dtypes.activation.name) == ("fp32", "fp32"), (name, layer)
        model = small_model(layer)
        weights = [*non_layer_weights(model), *layer_weights(model, next(iter(model.layer_types.values())))]
        stored = sum((math.prod(weight.shape) + weight.bias) * max(weight.copies, 1) for weight in weights)
        assert count_parameters(model).total == stored, layer


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


def test_norms_of_the_indexer_of_blocks() -> None:
    """16 tokens: a query of 16 elements for each of 4 KV heads, and one key."""
    mixer = {**GQA, "kind": "block_sparse_gqa", "index_head_dim": 16, "index_block_size": 64, "index_topk_blocks": 4}
    operators = _operators({"mixer": {**mixer, "qk_norm": "head"}})
    norms = [operators[f"attention/indexer/{name}_norm"] for name in "qk"]
    assert [(norm.rows, norm.width) for norm in norms] == [(TOKENS * 4, 16), (TOKENS, 16)]
    assert operators["attention/indexer/k_write"].elements == TOKENS * 16


def test_gates_of_full_rank() -> None:
    """2 heads of 8 elements: one matrix to all 16, or one down to the 8 of a head and one up."""
    mixer = {"kind": "kda", "linear_num_heads": 2, "linear_head_dim": 8}
    whole, low = (_operators({"mixer": {**mixer, "full_rank_gates": full}}) for full in (True, False))
    for gate in "fg":
        one = whole[f"linear_attention/{gate}_proj"]
        down, up = (low[f"linear_attention/{gate}_{half}_proj"] for half in "ab")
        assert (one.m, one.n, one.k) == (TOKENS, 16, WIDTH)
        assert (down.m, down.n, down.k, up.m, up.n, up.k) == (TOKENS, 8, WIDTH, TOKENS, 16, 8)


def test_partial_outputs_are_merged() -> None:
    """3 sequences with 8 heads of 16 elements; 4 devices divide their keys.

    Under context parallelism (2 apart) each has all 24 heads of the sequences. Tensor-parallel devices have gathered the
    queries of all, four times as many, and keep their own sums.
    """
    vector = TWO_BYTES.dtypes("norm")

    def merged(decode_ranks: int, stride: int, *, decodes: bool = True) -> dict[str, Any]:
        site: Any = SimpleNamespace(key_ranks=4, decode_ranks=decode_ranks, context_stride=stride)
        return merge_partial_outputs(site, Segment(3, 1, 100, decode=decodes), 8, 16, vector, "_1")

    context, tensor = merged(1, 2), merged(4, 1)
    gathered, rescaled, summed = context.values()
    assert list(context) == ["core_1/lse_all_gather", "core_1/rescale", "core_1/all_reduce"]
    assert (gathered.elements, gathered.world, gathered.stride, gathered.dtypes.activation.name) == (24 * 4, 4, 2, "fp32")
    assert (rescaled.rows, rescaled.width, rescaled.parts) == (24, 16, 4)
    assert (summed.elements, summed.world, summed.stride) == (24 * 16, 4, 2)
    gathered, rescaled, summed = tensor.values()
    assert list(tensor)[-1] == "core_1/reduce_scatter"
    assert (gathered.elements, gathered.stride, rescaled.rows, summed.elements) == (96 * 4, 1, 96, 96 * 16)
    assert merged(1, 2, decodes=False) == {}


def test_keys_and_queries_are_gathered() -> None:
    """2 prompts of 30 tokens after 100: context-parallel devices gather all 260, tensor-parallel ones lack the cached 200.

    32 elements a token, sent as they are cached. Of 3 decoded tokens the queries of 8 heads of 16 on each of 4 devices.
    """
    vector = replace(TWO_BYTES.dtypes("norm"), kv=parse_dtype("fp8"))
    prompts, decoded = Segment(2, 30, 100), Segment(3, 1, 100, decode=True)

    def gathered(segment: Segment, context: int, decodes: int) -> list[tuple[int, int, int, str]]:
        site: Any = SimpleNamespace(context_ranks=context, key_ranks=context * decodes, decode_ranks=decodes, context_stride=2)
        found = {**kv_all_gather(site, segment, 32, vector, "_1"), **query_all_gather(site, segment, 8, 16, vector, "_1")}
        return [(one.elements, one.world, one.stride, one.dtypes.activation.name) for one in found.values()]  # type: ignore[attr-defined]

    assert gathered(prompts, 4, 1) == [(260 * 32, 4, 2, "fp8")]
    assert gathered(prompts, 1, 4) == [(200 * 32, 4, 1, "fp8")]
    assert gathered(replace(prompts, cached=0), 1, 4) == []
    assert gathered(decoded, 1, 4) == [(3 * 8 * 4 * 16, 4, 1, "bf16")]
    assert gathered(decoded, 4, 1) == gathered(prompts, 1, 1) == []


def test_latents_that_are_fetched() -> None:
    """Expanded prompts need latents (36 elements) of 100 cached tokens; where 60 are common to 2 sequences, of 2 x 40 + 60."""
    latent = {
        "kind": "mla", "num_attention_heads": 4, "kv_lora_rank": 32, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
        "v_head_dim": 8,
    }  # fmt: skip
    step = (Segment(2, 30, 100),)
    for shared, rows in ((0, 2 * 100), (60, 2 * 40 + 60)):
        operators = _operators({"mixer": latent}, step=step, shared_prefix=shared)
        (fetched,) = [operator for name, operator in operators.items() if "kv_fetch" in name]
        assert fetched.elements == rows * 36


def test_copies_of_experts() -> None:
    """8 experts and 4 copies on 4 devices: 3 slots on each."""
    model = small_model({"mlp": MOE})
    deployment = Deployment(data_parallel_size=4, expert_parallel_size=4, num_redundant_experts=4)
    graph = dict(build(model, deployment, TWO_BYTES, decode(TOKENS, 1024)))
    (up,) = [operator for path, (operator, _) in graph.items() if path.endswith("experts/up_proj")]
    assert (up.local_experts, up.redundant, up.experts) == (3, 4, 8)


def test_caches_that_every_device_holds() -> None:
    """Those without heads to divide: of latents, and of compressed entries."""
    assert {kind for kind, block in kinds("mixer").items() if block.cache_replicated} == {"mla", "csa"}


def test_what_blocks_say_of_themselves() -> None:
    """Of lightning attention its heads."""
    mixer = {"kind": "lightning_attention", "num_attention_heads": 12, "head_dim": 8}
    (block,) = small_model({"mixer": mixer}).mixers
    assert block.describe().endswith(", 12 heads")


def test_weights_of_alternating_updates() -> None:
    """Of 4 streams: 16 x 4 for their prediction, 4 x 4 for their correction, one of the width for each stream's router."""
    model = small_model({"norms": "both"}, altup_num_inputs=4)
    weights = {weight.key: weight.shape for weight in layer_weights(model, next(iter(model.layer_types.values())))}
    altup = {key.removeprefix("altup."): shape for key, shape in weights.items() if key.startswith("altup.")}
    assert altup == {
        "norm": (WIDTH,), "router": (4, WIDTH), "prediction": (16, 4), "correction": (4, 4), "scale": (WIDTH,),
    }  # fmt: skip


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


def test_a_second_pass_weighs_two_outputs(fp32: Any) -> None:
    """12 heads of 16 elements: a gate per head and token, and a sum of both outputs, in the format of the layer."""
    looped = {"mixer": {**GQA, "kind": "loop_attention", "sliding_window": 64}, "shared_weights": True}
    graph = dict(build(small_model({}, looped), Deployment(), fp32, decode(TOKENS, 1024)))
    (total,) = [operator for path, (operator, _) in graph.items() if path.endswith("/loop_sum")]
    (weighed,) = [operator for path, (operator, _) in graph.items() if path.endswith("/loop_weigh")]
    assert total.elements == TOKENS * 12 * 16
    assert (weighed.rows, weighed.width, weighed.spread) == (TOKENS, 12, 16)
    assert {operator.dtypes.activation.name for operator in (total, weighed)} == {"fp32"}
