"""Llama 1 to 3 and what has its shape: CodeLlama, Yi, Vicuna, TinyLlama, DeepSeek-LLM, ..."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.parts import gated_mlp, gqa, heads, layers_of, stream


@family("llama", types=("yi", "Yi"), architectures=("LlamaForCausalLM", "YiForCausalLM"), source=transformers("llama"))
def llama(config: Config) -> Draft:
    """One bias switch for the four projections of attention, one for the three of the feed-forward block."""
    n_q, n_kv, head_dim = heads(config)
    # NB: both came with later versions of the class; without them there are none.
    biased, mlp_bias = config.flag("attention_bias", default=False), config.flag("mlp_bias", default=False)
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased),
        gated_mlp(config.whole("intermediate_size"), bias=mlp_bias),
    )
    return Draft([layer] * layers_of(config), stream(config))
