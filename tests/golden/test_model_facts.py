"""Every shipped model against exact facts that were counted on the real modules (transformers on the meta device)."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

import roofline
from roofline.blocks.model import Model
from roofline.graph.build import CANONICAL, Graph, build
from roofline.predict.parameters import TWO_BYTES, count_parameters, inside, kv_bytes_per_token, state_bytes_per_sequence
from roofline.predict.request import prepare
from roofline.specs.deployment import Conventions, Deployment
from roofline.specs.library import shipped
from roofline.specs.workload import decode, prefill

MODELS = sorted(path.stem for path in shipped("models").glob("*.yaml") if not path.name.startswith("_"))
each_model = pytest.mark.parametrize("name", MODELS)


def fact(facts: dict[str, Any], name: str) -> dict[str, Any]:
    if name not in facts:
        pytest.skip(f"no exact facts of {name}")
    found: dict[str, Any] = facts[name]
    return found


def test_most_models_have_facts(facts: dict[str, Any]) -> None:
    """The tests below are about something; totals of the others are in `test_shipped_totals.py`."""
    assert len(set(MODELS) & set(facts)) >= 40


def of_attention_alone(name: str) -> Model:
    """The model, unless some of its layers are recurrent: kinds and FLOP of those are in `test_recurrent_facts.py`."""
    model = roofline.load_model(name)
    if state_bytes_per_sequence(model):
        pytest.skip(f"{name} has recurrent layers: see test_recurrent_facts.py")
    return model


# Parameters


@each_model
def test_parameters(name: str, facts: dict[str, Any]) -> None:
    """Total with tied weights once, active without the experts that a token skips, and the input tables."""
    truth, counted = fact(facts, name), count_parameters(roofline.load_model(name))
    assert counted.total == truth["total_params"]
    assert counted.active == truth["active_params"]
    assert counted.embedding == truth["embedding_params"]


@each_model
def test_correction_buffers_stand_apart(name: str, facts: dict[str, Any]) -> None:
    """Tensors of the checkpoint that are no parameters of the module (corrections, tables of routes) are listed apart."""
    buffers, apart = fact(facts, name)["persistent_buffers"], count_parameters(roofline.load_model(name)).apart
    for tensor, listed in (("e_score_correction_bias", "router_correction_bias"), ("tid2eid", "hash_routing_table")):
        assert apart.get(listed, 0) == sum(size for path, size in buffers.items() if path.endswith(tensor))


# The facts tell weights from biases and norms; our operators hold both, so some of their kinds are joined.
_JOINED = {
    "attn_norm": "attention", "attn_proj": "attention", "attn_bias": "attention", "attn_sinks": "attention", "mlp_bias": "mlp",
    "kv_compressor": "attention",
}  # fmt: skip


_MOE = {"router": "router", "experts": "experts", "shared": "shared_expert"}


def _parameter_kind(path: str) -> str:
    """Kind of a path inside a layer that holds parameters."""
    if re.fullmatch(r"((attention|mlp|moe)/)?(post_)?norm", path):
        return "layer_norm"
    block, _, inner = path.partition("/")
    if inner.startswith("indexer/"):
        return "dsa_indexer"
    if inner.startswith("hc_"):  # the facts count the hyper-connection of a mixture's block as `mlp`
        return "attention" if block == "attention" else "mlp"
    return _MOE[inner.split("/")[0]] if block == "moe" else {"attention": "attention", "mlp": "mlp"}[block]


def _of_each_type(model: Model) -> dict[str, Counter[str]]:
    """Parameters of one layer of each type, by kind."""
    found: dict[str, Counter[str]] = {layer_type: Counter() for layer_type in model.layer_types}
    for path, (operator, _) in build(model, Deployment(), TWO_BYTES, CANONICAL).items():
        layer_type, rest = inside(model, path)
        if layer_type and operator.parameters:
            mixer = model.layer_types[layer_type].mixer
            # of DeepSeek-V4 the facts count these with the norms of the layer
            inner_norm = mixer is not None and mixer.kind == "csa" and rest in ("attention/q_a_norm", "attention/kv_norm")
            found[layer_type]["layer_norm" if inner_norm else _parameter_kind(rest)] += operator.parameters
    return found


@each_model
def test_parameters_layer_by_layer(name: str, facts: dict[str, Any]) -> None:
    """Each layer has as many parameters as the module's, in all and by kind."""
    groups, model = fact(facts, name)["per_layer_params"], of_attention_alone(name)
    by_type = _of_each_type(model)
    layers = [by_type[layer_type] for layer_type in model.layer_sequence]
    assert sum(group["n"] for group in groups) == len(layers)
    for group in groups:
        # A group is listed layer by layer, or where it is long by its first, its last and its length.
        listed = group["layers"] if len(group["layers"]) == group["n"] else group["layers"][:2]
        wanted: Counter[str] = Counter()
        for kind, parameters in group["params"].items():
            wanted[_JOINED.get(kind, kind)] += parameters
        assert sum(wanted.values()) == group["layer_total"]
        assert sum(layer == wanted for layer in layers) >= group["n"]
        for index in listed:
            assert layers[index] == wanted, f"layer {index}"


# KV cache


@each_model
def test_kv_bytes_per_token(name: str, facts: dict[str, Any]) -> None:
    """What one more token adds below every window, at two bytes an element; MLA: latent, rotated key, the indexer's key."""
    truth = fact(facts, name)
    if truth["kv_bytes_per_token_bf16"] is None:
        pytest.skip(f"no exact cache size of {name}: its entries stand for several tokens")
    assert kv_bytes_per_token(roofline.load_model(name)) == truth["kv_bytes_per_token_bf16"]
    if mla := truth["kv"].get("mla"):
        indexer = mla.get("dsa_indexer_key_bytes_per_token_all_layers_bf16", 0)
        assert mla["latent_bytes_per_token_all_layers"] + indexer == truth["kv_bytes_per_token_bf16"]


@each_model
def test_kv_bytes_of_a_sequence(name: str, facts: dict[str, Any]) -> None:
    """Below, at and above the window: unbounded layers keep all s tokens, window layers the last min(s, w)."""
    if fact(facts, name)["kv_bytes_per_token_bf16"] is None:
        pytest.skip(f"no exact cache size of {name}: its entries stand for several tokens")
    kv = fact(facts, name)["kv"]
    window = kv.get("window", {}).get("window")
    edge = window or 1024
    memory = prepare(name, "h100-sxm", kv_cache_dtype="bf16").memory.fullest_stage
    for length in (1, edge - 1, edge, edge + 1, 8 * edge):
        kept = length if window is None else min(length, window)
        wanted = kv["unbounded_layers_bytes_per_token"] * length + kv["window_layers_bytes_per_token"] * kept
        assert memory.kv_bytes(length, allocated=False) == wanted, f"{length} tokens"


# FLOP by PyTorch's counter


def _flop_kind(path: str) -> str:
    """Kind of a path, inside a layer or outside, that has matrix FLOP."""
    block, _, inner = path.partition("/")
    if inner == "hc_expand":
        return "layer_other:"
    if inner == "hc_proj":
        return "attn_proj" if block == "attention" else "mlp"
    if block == "moe":
        return _MOE[inner.split("/")[0]]
    if inner.startswith("indexer/"):
        return "dsa_indexer"
    if block == "attention":
        return "attn_core" if inner == "core" else "attn_proj"
    return {"mlp": "mlp", "lm_head": "lm_head", "final_hc_proj": "other:hc_head"}[block]


def _by_kind(model: Model, graph: Graph) -> Counter[str]:
    found: Counter[str] = Counter()
    for path, (operator, repeat) in graph.items():
        if flop := operator.cost().matrix_flops * repeat:
            found[_flop_kind(inside(model, path)[1])] += flop
    return found


EVERY_EXPERT = {"llama-4-scout": 16}
"""Models of which transformers multiplies each token by every expert and drops what was not chosen; by number of experts."""


@each_model
def test_flop_of_pytorch(name: str, facts: dict[str, Any]) -> None:
    """Prefill and decode to the last FLOP, in all and by kind.

    The counter sees whole products: no mask is discounted, logits are computed at every position, and MLA expands the
    latents of the whole cache at every step (transformers does; engines absorb), so those are the conventions here.
    """
    model, cases = of_attention_alone(name), fact(facts, name)["flops"]
    if not cases:
        pytest.skip(f"no case of {name} was counted")
    conventions = Conventions(mask="full", logits="all", mla="expand")
    for case in cases:
        batch, new, cached = case["batch"], case["new_tokens"], case["ctx_before"]
        step = decode(batch, cached) if new == 1 else prefill(batch, new)
        found = _by_kind(model, build(model, Deployment(conventions=conventions), TWO_BYTES, step))
        found["experts"] *= EVERY_EXPERT.get(name, 1)
        assert +found == case["by_kind"], case["case"]
        assert found.total() == case["total_flops"], case["case"]


@pytest.mark.parametrize("name", ["deepseek-v2-lite", "deepseek-v2", "deepseek-v3"])
def test_flop_of_absorbed_decode(name: str, facts: dict[str, Any]) -> None:
    """What transformers computes again at each step of MLA is 2 x rank x heads x (nope + v) a cached token and layer.

    Absorbed, that product is made for the new token alone, and scores and values take the width of the latent.
    """
    truth, model = fact(facts, name), roofline.load_model(name)
    mla: Any = next(iter(model.layer_types.values())).mixer  # of every layer
    case = next(case for case in truth["flops"] if case["new_tokens"] == 1)
    batch, cached, layers = case["batch"], case["ctx_before"], model.num_hidden_layers
    heads, rank = mla.num_attention_heads, mla.kv_lora_rank
    again = 2 * rank * heads * (mla.qk_nope_head_dim + mla.v_head_dim) * batch * cached * layers
    core = 2 * heads * (2 * rank + mla.qk_rope_head_dim) * batch * (cached + 1) * layers
    wanted = case["total_flops"] - again - case["by_kind"]["attn_core"] + core
    graph = build(model, Deployment(), TWO_BYTES, decode(batch, cached))
    assert sum(operator.cost().matrix_flops * repeat for operator, repeat in graph.values()) == wanted
