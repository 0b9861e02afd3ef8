"""A `quantization_config` with one key wrong: refused by name, read as what it says, or the key is listed as without effect."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from unit.specs.huggingface.test_library_formats import CONFIGS as OF_LIBRARIES
from unit.specs.huggingface.test_quantization import CONFIGS as USUAL
from unit.specs.huggingface.test_quantization import dense, experts

from roofline.errors import InputError
from roofline.specs.huggingface.quantization import Published, read

Config = dict[str, Any]
Path = tuple[str | int, ...]

STEP = max(round(4 / float(os.environ.get("ROOFLINE_FUZZ", "1"))), 1)
"""Every fourth mutant; `ROOFLINE_FUZZ=4` tries all."""

_FLOAT4 = {"dynamic": False, "num_bits": 4, "type": "float", "group_size": 16}
_FLOAT8 = {"dynamic": False, "num_bits": 8, "type": "float"}
_PACKED = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True, "actorder": None}
_CONFIGS: dict[str, Config] = {
    **{name: config for name, (config, _) in (USUAL | OF_LIBRARIES).items()},
    "mxfp4": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
    "DeepSeek V4": {
        "quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128],
        "scale_fmt": "ue8m0", "expert_dtype": "fp4",
    },
    "Kimi K2": {
        "quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head", "re:.*self_attn.*"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": _PACKED, "input_activations": None}},
    },
    "hf_quant_config.json": {
        "quant_method": "modelopt", "producer": {"name": "modelopt", "version": "0.23"},
        "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head"]},
    },
    "ModelOpt as for Gemma 4": {
        "quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"], "producer": {"name": "modelopt"},
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": _FLOAT4, "input_activations": _FLOAT4}},
    },
    "groups of ModelOpt": {
        "quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
        "config_groups": {
            "group_0": {"targets": ["model.layers.*.mlp*"], "weights": _FLOAT4, "input_activations": _FLOAT4},
            "group_1": {"targets": ["model.layers.*.self_attn*"], "weights": _FLOAT8, "input_activations": _FLOAT8},
        },
    },
}  # fmt: skip
CONFIGS: dict[str, Config] = json.loads(json.dumps(_CONFIGS))

# Keys whose value changes no size, with the reason.
NO_EFFECT: dict[str, str] = {
    **dict.fromkeys(("sym", "zero_point"), "GPTQ and AWQ store zero points of either kind"),
    "desc_act": "GPTQ stores the order of groups in either case",
    **dict.fromkeys(("activation_scale_ub", "llm_int8_threshold"), "a limit of values"),
    **dict.fromkeys(("producer", "name", "version", "autoround_version", "meta"), "who wrote it, and how"),
    **dict.fromkeys(("calibration", "rows", "optimize", "block_name_to_quantize"), "how values were found"),
    **dict.fromkeys(("preserve_zero", "zero_point_domain", "inner_k_tiles"), "a scale and a zero point are stored in any case"),
    "use_hqq": "how values were found",
    "ch_axis": "which channel has a scale follows from qscheme",
    "kv_cache_group": "which modules of the cache are scaled: all, or none",
}
# Keys that have a default, which is what the library takes where they are absent.
DEFAULTS = frozenset({
    "_data", "activation_scheme", "actorder", "axis", "bits", "w_bit", "bnb_4bit_quant_type", "bnb_4bit_use_double_quant",
    "channel_wise", "checkpoint_format", "config_groups", "format", "method", "pack_dtype",
    "data_type", "dynamic", "exclude", "exclude_modules", "expert_dtype", "export", "fmt",
    "granularity", "group_size", "head_bits", "ignore", "ignored_layers", "in_group_size", "input_activations", "input_tensors",
    "is_dynamic", "kv_cache_quant_algo", "kv_cache_scheme", "layer_quant_config", "layout",
    "linear_weights_not_to_quantize", "lm_head",
    "load_in_4bit", "mode", "modules_in_block_to_quantize", "modules_to_not_convert", "nbits_per_codebook", "num_bits",
    "num_codebooks", "offload_meta", "out_group_size", "output_activations", "p", "packing_format", "q_group_size",
    "quant_type_kwargs", "scale_fmt", "scale_format", "scale_quant_params", "skip_modules", "strategy", "symmetric", "type",
    "version", "weight_block_size", "weights", "zero_quant_params",
})  # fmt: skip
# Mutants that are right as they are.
_RIGHT = {
    ("actorder", "flag"): "as older versions wrote `group`",
    ("dynamic", "flag"): "true, where it was `local`",
    ("axis", "zero"): "groups along outputs: as many",
    ("quant_config", "nested"): "an object of HQQ may be numbers by module",
    ("dynamic", "nested"): "a rule for modules of another name",
}
_ABSENT = ("removed", "null", "emptied")
_NEW: dict[str, Any] = {"new_switch": True, "weight_bits": 3, "note": "x", "nested": {"a": 1}}


def _places(config: Any, path: Path = ()) -> Iterator[Path]:
    entries: Any = config.items() if isinstance(config, dict) else enumerate(config) if isinstance(config, list) else ()
    for key, value in entries:
        if isinstance(config, dict):
            yield (*path, key)
        yield from _places(value, (*path, key))


def _at(config: Any, path: Path) -> Any:
    for key in path:
        config = config[key]
    return config


def _short(key: str) -> str:
    return key[: len(key) // 2] + key[len(key) // 2 + 1 :]


def _wrong(value: Any) -> dict[str, Any]:
    """Other values, by what was done; `changed`: they may be right."""
    wrong = {
        "null": None, "text": "many", "zero": 0, "negative": -2, "fraction": 0.3, "list": [value, 7],
        "nested": {"value": value or 7}, "emptied": type(value)() if isinstance(value, list | dict | str) else {},
    }  # fmt: skip
    if isinstance(value, bool):
        return {**wrong, "changed": not value}
    if isinstance(value, int | float):
        return {**wrong, "flag": True, "changed": value * 2, "spelt": str(value)}
    return {**wrong, "flag": True, **({"tail": value + "x"} if isinstance(value, str) else {})}


def mutants(config: Config) -> Iterator[tuple[Path, str, Config]]:
    """A place, what is wrong there, and the config with it."""
    places = list(_places(config))
    for *above, last in places:
        value = _at(config, (*above, last))
        changes: dict[str, dict[Any, Any]] = {"removed": {}, "misspelt": {_short(str(last)): value}}
        changes |= {what: {last: other} for what, other in _wrong(value).items()}
        for what, entries in changes.items():
            mutant = copy.deepcopy(config)
            around = _at(mutant, tuple(above))
            del around[last]
            around |= entries
            yield (*above, last), what, mutant
    for place in [(), *(place for place in places if isinstance(_at(config, place), dict))]:
        for key, value in _NEW.items():
            mutant = copy.deepcopy(config)
            _at(mutant, place)[key] = value
            yield (*place, key), "unknown", mutant


def _answers(config: Config) -> tuple[Published, ...]:
    return tuple(read(config, modules) for modules in (dense(), experts()))


def problem(config: Config, path: Path, what: str, mutant: Config) -> str | None:
    """What is wrong with the answer to a mutant; None where it is right."""
    key, name = str(path[-1]), ".".join(map(str, path))
    try:
        answers = _answers(mutant)
    except InputError as error:
        told = str(error)
        named = any(str(part) in told for part in path if isinstance(part, str)) or _short(key) in told
        return None if named and "\n" not in told else f"{name} {what}: refused without naming it: {told}"
    if any(str(part) in NO_EFFECT for part in path):
        return None
    if key.startswith(("group_", "model.layers.", "-:", "+:")) and what in ("removed", "misspelt", "emptied", "nested"):
        return None  # names of groups, which are free, and of modules: a rule less
    old = None if what == "unknown" else _at(config, path)
    same = answers == _answers(config)
    if what == "changed" and (key in DEFAULTS or key == "bits") and (not same or key in ("is_dynamic", "symmetric", "dynamic")):
        return None
    if (what in _ABSENT or (what == "misspelt" and old is None)) and key in DEFAULTS:
        return None
    if same and not old and old in (None, False) and what in ("zero", "emptied"):
        return None  # off in another way
    if (key, what) in _RIGHT:
        return None
    return f"{name} {what}: {'no effect' if same else 'changes in silence'}"


@pytest.mark.parametrize("name", CONFIGS)
def test_mutants(name: str) -> None:
    """No error of a config is silent: what is not known to be without effect is refused in one line that names the key."""
    config = CONFIGS[name]
    tried = list(mutants(config))[::STEP]
    wrong = [found for path, what, mutant in tried if (found := problem(config, path, what, mutant))]
    assert len(tried) > 5
    assert not wrong, "\n".join(wrong)
