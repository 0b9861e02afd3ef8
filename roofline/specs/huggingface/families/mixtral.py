"""Mixtral: Mistral with a mixture of experts in each layer; `intermediate_size` is the width of one."""

from __future__ import annotations

from roofline.specs.huggingface import windows
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.parts import experts_of, gqa, grouped, heads, layers_of, moe, stream


@family("mixtral", architectures=("MixtralForCausalLM",), source=transformers("mixtral"))
def mixtral(config: Config) -> Draft:
    """No biases, no shared experts."""
    config.off("layer_types", "attention_bias", "mlp_bias")
    n_q, n_kv, head_dim = heads(config, kv=grouped(config))
    experts, top_k = experts_of(config, ("num_local_experts", "num_experts"))
    keys = stream(config)
    width = windows.window(config, keys["max_position_embeddings"])
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, sliding_window=width),
        moe(experts, top_k, config.whole("intermediate_size")),
    )
    return Draft([layer] * layers_of(config), keys)
