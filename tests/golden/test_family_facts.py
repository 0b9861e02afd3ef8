"""Published models of families that have no file here, against exact facts that were counted on the real modules.

Files of a few lines: layers by type, and what the model has beside them. The facts are of transformers on the meta device.
"""

from __future__ import annotations

from typing import Any

import pytest

from roofline.blocks.model import Model
from roofline.graph.build import build
from roofline.predict.parameters import TWO_BYTES, count_parameters, kv_bytes_per_token
from roofline.specs.deployment import Conventions, Deployment
from roofline.specs.workload import decode, prefill


def gqa(heads: int, kv_heads: int, width: int, **keys: Any) -> dict[str, Any]:
    return {"kind": "gqa", "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": width, **keys}


def gated(width: int) -> dict[str, Any]:
    return {"kind": "gated_mlp", "intermediate_size": width}


def moe(experts: int, top_k: int, width: int, shared: int = 0, **keys: Any) -> dict[str, Any]:
    return {
        "kind": "moe", "num_experts": experts, "num_experts_per_tok": top_k, "moe_intermediate_size": width,
        "shared_intermediate_size": shared, **keys,
    }  # fmt: skip


def model(
    name: str, hidden: int, vocabulary: int, types: dict[str, Any], layers: list[tuple[list[str], int]], **keys: Any
) -> Model:
    return Model.model_validate(
        {
            "schema_version": 1, "name": name, "title": name, "hidden_size": hidden, "vocab_size": vocabulary,
            "max_position_embeddings": 8192, "tie_word_embeddings": False, **keys, "layer_types": types,
            "layers": [{"pattern": pattern, "repeat": repeat} for pattern, repeat in layers], "sources": {},
        }
    )  # fmt: skip


def llama_4_scout() -> Model:
    """Three layers in chunks, with rope and a norm of queries and keys without a weight; then one that sees everything."""
    experts = moe(16, 1, 8192, shared=8192)
    return model(
        "llama-4-scout", 5120, 202048,
        {
            "chunked": {"mixer": gqa(40, 8, 128, attention_chunk_size=8192, qk_norm="l2"), "mlp": experts},
            "global": {"mixer": gqa(40, 8, 128, rotary_dim=0), "mlp": experts},
        },
        [(["chunked"] * 3 + ["global"], 12)],
    )  # fmt: skip


def gemma_4_31b() -> Model:
    """Global layers have wider and fewer heads, and no projection of values."""
    norms = {"qk_norm": "head", "v_norm": True}
    return model(
        "gemma-4-31b-nvfp4", 5376, 262144,
        {
            "sliding": {"mixer": gqa(32, 16, 256, sliding_window=1024, **norms), "mlp": gated(21504), "norms": "both"},
            "global": {"mixer": gqa(32, 4, 512, attention_k_eq_v=True, **norms), "mlp": gated(21504), "norms": "both"},
        },
        [(["sliding"] * 5 + ["global"], 10)],
        tie_word_embeddings=True, apart={"layer_scalar": 60},
    )  # fmt: skip


def step_3_7_flash() -> Model:
    """A gate a head; three dense layers. NB: the facts are of the class's defaults: 128815 tokens, no sliding layers."""
    mixer = gqa(64, 8, 128, qk_norm="head", output_gate="headwise")
    return model(
        "step-3.7-flash", 4096, 128815,
        {"dense": {"mixer": mixer, "mlp": gated(11264)}, "experts": {"mixer": mixer, "mlp": moe(288, 8, 1280, shared=1280)}},
        [(["dense"], 3), (["experts"], 42)],
        apart={"router_correction_bias": 42 * 288},
    )  # fmt: skip


def phi_mini_moe() -> Model:
    """LayerNorm, and biases everywhere but in experts and router."""
    mixer = gqa(32, 8, 128, qkv_bias=True, o_bias=True, sliding_window=2047)
    return model(
        "phi-mini-moe", 4096, 32064, {"layer": {"mixer": mixer, "mlp": moe(16, 2, 960)}}, [(["layer"], 32)],
        norm={"function": "layernorm", "bias": True}, lm_head_bias=True,
    )  # fmt: skip


def dbrx() -> Model:
    """LayerNorm without a bias."""
    layer = {"mixer": gqa(48, 8, 128), "mlp": moe(16, 4, 10752)}
    return model("dbrx-132b", 6144, 100352, {"layer": layer}, [(["layer"], 40)], norm={"function": "layernorm"})


def glm_4_5_air() -> Model:
    """Biases of queries, keys and values; one dense layer."""
    mixer = gqa(96, 8, 128, qkv_bias=True, rotary_dim=64)
    return model(
        "glm-4.5-air", 4096, 151552,
        {"dense": {"mixer": mixer, "mlp": gated(10944)}, "experts": {"mixer": mixer, "mlp": moe(128, 8, 1408, shared=1408)}},
        [(["dense"], 1), (["experts"], 45)],
        apart={"router_correction_bias": 45 * 128},
    )  # fmt: skip


def minimax_m2_5() -> Model:
    """Queries and keys normalised over their whole width."""
    layer = {"mixer": gqa(48, 8, 128, qk_norm="full", rotary_dim=64), "mlp": moe(256, 8, 1536)}
    correction = {"router_correction_bias": 62 * 256}
    return model("minimax-m2.5", 3072, 200064, {"layer": layer}, [(["layer"], 62)], apart=correction)


def command_r() -> Model:
    """Parallel blocks under one LayerNorm without a bias."""
    layer = {"mixer": gqa(64, 64, 128), "mlp": gated(22528), "parallel": True}
    norm = {"function": "layernorm"}
    return model("command-r-35b", 8192, 256000, {"layer": layer}, [(["layer"], 40)], norm=norm, tie_word_embeddings=True)


def falcon_180b() -> Model:
    """Parallel blocks under a norm each."""
    mlp = {"kind": "mlp", "intermediate_size": 4 * 14848}
    layer = {"mixer": gqa(232, 8, 64), "mlp": mlp, "parallel": True, "parallel_norms": 2}
    norm = {"function": "layernorm", "bias": True}
    return model("falcon-180b", 14848, 65024, {"layer": layer}, [(["layer"], 80)], norm=norm, tie_word_embeddings=True)


def gpt_j() -> Model:
    """Parallel blocks, rotary on a quarter of a head, a bias in the LM head."""
    layer = {"mixer": gqa(16, 16, 256, rotary_dim=64), "mlp": {"kind": "mlp", "intermediate_size": 16384, "bias": True}}
    norm = {"function": "layernorm", "bias": True}
    types = {"layer": layer | {"parallel": True}}
    return model("gpt-j-6b", 4096, 50400, types, [(["layer"], 28)], norm=norm, lm_head_bias=True)


def santacoder() -> Model:
    """One KV head, learned positions."""
    mixer = gqa(16, 1, 128, qkv_bias=True, o_bias=True, rotary_dim=0)
    layer = {"mixer": mixer, "mlp": {"kind": "mlp", "intermediate_size": 8192, "bias": True}}
    return model(
        "gpt-bigcode-santacoder", 2048, 49280, {"layer": layer}, [(["layer"], 24)],
        norm={"function": "layernorm", "bias": True}, learned_positions=2048, tie_word_embeddings=True,
    )  # fmt: skip


MODELS = [
    llama_4_scout(), gemma_4_31b(), step_3_7_flash(), phi_mini_moe(), dbrx(), glm_4_5_air(), minimax_m2_5(), command_r(),
    falcon_180b(), gpt_j(), santacoder(),
]  # fmt: skip
each_model = pytest.mark.parametrize("found", MODELS, ids=lambda found: found.name)


@each_model
def test_parameters(found: Model, facts: dict[str, Any]) -> None:
    """Total, active, the input tables, and the buffers that stand apart."""
    truth, counted = facts[found.name], count_parameters(found)
    assert counted.total == truth["total_params"]
    assert counted.active == truth["active_params"]
    assert counted.embedding == truth["embedding_params"]
    assert sum(counted.apart.values()) == sum(truth["persistent_buffers"].values())


@each_model
def test_kv_bytes(found: Model, facts: dict[str, Any]) -> None:
    """A token's, below every window and chunk."""
    wanted = facts[found.name]["kv_bytes_per_token_bf16"]
    if wanted is None:
        pytest.skip("the cache of the module was not measured")
    assert kv_bytes_per_token(found) == wanted


@each_model
def test_flop(found: Model, facts: dict[str, Any]) -> None:
    """Every case that PyTorch's counter has of the model; of Llama 4, whose module takes all experts, what was routed."""
    cases = facts[found.name]["flops"]
    if not cases:
        pytest.skip("the counter could not run the module")
    deployment = Deployment(conventions=Conventions(mask="full", logits="all"))
    for case in cases:
        batch, new, cached = case["batch"], case["new_tokens"], case["ctx_before"]
        graph = build(found, deployment, TWO_BYTES, decode(batch, cached) if new == 1 else prefill(batch, new))
        counted = sum(op.cost().matrix_flops * repeat for op, repeat in graph.values())
        assert counted == case.get("total_flops_routed_only", case["total_flops"]), case["case"]


def test_latent_experts(facts: dict[str, Any]) -> None:
    """A mixture of Nemotron 3 Super, layer by layer: experts in the latent width, its two projections, the shared expert.

    40 of the model's 88 layers are such; its prefill of 128 tokens multiplies them as PyTorch counted.
    """
    layer = {"mlp": moe(512, 22, 2688, shared=5376, gated=False, moe_latent_size=1024)}
    found = model("latent", 4096, 131072, {"moe": layer}, [(["moe"], 40)])
    truth = facts["nemotron-3-super-120b-a12b"]
    group = next(group for group in truth["per_layer_params"] if "experts" in group["params"])
    outside = (2 * 131072 + 1) * 4096  # embedding, LM head, final norm
    counted = count_parameters(found)
    assert counted.total - outside == group["n"] * group["layer_total"]
    experts = group["n"] * group["params"]["experts"]
    assert counted.total - counted.active == experts * (512 - 22) // 512
    deployment = Deployment(conventions=Conventions(mask="full", logits="all"))
    case = next(case for case in truth["flops"] if case["case"] == "prefill_128")
    flop = {path: op.cost().matrix_flops * n for path, (op, n) in build(found, deployment, TWO_BYTES, prefill(1, 128)).items()}
    assert sum(size for path, size in flop.items() if "/experts/" in path) == case["by_kind"]["experts"]
    assert sum(size for path, size in flop.items() if "/shared/" in path) == case["by_kind"]["shared_expert"]
    latent = 2 * 128 * group["params"]["mlp"] * group["n"]  # 2 x tokens x weights of both projections
    assert sum(size for path, size in flop.items() if "/latent/" in path) == latent


@pytest.mark.parametrize("name", ["nemotron-3-super-120b-a12b", "nemotron-3-ultra-550b", "nemotron-h-56b"])
def test_attention_and_mlp_of_hybrids(name: str, facts: dict[str, Any]) -> None:
    """Layers of one block each, attention or an MLP, and their one norm."""
    hidden, heads, kv_heads, inner = {
        "nemotron-3-super-120b-a12b": (4096, 32, 2, None),
        "nemotron-3-ultra-550b": (8192, 64, 2, None),
        "nemotron-h-56b": (8192, 64, 8, 32768),
    }[name]
    types: dict[str, Any] = {"attention": {"mixer": gqa(heads, kv_heads, 128, rotary_dim=0)}}
    kinds = {"attention": "attn_proj"}
    if inner is not None:
        types["mlp"], kinds["mlp"] = {"mlp": {"kind": "mlp", "intermediate_size": inner}}, "mlp"
    for layer, kind in kinds.items():
        group = next(found for found in facts[name]["per_layer_params"] if set(found["params"]) == {kind, "layer_norm"})
        of_one = model(name, hidden, 8, {layer: types[layer]}, [([layer], 1)])
        assert count_parameters(of_one).total - (2 * 8 + 1) * hidden == group["layer_total"]


@pytest.mark.parametrize("name", ["qwen3-next-80b-a3b", "qwen3.5-35b-a3b"])
def test_gated_attention_of_hybrids(name: str, facts: dict[str, Any]) -> None:
    """The layers of softmax attention, whose queries come with a gate of their width, and their experts."""
    experts = {"qwen3-next-80b-a3b": (512, 10), "qwen3.5-35b-a3b": (256, 8)}[name]
    layer = {
        "mixer": gqa(16, 2, 256, qk_norm="head", output_gate="elementwise", rotary_dim=64),
        "mlp": moe(*experts, 512, shared=512, shared_gate=True),
    }
    group = next(found for found in facts[name]["per_layer_params"] if "attn_proj" in found["params"])
    counted = count_parameters(model(name, 2048, 8, {"layer": layer}, [(["layer"], 1)]))
    assert counted.total - (2 * 8 + 1) * 2048 == group["layer_total"]
