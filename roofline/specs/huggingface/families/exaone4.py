"""EXAONE 4: norms after the blocks and of each head's queries and keys; in the large model windows on most layers."""

from __future__ import annotations

from roofline.specs.huggingface import windows
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.parts import gated_mlp, gqa, heads, layers_of, stream


@family("exaone4", architectures=("Exaone4ForCausalLM",), source=transformers("exaone4"))
def exaone4(config: Config) -> Draft:
    """Where there is a window, only the layers that have it are rotated."""
    n_q, n_kv, head_dim = heads(config)
    feed = gated_mlp(config.whole("intermediate_size"))
    keys = stream(config)
    count = layers_of(config)
    config.harmless("sliding_window_pattern")  # layer_types says the same of each layer
    hybrid = config.data.get("sliding_window", 0) is not None
    width = windows.window(config, keys["max_position_embeddings"])
    kinds = windows.kinds(config, count, None, "") if hybrid else [windows.FULL] * count
    if not hybrid:
        config.only("layer_types", kinds, "sliding_window is null")
    layers = [
        Layer(
            windows.named(kind),
            gqa(
                n_q, n_kv, head_dim, **windows.of(kind, width),
                rotary_dim=0 if hybrid and kind == windows.FULL else None, qk_norm="head",
            ),
            feed,
            {"norms": "post"},
        )
        for kind in kinds
    ]  # fmt: skip
    return Draft(layers, keys)
