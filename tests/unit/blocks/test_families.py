"""What families of attention and experts cost beyond their FLOP and parameters, by hand: cache, vector work, collectives."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from roofline.blocks.model import Model
from roofline.cost import ZERO, Cost
from roofline.errors import InputError
from roofline.graph.build import build
from roofline.graph.sharding import caches, check_parallel
from roofline.operators.base import Operator
from roofline.predict.parameters import TWO_BYTES
from roofline.specs.deployment import Deployment
from roofline.specs.workload import Step, decode, prefill

D, HEADS = 64, {"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16}
MLP = {"kind": "gated_mlp", "intermediate_size": 96}
EXPERTS = {
    "kind": "moe",
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "shared_intermediate_size": 40,
}


def model(layer: dict[str, Any], *others: dict[str, Any], **keys: Any) -> Model:
    """One layer of each type given."""
    types = {f"type{index}": found for index, found in enumerate((layer, *others))}
    return Model.model_validate(
        {
            "schema_version": 1,
            "name": "small",
            "title": "Small",
            "hidden_size": D,
            "vocab_size": 128,
            "max_position_embeddings": 4096,
            "tie_word_embeddings": False,
            "layer_types": types,
            "layers": [{"pattern": list(types)}],
            "sources": {},
            **keys,
        }
    )


def gqa(**keys: Any) -> dict[str, Any]:
    return {"mixer": {"kind": "gqa", **HEADS, **keys}, "mlp": MLP}


def operators(found: Model, step: Step, **sizes: int) -> dict[str, Operator]:
    graph = build(found, Deployment(**sizes), TWO_BYTES, step)
    return {path.removeprefix("layers/"): op for path, (op, _) in graph.items()}


def under(found: dict[str, Operator], *prefixes: str) -> Cost:
    return sum((op.cost() for path, op in found.items() if path.startswith(prefixes)), start=ZERO)


def test_values_of_another_width() -> None:
    """A token's cache is 2 heads x (16 + 10), written once; 33 of them are read; outputs are 8 x 10 wide."""
    narrow = model(gqa(v_head_dim=10))
    found = operators(narrow, decode(3, 32))
    assert caches(narrow, Deployment())[0][0].elements == 2 * 26
    assert found["attention/kv_write"].cost().kv_write_bytes == 3 * 2 * 26 * 2
    assert found["attention/core"].cost().kv_read_bytes == 3 * 33 * 2 * 26 * 2
    assert found["attention/o_proj"].parameters == 8 * 10 * D


def test_keys_as_values_save_a_projection_and_no_cache() -> None:
    """The projection is queries and keys alone; cache and reads are those of the layer that projects its values."""
    doubled, plain = (operators(model(gqa(attention_k_eq_v=same)), decode(3, 32)) for same in (True, False))
    assert doubled["attention/qkv_proj"].parameters == (8 + 2) * 16 * D
    for path in ("attention/core", "attention/kv_write"):
        assert doubled[path].cost() == plain[path].cost()


def test_a_shared_cache_is_read_by_each_layer_and_kept_once() -> None:
    """Of two layers the second projects, rotates and normalises queries alone, writes nothing, and reads all 33 tokens."""
    shared = model(gqa(qk_norm="head", v_norm=True), gqa(qk_norm="head", v_norm=True, kv_shared=True))
    found = operators(shared, decode(3, 32))
    assert [count for _, count in caches(shared, Deployment())] == [1]
    own, borrowed = (under(found, f"type{index}/attention") for index in (0, 1))
    assert own.kv_read_bytes == borrowed.kv_read_bytes == 3 * 33 * 2 * 2 * 16 * 2
    assert (own.kv_write_bytes, borrowed.kv_write_bytes) == (3 * 2 * 2 * 16 * 2, 0)
    assert "type1/attention/k_norm" not in found
    assert "type1/attention/v_norm" not in found
    assert found["type1/attention/q_proj"].parameters == 8 * 16 * D
    assert found["type0/attention/rope"].cost().vector_flops == 3 * 3 * (8 + 2) * 16
    assert found["type1/attention/rope"].cost().vector_flops == 3 * 3 * 8 * 16


def test_a_shared_cache_is_not_cut_over_stages() -> None:
    """The layer that it belongs to may be on another stage."""
    with pytest.raises(InputError, match="pipeline-parallel size 1"):
        check_parallel(model(gqa(), gqa(kv_shared=True)), Deployment(pipeline_parallel_size=2))


def test_chunks() -> None:
    """In chunks of 10: token 25 sees 20 to 25; 25 tokens have 10*11/2 + 10*11/2 + 5*6/2 pairs; the cache keeps 10."""
    chunks = model(gqa(attention_chunk_size=10))
    one, whole = operators(chunks, decode(3, 25)), operators(chunks, prefill(3, 25))
    assert one["attention/core"].cost().kv_read_bytes == 3 * 6 * 2 * 2 * 16 * 2
    assert one["attention/core"].cost().matrix_flops == 3 * 6 * 4 * 8 * 16
    assert whole["attention/core"].cost().matrix_flops == 3 * (55 + 55 + 15) * 4 * 8 * 16
    assert caches(chunks, Deployment())[0][0].window == 10


@pytest.mark.parametrize(("kind", "weights", "flop"), [("elementwise", 8 * 16, 5 * 8 * 16), ("headwise", 8, 4 * 8 + 8 * 16)])
def test_gates_on_the_output(kind: str, weights: int, flop: int) -> None:
    """A sigmoid is 4 FLOP, a product 1: a gate an element, or a gate a head for the 16 elements of it."""
    gated, plain = (operators(model(gqa(output_gate=gate)), decode(3, 32)) for gate in (kind, "none"))
    assert gated["attention/output_gate"].cost().vector_flops == 3 * flop
    held = [sum(op.parameters for op in found.values()) for found in (gated, plain)]
    assert held[0] - held[1] == weights * D


def test_norms_without_a_weight() -> None:
    """Square, accumulate, scale: 3 FLOP an element and nothing held."""
    found = operators(model(gqa(qk_norm="l2")), decode(3, 32))
    assert found["attention/q_norm"].cost() == Cost(vector_flops=3 * 3 * 8 * 16, activation_bytes=2 * 3 * 8 * 16 * 2)
    assert found["attention/q_norm"].parameters == 0


def test_one_matrix_in_the_place_of_a_block() -> None:
    """64 x 64 weights, and a bias; whole on each of two devices, so that no all-reduce follows, and nothing is cached."""
    linear = model({"mixer": {"kind": "linear_mixer", "bias": True}, "mlp": {"kind": "linear_mlp"}})
    for sizes in ({}, {"tensor_parallel_size": 2}):
        found = operators(linear, decode(3, 32), **sizes)
        assert found["attention/linear"].parameters == D * D + D
        assert found["mlp/linear"].cost().matrix_flops == 2 * 3 * D * D
        assert [path for path in found if "all_reduce" in path] == (["embedding/all_reduce"] if sizes else [])
    assert caches(linear, Deployment()) == []


def test_latent_experts_exchange_latents() -> None:
    """Over two replicas a token's 2 copies of 20 elements go out and come back, not of 64; 1 of 2 leaves the device."""
    latent = model({"mixer": {"kind": "gqa", **HEADS}, "mlp": EXPERTS | {"moe_latent_size": 20, "gated": False}})
    found = operators(latent, decode(6, 32), data_parallel_size=2, expert_parallel_size=2)
    assert under(found, "moe/dispatch").link_bytes == 3 * 2 * 20 * 2 / 2
    assert found["moe/latent/down_proj"].cost().matrix_flops == 2 * 3 * 64 * 20
    assert found["moe/experts/up_proj"].parameters == 4 * 20 * 24
    assert found["moe/shared/up_proj"].parameters == 64 * 40


def test_norms_of_branches_want_whole_outputs() -> None:
    """Side by side, routed experts and dense MLP are summed over two devices each before their norms: one reduction more."""
    beside = [{"mixer": {"kind": "gqa", **HEADS}, "mlp": EXPERTS | {"branch_norms": norms}} for norms in (True, False)]
    two, one = (operators(model(layer), decode(3, 32), tensor_parallel_size=2) for layer in beside)
    stream = 3 * D * 2
    assert under(two, "moe").link_bytes - under(one, "moe").link_bytes == stream * 2 * (2 - 1) / 2
    assert sum(op.parameters for op in two.values()) - sum(op.parameters for op in one.values()) == 3 * D


def test_inputs_of_the_layers_travel_with_the_stream() -> None:
    """Two layers with inputs of 10 elements: 64 + 20 elements a token to the next stage."""
    layered = model(gqa(), gqa(qkv_bias=True), hidden_size_per_layer_input=10)
    from roofline.graph.sharding import stages

    first = build(layered, Deployment(pipeline_parallel_size=2), TWO_BYTES, decode(3, 32), stages(layered, 2)[0])
    assert first["send"][0].cost().link_bytes == 3 * (64 + 20) * 2


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"sliding_window": 8, "attention_chunk_size": 8}, "exclude each other"),
        ({"attention_k_eq_v": True, "v_head_dim": 10}, "v_head_dim is 10, head_dim 16"),
        ({"qk_norm_function": "layernorm"}, "want a qk_norm"),
        ({"qk_norm": "l2", "qk_norm_bias": True}, "has no weight"),
    ],
)
def test_attention_that_cannot_be(keys: dict[str, Any], message: str) -> None:
    """What excludes each other is refused, with the reason."""
    with pytest.raises(ValidationError, match=message):
        model(gqa(**keys))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"norm": {"bias": True, "weight": False}}, "a norm with a bias has a weight"),
        ({"vocab_size_per_layer_input": 9}, "hidden_size_per_layer_input"),
        ({"layer_types": {"a": gqa(kv_shared=True)}, "layers": [{"pattern": ["a"]}]}, "no layer before it"),
    ],
)
def test_models_that_cannot_be(keys: dict[str, Any], message: str) -> None:
    """A layer that reads a cache wants one before it; rows want a width."""
    with pytest.raises(ValidationError, match=message):
        model(gqa(), **keys)


def test_branch_norms_want_two_branches() -> None:
    """Without shared experts there is one branch."""
    with pytest.raises(ValidationError, match="shared_intermediate_size is 0"):
        model({"mlp": EXPERTS | {"branch_norms": True, "shared_intermediate_size": 0}})
