"""Ling and Ring (Bailing): Kimi Delta Attention and latent attention in turn, DeepSeek-V3's experts."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import (
    DENSE,
    FULL,
    LINEAR,
    SPARSE,
    attention_kinds,
    by_kind_and_block,
    dense_block,
    listed_blocks,
    sparse_after,
)
from roofline.specs.huggingface.sections import (
    correction_biases,
    experts_of,
    layers_of,
    mla,
    model_keys,
    moe,
    mtp,
    without_absent,
)


@family(
    "bailing_hybrid",
    architectures=("BailingHybridForCausalLM", "BailingMoeV3ForCausalLM"),
    source=transformers("bailing_hybrid"),
)
def bailing_hybrid(config: Config) -> Draft:
    """Reads `bailing_hybrid` configs: `layer_group_size` layers end with one of latent attention, which has a gate a head."""
    count = layers_of(config)
    every = config.whole("layer_group_size", default=6)
    kinds = attention_kinds(config, count, (FULL, LINEAR), lambda index: LINEAR if (index + 1) % every else FULL)
    blocks = listed_blocks(config, count, lambda: sparse_after(config, count))
    config.harmless("first_k_dense_replace", "kda_safe_gate", "moe_renormalize", "kda_lower_bound", "q_lora_rank")
    config.off("q_lora_rank")
    # NB: transformers saves head_dim as the rotated part of latent attention, and the delta layers' apart.
    config.harmless("head_dim", "linear_num_heads", "linear_conv_kernel_dim")
    mtp(config, "num_mtp_layers", "num_nextn_predict_layers")
    delta = {
        "kind": "kda",
        "linear_num_heads": config.whole("num_attention_heads"),
        "linear_head_dim": config.whole("linear_head_dim" if config.has("linear_head_dim") else "head_dim"),
        "linear_conv_kernel_dim": config.whole("short_conv_kernel_size", "linear_conv_kernel_dim"),
        "full_rank_gates": True,
    }
    latent = {**mla(config, compressed_queries=False), "output_gate": "headwise"}
    experts, top_k = experts_of(config, ("num_local_experts", "num_experts"), ("num_experts_per_tok", "num_experts_per_token"))
    inner = config.whole("moe_intermediate_size")
    shared = inner * config.whole("n_shared_experts", "num_shared_experts")
    groups = {"n_group": config.whole("n_group", "num_expert_group"), "topk_group": config.whole("topk_group")}
    limited = groups if groups["topk_group"] < groups["n_group"] else {}
    feeds = {
        DENSE: dense_block(config, blocks),
        SPARSE: moe(experts, top_k, inner, shared_intermediate_size=shared, **without_absent(**limited)),
    }
    layers = by_kind_and_block(kinds, blocks, {FULL: latent, LINEAR: delta}, feeds)
    return Draft(
        layers,
        model_keys(config, positions=config.whole("max_position_embeddings", "model_max_length"), **correction_biases(layers)),
    )
