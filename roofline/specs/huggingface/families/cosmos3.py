"""Cosmos 3 Edge: attention like Llama's and a feed-forward block of two matrices."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.sections import explicit_kv_heads, gqa, heads, layers_of, mlp, model_keys


@family("cosmos3_edge_text", architectures=("Cosmos3EdgeForConditionalGeneration",), source=transformers("cosmos3_edge"))
def cosmos3_edge(config: Config) -> Draft:
    """Reads `cosmos3_edge_text` configs: the part that reasons; what generates images is left out, as engines do."""
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased = config.flag("attention_bias")
    feed = mlp(config.whole("intermediate_size"), bias=config.flag("mlp_bias"))
    layer = Layer("decoder", gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased), feed)
    return Draft([layer] * layers_of(config), model_keys(config, tie=False))
