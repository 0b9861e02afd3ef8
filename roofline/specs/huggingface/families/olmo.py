"""OLMo 1 to 3: norms without weights, then norms after the blocks and of queries and keys, then windows. OLMoE and FlexOLMo
have experts, OLMo Hybrid gated delta layers."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import (
    FULL,
    LINEAR,
    attention_kinds,
    last_of_each,
    layer_names,
    window_key,
    window_width,
)
from roofline.specs.huggingface.sections import (
    experts_of,
    explicit_kv_heads,
    gated_mlp,
    gqa,
    heads,
    layers_of,
    model_keys,
    moe,
)


@family("olmo", architectures=("OlmoForCausalLM",), source=transformers("olmo"))
def olmo(config: Config) -> Draft:
    """Reads `olmo` configs: layer norms that have no parameters."""
    config.harmless("clip_qkv")
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased = config.flag("attention_bias")
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased),
        gated_mlp(config.whole("intermediate_size")),
    )
    return Draft([layer] * layers_of(config), model_keys(config, norm={"function": "layernorm", "weight": False}))


@family("olmo2", architectures=("Olmo2ForCausalLM",), source=transformers("olmo2"))
def olmo2(config: Config) -> Draft:
    """Reads `olmo2` configs: full attention on every layer."""
    config.off("sliding_window", "layer_types")
    return _with_norms_after(config, [FULL] * layers_of(config), None)


@family("olmo3", architectures=("Olmo3ForCausalLM",), source=transformers("olmo3"))
def olmo3(config: Config) -> Draft:
    """Reads `olmo3` configs: a sliding window on three of four layers."""
    width = window_width(config, config.whole("max_position_embeddings"))
    kinds = last_of_each(config, layers_of(config), 4, "the rule of OLMo 3, where there are no layer_types")
    return _with_norms_after(config, kinds, width)


@family("olmoe", architectures=("OlmoeForCausalLM",), source=transformers("olmoe"))
def olmoe(config: Config) -> Draft:
    """Reads `olmoe` configs: experts in every layer, norms before the blocks and of queries and keys."""
    config.harmless("clip_qkv")
    return _with_experts(config, "pre")


@family("flex_olmo", architectures=("FlexOlmoForCausalLM",), source=transformers("flex_olmo"))
def flex_olmo(config: Config) -> Draft:
    """Reads `flex_olmo` configs: experts in every layer, norms after the blocks and of queries and keys."""
    return _with_experts(config, "post")


def _with_experts(config: Config, norms: str) -> Draft:
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased = config.flag("attention_bias", default=False, why="the default of the class, where the key is absent")
    experts, top_k = experts_of(config, ("num_experts", "num_local_experts"))
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qk_norm="full", qkv_bias=biased, o_bias=biased),
        moe(experts, top_k, config.whole("intermediate_size")),
        {"norms": norms},
    )
    return Draft([layer] * layers_of(config), model_keys(config))


@family("olmo_hybrid", architectures=("OlmoHybridForCausalLM",), source=transformers("olmo_hybrid"))
def olmo_hybrid(config: Config) -> Draft:
    """Reads `olmo_hybrid` configs: norms stand before the blocks of delta layers, and after those of softmax attention.

    Where `rope_parameters` have null as the base of rotation, there are no positions.
    """
    count = layers_of(config)
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased = config.flag("attention_bias", default=False, why="the default of the class, where the key is absent")
    rope = config.part("rope_parameters", default=None, looked_at=False)
    rotated = rope is None or "rope_theta" not in rope.data or rope.has("rope_theta")
    kinds = attention_kinds(config, count, (FULL, LINEAR), lambda index: FULL if index % 4 == 3 else LINEAR)
    config.harmless("linear_allow_neg_eigval", "linear_a_log_min", "linear_a_log_max", "linear_dt_min", "linear_dt_max")
    config.harmless("linear_dt_init_floor")
    names = ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim")
    mixers = {
        FULL: gqa(n_q, n_kv, head_dim, qk_norm="full", qkv_bias=biased, o_bias=biased, rotary_dim=None if rotated else 0),
        LINEAR: {
            "kind": "gated_delta_net",
            **{name: config.whole(name) for name in (*names, "linear_conv_kernel_dim")},
        },
    }
    feed = gated_mlp(config.whole("intermediate_size"))
    norms = {FULL: {"norms": "post"}, LINEAR: {}}
    layers = [Layer(name, mixers[kind], feed, norms[kind]) for name, kind in zip(layer_names(kinds), kinds, strict=True)]
    return Draft(layers, model_keys(config))


def _with_norms_after(config: Config, kinds: list[str], width: int | None) -> Draft:
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased = config.flag("attention_bias", default=False, why="the default of the class, where the key is absent")
    feed = gated_mlp(config.whole("intermediate_size"))
    layers = [
        Layer(
            name,
            gqa(n_q, n_kv, head_dim, **window_key(kind, width), qk_norm="full", qkv_bias=biased, o_bias=biased),
            feed,
            {"norms": "post"},
        )
        for name, kind in zip(layer_names(kinds), kinds, strict=True)
    ]
    return Draft(layers, model_keys(config))
