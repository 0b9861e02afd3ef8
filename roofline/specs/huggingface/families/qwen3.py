"""Qwen3, dense and with experts, and the text parts of Qwen3-VL and Qwen3-Omni: a norm over each head of queries and keys."""

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
    kinds_of_windows,
    layer_names,
    listed_blocks,
    sliding_from_layer,
    sparse_by_step,
    switched_windows,
    windows,
)
from roofline.specs.huggingface.sections import dual_chunks, experts_of, gated_mlp, gqa, heads, layers_of, model_keys, moe, mtp


@family("qwen3", architectures=("Qwen3ForCausalLM",), source=transformers("qwen3"))
def qwen3(config: Config) -> Draft:
    """Reads `qwen3` configs: dense layers; a sliding window, if there is one, from `max_window_layers` on."""
    return _dense(config, switched_windows(config, layers_of(config), sliding_from_layer(config)))


@family("qwen3_vl_text", architectures=("Qwen3VLForConditionalGeneration",), source=transformers("qwen3_vl"))
def qwen3_vl(config: Config) -> Draft:
    """Reads `qwen3_vl_text` configs: Qwen3 without windows."""
    config.off("use_sliding_window", "sliding_window")
    return _dense(config, [None] * layers_of(config))


@family(
    "qwen3_moe",
    types=("qwen3_omni_moe_text",),
    architectures=("Qwen3MoeForCausalLM", "Qwen3OmniMoeForConditionalGeneration"),
    source=transformers("qwen3_moe"),
)
def qwen3_moe(config: Config) -> Draft:
    """Reads `qwen3_moe` configs: mixtures of experts without shared ones; a sliding window, if there is one, in all layers."""
    return _sparse(config, switched_windows(config, layers_of(config), lambda index: SLIDING))


@family("qwen3_vl_moe_text", architectures=("Qwen3VLMoeForConditionalGeneration",), source=transformers("qwen3_vl_moe"))
def qwen3_vl_moe(config: Config) -> Draft:
    """Reads `qwen3_vl_moe_text` configs: Qwen3's mixtures of experts without windows."""
    config.off("use_sliding_window", "sliding_window")
    return _sparse(config, [None] * layers_of(config))


@family("mellum", architectures=("MellumForCausalLM",), source=transformers("mellum"))
def mellum(config: Config) -> Draft:
    """Reads `mellum` configs: Qwen3's mixtures of experts, with windows on the layers that `layer_types` names."""
    count = layers_of(config)
    kinds = attention_kinds(config, count, (FULL, SLIDING), lambda index: FULL)
    blocks = listed_blocks(config, count, lambda: [SPARSE] * count)
    config.harmless("mtp_layer_types", "mtp_mlp_layer_types")
    mtp(config, "num_mtp_layers")
    return _sparse(config, windows(config, kinds), blocks)


def _attention(config: Config, widths: list[int | None]) -> list[Section]:
    # NB: every class of dense models has heads of 128 elements where the key is absent; those with experts differ on it.
    usual = 128 if config.data.get("model_type") == "qwen3" else None
    if usual is None:
        config.whole("head_dim")
    n_q, n_kv, head_dim = heads(config, head_dim=usual)
    # NB: some files have none of it (Qwen3-Coder): there are no biases then.
    biased = config.flag("attention_bias", default=False)
    config.off("qkv_bias")
    config.only("use_qk_norm", True, "this family has norms of queries and keys")
    dual_chunks(config)
    return [
        gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased, qk_norm="head", sliding_window=window) for window in widths
    ]


def _dense(config: Config, widths: list[int | None]) -> Draft:
    block = gated_mlp(config.whole("intermediate_size"))
    mixers = _attention(config, widths)
    layers = [Layer(name, mixer, block) for name, mixer in zip(layer_names(kinds_of_windows(widths)), mixers, strict=True)]
    return Draft(layers, model_keys(config))


def _sparse(config: Config, widths: list[int | None], blocks: list[str] | None = None) -> Draft:
    blocks, mixers = blocks or sparse_by_step(config, len(widths)), _attention(config, widths)
    experts, top_k = experts_of(config, ("num_experts", "num_local_experts"))
    config.off("shared_expert_intermediate_size")
    sparse = moe(experts, top_k, config.whole("moe_intermediate_size"))
    dense = dense_block(config, blocks)
    layers = [
        Layer(name, mixer, dense if block == DENSE else sparse)
        for name, mixer, block in zip(layer_names(kinds_of_windows(widths), blocks), mixers, blocks, strict=True)
    ]
    return Draft(layers, model_keys(config))


@family("flint", architectures=("FlintForCausalLM",), source=transformers("flint"))
def flint(config: Config) -> Draft:
    """Reads `flint` configs: experts beside a shared one, sinks, and windows on most layers, which alone are rotated."""
    count = layers_of(config)

    def rule(index: int) -> str:
        return FULL if index < 2 or index % 4 == 1 or index == count - 1 else SLIDING

    kinds = attention_kinds(config, count, (FULL, SLIDING), rule)
    dense_layers = set(config.indices("mlp_only_layers", count, default=[index for index in (0, 1) if index < count]))
    step = config.whole("decoder_sparse_step", default=1)
    blocks = [DENSE if index in dense_layers or (index + 1) % step else SPARSE for index in range(count)]
    n_q, n_kv, head_dim = heads(config, head_dim=config.whole("head_dim"))
    biased = config.flag("attention_bias", default=False)

    def mixer(kind: str) -> Section:
        own = {"sliding_window": config.whole("sliding_window")} if kind == SLIDING else {"rotary_dim": 0}
        return gqa(n_q, n_kv, head_dim, **own, qkv_bias=biased, o_bias=biased, qk_norm="head", sinks=True)

    config.harmless("sliding_window")
    experts, top_k = experts_of(config, ("num_experts", "num_local_experts"))
    shared = config.whole("shared_expert_intermediate_size")
    sparse = moe(experts, top_k, config.whole("moe_intermediate_size"), shared_intermediate_size=shared)
    feeds = {DENSE: dense_block(config, blocks), SPARSE: sparse}
    return Draft(by_kind_and_block(kinds, blocks, {kind: mixer(kind) for kind in set(kinds)}, feeds), model_keys(config))
