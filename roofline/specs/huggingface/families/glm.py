"""ChatGLM2 and 3, GLM-4 to GLM-4.7, Solar Open, and the language models of GLM-4.1V to 4.6V: half of each head is rotated,
mostly. GLM-4.7-Flash has DeepSeek-V3's attention and experts, at other widths."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers, vllm
from roofline.specs.huggingface.layer_types import DENSE, dense_block, layer_names, sparse_after
from roofline.specs.huggingface.sections import (
    correction_biases,
    dense_and_moe,
    experts_of,
    gated_mlp,
    gqa,
    head_dim_from_hidden,
    heads,
    layers_of,
    listed_kinds_of_mlp,
    mla,
    model_keys,
    moe,
    mtp,
    rotary,
    tied_and_dtype,
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


@family("chatglm", architectures=("ChatGLMModel", "ChatGLMForConditionalGeneration"), source=vllm("chatglm"))
def chatglm(config: Config) -> Draft:
    """Reads `chatglm` configs: ChatGLM2, ChatGLM3, GLM-4-9B. Half of each head is rotated.

    The first ChatGLM-6B, whose keys are others, is refused for what it does not have.
    """
    hidden, n_q = config.whole("hidden_size"), config.whole("num_attention_heads")
    head_dim = head_dim_from_hidden(config, ("num_attention_heads", n_q), ("hidden_size", hidden))
    config.only("kv_channels", head_dim, "the class has heads of hidden_size over their number")
    config.only("post_layer_norm", True, "the class has a norm behind the last layer")
    config.off("apply_residual_connection_post_layernorm", "pre_seq_len", "prefix_projection")
    config.harmless("fp32_residual_connection", "apply_query_key_layer_scaling", "attention_softmax_in_fp32", "original_rope")
    config.harmless("bias_dropout_fusion", "interleaved_qkv", "use_ptq", "quantization_bit")
    grouped = config.flag("multi_query_attention")
    n_kv = config.whole("multi_query_group_num") if grouped else n_q
    config.harmless("multi_query_group_num")
    config.divides(("multi_query_group_num", n_kv), ("num_attention_heads", n_q))
    biased, into = config.flag("add_bias_linear"), config.flag("add_qkv_bias")
    mixer = gqa(n_q, n_kv, head_dim, qkv_bias=biased or into, o_bias=biased, rotary_dim=head_dim // 2)
    layer = Layer("decoder", mixer, gated_mlp(config.whole("ffn_hidden_size"), bias=biased))
    norm = {} if config.flag("rmsnorm") else {"norm": {"function": "layernorm", "bias": True}}
    keys = {
        "hidden_size": hidden,
        "vocab_size": config.whole("padded_vocab_size", default=config.whole("vocab_size", default=None)),
        "max_position_embeddings": config.whole("seq_length"),
        **tied_and_dtype(config, tie=False),
        **norm,
    }
    config.harmless("vocab_size")
    return Draft([layer] * config.whole("num_layers"), keys)
