"""Cohere (Command R, Command R+, Aya) and Cohere 2 (Command R7B, Command A, with experts too): both blocks side by side under
one norm.

In Cohere 2 three of four layers have a sliding window and rotated heads, and every fourth has neither.
"""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import (
    DENSE,
    FULL,
    SLIDING,
    SPARSE,
    attention_kinds,
    dense_block,
    last_of_each,
    layer_names,
    listed_blocks,
    window_key,
    window_width,
    windows,
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
    written_before,
)

LAYERNORM = {"function": "layernorm"}  # without biases


@family("cohere", architectures=("CohereForCausalLM",), source=transformers("cohere"))
def cohere(config: Config) -> Draft:
    """Reads `cohere` configs.

    Both blocks side by side under one norm; one switch for the biases of attention, none in the feed-forward block.
    """
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased = config.flag("attention_bias", default=False, why="the default of the class, which came after Command R")
    if not config.has("use_qk_norm") and config.has("transformers_version") and not written_before(config, (4, 40)):
        config.refuse("transformers_version", "what wrote this config knew the key use_qk_norm, and it is missing")
    normed = config.flag("use_qk_norm", default=False, why="the default of the class, which came after Command R")
    norm: Section = {"qk_norm": "full", "qk_norm_function": "layernorm"} if normed else {}
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased, **norm),
        gated_mlp(config.whole("intermediate_size")),
        {"parallel": True},
    )
    return Draft([layer] * layers_of(config), {**model_keys(config, tie=True, norm=LAYERNORM), **longest(config)})


def longest(config: Config) -> Section:
    """The key `max_position_embeddings` from `model_max_length`, where it is given; else empty.

    max_position_embeddings was left at what Command R was trained with first.
    """
    length = config.whole("model_max_length", default=None)
    return {} if length is None else {"max_position_embeddings": length}


@family("cohere2", architectures=("Cohere2ForCausalLM",), source=transformers("cohere2"))
def cohere2(config: Config) -> Draft:
    """Reads `cohere2` configs: like Cohere, without norms of queries and keys."""
    _only_published(config)
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased = config.flag("attention_bias")
    feed = gated_mlp(config.whole("intermediate_size"))
    keys = {**model_keys(config, tie=True, norm=LAYERNORM), **longest(config)}
    width = window_width(config, keys["max_position_embeddings"])
    every = config.whole("sliding_window_pattern", "layer_switch", default=4)
    kinds = last_of_each(config, layers_of(config), every, "the rule of Cohere 2, where there are no layer_types")
    layers = [
        Layer(
            name,
            gqa(
                n_q, n_kv, head_dim, **window_key(kind, width),
                rotary_dim=None if kind == SLIDING else 0, qkv_bias=biased, o_bias=biased,
            ),
            feed,
            {"parallel": True},
        )
        for name, kind in zip(layer_names(kinds), kinds, strict=True)
    ]  # fmt: skip
    return Draft(layers, keys)


@family("cohere2_moe", architectures=("Cohere2MoeForCausalLM",), source=transformers("cohere2_moe"))
def cohere2_moe(config: Config) -> Draft:
    """Reads `cohere2_moe` configs: Cohere 2 with experts, each `intermediate_size` wide, after some dense layers.

    The first, dense layers may have a rhythm of windows of their own; norms are RMSNorms where `rms_norm_eps` is given.
    """
    count = layers_of(config)
    dense = config.whole("first_k_dense_replace", default=0, low=0)
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config), head_dim=128)
    biased = config.flag("attention_bias")
    rhythms = [
        config.whole("prefix_dense_sliding_window_pattern", default=1),
        config.whole("sliding_window_pattern", default=4),
    ]

    def rule(index: int) -> str:
        place, every = (index, rhythms[0]) if index < dense else (index - dense, rhythms[1])
        return SLIDING if (place + 1) % every else FULL

    kinds = attention_kinds(config, count, (FULL, SLIDING), rule)
    blocks = listed_blocks(config, count, lambda: [DENSE] * dense + [SPARSE] * (count - dense))
    norm = {} if config.raw("rms_norm_eps") is not None else {"norm": LAYERNORM}
    keys = {**model_keys(config, tie=True, **norm), **longest(config)}
    config.harmless("shared_expert_combination_strategy", "expert_selection_fn")
    config.off("use_qk_norm")
    experts, top_k = experts_of(config, ("num_experts", "num_local_experts"))
    width = config.whole("intermediate_size")
    shared = width * config.whole("num_shared_experts", default=0, low=0)
    sparse = moe(experts, top_k, width, shared_intermediate_size=shared)
    feeds = {DENSE: dense_block(config, blocks, "prefix_dense_intermediate_size"), SPARSE: sparse}

    def mixer(window: int | None, block: str) -> Section:
        rotated = window is not None or (block == DENSE and rhythms[0] == 1)
        return gqa(
            n_q, n_kv, head_dim, sliding_window=window, rotary_dim=None if rotated else 0, qkv_bias=biased, o_bias=biased
        )

    layers = [
        Layer(name, mixer(window, block), feeds[block], {"parallel": True})
        for name, window, block in zip(layer_names(kinds, blocks), windows(config, kinds), blocks, strict=True)
    ]
    return Draft(layers, keys)


def _only_published(config: Config) -> None:
    """Switches of the code that Command R7B was trained with: one value of each is what transformers builds."""
    for name, value in (
        ("order_of_interleaved_layers", "local_attn_first"),
        ("position_embedding_type", "rope_gptj"),
        ("rotary_pct", 1.0),
        ("use_embedding_sharing", True),
        ("use_gated_activation", True),
        ("use_parallel_block", True),
    ):
        config.only(name, value, "transformers builds no other Cohere 2 model")
    config.off("use_qk_norm")
    config.harmless("use_parallel_embedding", "cache_implementation")
