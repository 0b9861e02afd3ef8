"""Families that transformers 5.23 has no class of: counted by hand from the modules that vLLM 0.33 builds.

Each case has a config with the keys that vLLM's class reads, and its sums written out from that class: parameters of one layer
of each kind, what stands around the layers, and elements that a token leaves in the cache of a layer. Where the total of a
published model is known, it is that model's config and the sum has to be the total.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from mutations import MUTATIONS, places, problem

from roofline.blocks.config_json import read
from roofline.blocks.model import Model
from roofline.errors import RooflineError
from roofline.graph.build import CANONICAL, build
from roofline.graph.sharding import caches, check_parallel, states
from roofline.predict.parameters import TWO_BYTES, count_parameters
from roofline.specs.deployment import Deployment
from roofline.specs.huggingface.document import parse_json
from roofline.specs.huggingface.read import Origin
from roofline.specs.workload import decode

Config = dict[str, Any]
D, FF, N_Q, N_KV, HEAD, VOCABULARY, LAYERS = 96, 72, 6, 2, 16, 331, 5
BASE: Config = {
    "hidden_size": D, "intermediate_size": FF, "num_hidden_layers": LAYERS, "num_attention_heads": N_Q,
    "num_key_value_heads": N_KV, "vocab_size": VOCABULARY, "max_position_embeddings": 512, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}  # fmt: skip
TABLES = 2 * VOCABULARY * D
QKV = (N_Q + 2 * N_KV) * HEAD


def linear(inputs: int, outputs: int, bias: bool = False) -> int:
    """A matrix, and a bias as long as its outputs."""
    return inputs * outputs + (outputs if bias else 0)


def attention(qkv_bias: bool = False, o_bias: bool = False, head: int = HEAD) -> int:
    """One projection for queries, keys and values, one for the output."""
    return linear(D, (N_Q + 2 * N_KV) * head, qkv_bias) + linear(N_Q * head, D, o_bias)


def mlp(width: int = FF, bias: bool = False, down_bias: bool = False) -> int:
    """Gate, up and down."""
    return 2 * linear(D, width, bias) + linear(width, D, bias or down_bias)


def experts(count: int, width: int, shared: int) -> int:
    """Experts, those that all tokens share, and the router."""
    return count * mlp(width) + (mlp(shared) if shared else 0) + linear(D, count)


LATENT = {"kv_lora_rank": 20, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 10}


def latent(rank: int | None) -> int:
    """Latent attention without biases; queries of full rank, or compressed and normed."""
    queries = linear(D, N_Q * 20) if rank is None else linear(D, rank) + rank + linear(rank, N_Q * 20)
    return queries + linear(D, 28) + 20 + linear(20, N_Q * 22) + linear(N_Q * 10, D)


@dataclass(frozen=True)
class Case:
    """A config, parameters of its layers and around them, and elements of a token in the cache of a layer."""

    config: Config
    layers: int
    around: int
    cached: int = 2 * N_KV * HEAD


NORMS = 2 * D
MOE = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 40, "first_k_dense_replace": 1}
CHATGLM: Config = {
    "model_type": "chatglm", "hidden_size": D, "ffn_hidden_size": FF, "num_layers": LAYERS, "num_attention_heads": N_Q,
    "padded_vocab_size": VOCABULARY, "kv_channels": HEAD, "multi_query_attention": True, "multi_query_group_num": N_KV,
    "add_bias_linear": False, "add_qkv_bias": True, "rmsnorm": True, "post_layer_norm": True, "seq_length": 512,
    "apply_residual_connection_post_layernorm": False, "torch_dtype": "bfloat16", "original_rope": True,
}  # fmt: skip
TELECHAT: Config = {
    "model_type": "telechat", "hidden_size": D, "ffn_hidden_size": FF, "n_layer": LAYERS, "n_head": N_Q,
    "num_key_value_heads": N_KV, "vocab_size": VOCABULARY, "seq_length": 512, "torch_dtype": "bfloat16",
}  # fmt: skip
MIMO: Config = {
    **BASE, "model_type": "mimo_v2", "head_dim": 16, "v_head_dim": 12, "num_key_value_heads": 2, "n_routed_experts": 8,
    "num_experts_per_tok": 3, "moe_intermediate_size": 40, "hybrid_layer_pattern": [0, 1, 1, 1, 0],
    "moe_layer_freq": [0, 1, 1, 1, 1], "sliding_window": 16, "sliding_window_size": 15, "swa_num_attention_heads": 8,
    "swa_num_key_value_heads": 4, "swa_head_dim": 10, "swa_v_head_dim": 14, "add_swa_attention_sink_bias": True,
    "add_full_attention_sink_bias": False, "attention_bias": False,
}  # fmt: skip

CASES = {
    "telechat3": Case({**BASE, "model_type": "telechat3"}, LAYERS * (attention() + mlp() + NORMS), TABLES + D),
    "teleflm": Case(
        {**BASE, "model_type": "teleflm", "use_mup": True, "mup_scale_factor": 8.0, "input_mult": 1.0, "output_mult": 1.0},
        LAYERS * (attention() + mlp() + NORMS), TABLES + D,
    ),
    "solar": Case(
        {**BASE, "model_type": "solar", "bskcn_1": [1], "bskcn_2": [2], "bskcn_tv": [0.9, 0.8], "sliding_window": 512},
        LAYERS * (attention() + mlp() + NORMS), TABLES + D,
    ),
    "orion": Case({**BASE, "model_type": "orion"}, LAYERS * (attention() + mlp() + 2 * NORMS), TABLES + 2 * D),
    "telechat2": Case(TELECHAT, LAYERS * (attention(o_bias=True) + mlp(down_bias=True) + NORMS), TABLES + D),
    "step1": Case(
        {key: value for key, value in BASE.items() if key != "num_key_value_heads"}
        | {"model_type": "step1", "num_attention_groups": N_KV},
        LAYERS * (attention() + mlp() + NORMS), TABLES + D,
    ),
    "pangu_embedded": Case(
        {**BASE, "model_type": "PanguEmbedded", "bias": True},
        LAYERS * (attention(qkv_bias=True, o_bias=True) + mlp() + NORMS), TABLES + D,
    ),
    "exaone": Case(
        {key: value for key, value in BASE.items() if key != "num_hidden_layers"}
        | {"model_type": "exaone", "num_layers": LAYERS, "activation_function": "silu", "head_dim": HEAD},
        LAYERS * (attention() + mlp() + NORMS), TABLES + D,
    ),
    "qwen": Case(
        {**BASE, "num_key_value_heads": N_Q, "model_type": "qwen", "no_bias": True, "kv_channels": HEAD, "seq_length": 256},
        LAYERS * (linear(D, 3 * D, True) + linear(D, D) + mlp(FF // 2) + NORMS), TABLES + D, 2 * D,
    ),
    "chatglm": Case(CHATGLM, LAYERS * (attention(qkv_bias=True) + mlp() + NORMS), TABLES + D),
    "chatglm with biases": Case(
        {**CHATGLM, "add_bias_linear": True, "multi_query_attention": False, "rmsnorm": False},
        LAYERS * (linear(D, 3 * D, True) + linear(D, D, True) + mlp(bias=True) + 2 * NORMS), TABLES + 2 * D, 2 * D,
    ),
    "deepseek": Case(
        {**BASE, "model_type": "deepseek", "n_routed_experts": 8, "n_shared_experts": 2, "num_experts_per_tok": 3,
         "moe_intermediate_size": 40, "first_k_dense_replace": 1, "moe_layer_freq": 1},
        LAYERS * (attention() + NORMS) + mlp() + (LAYERS - 1) * experts(8, 40, 80), TABLES + D,
    ),
    "bailing_moe": Case(
        {**BASE, **MOE, "model_type": "bailing_moe", "head_dim": 24, "num_shared_experts": 2, "use_qkv_bias": True,
         "use_bias": False, "norm_head": True},
        LAYERS * (attention(qkv_bias=True, head=24) + NORMS) + mlp() + (LAYERS - 1) * experts(8, 40, 80), TABLES + D,
        2 * N_KV * 24,
    ),
    "bailing_moe_v2": Case(
        {**BASE, **MOE, "model_type": "bailing_moe_v2", "num_shared_experts": 1, "moe_shared_expert_intermediate_size": 56,
         "use_qk_norm": True, "use_rmsnorm": True, "n_group": 4, "topk_group": 2, "moe_router_enable_expert_bias": True,
         "score_function": "sigmoid", "use_bias": False, "use_qkv_bias": False, "rotary_dim": 8, "head_dim": HEAD},
        LAYERS * (attention() + 2 * HEAD + NORMS) + mlp() + (LAYERS - 1) * experts(8, 40, 56), TABLES + D,
    ),
    "sarvam_moe": Case(
        {**BASE, **MOE, "model_type": "sarvam_moe", "num_shared_experts": 1, "use_bias": False, "use_qkv_bias": False,
         "head_dim": HEAD},
        LAYERS * (attention() + NORMS) + mlp() + (LAYERS - 1) * experts(8, 40, 40), TABLES + D,
    ),
    "param2moe": Case(
        {**BASE, **MOE, "model_type": "param2moe", "num_shared_experts": 2, "moe_shared_expert_intermediate_size": 56,
         "head_dim": HEAD, "use_qk_norm": True},
        LAYERS * (attention() + 2 * HEAD + NORMS) + mlp() + (LAYERS - 1) * experts(8, 40, 56), TABLES + D,
    ),
    "sarvam_mla": Case(
        {**BASE, **MOE, **LATENT, "model_type": "sarvam_mla", "num_shared_experts": 2, "q_lora_rank": None},
        LAYERS * (latent(None) + NORMS) + mlp() + (LAYERS - 1) * experts(8, 40, 80), TABLES + D, 28,
    ),
    "pangu_ultra_moe": Case(
        {**BASE, **LATENT, "model_type": "pangu_ultra_moe", "q_lora_rank": 30, "n_routed_experts": 8, "n_shared_experts": 1,
         "num_experts_per_tok": 3, "moe_intermediate_size": 40, "first_k_dense_replace": 1, "sandwich_norm": True},
        LAYERS * (latent(30) + 2 * NORMS) + mlp() + (LAYERS - 1) * experts(8, 40, 40), TABLES + D, 28,
    ),
    "step3_text": Case(
        {key: value for key, value in BASE.items() if key != "num_key_value_heads"}
        | {"model_type": "step3_text", "num_attention_groups": 1, "head_dim": 24, "share_q_dim": 40, "moe_num_experts": 8,
           "moe_top_k": 3, "moe_intermediate_size": 40, "share_expert_dim": 56, "moe_layers_enum": "1,2,4"},
        LAYERS * (linear(D, 40 + 2 * 24) + 40 + linear(40, N_Q * 24) + linear(N_Q * 24, D) + NORMS)
        + 2 * mlp() + 3 * experts(8, 40, 56),
        TABLES + D, 2 * 24,
    ),
    "domyn_edge": Case(
        {**BASE, "model_type": "domynedge", "head_dim": 24, "position_layers": ["nope", *["rope"] * 3, "nope"],
         "window_sizes": [[-1, 0], [16, 0], [16, 0], [16, 0], [-1, 0]], "attention_bias": False},
        LAYERS * (attention(head=24) + 24 + mlp() + 2 * NORMS), TABLES + D, 2 * N_KV * 24,
    ),
    "pangu_pro_moe_v2": Case(
        {**BASE, "model_type": "pangu_pro_moe_v2", "qk_nope_dim": 12, "qk_rope_dim": 8, "v_channels": 14, "n_routed_experts": 8,
         "n_shared_experts": 1, "num_experts_per_tok": 3, "moe_intermediate_size": 40, "first_k_dense_replace": 1,
         "sandwich_norm": True, "param_sink_number": 4, "param_sink_with_value": True, "router_enable_expert_bias": True,
         "interleaved_sliding_window": [16, 16, 512]},
        # queries and keys of 12 + 8 elements, values of 14; a norm of keys alone; 4 keys and values for each KV head
        LAYERS * (linear(D, N_Q * 20 + N_KV * (20 + 14)) + linear(N_Q * 14, D) + 20 + 4 * N_KV * (20 + 14) + 2 * NORMS)
        + mlp() + (LAYERS - 1) * experts(8, 40, 40),
        TABLES + D, N_KV * (20 + 14),
    ),
    "plamo3": Case(
        {**BASE, "model_type": "plamo3", "head_dim": 24, "sliding_window": [16, 16, None, 16, None]},
        LAYERS * (attention(head=24) + 2 * 24 + mlp() + 2 * NORMS), TABLES + D, 2 * N_KV * 24,
    ),
    "rnj1": Case(
        {**BASE, "model_type": "rnj1", "head_dim": HEAD, "attention_bias": False,
         "layer_types": ["full_attention"] * LAYERS, "sliding_window": 64},
        LAYERS * (attention() + 2 * HEAD + mlp() + 2 * NORMS), TABLES + D,
    ),
}  # fmt: skip


def model_of(config: Config) -> Model:
    """What is read."""
    return read(parse_json(json.dumps(config), "config.json"), Origin("test", "Test"))


@pytest.mark.parametrize("name", CASES)
def test_parameters_and_cache(name: str) -> None:
    """Counted by hand, to the last parameter and element; corrections of routers stand apart."""
    case = CASES[name]
    model = model_of(case.config)
    assert count_parameters(model).total == case.layers + case.around
    assert {cache.elements for cache, _ in caches(model, Deployment())} == {case.cached}
    assert sum(count for _, count in caches(model, Deployment())) == LAYERS


@pytest.mark.parametrize("name", CASES)
def test_matrix_flop_of_a_token(name: str) -> None:
    """Two for each weight of a matrix that the token meets, and the products of attention with itself."""
    model = model_of(CASES[name].config)
    operators = build(model, Deployment(), TWO_BYTES, CANONICAL)
    flop = {path: op.cost().matrix_flops * count for path, (op, count) in operators.items()}
    inside = sum(size for path, size in flop.items() if "/core" in path)
    active = count_parameters(model).active
    vectors = sum(
        op.parameters * count
        for path, (op, count) in operators.items()
        if (op.cost().matrix_flops == 0 and path != "embedding") or "/core" in path  # what attention holds are sinks
    )
    biases = sum(
        (op.n if getattr(op, "bias", False) else 0) * count for op, count in operators.values() if op.cost().matrix_flops
    )
    table = 0 if model.tie_word_embeddings else model.vocab_size * model.hidden_size
    assert sum(flop.values()) - inside == 2 * (active - vectors - biases - table)


def test_mimo_v2_5() -> None:
    """Layers with a window have heads of their own number and widths, and a sink for each."""
    full = linear(D, N_Q * 16 + N_KV * (16 + 12)) + linear(N_Q * 12, D)
    window = linear(D, 8 * 10 + 4 * (10 + 14)) + linear(8 * 14, D) + 8
    model = model_of(MIMO)
    wanted = 2 * full + 3 * window + LAYERS * NORMS + mlp() + 4 * experts(8, 40, 0) + TABLES + D
    assert count_parameters(model).total == wanted
    assert sorted((cache.elements, cache.window, count) for cache, count in caches(model, Deployment()) if cache.window) == [
        (4 * 24, 16, 3)
    ]


def test_domyn_edge() -> None:
    """36 layers whose heads are 256 or 64 wide; a window of 1024 tokens before the query, so of 1025 with itself.

    The sizes are the defaults of the class. Queries have no weight in their norm, keys one of the head's width; the LM head is
    the table.
    """
    pattern = 2 * [256] + 8 * [64, 64, 64, 256] + 2 * [256]
    config = {
        "model_type": "domynedge", "vocab_size": 115269, "hidden_size": 2560, "intermediate_size": 9728,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192,
        "tie_word_embeddings": True, "head_sizes": pattern, "head_dim": 256, "torch_dtype": "bfloat16",
        "position_layers": ["nope" if width == 256 else "rope" for width in pattern],
        "window_sizes": [[-1, 0] if width == 256 else [1024, 0] for width in pattern],
    }  # fmt: skip
    layers = sum(2560 * (32 + 16) * width + 32 * width * 2560 + width + 3 * 2560 * 9728 + 4 * 2560 for width in pattern)
    wanted = layers + 115269 * 2560 + 2560
    per_layer = {str(index): {"head_dim": 64} for index, width in enumerate(pattern) if width == 64}
    without = {key: value for key, value in config.items() if key != "head_sizes"}
    for one in (config, {**without, "per_layer_config": per_layer}):
        model = model_of(one)
        assert count_parameters(model).total == wanted
        kept = {(cache.elements, cache.window): count for cache, count in caches(model, Deployment())}
        assert kept == {(2 * 8 * 256, None): 12, (2 * 8 * 64, 1025): 24}


PUZZLE: Config = {
    "model_type": "nemotron_h_puzzle", "hidden_size": D, "vocab_size": VOCABULARY, "max_position_embeddings": 512,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "num_attention_heads": N_Q, "num_key_value_heads": N_KV,
    "head_dim": HEAD, "mamba_num_heads": 6, "mamba_head_dim": 8, "n_groups": 2, "ssm_state_size": 10, "conv_kernel": 4,
    "chunk_size": 16, "use_conv_bias": True, "use_bias": False, "mlp_bias": False, "n_shared_experts": 1,
    "mtp_block_configs": [], "num_nextn_predict_layers": 0,
    "block_configs": [
        {"block_type": "mamba"},
        {"block_type": "moe", "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 40,
         "moe_shared_expert_intermediate_size": 56, "moe_latent_size": 24},
        {"block_type": "attention"},
        {"block_type": "moe", "n_routed_experts": 5, "num_experts_per_tok": 3, "moe_intermediate_size": 30,
         "moe_shared_expert_intermediate_size": 20},
        {"block_type": "mamba", "ssm_state_size": 12},
        {"block_type": "attention", "sliding_window": 16},
        {"block_type": "mlp", "intermediate_size": FF},
    ],
}  # fmt: skip


def test_nemotron_h_puzzle() -> None:
    """Each layer with the sizes of its own block: experts that are not gated, latent or not, states, and a window."""

    def mamba(state: int) -> int:
        convolved = 48 + 2 * 2 * state
        return D * (48 + convolved + 6) + convolved * 4 + convolved + 3 * 6 + 48 + 48 * D  # A, D and steps; a gated norm

    def plain(width: int, inner: int) -> int:
        return 2 * width * inner

    latent_experts = 2 * D * 24 + 8 * plain(24, 40) + plain(D, 56) + 8 * D
    layers = [mamba(10), latent_experts, attention(), 5 * plain(D, 30) + plain(D, 20) + 5 * D, mamba(12), attention()]
    model = model_of(PUZZLE)
    assert count_parameters(model).total == sum(layers) + plain(D, FF) + 7 * D + TABLES + D
    assert count_parameters(model).active == count_parameters(model).total - 6 * plain(24, 40) - 2 * plain(D, 30)
    assert [(cache.elements, cache.window) for cache, _ in caches(model, Deployment())] == [(64, None), (64, 16)]
    assert [state.recurrent for state, _ in states(model, Deployment())] == [48 * 10, 48 * 12]
    assert model.apart == {"router_correction_bias": 13}
    for pattern in ("ME*EM*-", "ME*EM**"):
        if pattern.endswith("-"):
            assert model_of({**PUZZLE, "hybrid_override_pattern": pattern}).layers == model.layers
        else:
            with pytest.raises(RooflineError, match="other layers than block_configs"):
                model_of({**PUZZLE, "hybrid_override_pattern": pattern})


def test_sinks_that_are_keys_and_values() -> None:
    """Every query meets them beside its window, in every layer; where their values are 0 the keys alone are weights."""
    config = CASES["pangu_pro_moe_v2"].config
    model, without = model_of(config), model_of({**config, "param_sink_with_value": False})
    assert count_parameters(model).total - count_parameters(without).total == LAYERS * 4 * N_KV * 14

    def inside(length: int) -> tuple[float, float]:
        graph = build(model, Deployment(), TWO_BYTES, decode(3, length))
        cores = [(op.cost(), count) for path, (op, count) in graph.items() if "/core" in path]
        return sum(cost.matrix_flops * count for cost, count in cores), sum(cost.weight_bytes * count for cost, count in cores)

    # three sequences; three windows of 16 and two layers that see all: the window ends at 512, the longest context
    keys = 4 * 16 + (100 + 1) + LAYERS * 4
    assert inside(100) == (3 * N_Q * 2 * (20 + 14) * keys, LAYERS * 4 * N_KV * (20 + 14) * 2)


BAILING_2_5: Config = {
    **BASE, **MOE, **LATENT, "model_type": "bailing_hybrid", "architectures": ["BailingMoeV2_5ForCausalLM"],
    "num_hidden_layers": 6, "layer_group_size": 3, "q_lora_rank": 30, "head_dim": HEAD, "num_shared_experts": 1,
    "use_qk_norm": True, "use_qkv_bias": False, "use_bias": False, "group_norm_size": 2, "partial_rotary_factor": 0.5,
    "moe_router_enable_expert_bias": True, "score_function": "sigmoid", "n_group": 4, "topk_group": 2,
    "linear_silu": False,
}  # fmt: skip


def test_bailing_v2_5() -> None:
    """Two layers of Lightning Attention for one of latent attention, whose gate is missing.

    Lightning: queries, keys, values and gates of all six heads, norms of queries and keys, one of all outputs, a state of
    16 x 16 for each head.
    """
    width = N_Q * HEAD
    lightning = linear(D, 3 * width) + 2 * HEAD + linear(D, width) + width + linear(width, D)
    wanted = 4 * lightning + 2 * latent(30) + 6 * NORMS + mlp() + 5 * experts(8, 40, 40) + TABLES + D
    model = model_of(BAILING_2_5)
    assert count_parameters(model).total == wanted
    assert [(cache.elements, count) for cache, count in caches(model, Deployment())] == [(28, 2)]
    assert {(state.recurrent, state.conv) for state, _ in states(model, Deployment())} == {(N_Q * HEAD * HEAD, 0)}
    assert sum(count for _, count in states(model, Deployment())) == 4
    biased = model_of({**BAILING_2_5, "use_qkv_bias": True, "use_qk_norm": False})
    assert count_parameters(biased).total == wanted + 4 * (3 * width - 2 * HEAD)
    graph = build(model, Deployment(), TWO_BYTES, CANONICAL)
    rope = next(op for path, (op, _) in graph.items() if path.endswith("linear_attention/rope"))
    assert rope.dims() == {"tokens": 1, "heads": 2 * N_Q, "rotary_dim": HEAD // 2}
    assert not any(path.endswith("linear_attention/activation") for path in graph)
    with_silu = build(model_of({**BAILING_2_5, "linear_silu": True}), Deployment(), TWO_BYTES, CANONICAL)
    assert any(path.endswith("linear_attention/activation") for path in with_silu)


LONGCAT_LITE: Config = {
    "model_type": "longcat_flash_ngram", "architectures": ["LongcatFlashNgramForCausalLM"], "hidden_size": 3072,
    "num_layers": 14, "ffn_hidden_size": 6144, "expert_ffn_hidden_size": 1024, "n_routed_experts": 256,
    "zero_expert_num": 128, "zero_expert_type": "identity", "moe_topk": 12, "num_attention_heads": 32, "q_lora_rank": 1536,
    "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "vocab_size": 131072,
    "max_position_embeddings": 327680, "attention_bias": False, "ngram_vocab_size_ratio": 78, "emb_neighbor_num": 4,
    "emb_split_num": 4, "torch_dtype": "bfloat16",
}  # fmt: skip


def test_longcat_flash_lite() -> None:
    """68.5 billion parameters, of which more than 30 are n-gram embeddings, and 2.9 to 4.5 are active: arXiv:2601.21204.

    Twelve tables (4 for pairs, 4 for triples, 4 for four tokens) of 78 times the vocabulary and 1, 3, ... 23 rows, each of
    3072 / 12 elements, and for each a matrix to the width of the stream.
    """
    model = model_of(LONGCAT_LITE)
    rows = 12 * 78 * 131072 + 12 * 12
    assert (model.ngram_rows, model.ngram_width) == (rows, 256)
    counted = count_parameters(model)
    assert counted.total // 10**8 == 685
    assert 2.9e9 < counted.active - counted.embedding < 4.5e9
    plain = {key: value for key, value in LONGCAT_LITE.items() if not key.startswith(("ngram", "emb_"))}
    without = model_of({**plain, "model_type": "longcat_flash", "architectures": ["LongcatFlashForCausalLM"]})
    assert counted.total - count_parameters(without).total == rows * 256 + 12 * 256 * 3072
    with pytest.raises(RooflineError, match="ngram_vocab_size_ratio is missing"):
        model_of(plain)

    def around(tp: int) -> dict[str, Any]:
        graph = build(model, Deployment(tensor_parallel_size=tp), TWO_BYTES, decode(8, 100))
        return {path: op for path, (op, _) in graph.items() if path.startswith("ngram_embedding")}

    one, four = around(1), around(4)
    assert one["ngram_embedding"].cost().weight_bytes == 8 * 12 * 256 * 2  # a row of each table for each token, not the tables
    assert one["ngram_embedding/projection"].cost().matrix_flops == 2 * 8 * 12 * 256 * 3072
    # vLLM divides the tables by rows and sums the rows that are found; every device has all projections
    assert four["ngram_embedding"].parameters == -(-rows // 4) * 256
    assert four["ngram_embedding/projection"].parameters == one["ngram_embedding/projection"].parameters
    assert four["ngram_embedding/all_reduce"].elements == 8 * 3072


LOOP: Config = {**BASE, "model_type": "iquestloopcoder", "loop_num": 3, "loop_window_size": 16, "head_dim": HEAD}


def test_iquest_loop_coder() -> None:
    """Three runs through five layers, whose weights and gates (a vector and a number for each head) are held once.

    The first run caches all tokens, each later one a window; a later query attends to both.
    """
    model = model_of(LOOP)
    layer = attention() + mlp() + NORMS
    assert count_parameters(model).total == LAYERS * (layer + linear(HEAD, N_Q, True)) + TABLES + D
    kept = [(cache.elements, cache.window, count) for cache, count in caches(model, Deployment())]
    assert kept == [(2 * N_KV * HEAD, None, LAYERS)] + 2 * [(2 * N_KV * HEAD, 16, LAYERS)]
    graph = build(model, Deployment(), TWO_BYTES, decode(2, 99))
    costs = [(path, op.cost(), count) for path, (op, count) in graph.items()]
    inside = sum(cost.matrix_flops * count for path, cost, count in costs if "/core" in path)
    products = sum(cost.matrix_flops * count for path, cost, count in costs if "/core" not in path)
    keys = 3 * 100 + 2 * 16
    assert inside == LAYERS * 2 * N_Q * 2 * 2 * HEAD * keys
    gates = 2 * LAYERS * N_Q * HEAD
    assert products == 2 * 2 * (3 * LAYERS * (attention() + mlp()) + gates + VOCABULARY * D)
    layers = sum(cost.weight_bytes * count for path, cost, count in costs if path.startswith("layers/"))
    assert layers == 2 * (3 * LAYERS * layer + 2 * LAYERS * (N_Q * HEAD + N_Q))  # each run reads them again
    two = model_of({**LOOP, "loop_num": 2})
    assert count_parameters(two).total == count_parameters(model).total
    halves = build(model, Deployment(tensor_parallel_size=2), TWO_BYTES, decode(2, 99))
    gate = next(op for path, (op, _) in halves.items() if path.endswith("again/attention/loop_gate"))
    assert gate.parameters == N_Q // 2 * (HEAD + 1)
    with pytest.raises(RooflineError, match="pipeline-parallel size 1"):
        check_parallel(model, Deployment(pipeline_parallel_size=2))


SLIDE, WHOLE = "sliding_attention", "full_attention"
DORY: Config = {
    **BASE, "model_type": "dory", "head_dim": HEAD, "num_hidden_layers": 6, "sliding_window": 16,
    "layer_types": [SLIDE, "mlp", WHOLE, "mlp", SLIDE, "mlp"], "n_input_layers": 1, "n_recurrent_layers": 4,
    "n_output_layers": 1, "n_recurrent_loops": 3, "recurrent_kv_cache_mode": "per_loop",
    "rope_parameters": {kind: {"rope_type": "default", "rope_theta": 1e4} for kind in (SLIDE, WHOLE)},
}  # fmt: skip


def test_dory() -> None:
    """A layer before, four that are run three times, one behind; 3 + 3 x 2 caches, of which 3 are of full attention.

    Attention: queries, keys, values and gates, the output; a scale of each query and gate; feed-forward: three matrices and a
    scale of each gate and of each other half; both a step of the stream's width. A scale of each logit; norms have no weights.
    """
    width = N_Q * HEAD
    attending = attention() + linear(D, width) + 2 * width + D
    forward = mlp() + 2 * FF + D
    model = model_of(DORY)
    assert count_parameters(model).total == 3 * attending + 3 * forward + TABLES + VOCABULARY
    kept = {(cache.window, cache.elements): 0 for cache, _ in caches(model, Deployment())}
    for cache, count in caches(model, Deployment()):
        kept[cache.window, cache.elements] += count
    # layers 0 | 1 mlp, 2 full, 3 mlp, 4 sliding | 5 mlp
    assert kept == {(16, 2 * N_KV * HEAD): 1 + 3, (None, 2 * N_KV * HEAD): 3}
    graph = build(model, Deployment(), TWO_BYTES, decode(2, 99))
    costs = [(path, op.cost(), count) for path, (op, count) in graph.items()]
    products = sum(cost.matrix_flops * count for path, cost, count in costs if "/core" not in path)
    matrices = (1 + 2 * 3) * (attention() + linear(D, width)) + (1 + 2 * 3) * mlp()
    assert products == 2 * 2 * (matrices + VOCABULARY * D)
    inside = sum(cost.matrix_flops * count for path, cost, count in costs if "/core" in path)
    assert inside == 2 * N_Q * 2 * 2 * HEAD * (3 * 100 + 4 * 16)
    layers = sum(cost.weight_bytes * count for path, cost, count in costs if path.startswith("layers/"))
    assert layers == 2 * ((1 + 2 * 3) * (attending + forward))  # each run reads them again


def test_step_3() -> None:
    """316 billion parameters in the language model, 38 active without the table of embeddings: arXiv:2507.19427."""
    config = {
        "model_type": "step3_text", "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61,
        "num_attention_heads": 64, "num_attention_groups": 1, "head_dim": 256, "share_q_dim": 2048, "vocab_size": 128815,
        "max_position_embedding": 65536, "moe_num_experts": 48, "moe_top_k": 3, "moe_intermediate_size": 5120,
        "share_expert_dim": 5120, "moe_layers_enum": ",".join(map(str, range(4, 60))), "torch_dtype": "bfloat16",
    }  # fmt: skip
    counted = count_parameters(model_of(config))
    assert (round(counted.total / 1e9), round((counted.active - counted.embedding) / 1e9)) == (316, 38)


# Totals that the authors' checkpoints have.
PUBLISHED = {
    # https://huggingface.co/Qwen/Qwen-7B
    "qwen-7b": (
        7_721_324_544,
        {"model_type": "qwen", "n_embd": 4096, "ffn_hidden_size": 22016, "n_layer": 32, "n_head": 32, "kv_channels": 128,
         "n_positions": 8192, "seq_length": 2048, "vocab_size": 151936, "padded_vocab_size": 151936, "no_bias": True,
         "tie_word_embeddings": False, "torch_dtype": "bfloat16"},
    ),
    # https://huggingface.co/THUDM/chatglm3-6b
    "chatglm3-6b": (
        6_243_584_000,
        {**CHATGLM, "hidden_size": 4096, "ffn_hidden_size": 13696, "num_layers": 28, "num_attention_heads": 32,
         "padded_vocab_size": 65024, "kv_channels": 128, "seq_length": 8192},
    ),
    # https://huggingface.co/THUDM/glm-4-9b-chat
    "glm-4-9b-chat": (
        9_399_951_360,
        {**CHATGLM, "hidden_size": 4096, "ffn_hidden_size": 13696, "num_layers": 40, "num_attention_heads": 32,
         "padded_vocab_size": 151552, "kv_channels": 128, "seq_length": 131072},
    ),
    # https://huggingface.co/deepseek-ai/deepseek-moe-16b-base
    "deepseek-moe-16b": (
        16_375_728_128,
        {**BASE, "model_type": "deepseek", "hidden_size": 2048, "intermediate_size": 10944, "num_hidden_layers": 28,
         "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 102400, "max_position_embeddings": 4096,
         "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "moe_intermediate_size": 1408,
         "first_k_dense_replace": 1, "moe_layer_freq": 1, "scoring_func": "softmax", "norm_topk_prob": False},
    ),
    # https://huggingface.co/LGAI-EXAONE/EXAONE-3.0-7.8B-Instruct
    "exaone-3.0-7.8b": (
        7_818_448_896,
        {"model_type": "exaone", "hidden_size": 4096, "intermediate_size": 14336, "num_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 8, "vocab_size": 102400, "max_position_embeddings": 4096, "head_dim": 128,
         "tie_word_embeddings": False, "torch_dtype": "bfloat16"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_totals(name: str) -> None:
    """As the model cards and checkpoints have them."""
    total, config = PUBLISHED[name]
    assert count_parameters(model_of(config)).total == total


LATER: dict[str, Config] = {
    "puzzle": PUZZLE, "bailing_v2_5": BAILING_2_5, "longcat_lite": LONGCAT_LITE, "loop": LOOP, "dory": DORY,
    **{name: CASES[name].config for name in ("pangu_pro_moe_v2", "domyn_edge")},
}  # fmt: skip


@pytest.mark.parametrize("name", LATER)
def test_nothing_is_missed_in_silence(name: str) -> None:
    """A wrong, absent or misspelt key is refused by name, or changes nothing, or what was taken for it is on record.

    No shared and no empty experts are good values; without its class a config is of another version, and refused for its keys.
    """
    good = {("zero", "zero_expert_num"), ("zero", "num_shared_experts")}
    found = [
        wrong
        for path in places(LATER[name])
        for mutation in MUTATIONS
        if (mutation, path[-1]) not in good and path[-1] != "architectures" and (wrong := problem(LATER[name], path, mutation))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**CASES["rnj1"].config, "layer_types": ["chunked_attention"] * LAYERS}, "the one before"),
        ({**CASES["solar"].config, "sliding_window": 64}, "sliding_window"),
        ({**CHATGLM, "apply_residual_connection_post_layernorm": True}, "apply_residual"),
        ({**CHATGLM, "kv_channels": 20}, "kv_channels"),
        ({**CASES["bailing_moe"].config, "use_bias": True}, "use_bias"),
        ({**CASES["pangu_embedded"].config, "param_sink_number": 128}, "param_sink_number"),
        ({**PUZZLE, "block_configs": [{"block_type": "attention", "q_indexer_dim": 64}]}, "q_indexer_dim"),
        ({**PUZZLE, "block_configs": [{"block_type": "mamba2"}]}, "block_configs.0.block_type"),
        ({**PUZZLE, "num_hidden_layers": 6}, "num_hidden_layers"),
        ({**CASES["domyn_edge"].config, "window_sizes": [[16, 16]] * LAYERS}, "window_sizes"),
        ({**CASES["domyn_edge"].config, "per_layer_config": {"1": {"head_dim": 16, "num_experts": 4}}}, "num_experts"),
        ({**BAILING_2_5, "num_hidden_layers": 7}, "layer_group_size"),
        ({key: value for key, value in BAILING_2_5.items() if key != "architectures"}, "q_lora_rank"),
        ({**BAILING_2_5, "short_conv_kernel_size": 4}, "short_conv_kernel_size"),
        ({**LONGCAT_LITE, "emb_split_num": 5}, "emb_split_num"),
        ({**LOOP, "head_dim": 24}, "head_dim"),
        ({**DORY, "recurrent_kv_cache_mode": "last_loop"}, "recurrent_kv_cache_mode"),
        ({**DORY, "n_input_layers": 2}, "n_recurrent_layers"),
        ({**DORY, "tie_word_embeddings": True}, "tie_word_embeddings"),
        ({**LOOP, "loop_num": 1}, "loop_num"),
        ({**LOOP, "loop_window_size": None}, "loop_window_size"),
        ({**CASES["pangu_pro_moe_v2"].config, "param_sink_scalar": 1.0}, "param_sink_scalar"),
    ],
)
def test_what_is_not_understood(config: Config, message: str) -> None:
    """Refused, with the key."""
    with pytest.raises(RooflineError, match=message):
        model_of(config)
