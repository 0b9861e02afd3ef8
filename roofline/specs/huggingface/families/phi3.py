"""Phi-3, Phi-3.5, Phi-4 and Phi-4-mini. Phi-3-small is another architecture: its attention is block-sparse."""

from __future__ import annotations

from roofline.specs.huggingface import windows
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.parts import gated_mlp, gqa, grouped, heads, layers_of, rotary, stream


@family("phi3", architectures=("Phi3ForCausalLM",), source=transformers("phi3"))
def phi3(config: Config) -> Draft:
    """Llama's shape, a window on every layer where there is one."""
    config.off("attention_bias", "mlp_bias", "lm_head_bias", "layer_types")
    config.only("full_attn_mod", 1, "every layer has the same attention")
    config.harmless("interpolate_factor")
    n_q, n_kv, head_dim = heads(config, kv=grouped(config))
    keys = stream(config)
    width = windows.window(config, keys["max_position_embeddings"])
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, sliding_window=width, **rotary(config, head_dim)),
        gated_mlp(config.whole("intermediate_size")),
    )
    return Draft([layer] * layers_of(config), keys)
