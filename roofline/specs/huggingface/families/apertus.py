"""Apertus: norms of each head's queries and keys, and a plain feed-forward block whose activation (xIELU) learns."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.sections import explicit_kv_heads, gqa, heads, layers_of, mlp, model_keys

# Scalars of xIELU in each layer: one slope for what is above zero, one for what is below.
_XIELU = 2


@family("apertus", architectures=("ApertusForCausalLM",), source=transformers("apertus"))
def apertus(config: Config) -> Draft:
    """Reads `apertus` configs: one bias switch for the four projections of attention."""
    config.only("post_norm", False, "Apertus has its norms before the blocks")
    config.only("qk_norm", True, "Apertus has norms of queries and keys")
    config.off("mlp_bias")
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased, activation = config.flag("attention_bias"), config.text("hidden_act")
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qk_norm="head", qkv_bias=biased, o_bias=biased),
        mlp(config.whole("intermediate_size"), activation_parameters=_XIELU if activation == "xielu" else None),
    )
    return Draft([layer] * layers_of(config), model_keys(config))
