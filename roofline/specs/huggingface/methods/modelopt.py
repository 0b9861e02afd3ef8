"""NVIDIA's ModelOpt: one algorithm for all linear layers but those to leave out, or one for each layer by name."""

from __future__ import annotations

from typing import Any

from roofline.specs.huggingface.methods.base import AND_HEAD, Keys, Plan, Rule, kv_cache, method
from roofline.specs.quantization.base import Scheme

_MIXED = "mixed_precision"
_ALGORITHMS: dict[str, dict[str, Any]] = {
    "fp8": {"scheme": "fp8", "activation_scheme": "static"},
    "fp8_per_channel_per_token": {"scheme": "fp8", "strategy": "channel"},
    "fp8_pb_wo": {"scheme": "fp8_block"},
    "mxfp8": {"scheme": "mxfp8"},
    "nvfp4": {"scheme": "nvfp4"},
}
# Type and bits of the weights of a group, and in how large blocks.
_GROUPS = {("float", 8, None): "fp8", ("float", 4, 16): "nvfp4"}


@method("modelopt")
def modelopt(keys: Keys, dtype: str) -> Plan:
    """`quantization_config` of a config.json, and hf_quant_config.json.

    Source: https://github.com/NVIDIA/Model-Optimizer, modelopt/torch/export/quant_utils.py and convert_hf_config.py.
    """
    del dtype
    if (inner := keys.part("quantization")) is not None:  # hf_quant_config.json
        keys.done("producer")
        keys = inner
    left = keys.left("exclude_modules", "ignore")
    kv = kv_cache(keys)
    if keys.choice("kv_cache_quant_algo", of=("fp8", "none"), default="none") == "fp8":
        kv = "fp8"
    algorithm = keys.choice("quant_algo", of=(*_ALGORITHMS, _MIXED))
    groups = keys.parts("config_groups")
    if algorithm != _MIXED:
        rules = [Rule(_scheme(keys, algorithm), roles=AND_HEAD)]
    elif layers := keys.parts("quantized_layers"):
        by_scheme: dict[Scheme, list[str]] = {}
        for name, layer in layers.items():
            by_scheme.setdefault(_scheme(layer, layer.choice("quant_algo", of=_ALGORITHMS)), []).append(name)
            layer.done()
        rules = [keys.named(scheme, names, "quantized_layers") for scheme, names in by_scheme.items()]
    elif groups:
        rules = [_group(group) for group in groups.values()]
    else:
        keys.refuse("quantized_layers", "is missing: which layer is quantised how is not said")
    keys.done("producer", "quantization_status")
    return Plan((left, *rules), kv)


def _scheme(keys: Keys, algorithm: str) -> Scheme:
    size = keys.get("group_size")
    if algorithm == "nvfp4" and size not in (None, 16):
        keys.refuse("group_size", f"{size!r:.60} is not known for NVFP4; known: 16")
    keys_of_scheme = dict(_ALGORITHMS[algorithm])
    return keys.make(keys_of_scheme.pop("scheme"), **keys_of_scheme)


def _group(group: Keys) -> Rule:
    weights = group.part("weights")
    if weights is None:
        group.refuse("weights", "is missing: how weights are stored is not said")
    kind = (weights.get("type"), weights.get("num_bits"), weights.get("group_size"))
    weights.done("dynamic")
    if kind not in _GROUPS:
        group.refuse("weights", f"{kind[0]} of {kind[1]} bits in groups of {kind[2]} are not known")
    rule = group.named(_scheme(group, _GROUPS[kind]), group.listed("targets"), "targets")
    group.done("input_activations", "output_activations")
    return rule
