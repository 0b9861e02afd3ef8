"""Recurrent layers of published models against exact facts, which were counted on the real modules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roofline.blocks.model import Model
from roofline.graph.build import build
from roofline.operators.gemm import Gemm
from roofline.predict.parameters import TWO_BYTES, count_parameters, kv_bytes_per_token, state_bytes_per_sequence
from roofline.specs.deployment import Conventions, Deployment
from roofline.specs.workload import decode, prefill

DELTA = ["qwen3-next-80b-a3b", "qwen3.5-35b-a3b"]
MAMBA2 = ["nemotron-h-56b", "nemotron-3-super-120b-a12b", "nemotron-3-ultra-550b"]
each_model = pytest.mark.parametrize("name", [*DELTA, *MAMBA2])


def config(truth: Path, name: str) -> dict[str, Any]:
    """The model's config.json."""
    found: dict[str, Any] = json.loads((truth / "truth" / "models" / "configs" / f"{name}.json").read_text(encoding="utf-8"))
    return {**found, **found.get("text_config", {})}


def mixer(found: dict[str, Any]) -> dict[str, Any]:
    """Our section of the recurrent mixer: the keys of the config."""
    if "linear_num_value_heads" in found:
        names = [name for name in found if name.startswith("linear_") and isinstance(found[name], int)]
        return {"kind": "gated_delta_net"} | {name: found[name] for name in names}
    names = [
        "mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel", "chunk_size", "use_conv_bias",
        "use_bias",
    ]  # fmt: skip
    return {"kind": "mamba2"} | {name: found[name] for name in names}


def model(found: dict[str, Any], layer_types: dict[str, Any], pattern: list[str]) -> Model:
    """A model of these layers."""
    return Model.model_validate(
        {
            "schema_version": 1, "name": "hybrid", "title": "Hybrid", "hidden_size": found["hidden_size"],
            "vocab_size": found["vocab_size"], "max_position_embeddings": 8192, "sources": {}, "layer_types": layer_types,
            "tie_word_embeddings": False, "layers": [{"pattern": pattern}],
        }
    )  # fmt: skip


def recurrent(truth: Path, facts: dict[str, Any], name: str) -> Model:
    """The recurrent layers of a model, without what stands between them."""
    found, layers = config(truth, name), facts[name]["layer_types"]["linear_attention"]
    return model(found, {"recurrent": {"mixer": mixer(found)}}, ["recurrent"] * layers)


def _projections(whole: Model, batch: int, new: int, cached: int) -> int:
    step = decode(batch, cached) if new == 1 else prefill(batch, new)
    graph = build(whole, Deployment(), TWO_BYTES, step)
    layers = [(op, repeat) for path, (op, repeat) in graph.items() if path.startswith("layers/")]
    return sum(op.cost().matrix_flops * repeat for op, repeat in layers if isinstance(op, Gemm))


@each_model
def test_parameters_of_a_mixer(name: str, truth: Path, facts: dict[str, Any]) -> None:
    """All recurrent layers together, and one of them; the norm in front of it is counted apart."""
    layers = facts[name]["layer_types"]["linear_attention"]
    graph = build(recurrent(truth, facts, name), Deployment(), TWO_BYTES, decode(1, 0))
    inside = [op for path, (op, _) in graph.items() if path.startswith("layers/") and not path.endswith("/norm")]
    total = sum(operator.parameters for operator in inside)
    one = [part["params"] for part in facts[name]["per_layer_params"] if "linear_state_mixer" in part["params"]]
    assert {part["linear_state_mixer"] for part in one} == {total}
    assert total * layers == facts[name]["params_by_kind"]["linear_state_mixer"]


@each_model
def test_state_of_a_sequence(name: str, truth: Path, facts: dict[str, Any]) -> None:
    """In the layout of transformers' cache, measured there; and as engines keep it, with one column less."""
    ours = recurrent(truth, facts, name)
    assert state_bytes_per_sequence(ours) == facts[name]["state_bytes_per_seq"]
    kept = facts[name]["state_first_principles"]
    (layer,) = ours.layer_types.values()
    state = layer.mixer.state()  # type: ignore[union-attr]
    assert (state.conv, state.conv_kernel, state.recurrent) == (
        kept["conv_channels"],
        kept["conv_kernel"],
        kept["recurrent_elems_per_layer"],
    )
    assert state.bytes(TWO_BYTES, allocated=True) * kept["n_state_layers"] == kept["bytes_fp32_state_serving"]


@pytest.mark.parametrize("name", DELTA)
def test_flop_of_projections(name: str, truth: Path, facts: dict[str, Any]) -> None:
    """Prefill and decode of the linear layers, products alone."""
    ours = recurrent(truth, facts, name)
    for case in facts[name]["flops"]:
        found = _projections(ours, case["batch"], case["new_tokens"], case["ctx_before"])
        assert found == case["by_kind"]["linear_mixer_proj"], case["case"]


def test_a_whole_hybrid(truth: Path, facts: dict[str, Any]) -> None:
    """Nemotron-H 56B, of which every layer is a mixer or a feed-forward block alone: parameters, cache, all products."""
    name = "nemotron-h-56b"
    found, fact = config(truth, name), facts[name]
    attention = {
        "kind": "gqa", "num_attention_heads": found["num_attention_heads"], "rotary_dim": 0,
        "num_key_value_heads": found["num_key_value_heads"], "head_dim": found["attention_head_dim"],
    }  # fmt: skip
    layer_types = {
        "M": {"mixer": mixer(found)},
        "*": {"mixer": attention},
        "-": {"mlp": {"kind": "mlp", "intermediate_size": found["intermediate_size"]}},
    }
    whole = model(found, layer_types, list(found["hybrid_override_pattern"]))
    assert count_parameters(whole).total == fact["total_params"]
    assert kv_bytes_per_token(whole) == fact["kv_bytes_per_token_bf16"]
    assert state_bytes_per_sequence(whole) == fact["state_bytes_per_seq"]
    for case in fact["flops"]:
        found_flops = _projections(whole, case["batch"], case["new_tokens"], case["ctx_before"])
        assert found_flops == case["by_kind"]["mixer_proj"], case["case"]
    logits = build(whole, Deployment(conventions=Conventions(logits="all")), TWO_BYTES, prefill(1, 128))["lm_head"][0]
    assert logits.cost().matrix_flops == fact["flops"][0]["by_kind"]["lm_head"]
