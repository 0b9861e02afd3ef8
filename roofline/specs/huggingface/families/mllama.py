"""Llama 3.2 Vision: Llama's layers, and between them layers that attend to the image alone."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.sections import gated_mlp, gqa, heads, layers_of, model_keys

# Rows that the embedding has more than the LM head: for the tokens of an image.
_IMAGE_TOKENS = 8


@family("mllama_text_model", architectures=("MllamaForCausalLM",), source=transformers("mllama"))
def mllama(config: Config) -> Draft:
    """Reads `mllama_text_model` configs.

    A prompt without an image skips the layers of cross-attention, as the class does: they are in memory and do no work, and
    are apart from the language model.
    """
    n_q, n_kv, head_dim = heads(config)
    count, width, hidden = layers_of(config), config.whole("intermediate_size"), config.whole("hidden_size")
    crossing = set(config.indices("cross_attention_layers", count))
    if len(crossing) >= count:
        config.refuse("cross_attention_layers", "leaves no layer that works on text")
    layer = Layer("decoder", gqa(n_q, n_kv, head_dim), gated_mlp(width))
    attention = 2 * hidden * (n_q + n_kv) * head_dim + 2 * head_dim
    cross = attention + 3 * hidden * width + 2 * hidden + 2  # two norms of the stream, two gates
    apart = {"vision_cross_attention": len(crossing) * cross, "image_token_embeddings": _IMAGE_TOKENS * hidden}
    keys = model_keys(config, tie=False, apart={name: size for name, size in apart.items() if size})
    if keys["tie_word_embeddings"]:
        config.refuse("tie_word_embeddings", "the embedding has rows that the LM head has not: they cannot be tied")
    notes = [f"Layers of cross-attention ({len(crossing)}) work where a prompt has an image: their weights alone are counted."]
    return Draft([layer] * (count - len(crossing)), keys, notes if crossing else [])
