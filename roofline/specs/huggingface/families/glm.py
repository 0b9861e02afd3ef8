"""GLM-4, GLM-4-0414 and GLM-4.5 to 4.7, and the language models of GLM-4.1V to 4.6V: half of each head is rotated.
GLM-4.7-Flash has DeepSeek-V3's attention and experts, at other widths."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import DENSE, dense_block, layer_names, sparse_after
from roofline.specs.huggingface.sections import (
    correction_biases,
    dense_and_moe,
    experts_of,
    gated_mlp,
    gqa,
    heads,
    layers_of,
    listed_kinds_of_mlp,
    mla,
    model_keys,
    moe,
    mtp,
    rotary,
    width_of_head,
)


@family("glm", architectures=("GlmForCausalLM",), source=transformers("glm"))
def glm(config: Config) -> Draft:
    """Reads `glm` configs: norms before each block."""
    return _dense(config, _attention(config, config.flag("attention_bias")))


@family("glm4", architectures=("Glm4ForCausalLM",), source=transformers("glm4"))
def glm4(config: Config) -> Draft:
    """Reads `glm4` configs: norms before and after each block."""
    return _dense(config, _attention(config, config.flag("attention_bias")), norms="both")


@family("glm_ocr_text", architectures=("GlmOcrForConditionalGeneration",), source=transformers("glm_ocr"))
def glm_ocr(config: Config) -> Draft:
    """Reads `glm_ocr_text` configs: GLM-4-0414 without biases."""
    config.harmless("attention_bias")  # NB: the class has none whatever this says
    return _dense(
        config, _attention(config, False, head_dim=width_of_head(config, config.whole("num_attention_heads"))), norms="both"
    )


@family("glm4v_text", architectures=("Glm4vForConditionalGeneration",), source=transformers("glm4v"))
def glm4v(config: Config) -> Draft:
    """Reads `glm4v_text` configs: GLM-4-0414 whose Q, K and V always have biases."""
    config.only("attention_bias", True, "this family has biases of Q, K and V whatever this says")
    n_q, hidden = config.whole("num_attention_heads"), config.whole("hidden_size")
    if hidden % n_q or config.whole("head_dim", default=hidden // n_q) != hidden // n_q:
        config.refuse("head_dim", f"has to be hidden_size over num_attention_heads ({hidden} / {n_q}) in this family")
    return _dense(config, _attention(config, True, head_dim=hidden // n_q), norms="both")


@family("glm4_moe", architectures=("Glm4MoeForCausalLM",), source=transformers("glm4_moe"))
def glm4_moe(config: Config) -> Draft:
    """Reads `glm4_moe` configs: the first layers are dense; some sizes have norms of queries and keys."""
    normed = {"qk_norm": "head"} if config.flag("use_qk_norm") else {}
    return _sparse(config, {**_attention(config, config.flag("attention_bias")), **normed})


@family("solar_open", architectures=("SolarOpenForCausalLM",), source=transformers("solar_open"))
def solar_open(config: Config) -> Draft:
    """Reads `solar_open` configs: GLM-4.5's experts in every layer, and heads that are rotated as a whole."""
    config.off("use_qk_norm", "first_k_dense_replace", "num_nextn_predict_layers")
    config.harmless("intermediate_size")
    count = layers_of(config)
    n_q, n_kv, width = heads(config, head_dim=config.whole("head_dim"))
    mixer = gqa(n_q, n_kv, width, qkv_bias=config.flag("attention_bias"), **rotary(config, width))
    layers = [Layer("decoder", mixer, _experts(config))] * count
    return Draft(layers, model_keys(config, **correction_biases(layers)))


@family("glm4v_moe_text", architectures=("Glm4vMoeForConditionalGeneration",), source=transformers("glm4v_moe"))
def glm4v_moe(config: Config) -> Draft:
    """Reads `glm4v_moe_text` configs: GLM-4.5-Air without norms of queries and keys."""
    config.off("use_qk_norm")
    return _sparse(config, _attention(config, config.flag("attention_bias")))


def _attention(config: Config, biased: bool, head_dim: int | None = None) -> Section:
    """Biases of Q, K and V alone: the output has none."""
    # NB: head_dim has a default in the class, or is no part of it; files always give it.
    n_q, n_kv, width = heads(config, head_dim=head_dim or config.whole("head_dim"))
    return gqa(n_q, n_kv, width, qkv_bias=biased, **rotary(config, width, 0.5))


def _dense(config: Config, mixer: Section, **rest: str) -> Draft:
    layer = Layer("decoder", mixer, gated_mlp(config.whole("intermediate_size")), dict(rest))
    return Draft([layer] * layers_of(config), model_keys(config))


def _sparse(config: Config, mixer: Section) -> Draft:
    count = layers_of(config)
    blocks = sparse_after(config, count)
    sparse, dense = _experts(config), dense_block(config, blocks)
    mtp(config, "num_nextn_predict_layers", "num_mtp_layers")
    layers = [
        Layer(name, mixer, dense if block == DENSE else sparse) for name, block in zip(layer_names(blocks), blocks, strict=True)
    ]
    return Draft(layers, model_keys(config, **correction_biases(layers)))


def _experts(config: Config) -> Section:
    experts, top_k = experts_of(config, ("n_routed_experts", "num_local_experts"))
    width = config.whole("moe_intermediate_size")
    return moe(experts, top_k, width, shared_intermediate_size=width * config.whole("n_shared_experts"))


@family("glm4_moe_lite", architectures=("Glm4MoeLiteForCausalLM",), source=transformers("glm4_moe_lite"))
def glm4_moe_lite(config: Config) -> Draft:
    """Reads `glm4_moe_lite` configs.

    The first layer is dense unless `mlp_layer_types` says otherwise; the class does not look at another count.
    """
    if not config.has("mlp_layer_types"):
        config.only("first_k_dense_replace", 1, "the class has one dense layer, the first")
    count = layers_of(config)
    layers = dense_and_moe(config, listed_kinds_of_mlp(config, count), [mla(config)] * count)
    mtp(config, "num_nextn_predict_layers")
    return Draft(layers, model_keys(config, **correction_biases(layers)))
