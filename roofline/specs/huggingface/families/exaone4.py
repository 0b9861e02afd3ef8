"""EXAONE 4: norms after the blocks and of each head's queries and keys; in the large model windows on most layers."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import (
    FULL,
    SLIDING,
    attention_kinds,
    last_of_each,
    layer_names,
    window_key,
    window_width,
)
from roofline.specs.huggingface.sections import gated_mlp, gqa, heads, layers_of, model_keys


@family("exaone4", architectures=("Exaone4ForCausalLM",), source=transformers("exaone4"))
def exaone4(config: Config) -> Draft:
    """Reads `exaone4` configs: where there is a window, only the layers that have it are rotated."""
    n_q, n_kv, head_dim = heads(config)
    feed = gated_mlp(config.whole("intermediate_size"))
    keys = model_keys(config)
    width = window_width(config, keys["max_position_embeddings"])
    hybrid = config.data.get("sliding_window") is not None
    kinds = _kinds(config, layers_of(config), hybrid)
    layers = [
        Layer(
            name,
            gqa(
                n_q, n_kv, head_dim, **window_key(kind, width),
                rotary_dim=0 if hybrid and kind == FULL else None, qk_norm="head",
            ),
            feed,
            {"norms": "post"},
        )
        for name, kind in zip(layer_names(kinds), kinds, strict=True)
    ]  # fmt: skip
    return Draft(layers, keys)


def _kinds(config: Config, count: int, hybrid: bool) -> list[str]:
    """Of each layer: `layer_types`, or `sliding_window_pattern`: a full one every that many layers, or letters L and G."""
    full = [FULL] * count
    pattern = config.raw("sliding_window_pattern")
    if not hybrid:
        config.only("layer_types", full, "sliding_window is null")
        return full
    if pattern is None:
        return attention_kinds(config, count, (FULL, SLIDING))
    if not isinstance(pattern, str):
        every = config.whole("sliding_window_pattern")
        return last_of_each(config, count, every, "sliding_window_pattern, where there are no layer_types")
    if not pattern or set(pattern) - set("LG"):
        config.refuse("sliding_window_pattern", f"must be a number, or letters L (sliding) and G (full), not {pattern!r}")

    def spelled(index: int) -> str:
        return SLIDING if pattern[index % len(pattern)] == "L" and index < count - 1 else FULL

    return attention_kinds(config, count, (FULL, SLIDING), spelled)
