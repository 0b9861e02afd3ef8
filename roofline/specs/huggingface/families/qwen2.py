"""Qwen2 and Qwen2.5, their text parts in Qwen2-VL and Qwen2.5-VL, and MiMo, which is Qwen2 with MTP layers."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.kinds import names
from roofline.specs.huggingface.parts import flat_notes, gated_mlp, gqa, heads, layers_of, mtp, stream
from roofline.specs.huggingface.windows import from_windows, slides_from, switched_windows


@family("qwen2", architectures=("Qwen2ForCausalLM",), source=transformers("qwen2"))
def qwen2(config: Config) -> Draft:
    """Q, K and V always have biases, the output never: there is no key for it."""
    config.only("attention_bias", True, "Qwen2 has biases of Q, K and V whatever this says")
    n_q, n_kv, head_dim = heads(config)
    width, count = config.whole("intermediate_size"), layers_of(config)
    found = switched_windows(config, count, slides_from(config))
    layers = [
        Layer(name, gqa(n_q, n_kv, head_dim, qkv_bias=True, sliding_window=window), gated_mlp(width))
        for name, window in zip(names(from_windows(found)), found, strict=True)
    ]
    return Draft(layers, stream(config))


@family("mimo", architectures=("MiMoForCausalLM",), source="https://huggingface.co/XiaomiMiMo/MiMo-7B-Base")
def mimo(config: Config) -> Draft:
    """Qwen2, and layers for multi-token prediction."""
    mtp(config, "num_nextn_predict_layers")
    return qwen2(config)


@family(
    "qwen2_vl",
    types=("qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_5_omni_text"),
    architectures=("Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"),
    source=transformers("qwen2_vl"),
)
def qwen2_vl(config: Config) -> Draft:
    """Qwen2's layers; the keys of the language model stand in `text_config`, or in older files beside `vision_config`."""
    draft = qwen2(config)
    n_q, hidden = config.whole("num_attention_heads"), config.whole("hidden_size")
    if hidden % n_q or config.whole("head_dim", default=hidden // n_q) != hidden // n_q:
        config.refuse("head_dim", f"has to be hidden_size over num_attention_heads ({hidden} / {n_q}) in this family")
    draft.notes += flat_notes(config)
    return draft
