"""The first Qwen, Qwen2 and Qwen2.5, their text parts in Qwen2-VL and Qwen2.5-VL, MiMo, which is Qwen2 with MTP layers, and
the mixtures of experts (Qwen1.5-MoE, Qwen2-57B-A14B): fine-grained experts beside one gated shared expert."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import (
    DENSE,
    FULL,
    SLIDING,
    dense_block,
    kinds_of_windows,
    layer_names,
    sliding_from_layer,
    sparse_by_step,
    switched_windows,
)
from roofline.specs.huggingface.sections import (
    dual_chunks,
    experts_of,
    flat_notes,
    gated_mlp,
    gqa,
    head_dim_from_hidden,
    heads,
    layers_of,
    model_keys,
    moe,
    mtp,
    tied_and_dtype,
)


@family("qwen2", architectures=("Qwen2ForCausalLM",), source=transformers("qwen2"))
def qwen2(config: Config) -> Draft:
    """Reads `qwen2` configs: Q, K and V always have biases, the output never: there is no key for it."""
    config.only("attention_bias", True, "Qwen2 has biases of Q, K and V whatever this says")
    dual_chunks(config)
    n_q, n_kv, head_dim = heads(config)
    width, count = config.whole("intermediate_size"), layers_of(config)
    widths = switched_windows(config, count, sliding_from_layer(config))
    layers = [
        Layer(name, gqa(n_q, n_kv, head_dim, qkv_bias=True, sliding_window=window), gated_mlp(width))
        for name, window in zip(layer_names(kinds_of_windows(widths)), widths, strict=True)
    ]
    return Draft(layers, model_keys(config))


@family(
    "qwen",
    architectures=("QWenLMHeadModel",),
    source="https://github.com/vllm-project/vllm/blob/002800f08142574aeafed7c33982503d28d53cdc/vllm/model_executor/models/qwen.py",
)
def qwen(config: Config) -> Draft:
    """Reads `qwen` configs, the first Qwen: as Qwen2 without grouped heads, and the two gates share `intermediate_size`."""
    hidden, n_q = config.whole("hidden_size", "n_embd"), config.whole("num_attention_heads", "n_head")
    head_dim = head_dim_from_hidden(config, ("num_attention_heads", n_q), ("hidden_size", hidden))
    config.only("kv_channels", head_dim, "what is cached of a head is as wide as the head")
    config.only("num_key_value_heads", n_q, "the class has a key and a value for each query head")
    config.only("no_bias", True, "the class has biases of Q, K and V alone")
    config.off("apply_residual_connection_post_layernorm", "use_cache_quantization", "n_inner")
    config.harmless("bias_dropout_fusion", "use_dynamic_ntk", "use_logn_attn", "onnx_safe", "bf16", "fp16", "fp32", "pos_emb")
    config.harmless("padded_vocab_size", "seq_length")
    config.only("rotary_pct", 1.0, "the class rotates all of a head")
    both = config.whole("intermediate_size", "ffn_hidden_size")
    config.divides(("2 of intermediate_size", 2), ("its width", both))
    named = next((name for name in ("max_position_embeddings", "n_positions") if config.has(name)), "seq_length")
    layer = Layer("decoder", gqa(n_q, n_q, head_dim, qkv_bias=True), gated_mlp(both // 2))
    keys = {
        "hidden_size": hidden, "vocab_size": config.whole("vocab_size"), "max_position_embeddings": config.whole(named),
        **tied_and_dtype(config, tie=False),
    }  # fmt: skip
    return Draft([layer] * config.whole("num_hidden_layers", "n_layer"), keys)


@family("mimo", architectures=("MiMoForCausalLM",), source="https://huggingface.co/XiaomiMiMo/MiMo-7B-Base")
def mimo(config: Config) -> Draft:
    """Reads `mimo` configs: Qwen2, and layers for multi-token prediction."""
    mtp(config, "num_nextn_predict_layers")
    return qwen2.read(config)


@family(
    "qwen2_vl",
    types=("qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_5_omni_text"),
    architectures=("Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"),
    source=transformers("qwen2_vl"),
)
def qwen2_vl(config: Config) -> Draft:
    """Reads `qwen2_vl` configs.

    Qwen2's layers; the keys of the language model stand in `text_config`, or in older files beside `vision_config`.
    """
    draft = qwen2.read(config)
    n_q, hidden = config.whole("num_attention_heads"), config.whole("hidden_size")
    if hidden % n_q or config.whole("head_dim", default=hidden // n_q) != hidden // n_q:
        config.refuse("head_dim", f"has to be hidden_size over num_attention_heads ({hidden} / {n_q}) in this family")
    draft.notes += flat_notes(config)
    return draft


@family("qwen2_moe", architectures=("Qwen2MoeForCausalLM",), source=transformers("qwen2_moe"))
def qwen2_moe(config: Config) -> Draft:
    """Reads `qwen2_moe` configs: the sliding window, if switched on, is on every second layer below `max_window_layers`."""
    n_q, n_kv, head_dim = heads(config)
    # NB: a key of later versions of the class; without it there are biases.
    biased, count = config.flag("qkv_bias", default=True), layers_of(config)

    def slides(index: int) -> str:
        return FULL if index % 2 or index >= config.whole("max_window_layers", low=0) else SLIDING

    widths, blocks = switched_windows(config, count, slides), sparse_by_step(config, count)
    experts, top_k = experts_of(config, ("num_experts",))
    sparse = moe(
        experts,
        top_k,
        config.whole("moe_intermediate_size"),
        shared_intermediate_size=config.whole("shared_expert_intermediate_size"),
        shared_gate=True,
    )
    dense = dense_block(config, blocks)
    layers = [
        Layer(
            name,
            gqa(n_q, n_kv, head_dim, qkv_bias=biased, sliding_window=window),
            dense if block == DENSE else sparse,
        )
        for name, window, block in zip(layer_names(kinds_of_windows(widths), blocks), widths, blocks, strict=True)
    ]
    return Draft(layers, model_keys(config))
