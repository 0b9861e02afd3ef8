"""Arcee's AFM: Llama with a plain feed-forward block (squared ReLU)."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.parts import gqa, grouped, heads, layers_of, mlp, stream


@family("arcee", architectures=("ArceeForCausalLM",), source=transformers("arcee"))
def arcee(config: Config) -> Draft:
    """One bias switch for the four projections of attention, one for the two of the feed-forward block."""
    n_q, n_kv, head_dim = heads(config, kv=grouped(config))
    biased = config.flag("attention_bias")
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased),
        mlp(config.whole("intermediate_size"), bias=config.flag("mlp_bias")),
    )
    return Draft([layer] * layers_of(config), stream(config))
