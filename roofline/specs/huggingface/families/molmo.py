"""Molmo and Molmo 2: layers like Llama's with norms before or after the blocks, and embeddings of further tokens beside the
table."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.sections import explicit_kv_heads, gated_mlp, gqa, heads, layers_of, model_keys

# Rows that the embedding of Molmo has beside those of the vocabulary.
_FURTHER = 128


@family(
    "molmo",
    architectures=("MolmoForCausalLM",),
    source="https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/model_executor/models/molmo.py",
)
def molmo(config: Config) -> Draft:
    """Reads `molmo` configs: `intermediate_size` is that of gate and up together."""
    config.only("layer_norm_type", "rms", "norms of another kind have other parameters")
    both = config.whole("intermediate_size")
    if both % 2:
        config.refuse("intermediate_size", f"{both} is odd: it is the width of gate and up together")
    hidden, vocab = config.whole("hidden_size"), config.whole("vocab_size")
    config.only("embedding_size", vocab, "the embedding has as many rows as the vocabulary")
    tied = config.flag("weight_tying", "tie_word_embeddings", default=False)
    if tied:
        config.refuse("weight_tying", "the embedding has rows that the LM head has not: they cannot be tied")
    config.harmless("use_position_ids", "clip_qkv")
    further = config.whole("additional_vocab_size", default=_FURTHER, low=0)
    return _decoder(
        config,
        qkv_bias=config.flag("qkv_bias"),
        qk_norm="full" if config.flag("attention_layer_norm") else None,
        width=both // 2,
        after=config.flag("norm_after", default=False),
        further=further * hidden,
    )


@family("molmo2_text", architectures=("Molmo2ForConditionalGeneration",), source=transformers("molmo2"))
def molmo2(config: Config) -> Draft:
    """Reads `molmo2_text` configs: queries and keys are normed as in Qwen3 or as in OLMo."""
    config.raw("rope_scaling_layers")
    norms = {"qwen3": "head", "olmo": "full"}
    return _decoder(
        config,
        qkv_bias=config.flag("attention_bias", "qkv_bias"),
        qk_norm=norms[config.choice("qk_norm_type", of=norms)],
        width=config.whole("intermediate_size"),
        after=config.flag("norm_after", default=False),
        further=config.whole("additional_vocab_size", low=0) * config.whole("hidden_size"),
    )


def _decoder(config: Config, *, qkv_bias: bool, qk_norm: str | None, width: int, after: bool, further: int) -> Draft:
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    mixer = gqa(n_q, n_kv, head_dim, qkv_bias=qkv_bias, qk_norm=qk_norm)
    layer = Layer("decoder", mixer, gated_mlp(width), {"norms": "post"} if after else {})
    apart = {"image_token_embeddings": further} if further else {}
    return Draft([layer] * layers_of(config), model_keys(config, tie=False, apart=apart))
