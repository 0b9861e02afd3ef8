"""gpt-oss: biases everywhere, learned attention sinks, and a window in every second layer.

Keys of its own: `num_local_experts`, `experts_per_token` (older files), `layer_types`. The sinks are one learned logit per
head.
"""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import FULL, SLIDING, attention_kinds, layer_names, windows
from roofline.specs.huggingface.sections import experts_of, gqa, heads, layers_of, model_keys, moe


@family("gpt_oss", architectures=("GptOssForCausalLM",), source=transformers("gpt_oss"))
def gpt_oss(config: Config) -> Draft:
    """Reads `gpt_oss` configs.

    `intermediate_size` is the width of an expert. Router and experts have biases whatever `attention_bias` says.
    """
    n_q, n_kv, head_dim = heads(config, head_dim=config.whole("head_dim"))
    biased = config.flag("attention_bias")
    experts, top_k = experts_of(config, ("num_local_experts", "num_experts"), ("num_experts_per_tok", "experts_per_token"))
    block = moe(experts, top_k, config.whole("intermediate_size"), bias=True, router_bias=True)
    kinds = attention_kinds(config, layers_of(config), (FULL, SLIDING), lambda index: FULL if index % 2 else SLIDING)
    layers = [
        Layer(name, gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased, sinks=True, sliding_window=window), block)
        for name, window in zip(layer_names(kinds), windows(config, kinds), strict=True)
    ]
    return Draft(layers, model_keys(config))
