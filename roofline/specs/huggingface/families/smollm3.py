"""SmolLM3: Llama with layers whose heads are not rotated."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import FULL, SLIDING, layer_names, window_key, window_width
from roofline.specs.huggingface.sections import explicit_kv_heads, gated_mlp, gqa, heads, layers_of, model_keys


@family("smollm3", architectures=("SmolLM3ForCausalLM",), source=transformers("smollm3"))
def smollm3(config: Config) -> Draft:
    """Reads `smollm3` configs.

    A sliding window has an effect only where use_sliding_window is true, on the layers of layer_types or on those not rotated.
    """
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased, count = config.flag("attention_bias"), layers_of(config)
    feed = gated_mlp(config.whole("intermediate_size"), bias=config.flag("mlp_bias"))
    keys = model_keys(config, tie=True)
    every = config.whole("no_rope_layer_interval", default=4)
    rotated = config.wholes("no_rope_layers", count, default=[int((index + 1) % every != 0) for index in range(count)])
    width = window_width(config, keys["max_position_embeddings"], default=None)
    if not config.flag("use_sliding_window", default=False):
        width = None
    kinds = config.words("layer_types", count, (SLIDING, FULL), default=None)
    kinds = kinds or [FULL if turns else SLIDING for turns in rotated]
    kinds = kinds if width else [FULL] * count
    layers = [
        Layer(
            name + ("" if turns else "_nope"),
            gqa(
                n_q, n_kv, head_dim, **window_key(kind, width),
                rotary_dim=None if turns else 0, qkv_bias=biased, o_bias=biased,
            ),
            feed,
        )
        for name, kind, turns in zip(layer_names(kinds), kinds, rotated, strict=True)
    ]  # fmt: skip
    return Draft(layers, keys)
