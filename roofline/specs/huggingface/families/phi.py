"""Phi-1 to Phi-4 and Phi-MoE. Phi-1 to Phi-2 have both blocks side by side under one norm, with biases throughout; Phi-3 and
Phi-4 have Llama's shape; Phi-MoE layer norms and experts. Phi-3-small is another architecture: its attention is
block-sparse."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.families.gpt import LAYERNORM, heads_and_width, inner, layers
from roofline.specs.huggingface.layer_types import window_width
from roofline.specs.huggingface.sections import (
    experts_of,
    explicit_kv_heads,
    gated_mlp,
    gqa,
    heads,
    layers_of,
    mlp,
    model_keys,
    moe,
    rotary,
    tied_and_dtype,
)


@family("phi", types=("phi-msft",), architectures=("PhiForCausalLM",), source=transformers("phi"))
def phi(config: Config) -> Draft:
    """Reads `phi` configs: half of a head is rotated by default."""
    if config.data.get("model_type") == "phi-msft":
        return _first(config)
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    norm: Section = {}
    if config.flag("qk_layernorm", default=False, why="the default of the class, where the key is absent"):
        norm = {"qk_norm": "head", "qk_norm_function": "layernorm", "qk_norm_bias": True}
    mixer = gqa(n_q, n_kv, head_dim, **rotary(config, head_dim, 0.5), qkv_bias=True, o_bias=True, **norm)
    layer = Layer("decoder", mixer, mlp(config.whole("intermediate_size"), bias=True), {"parallel": True})
    return Draft([layer] * layers_of(config), model_keys(config, norm=LAYERNORM, lm_head_bias=True))


def _first(config: Config) -> Draft:
    """The same model under the names of its first config."""
    config.harmless("flash_attn", "flash_rotary", "fused_dense")
    n_q, head_dim, hidden = heads_and_width(config)
    n_kv = config.whole("n_head_kv", default=n_q)
    mixer = gqa(n_q, n_kv, head_dim, rotary_dim=config.whole("rotary_dim"), qkv_bias=True, o_bias=True)
    layer = Layer("decoder", mixer, mlp(inner(config, hidden), bias=True), {"parallel": True})
    keys = {
        "hidden_size": hidden,
        "vocab_size": config.whole("vocab_size"),
        "max_position_embeddings": config.whole("n_positions"),
        "norm": LAYERNORM,
        "lm_head_bias": True,
        **tied_and_dtype(config),
    }
    return Draft([layer] * layers(config), keys)


@family("phi3", types=("phi4mm", "phi4_multimodal"), architectures=("Phi3ForCausalLM",), source=transformers("phi3"))
def phi3(config: Config) -> Draft:
    """Reads `phi3` configs: layers like Llama's, with a sliding window on every layer where there is one."""
    config.off("attention_bias", "mlp_bias", "lm_head_bias", "layer_types")
    config.only("full_attn_mod", 1, "every layer has the same attention")
    config.harmless("interpolate_factor")
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    keys = model_keys(config)
    width = window_width(config, keys["max_position_embeddings"])
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, sliding_window=width, **rotary(config, head_dim)),
        gated_mlp(config.whole("intermediate_size")),
    )
    return Draft([layer] * layers_of(config), keys)


@family("phimoe", architectures=("PhimoeForCausalLM", "PhiMoEForCausalLM"), source=transformers("phimoe"))
def phimoe(config: Config) -> Draft:
    """Reads `phimoe` configs: one bias switch for the four projections of attention, one for the LM head."""
    config.off("layer_types", "mlp_bias")
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased = config.flag("attention_bias")
    experts, top_k = experts_of(config, ("num_local_experts",))
    keys = model_keys(config, norm=LAYERNORM, lm_head_bias=config.flag("lm_head_bias"))
    width = window_width(config, keys["max_position_embeddings"])
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, sliding_window=width, qkv_bias=biased, o_bias=biased),
        moe(experts, top_k, config.whole("intermediate_size")),
    )
    return Draft([layer] * layers_of(config), keys)
