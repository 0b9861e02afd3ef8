"""Domyn Edge: layers whose heads differ in width, some with a window, some without positions."""

from __future__ import annotations

from typing import Any

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, vllm
from roofline.specs.huggingface.layer_types import kinds_of_windows, layer_names
from roofline.specs.huggingface.sections import explicit_kv_heads, gated_mlp, gqa, heads, layers_of, model_keys


@family("domynedge", types=("domyn_edge",), architectures=("DomynEdgeForCausalLM",), source=vllm("domyn_edge"))
def domyn_edge(config: Config) -> Draft:
    """Reads `domynedge` configs: norms before and after each block, and of queries without a weight, of keys with one.

    `window_sizes` has for each layer how many tokens before itself a query sees (-1: all) and, second, after itself.
    `position_layers` says which layers are rotated. `head_sizes` is the width of a head in each layer, or `head_dim` that of
    all, but for what `per_layer_config` says of single layers.
    """
    count = layers_of(config)
    config.off("attention_bias", "mlp_bias", "use_sliding_window")
    config.harmless("max_window_layers", "trained_vocab_size", "use_sliding_window", "rope_dim")
    widths = _widths_of_heads(config, count)
    config.harmless("head_dim")  # beside widths of each layer: the largest of them
    n_q, n_kv, _ = heads(config, kv=explicit_kv_heads(config), head_dim=max(widths), widths=("head_dim",))
    reach = _windows(config, count)
    turned = [word == "rope" for word in config.words("position_layers", count, ("rope", "nope"))]
    block = gated_mlp(config.whole("intermediate_size"))
    layers = [
        Layer(
            name,
            gqa(
                n_q, n_kv, width, sliding_window=window, rotary_dim=None if rotated else 0, qk_norm="head",
            )
            | {"q_norm_weight": False},
            block,
            {"norms": "both"},
        )
        for name, width, window, rotated in zip(layer_names(kinds_of_windows(reach)), widths, reach, turned, strict=True)
    ]  # fmt: skip
    return Draft(layers, model_keys(config))


def _widths_of_heads(config: Config, count: int) -> list[int]:
    """The width of a head in each layer, in elements."""
    listed = config.wholes("head_sizes", count, default=None, low=1)
    widths = list(listed) if listed is not None else [config.whole("head_dim")] * count
    changes = config.raw("per_layer_config")
    if changes is None:
        return widths
    if not isinstance(changes, dict) or not all(str(key).isdecimal() and int(key) < count for key in changes):
        config.refuse("per_layer_config", f"must have a layer's number, from 0 to {count - 1}, for each of its keys")
    for index in changes:
        layer = Config(config.document, _object(config, changes[index]), (*config.place, "per_layer_config", index))
        widths[int(index)] = layer.whole("head_dim", default=widths[int(index)])
        layer.finish()
    return widths


def _object(config: Config, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        config.refuse("per_layer_config", "must have an object for each layer that it names")
    return value


def _windows(config: Config, count: int) -> list[int | None]:
    """The tokens that a query sees in each layer, itself included; None: all."""
    pairs = config.raw("window_sizes")
    if pairs is None:
        config.whole("window_sizes")  # names the missing key
    good = isinstance(pairs, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(one, int) and not isinstance(one, bool) for one in pair)
        for pair in pairs
    )
    if not good or len(pairs) != count:
        config.refuse("window_sizes", f"must be a list of two whole numbers for each of the {count} layers")
    if any(pair[1] != 0 or pair[0] < -1 or pair[0] == 0 for pair in pairs):
        config.refuse("window_sizes", "a window is some tokens before a query, or -1 for all of them, and none after it")
    return [None if pair[0] == -1 else pair[0] + 1 for pair in pairs]
