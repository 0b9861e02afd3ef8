"""OLMo 1 to 3: norms without weights, then norms after the blocks and of queries and keys, then windows."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import FULL, last_of_each, layer_names, window_key, window_width
from roofline.specs.huggingface.sections import explicit_kv_heads, gated_mlp, gqa, heads, layers_of, model_keys


@family("olmo", architectures=("OlmoForCausalLM",), source=transformers("olmo"))
def olmo(config: Config) -> Draft:
    """Reads `olmo` configs: layer norms that have no parameters."""
    config.harmless("clip_qkv")
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased = config.flag("attention_bias")
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased),
        gated_mlp(config.whole("intermediate_size")),
    )
    return Draft([layer] * layers_of(config), model_keys(config, norm={"function": "layernorm", "weight": False}))


@family("olmo2", architectures=("Olmo2ForCausalLM",), source=transformers("olmo2"))
def olmo2(config: Config) -> Draft:
    """Reads `olmo2` configs: full attention on every layer."""
    config.off("sliding_window", "layer_types")
    return _with_norms_after(config, [FULL] * layers_of(config), None)


@family("olmo3", architectures=("Olmo3ForCausalLM",), source=transformers("olmo3"))
def olmo3(config: Config) -> Draft:
    """Reads `olmo3` configs: a sliding window on three of four layers."""
    width = window_width(config, config.whole("max_position_embeddings"))
    kinds = last_of_each(config, layers_of(config), 4, "the rule of OLMo 3, where there are no layer_types")
    return _with_norms_after(config, kinds, width)


def _with_norms_after(config: Config, kinds: list[str], width: int | None) -> Draft:
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased = config.flag("attention_bias", default=False, why="the default of the class, where the key is absent")
    feed = gated_mlp(config.whole("intermediate_size"))
    layers = [
        Layer(
            name,
            gqa(n_q, n_kv, head_dim, **window_key(kind, width), qk_norm="full", qkv_bias=biased, o_bias=biased),
            feed,
            {"norms": "post"},
        )
        for name, kind in zip(layer_names(kinds), kinds, strict=True)
    ]
    return Draft(layers, model_keys(config))
