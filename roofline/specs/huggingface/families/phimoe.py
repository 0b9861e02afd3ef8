"""Phi-3.5-MoE, Phi-mini-MoE, Phi-tiny-MoE: layer norms, biases in attention, and experts of width `intermediate_size`."""

from __future__ import annotations

from roofline.specs.huggingface import windows
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.families.gpt2 import LAYERNORM
from roofline.specs.huggingface.parts import experts_of, gqa, grouped, heads, layers_of, moe, stream


@family("phimoe", architectures=("PhimoeForCausalLM", "PhiMoEForCausalLM"), source=transformers("phimoe"))
def phimoe(config: Config) -> Draft:
    """One bias switch for the four projections of attention, one for the LM head."""
    config.off("layer_types", "mlp_bias")
    n_q, n_kv, head_dim = heads(config, kv=grouped(config))
    biased = config.flag("attention_bias")
    experts, top_k = experts_of(config, ("num_local_experts",))
    keys = stream(config, norm=LAYERNORM, lm_head_bias=config.flag("lm_head_bias"))
    width = windows.window(config, keys["max_position_embeddings"])
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, sliding_window=width, qkv_bias=biased, o_bias=biased),
        moe(experts, top_k, config.whole("intermediate_size")),
    )
    return Draft([layer] * layers_of(config), keys)
