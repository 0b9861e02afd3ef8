"""Mistral (7B, Nemo, Small, Large, Devstral, ...), Ministral and Mixtral: Llama's shape with a window on every layer, on
some, or on none; Mixtral with experts. Mistral 3 is the first two inside a multimodal config."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import FULL, SLIDING, layer_names, window_key, window_width
from roofline.specs.huggingface.sections import experts_of, explicit_kv_heads, gated_mlp, gqa, heads, layers_of, model_keys, moe


@family(
    "mistral",
    types=("ministral3",),
    architectures=("MistralForCausalLM", "Ministral3ForCausalLM"),
    source=transformers("mistral"),
)
def mistral(config: Config) -> Draft:
    """Reads `mistral` configs: the same sliding window on every layer, if there is one."""
    draft = ministral.read(config)
    if len({layer.name for layer in draft.layers}) > 1:
        config.refuse("layer_types", "layers differ, which model_type mistral does not know: it is ministral's")
    return draft


@family("ministral", architectures=("MinistralForCausalLM",), source=transformers("ministral"))
def ministral(config: Config) -> Draft:
    """Reads `ministral` configs: a window on the layers that layer_types names, or on all."""
    config.off("attention_bias", "mlp_bias")
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    feed = gated_mlp(config.whole("intermediate_size"))
    # Multimodal configs leave out what is equal to the default of the text model's class.
    keys = model_keys(config, tie=False) if config.place else model_keys(config)
    width, count = window_width(config, keys["max_position_embeddings"]), layers_of(config)
    usual = FULL if config.data.get("sliding_window") is None else SLIDING
    kinds = config.words("layer_types", count, (SLIDING, FULL), default=[usual] * count)
    if config.data.get("sliding_window") is None and SLIDING in kinds:
        config.needs("there are sliding layers, and no sliding_window", "layer_types")
    layers = [
        Layer(name, gqa(n_q, n_kv, head_dim, **window_key(kind, width)), feed)
        for name, kind in zip(layer_names(kinds), kinds, strict=True)
    ]
    return Draft(layers, keys)


@family("mixtral", architectures=("MixtralForCausalLM",), source=transformers("mixtral"))
def mixtral(config: Config) -> Draft:
    """Reads `mixtral` configs: no biases, no shared experts."""
    config.off("layer_types", "attention_bias", "mlp_bias")
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    experts, top_k = experts_of(config, ("num_local_experts", "num_experts"))
    keys = model_keys(config)
    width = window_width(config, keys["max_position_embeddings"])
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, sliding_window=width),
        moe(experts, top_k, config.whole("intermediate_size")),
    )
    return Draft([layer] * layers_of(config), keys)
