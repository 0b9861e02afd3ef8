"""Qwen3-Next, Qwen3.5 and Qwen3.6: three of four layers are Gated DeltaNet, attention has a gate on its output."""

from __future__ import annotations

from collections.abc import Callable

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import (
    DENSE,
    FULL,
    LINEAR,
    SPARSE,
    attention_kinds,
    dense_block,
    layer_names,
    sparse_by_step,
)
from roofline.specs.huggingface.sections import (
    experts_of,
    gqa,
    heads,
    layers_of,
    model_keys,
    moe,
    mtp,
    rotary,
    rotary_of,
    state_dtype,
)


@family("qwen3_next", architectures=("Qwen3NextForCausalLM",), source=transformers("qwen3_next"))
def qwen3_next(config: Config) -> Draft:
    """Reads `qwen3_next` configs: mixtures of experts, or dense layers where the file says so."""
    return _draft(config, sparse_by_step(config, layers_of(config)))


@family("qwen3_5_text", architectures=("Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"), source=transformers("qwen3_5"))
def qwen3_5(config: Config) -> Draft:
    """Reads `qwen3_5_text` configs: linear and full attention as in Qwen3-Next, dense feed-forward blocks."""
    return _draft(config, [DENSE] * layers_of(config))


@family(
    "qwen3_5_moe_text",
    architectures=("Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM"),
    source=transformers("qwen3_5_moe"),
)
def qwen3_5_moe(config: Config) -> Draft:
    """Reads `qwen3_5_moe_text` configs: linear and full attention as in Qwen3-Next, a mixture of experts in every layer."""
    config.only("mlp_only_layers", [], "all layers of this family are mixtures of experts")
    config.only("decoder_sparse_step", 1, "all layers of this family are mixtures of experts")
    return _draft(config, [SPARSE] * layers_of(config))


def _draft(config: Config, blocks: list[str]) -> Draft:
    count = len(blocks)
    kinds = attention_kinds(config, count, (FULL, LINEAR), None if config.has("layer_types") else _every(config))
    config.harmless("full_attention_interval", "mtp_use_dedicated_embeddings")
    config.off("use_sliding_window")
    mtp(config, "mtp_num_hidden_layers")
    mixers = {FULL: _attention(config), LINEAR: _delta_net(config)}
    sparse, dense = _experts(config) if SPARSE in blocks else None, dense_block(config, blocks)
    layers = [
        Layer(name, mixers[kind], dense if block == DENSE else sparse)
        for name, kind, block in zip(layer_names(kinds, blocks), kinds, blocks, strict=True)
    ]
    return Draft(layers, model_keys(config, **state_dtype(config, "mamba_ssm_dtype")))


def _every(config: Config) -> Callable[[int], str]:
    every = config.whole("full_attention_interval")
    return lambda index: LINEAR if (index + 1) % every else FULL


def _attention(config: Config) -> Section:
    n_q, n_kv, head_dim = heads(config, head_dim=config.whole("head_dim"))
    config.only("attn_output_gate", True, "attention of this family has a gate on its output")
    biased = config.flag("attention_bias", default=False)
    turned = rotary_of(config, FULL, head_dim) or rotary(config, head_dim, 0.25)
    return gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased, qk_norm="head", output_gate="elementwise", **turned)


def _delta_net(config: Config) -> Section:
    numbers = (
        "linear_num_key_heads",
        "linear_num_value_heads",
        "linear_key_head_dim",
        "linear_value_head_dim",
        "linear_conv_kernel_dim",
    )
    return {"kind": "gated_delta_net", **{name: config.whole(name) for name in numbers}}


def _experts(config: Config) -> Section:
    experts, top_k = experts_of(config, ("num_experts", "num_local_experts"))
    shared = config.whole("shared_expert_intermediate_size")
    return moe(experts, top_k, config.whole("moe_intermediate_size"), shared_intermediate_size=shared, shared_gate=True)
