"""Aria: layers like Llama's, with experts and shared ones instead of one feed-forward block."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.sections import experts_of, explicit_kv_heads, gqa, heads, layers_of, model_keys, moe


@family("aria_text", types=("aria_moe_lm",), architectures=("AriaTextForCausalLM",), source=transformers("aria"))
def aria(config: Config) -> Draft:
    """Reads `aria_text` configs: every expert, also a shared one, is `intermediate_size` wide."""
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased = config.flag("attention_bias", default=False)
    config.off("mlp_bias")
    experts, top_k = experts_of(config, ("moe_num_experts",), ("moe_topk",))
    width, shared = config.whole("intermediate_size"), config.whole("moe_num_shared_experts", low=0)
    # NB: older files name the width of an expert twice
    config.only("moe_intermediate_size", width, "an expert is intermediate_size wide in this family")
    sparse = moe(experts, top_k, width, shared_intermediate_size=shared * width)
    layer = Layer("decoder", gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased), sparse)
    return Draft([layer] * layers_of(config), model_keys(config, tie=False))
