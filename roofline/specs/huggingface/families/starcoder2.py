"""StarCoder 2: grouped queries, a plain feed-forward block, layer norms, and one switch for all biases."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.families.gpt import LAYERNORM
from roofline.specs.huggingface.layer_types import window_width
from roofline.specs.huggingface.sections import explicit_kv_heads, gqa, heads, layers_of, mlp, model_keys


@family("starcoder2", architectures=("Starcoder2ForCausalLM",), source=transformers("starcoder2"))
def starcoder2(config: Config) -> Draft:
    """Reads `starcoder2` configs: a sliding window on every layer, if there is one."""
    config.off("layer_types")
    config.only("mlp_type", "default", "StarCoder 2 has a plain feed-forward block")
    config.only("norm_type", "layer_norm", "StarCoder 2 has layer norms")
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased = config.flag("use_bias")
    keys = model_keys(config, tie=True, norm=LAYERNORM)
    width = window_width(config, keys["max_position_embeddings"])
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, sliding_window=width, qkv_bias=biased, o_bias=biased),
        mlp(config.whole("intermediate_size"), bias=biased),
    )
    return Draft([layer] * layers_of(config), keys)
