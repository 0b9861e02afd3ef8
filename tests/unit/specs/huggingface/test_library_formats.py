"""What the configs of libraries with a format of their own mean: schemes by role, from configs as the libraries write them.

Layouts are in `tests/unit/specs/test_schemes.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from roofline.errors import InputError
from roofline.specs.huggingface.quantization import Modules, Published, read, section


def llama(layers: int = 2) -> Modules:
    """Names as Llama has them."""
    modules: dict[str, tuple[int | None, str]] = {"model.embed_tokens": (None, "embedding"), "lm_head": (None, "lm_head")}
    for layer in range(layers):
        at = f"model.layers.{layer}"
        modules |= {f"{at}.self_attn.{name}_proj": (layer, "attention/qkv_proj") for name in "qkv"}
        modules[f"{at}.self_attn.o_proj"] = (layer, "attention/o_proj")
        modules |= {f"{at}.mlp.{name}_proj": (layer, "mlp/gate_up_proj") for name in ("gate", "up")}
        modules[f"{at}.mlp.down_proj"] = (layer, "mlp/down_proj")
    return modules


def schemes(published: Published) -> list[dict[str, Any]]:
    """As plain data, without keys at their defaults."""
    return [{"name": one.name, **one.model_dump(mode="json", exclude_defaults=True)} for one in published.quantization]


_AO = {"_type": "Int8WeightOnlyConfig", "_version": 2, "_data": {"group_size": None, "granularity": {"_type": "PerRow"}}}
_FP8 = {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": False, "ch_axis": None}
_MX = {"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0", "is_dynamic": False}
CONFIGS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "auto-round": (
        {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True, "data_type": "int",
         "autoround_version": "0.5.1", "packing_format": "auto_round:auto_gptq", "block_name_to_quantize": "model.layers"},
        [{"name": "gptq", "g_idx": False, "roles": ["linear"]}],
    ),
    "auto-round as awq": (
        {"quant_method": "auto-round", "bits": 4, "group_size": 32, "packing_format": "auto_round:auto_awq"},
        [{"name": "awq", "group_size": 32, "roles": ["linear"]}],
    ),
    "torchao int8": (
        {"quant_method": "torchao", "quant_type": {"default": _AO}, "modules_to_not_convert": None},
        [{"name": "int8", "symmetric": False, "scale_dtype": "fp32", "activation_scheme": "none", "roles": ["linear"]}],
    ),
    "torchao fp8 by row": (
        {"quant_method": "torchao", "quant_type": {"default": {
            "_type": "Float8DynamicActivationFloat8WeightConfig", "_version": 2,
            "_data": {"granularity": [{"_type": "PerRow"}, {"_type": "PerRow"}]},
        }}},
        [{"name": "fp8", "strategy": "channel", "roles": ["linear"]}],
    ),
    "torchao int4 in tiles": (  # as versions that name the layout save it
        {"quant_method": "torchao", "quant_type": {"default": {
            "_type": "Int4WeightOnlyConfig", "_version": 2,
            "_data": {"group_size": 128, "preserve_zero": None, "use_hqq": True,
                      "layout": {"_type": "TensorCoreTiledLayout", "_data": {"inner_k_tiles": 8}},
                      "zero_point_domain": {"_type": "ZeroPointDomain", "_data": "NONE"}},
        }}},
        [{"name": "affine", "group_size": 128, "roles": ["linear"]}],
    ),
    "torchao by a word": (
        {"quant_method": "torchao", "quant_type": "int4_weight_only", "quant_type_kwargs": {"group_size": 128}},
        [{"name": "affine", "group_size": 128, "roles": ["linear"]}],
    ),
    "quark fp8": (
        {"quant_method": "quark", "global_quant_config": {"weight": _FP8, "input_tensors": _FP8}, "exclude": ["lm_head"],
         "export": {"kv_cache_group": ["*k_proj", "*v_proj"]}, "layer_quant_config": {}},
        [{"name": "fp8", "activation_scheme": "static", "kv_cache_dtype": "fp8", "roles": ["linear"]}],
    ),
    "quark mxfp4": (
        {"quant_method": "quark", "global_quant_config": {"weight": _MX, "input_tensors": {**_MX, "is_dynamic": True}},
         "exclude": ["lm_head", "re:.*self_attn.*"]},
        [{"name": "mxfp4", "activations": "fp4", "roles": ["mlp"]}],
    ),
    "hqq": (
        {"quant_method": "hqq", "skip_modules": ["lm_head"], "quant_config": {
            "offload_meta": False, "scale_quant_params": None, "zero_quant_params": None,
            "weight_quant_params": {"nbits": 3, "group_size": 64, "axis": 1, "channel_wise": True, "optimize": True},
        }},
        [{"name": "affine", "bits": 3.2, "scale_dtype": "fp16", "roles": ["linear"]}],
    ),
    "aqlm": (
        {"quant_method": "aqlm", "in_group_size": 8, "out_group_size": 1, "num_codebooks": 2, "nbits_per_codebook": 8,
         "linear_weights_not_to_quantize": ["lm_head.weight", "model.embed_tokens.weight"]},
        [{"name": "aqlm", "num_codebooks": 2, "nbits_per_codebook": 8, "roles": ["linear"]}],
    ),
    "higgs": ({"quant_method": "higgs", "bits": 4, "p": 2, "group_size": 256}, [{"name": "higgs", "roles": ["linear"]}]),
    "eetq": (
        {"quant_method": "eetq", "weights": "int8", "modules_to_not_convert": ["lm_head"]},
        [{"name": "int8", "scale_dtype": "fp16", "activation_scheme": "none", "roles": ["linear"]}],
    ),
    "bitnet": ({"quant_method": "bitnet", "modules_to_not_convert": ["lm_head"]}, [{"name": "bitnet", "roles": ["linear"]}]),
    "exl3": (
        {"quant_method": "exl3", "bits": 3.5, "head_bits": 6, "version": "0.0.1", "calibration": {"rows": 100}},
        [{"name": "mean_bits", "bits": 3.5, "roles": ["linear"]}, {"name": "mean_bits", "bits": 6.0, "roles": ["lm_head"]}],
    ),
    "mlx": (
        {"group_size": 64, "bits": 4},
        [{"name": "affine", "roles": ["linear", "lm_head", "embedding"]}],
    ),
    "mlx in mxfp4": (
        {"group_size": 32, "bits": 4, "mode": "mxfp4", "lm_head": False},
        [{"name": "mxfp4", "roles": ["linear", "embedding"]}],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("config", "expected"), CONFIGS.values(), ids=CONFIGS)
def test_configs_of_libraries(config: dict[str, Any], expected: list[dict[str, Any]]) -> None:
    """Which weights are stored how."""
    assert schemes(read(config, llama())) == expected


def test_modules_of_their_own() -> None:
    """MLX: down projections of one layer in 6 bits; AutoRound: one in 8, one in 16 bits, which is not quantised."""
    own = {"model.layers.1.mlp.down_proj": {"group_size": 64, "bits": 6}}
    ((index, (scheme,)),) = read({"group_size": 64, "bits": 4, **own}, llama()).otherwise
    assert (index, scheme.roles, scheme.model_dump()["bits"]) == (1, ("mlp/down_proj",), 6)
    extra = {
        "model.layers.0.self_attn.o_proj": {"bits": 8},
        "model.layers.1.self_attn.o_proj": {"bits": 16, "data_type": "float"},
    }
    published = read({"quant_method": "auto-round", "bits": 4, "group_size": 128, "extra_config": extra}, llama(4))
    assert [(layer, one.roles) for layer, schemes in published.otherwise for one in schemes] == [(0, ("attention/o_proj",))]
    assert published.unquantized == ((1, ("attention/o_proj",)),)


def test_the_key_of_mlx() -> None:
    """`quantization` beside the keys of the model."""
    assert section({"quantization": {"group_size": 64, "bits": 4}}) == {"group_size": 64, "bits": 4}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"quant_method": "torchao", "quant_type": "int8_weight_only"}, "known: int4_weight_only"),
        ({"quant_method": "torchao", "quant_type": {"default": {**_AO, "_version": 1}}}, r"_version: 1 is not known; known: 2"),
        ({"quant_method": "torchao", "quant_type": {"default": {"_type": "GemliteConfig"}}}, "Gemlite.*is not known"),
        ({"quant_method": "quark", "global_quant_config": {"weight": {**_MX, "group_size": 16}}}, "group_size: 16"),
        ({"quant_method": "quark"}, "global_quant_config: is missing"),
        ({"quant_method": "bitnet", "quantization_mode": "online"}, "'online' is not known; known: offline"),
        ({"quant_method": "auto-round", "packing_format": "auto_round:fp8"}, "packing_format"),
        ({"quant_method": "spqr", "bits": 3}, "unknown quant_method 'spqr'"),
        ({"quant_method": "exl2"}, "bits"),
        ({"group_size": 64, "bits": 4, "mode": "nvfp4"}, "nvfp4 without its global scale"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused(config: dict[str, Any], message: str) -> None:
    """With the key that is wrong."""
    with pytest.raises(InputError, match=message):
        read(config, llama())
