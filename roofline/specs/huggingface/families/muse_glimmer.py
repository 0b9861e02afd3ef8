"""Muse Glimmer: norms of queries and keys without a weight, a gate on attention, and layers that are not rotated."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import FULL, SLIDING, attention_kinds, kinds_of_windows, layer_names, windows
from roofline.specs.huggingface.sections import gated_mlp, gqa, heads, layers_of, model_keys


@family("muse_glimmer_text", architectures=("MuseGlimmerForCausalLM",), source=transformers("muse_glimmer"))
def muse_glimmer(config: Config) -> Draft:
    """Reads `muse_glimmer_text` configs: norms before and after each block, and one of the embeddings without a weight.

    Every fourth layer, counted from the last, sees all of the context and is not rotated, unless `layer_types` and
    `layer_rope_theta` say otherwise.
    """
    count = layers_of(config)
    n_q, n_kv, head_dim = heads(config, head_dim=config.whole("head_dim"))
    config.off("attention_bias")  # the gate, which is projected with queries here, has none in any case
    config.harmless("qk_scale_factor", "output_multiplier", "post_norm_eps")

    def last_of_four(index: int) -> bool:
        return (count - 1 - index) % 4 == 0

    kinds = attention_kinds(config, count, (FULL, SLIDING), lambda index: FULL if last_of_four(index) else SLIDING)
    turned = _turned(config, count) or [not last_of_four(index) for index in range(count)]
    widths = windows(config, kinds)
    block = gated_mlp(config.whole("intermediate_size"))
    layers = [
        Layer(
            name,
            gqa(
                n_q, n_kv, head_dim, sliding_window=width, qk_norm="l2", output_gate="elementwise",
                rotary_dim=None if rotated else 0,
            ),
            block,
            {"norms": "both"},
        )
        for name, width, rotated in zip(layer_names(kinds_of_windows(widths)), widths, turned, strict=True)
    ]  # fmt: skip
    return Draft(layers, model_keys(config, embedding_norm=True, embedding_norm_weight=False))


def _turned(config: Config, count: int) -> list[bool]:
    """Whether each layer is rotated: those whose entry in `layer_rope_theta` is not 0; empty without that list."""
    thetas = config.raw("layer_rope_theta")
    if thetas is None:
        return []
    numbers = isinstance(thetas, list) and all(isinstance(one, int | float) and not isinstance(one, bool) for one in thetas)
    if not numbers or len(thetas) != count:
        config.refuse("layer_rope_theta", f"must be a list of a number for each of the {count} layers")
    return [theta != 0 for theta in thetas]
