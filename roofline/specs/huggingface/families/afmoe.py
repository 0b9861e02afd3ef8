"""AFMoE (Trinity) and Laguna: a gate on attention, shared experts, and windows on most layers."""

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
    by_kind_and_block,
    dense_block,
    layer_names,
    listed_blocks,
    sparse_after,
    sparse_by_step,
    windows,
)
from roofline.specs.huggingface.sections import (
    experts_of,
    explicit_kv_heads,
    gqa,
    heads,
    layers_of,
    model_keys,
    moe,
    rotary_of,
)


@family("afmoe", architectures=("AfmoeForCausalLM",), source=transformers("afmoe"))
def afmoe(config: Config) -> Draft:
    """Reads `afmoe` configs: norms before and after each block, layers with a window alone are rotated.

    The router's corrections are parameters of the class, one an expert.
    """
    count = layers_of(config)
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    config.off("attention_bias")
    every = config.whole("global_attn_every_n_layers", default=4)
    kinds = attention_kinds(config, count, (FULL, SLIDING), lambda index: SLIDING if (index + 1) % every else FULL)
    config.harmless("score_func", "route_norm", "use_grouped_mm", "mup_enabled")
    config.only("num_expert_groups", 1, "experts in several groups")
    config.only("num_limited_groups", 1, "experts in several groups")
    blocks = sparse_after(config, count, "num_dense_layers")

    def mixer(kind: str, width: int | None) -> Section:
        return gqa(
            n_q, n_kv, head_dim, sliding_window=width, rotary_dim=0 if kind == FULL else None, qk_norm="head",
            output_gate="elementwise",
        )  # fmt: skip

    mixers = {kind: mixer(kind, width) for kind, width in zip(kinds, windows(config, kinds), strict=True)}
    experts, top_k = experts_of(config, ("num_experts", "num_local_experts"))
    inner = config.whole("moe_intermediate_size")
    shared = inner * config.whole("num_shared_experts", low=0)
    sparse = moe(experts, top_k, inner, shared_intermediate_size=shared, router_bias=True)
    feeds = {DENSE: dense_block(config, blocks), SPARSE: sparse}
    return Draft(by_kind_and_block(kinds, blocks, mixers, feeds, norms="both"), model_keys(config))


@family("laguna", architectures=("LagunaForCausalLM",), source=transformers("laguna"))
def laguna(config: Config) -> Draft:
    """Reads `laguna` configs: layers may differ in their number of query heads.

    `gating` is the width of the gate on attention: a number for each head, or one for each element. The router's corrections
    are parameters of the class, one an expert.
    """
    count = layers_of(config)
    n_q, n_kv, head_dim = heads(config, head_dim=config.whole("head_dim"))
    per_layer = config.wholes("num_attention_heads_per_layer", count, default=[n_q] * count, low=1)
    biased = config.flag("attention_bias", default=False)
    kinds = attention_kinds(config, count, (FULL, SLIDING), lambda index: FULL)
    blocks = listed_blocks(config, count, lambda: [DENSE] + [SPARSE] * (count - 1))
    if config.whole("decoder_sparse_step", default=None) is not None and sparse_by_step(config, count) != blocks:
        config.refuse("mlp_only_layers", "it and decoder_sparse_step say otherwise than mlp_layer_types which layers are dense")
    config.off("moe_apply_router_weight_on_input")
    gate = "headwise" if config.raw("gating", default=True) in (True, "per-head") else "elementwise"
    spelled = "per_head" if gate == "headwise" else "per_element"
    config.words("gating_types", count, (spelled,), default=None)
    if gate == "elementwise":
        config.off("attention_bias")  # the gate, which is projected with queries here, has none
    experts, top_k = experts_of(config, ("num_experts", "num_local_experts"))
    shared = config.whole("shared_expert_intermediate_size")
    sparse = moe(experts, top_k, config.whole("moe_intermediate_size"), shared_intermediate_size=shared, router_bias=True)
    feeds = {DENSE: dense_block(config, blocks), SPARSE: sparse}
    turned = {kind: rotary_of(config, kind, head_dim, 0.5 if kind == FULL else None) for kind in set(kinds)}

    def mixer(kind: str, own: int, width: int | None) -> Section:
        config.divides(("num_key_value_heads", n_kv), ("num_attention_heads_per_layer", own))
        return gqa(
            own, n_kv, head_dim, sliding_window=width, **turned[kind], qkv_bias=biased, o_bias=biased, qk_norm="head",
            output_gate=gate,
        )  # fmt: skip

    layers = [
        Layer(name, mixer(kind, own, width), feeds[block])
        for name, kind, block, own, width in zip(
            layer_names(kinds, blocks), kinds, blocks, per_layer, windows(config, kinds), strict=True
        )
    ]
    return Draft(layers, model_keys(config))
