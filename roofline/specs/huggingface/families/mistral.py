"""Mistral (7B, Nemo, Small, Large, Devstral, ...) and Ministral: Llama's shape with a window on every layer, on some, or
on none. Mistral 3 is these two inside a multimodal config."""

from __future__ import annotations

from roofline.specs.huggingface import windows
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.kinds import FULL, SLIDING, names
from roofline.specs.huggingface.parts import gated_mlp, gqa, grouped, heads, layers_of, stream


@family(
    "mistral",
    types=("ministral3",),
    architectures=("MistralForCausalLM", "Ministral3ForCausalLM"),
    source=transformers("mistral"),
)
def mistral(config: Config) -> Draft:
    """The same window on every layer, where there is one."""
    draft = ministral(config)
    if len({layer.name for layer in draft.layers}) > 1:
        config.refuse("layer_types", "layers differ, which model_type mistral does not know: it is ministral's")
    return draft


@family("ministral", architectures=("MinistralForCausalLM",), source=transformers("ministral"))
def ministral(config: Config) -> Draft:
    """A window on the layers that layer_types names, or on all."""
    config.off("attention_bias", "mlp_bias")
    n_q, n_kv, head_dim = heads(config, kv=grouped(config))
    feed = gated_mlp(config.whole("intermediate_size"))
    # Multimodal configs leave out what is equal to the default of the text model's class.
    keys = stream(config, tie=False) if config.place else stream(config)
    width, count = windows.window(config, keys["max_position_embeddings"]), layers_of(config)
    usual = FULL if config.data.get("sliding_window") is None else SLIDING
    kinds = config.words("layer_types", count, (SLIDING, FULL), default=[usual] * count)
    if config.data.get("sliding_window") is None and SLIDING in kinds:
        config.needs("there are sliding layers, and no sliding_window", "layer_types")
    layers = [
        Layer(name, gqa(n_q, n_kv, head_dim, **windows.of(kind, width)), feed)
        for name, kind in zip(names(kinds), kinds, strict=True)
    ]
    return Draft(layers, keys)
