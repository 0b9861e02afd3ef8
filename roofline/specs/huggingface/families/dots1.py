"""dots.llm1: norms of queries and keys, dense layers first, and shared experts."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import (
    DENSE,
    FULL,
    SLIDING,
    SPARSE,
    attention_kinds,
    dense_block,
    layer_names,
    sliding_from_layer,
    sparse_after,
    windows,
)
from roofline.specs.huggingface.sections import experts_of, gqa, heads, layers_of, model_keys, moe


@family("dots1", architectures=("Dots1ForCausalLM",), source=transformers("dots1"))
def dots1(config: Config) -> Draft:
    """Reads `dots1` configs: layers from `max_window_layers` on have the sliding window, if there is one."""
    count = layers_of(config)
    n_q, n_kv, head_dim = heads(config)
    biased = config.flag("attention_bias", default=False)
    rule = sliding_from_layer(config) if config.has("sliding_window") else lambda index: FULL
    kinds = attention_kinds(config, count, (FULL, SLIDING), rule)
    config.harmless("max_window_layers", "use_sliding_window")
    blocks = sparse_after(config, count)
    config.only("moe_layer_freq", 1, "every layer behind the dense ones has experts")
    experts, top_k = experts_of(config, ("n_routed_experts", "num_local_experts"))
    width = config.whole("moe_intermediate_size")
    sparse = moe(experts, top_k, width, shared_intermediate_size=width * config.whole("n_shared_experts"))
    dense = dense_block(config, blocks)
    rest = {"qkv_bias": biased, "o_bias": biased, "qk_norm": "head"}
    layers = [
        Layer(name, gqa(n_q, n_kv, head_dim, **rest, sliding_window=window), dense if block == DENSE else sparse)
        for name, window, block in zip(layer_names(kinds, blocks), windows(config, kinds), blocks, strict=True)
    ]
    return Draft(layers, model_keys(config, apart={"router_correction_bias": experts * blocks.count(SPARSE)}))
