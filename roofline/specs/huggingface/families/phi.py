"""Phi-1, Phi-1.5 and Phi-2: attention and feed-forward block side by side under one norm, with biases throughout."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.families.gpt2 import LAYERNORM, heads_and_width, inner, layers
from roofline.specs.huggingface.parts import gqa, grouped, heads, layers_of, mlp, rest, rotary, stream


@family("phi", types=("phi-msft",), architectures=("PhiForCausalLM",), source=transformers("phi"))
def phi(config: Config) -> Draft:
    """Half of a head is rotated, unless said."""
    if config.data.get("model_type") == "phi-msft":
        return _first(config)
    n_q, n_kv, head_dim = heads(config, kv=grouped(config))
    norm: Section = {}
    if config.flag("qk_layernorm", default=False, why="the default of the class, where the key is absent"):
        norm = {"qk_norm": "head", "qk_norm_function": "layernorm", "qk_norm_bias": True}
    mixer = gqa(n_q, n_kv, head_dim, **rotary(config, head_dim, 0.5), qkv_bias=True, o_bias=True, **norm)
    layer = Layer("decoder", mixer, mlp(config.whole("intermediate_size"), bias=True), {"parallel": True})
    return Draft([layer] * layers_of(config), stream(config, norm=LAYERNORM, lm_head_bias=True))


def _first(config: Config) -> Draft:
    """The same model under the names of its first config."""
    config.harmless("flash_attn", "flash_rotary", "fused_dense")
    n_q, head_dim, hidden = heads_and_width(config)
    n_kv = config.whole("n_head_kv", default=n_q)
    mixer = gqa(n_q, n_kv, head_dim, rotary_dim=config.whole("rotary_dim"), qkv_bias=True, o_bias=True)
    layer = Layer("decoder", mixer, mlp(inner(config, hidden), bias=True), {"parallel": True})
    keys = {
        "hidden_size": hidden,
        "vocab_size": config.whole("vocab_size"),
        "max_position_embeddings": config.whole("n_positions"),
        "norm": LAYERNORM,
        "lm_head_bias": True,
        **rest(config),
    }
    return Draft([layer] * layers(config), keys)
