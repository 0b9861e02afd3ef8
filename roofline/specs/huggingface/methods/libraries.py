"""Methods of libraries with a format of their own: AutoRound, torchao, Quark, HQQ, AQLM, HIGGS, EETQ, BitNet, EXL, MLX."""

from __future__ import annotations

from typing import Any

from roofline.specs.huggingface.methods.base import AND_HEAD, LAYERS, Keys, Plan, Rule, method
from roofline.specs.huggingface.methods.transformers import HARMLESS
from roofline.specs.quantization.base import Scheme

_PACKED_AS_GPTQ = (
    "auto_round:auto_gptq", "auto_round:gptqmodel", "auto_round:gptq:exllamav2", "auto_round:exllamav2",
)  # fmt: skip
_EVERYTHING = AND_HEAD | {"embedding", "router"}


@method("auto-round")
def auto_round(keys: Keys, dtype: str) -> Plan:
    """The plan of Intel's AutoRound: the layout of GPTQ without the order of inputs, or of AWQ; `extra_config` by module.

    Source: https://github.com/intel/auto-round, auto_round_extension/torch/qlinear_torch.py and export/export_to_autoround.
    """
    del dtype
    packing = keys.choice("packing_format", "backend", of=(*_PACKED_AS_GPTQ, "auto_round:auto_awq"), default=_PACKED_AS_GPTQ[0])
    keys.choice("data_type", of=("int",), default="int")

    def scheme(bits: Any, size: Any) -> Scheme | None:
        if bits == 16:
            return None
        if packing == "auto_round:auto_awq":
            return keys.make("awq", bits=bits, group_size=size)
        return keys.make("gptq", bits=bits, group_size=size, g_idx=False)

    bits, size = keys.get("bits", default=4), keys.get("group_size", default=128)
    rules = []
    for name, changed in keys.parts("extra_config").items():
        rules.append(
            keys.named(
                scheme(changed.get("bits", default=bits), changed.get("group_size", default=size)), [name], "extra_config"
            )
        )
        changed.choice("data_type", of=("int", "float", "fp"), default="int")
        changed.done("act_bits", "act_data_type", "act_dynamic", "act_group_size", "act_sym", "sym", *HARMLESS)
    keys.choice("act_bits", of=(16,), default=16)
    keys.done("act_data_type", "act_dynamic", "act_group_size", "act_sym", *HARMLESS)
    return Plan((*rules, Rule(scheme(bits, size))))


_TORCHAO: dict[str, dict[str, Any]] = {
    # NB: symmetric weights have zero points too
    "Int8WeightOnlyConfig": {"scheme": "int8", "symmetric": False, "scale_dtype": "fp32", "activation_scheme": "none"},
    "Int8DynamicActivationInt8WeightConfig": {"scheme": "int8", "symmetric": False, "scale_dtype": "fp32"},
    "Float8WeightOnlyConfig": {"scheme": "fp8", "strategy": "channel", "activation_scheme": "none"},
    "Float8DynamicActivationFloat8WeightConfig": {"scheme": "fp8"},
    "Int4WeightOnlyConfig": {"scheme": "affine", "bits": 4},
}


# How kernels are chosen, how activations are scaled, and how 4-bit weights that are as large are packed.
_TORCHAO_HARMLESS = (
    "activation_dtype", "activation_value_lb", "activation_value_ub", "act_mapping_type", "int4_choose_qparams_algorithm",
    "int4_packing_format", "kernel_preference", "mm_config", "packing_format", "set_inductor_config", "use_hqq", "version",
    "weight_only_decode",
)  # fmt: skip


def _granularity(data: Keys, default: str) -> str:
    """What has a scale, of weights and activations alike: "PerRow" or "PerTensor"."""
    given = data.get("granularity")
    each = given if isinstance(given, list) and given else [given]
    known = [one is None or (isinstance(one, dict) and one.keys() <= {"_type", "_data", "_version"}) for one in each]
    kinds = [default if one is None else one.get("_type") for one in each] if all(known) else [None]
    if kinds[0] not in ("PerRow", "PerTensor") or any(kind != kinds[0] for kind in kinds):
        data.refuse("granularity", f"{given!r:.60} is not known; known: PerRow, PerTensor")
    return str(kinds[0])


def _int4_group_size(data: Keys) -> Any:
    """The weights that share a scale and a zero point, which stand beside each other in any case.

    Raises:
        InputError: a layout other than tiles, which are as large as the matrix; versions before the packing formats name it.
    """
    layout = data.part("layout")
    if layout is not None:
        if (kind := layout.get("_type")) != "TensorCoreTiledLayout":
            layout.refuse("_type", f"{kind!r:.60} is not known; known: TensorCoreTiledLayout")
        tiles = layout.part("_data")
        if tiles is not None:
            tiles.done("inner_k_tiles")
        layout.done("_version")
    data.requested |= {"preserve_zero", "zero_point_domain"}
    return data.get("group_size", default=128)


@method("torchao")
def torchao(keys: Keys, dtype: str) -> Plan:
    """The plan of TorchAoConfig (transformers): the tensors that torchao 0.18 makes, and the `int4_weight_only` of older ones.

    Source: https://github.com/pytorch/ao, torchao/quantization/quant_api.py and quantize_/workflows.
    """
    del dtype
    left = keys.left("modules_to_not_convert")
    keys.choice("untie_embedding_weights", of=(False,), default=False)
    roles = LAYERS | {"lm_head", "embedding"} if keys.flag("include_input_output_embeddings") else LAYERS
    if isinstance(named := keys.get("quant_type"), str):
        keys.choice("quant_type", of=("int4_weight_only",))
        given = keys.part("quant_type_kwargs")
        size = 128 if given is None else given.get("group_size", default=128)
        keys.done()
        if given is not None:
            given.done("layout", "use_hqq", "inner_k_tiles", "zero_point_domain")
        return Plan((left, Rule(keys.make("affine", bits=4, group_size=size), roles=roles)))
    types = keys.parts("quant_type")
    if set(types) != {"default"}:
        keys.refuse("quant_type", f"must have one entry, default, not {named!r:.80}")
    config = types["default"]
    name = config.get("_type")
    if not isinstance(name, str) or name not in _TORCHAO:
        config.refuse("_type", f"{name!r:.60} is not known; known: {', '.join(_TORCHAO)}")
    config.choice("_version", of=(2,))
    data = config.part("_data") or Keys({}, config.place)
    chosen = dict(_TORCHAO[name])
    if name == "Int4WeightOnlyConfig":
        chosen["group_size"] = _int4_group_size(data)
    elif name == "Float8DynamicActivationFloat8WeightConfig":
        chosen["strategy"] = "channel" if _granularity(data, "PerTensor") == "PerRow" else "tensor"
    elif _granularity(data, "PerRow") != "PerRow":
        data.refuse("granularity", "is not known; known: PerRow")
    elif data.get("group_size") is not None:
        data.refuse("group_size", "is not known: a scale is for a row")
    weights = data.part("weight_dtype")
    if weights is not None:
        weights.choice("_data", of=("float8_e4m3fn", "int8"))
        weights.done("_type")
    data.done(*_TORCHAO_HARMLESS)
    keys.done()
    return Plan((left, Rule(keys.make(chosen.pop("scheme"), **chosen), roles=roles)))


@method("quark")
def quark(keys: Keys, dtype: str) -> Plan:
    """The plan of AMD Quark: fp8 by tensor or channel, int8 by channel, and MXFP4, with modules to leave out.

    Source: https://quark.docs.amd.com/latest/pytorch/user_guide_config_description.html and vLLM's reader of it.
    """
    whole = keys.part("global_quant_config")
    if whole is None:
        keys.refuse("global_quant_config", "is missing: how weights are stored is not said")
    rules = [keys.left("exclude")]
    for name, own in keys.parts("layer_quant_config").items():
        rules.append(keys.named(_quark_scheme(own, dtype), [name], "layer_quant_config"))
    if keys.get("layer_type_quant_config"):
        keys.refuse("layer_type_quant_config", "rules by class of module are not known")
    export = keys.part("export")
    cached = export is not None and bool(export.listed("kv_cache_group"))
    if export is not None:
        export.choice("weight_format", of=("real_quantized",), default="real_quantized")
        export.done("min_kv_scale", "pack_method", "weight_merge_groups")
    kv = keys.part("kv_cache_quant_config")
    if kv is not None and kv.data:
        cached = True
        for part in keys.parts("kv_cache_quant_config").values():
            stored = part.part("output_tensors")
            if stored is None or stored.choice("dtype", of=("fp8_e4m3",)) is None:
                part.refuse("output_tensors", "is missing: how the cache is stored is not said")
            stored.done(*_QUARK_TENSOR)
            part.done(*_QUARK_LAYER)
        kv.checked = True
    keys.done("algo_config", "kv_cache_post_rope", "quant_mode", "softmax_quant_spec", "version", "quark_version")
    return Plan((*rules, Rule(_quark_scheme(whole, dtype), roles=AND_HEAD)), "fp8" if cached else None)


_QUARK_LAYER = ("weight", "input_tensors", "bias", "output_tensors", "target_device")
# How scales are found and rounded; which channel has one follows from `qscheme`.
_QUARK_TENSOR = (
    "block_size", "ch_axis", "enable_buffer_reuse", "is_dynamic", "is_scale_quant", "max_input_numel", "mx_element_dtype",
    "observer_cls", "qscheme", "group_size", "round_method", "scale_calculation_mode", "scale_format", "scale_type",
    "symmetric", "zero_point_type",
)  # fmt: skip


def _quark_scheme(keys: Keys, dtype: str) -> Scheme:
    scheme = _quark_weights(keys, dtype)
    for tensor in keys.inside:
        tensor.done(*_QUARK_TENSOR)
    keys.done("target_device", "output_tensors")
    return scheme


def _quark_weights(keys: Keys, dtype: str) -> Scheme:
    weight, inputs = keys.part("weight"), keys.part("input_tensors")
    if weight is None:
        keys.refuse("weight", "is missing: how weights are stored is not said")
    kind = weight.choice("dtype", of=("fp8_e4m3", "int8", "fp4"))
    by = weight.choice("qscheme", of=("per_tensor", "per_channel", "per_group"))
    weight.choice("is_dynamic", of=(False,), default=False)
    weight.choice("is_scale_quant", of=(False,), default=False)
    activations = "none" if inputs is None else "dynamic" if inputs.flag("is_dynamic") else "static"
    if inputs is not None and kind != "fp4":
        inputs.choice("dtype", of=(kind,))
        inputs.choice("qscheme", of=("per_tensor", "per_channel"))
    if kind == "fp4" and by == "per_group":
        weight.choice("group_size", of=(32,), default=32)
        weight.choice("scale_format", of=("e8m0",), default="e8m0")
        form = None if inputs is None else inputs.choice("dtype", of=("fp4", "fp8_e4m3"))
        if inputs is not None and form == "fp4":
            inputs.choice("qscheme", of=("per_group",))
            inputs.choice("group_size", of=(32,), default=32)
            inputs.choice("scale_format", of=("e8m0",), default="e8m0")
        return keys.make("mxfp4", activations="none" if form is None else form[:3])
    if kind == "fp8_e4m3" and by != "per_group":
        strategy = by.removeprefix("per_")
        return keys.make("fp8", strategy=strategy, scale_dtype="fp32", activation_scheme=activations)
    if kind == "int8" and by != "per_group":
        strategy = by.removeprefix("per_")
        scale = dtype if dtype in ("fp32", "bf16", "fp16") else "bf16"
        return keys.make("int8", strategy=strategy, scale_dtype=scale, activation_scheme=activations)
    return weight.refuse("qscheme", f"{kind} weights {by} are not known")


_PACKED_BITS = {1: 1.0, 2: 2.0, 3: 3.2, 4: 4.0, 8: 8.0}


@method("hqq")
def hqq(keys: Keys, dtype: str) -> Plan:
    """The plan of HqqConfig (transformers): groups with a scale and a zero in 16 bits; by kind of module in a dynamic config.

    Source: https://github.com/mobiusml/hqq, hqq/core/quantize.py and bitpack.py.
    """
    del dtype
    left = Rule(None, roles=frozenset({"lm_head"})), keys.left("skip_modules")
    config = keys.part("quant_config")
    if config is None:
        keys.refuse("quant_config", "is missing: how weights are stored is not said")
    keys.done()
    if "weight_quant_params" in config.data:
        return Plan((*left, Rule(_hqq_scheme(config))))
    if not (parts := keys.parts("quant_config")):
        keys.refuse("quant_config", "is empty: how weights are stored is not said")
    config.checked = True
    return Plan((*left, *(keys.named(_hqq_scheme(part), [name], "quant_config") for name, part in parts.items())))


def _hqq_scheme(config: Keys) -> Scheme:
    weights = config.part("weight_quant_params")
    if weights is None:
        config.refuse("weight_quant_params", "is missing: how weights are stored is not said")
    for name in ("scale_quant_params", "zero_quant_params"):
        if config.get(name):
            config.refuse(name, "scales that are quantised in their turn are not known")
    bits = weights.choice("nbits", of=tuple(_PACKED_BITS))
    size = weights.get("group_size")
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1 or size % 8):
        weights.refuse("group_size", f"must be a multiple of 8, not {size!r:.60}")
    weights.choice("axis", of=(0, 1), default=0)
    weights.choice("channel_wise", of=(True,), default=True)
    config.choice("offload_meta", of=(False,), default=False)
    weights.done("optimize", "round_zero", "view_as_float")
    config.done()
    return config.make("affine", bits=_PACKED_BITS[bits], group_size=-1 if size is None else size, scale_dtype="fp16")


@method("aqlm")
def aqlm(keys: Keys, dtype: str) -> Plan:
    """The plan of AqlmConfig (transformers)."""
    del dtype
    keys.choice("out_group_size", of=(1,), default=1)
    names = ("in_group_size", "num_codebooks", "nbits_per_codebook")
    scheme = keys.make("aqlm", **{name: value for name in names if (value := keys.get(name)) is not None})
    left = keys.left("linear_weights_not_to_quantize")
    keys.done()
    return Plan((left, Rule(scheme)))


@method("higgs")
def higgs(keys: Keys, dtype: str) -> Plan:
    """The plan of HiggsConfig (transformers)."""
    del dtype
    keys.choice("p", of=(2,), default=2)
    scheme = keys.make("higgs", bits=keys.get("bits", default=4), group_size=keys.get("group_size", default=256))
    left = Rule(None, roles=frozenset({"lm_head"})), keys.left("modules_to_not_convert")
    keys.done("hadamard_size", "tune_metadata")
    return Plan((*left, Rule(scheme)))


@method("eetq")
def eetq(keys: Keys, dtype: str) -> Plan:
    """The plan of EetqConfig (transformers): int8 with an fp16 scale an output, activations as they are."""
    del dtype
    keys.choice("weights", of=("int8",), default="int8")
    left = keys.left("modules_to_not_convert")
    keys.done()
    return Plan((left, Rule(keys.make("int8", scale_dtype="fp16", activation_scheme="none"))))


@method("bitnet")
def bitnet(keys: Keys, dtype: str) -> Plan:
    """The plan of BitNetQuantConfig (transformers), of weights that are packed: `online` ones are in 16 bits."""
    del dtype
    keys.choice("quantization_mode", of=("offline",), default="offline")
    keys.choice("linear_class", of=("bitlinear", "autobitlinear"), default="bitlinear")
    keys.choice("use_rms_norm", of=(False,), default=False)
    left = keys.left("modules_to_not_convert")
    keys.done("rms_norm_eps")
    return Plan((left, Rule(keys.make("bitnet"))))


def _exl(keys: Keys, dtype: str) -> Plan:
    """The plan of ExLlamaV2 and V3: bits of each matrix are chosen, and the config has their mean and those of the LM head.

    NB: single tensors differ; the sum of all is as far right as the mean is.
    """
    del dtype
    bits = keys.make("mean_bits", bits=keys.number("bits", low=1, high=16))
    head = keys.make("mean_bits", bits=keys.number("head_bits", "lm_head_bits", low=1, high=16, default=16))
    keys.done("version", "calibration", "out_scales", "tensor_storage", "codebook")
    return Plan((Rule(head, roles=frozenset({"lm_head"})), Rule(bits)))


exl2, exl3 = method("exl2")(_exl), method("exl3")(_exl)


@method("mlx")
def mlx(keys: Keys, dtype: str) -> Plan:
    """The plan of mlx-lm: every linear layer, the router and the embedding in groups, other numbers or none by module.

    Source: https://github.com/ml-explore/mlx-lm, mlx_lm/utils.py (quantize_model, load_model).
    """

    def scheme(own: Keys) -> Scheme:
        mode = own.choice("mode", of=("affine", "mxfp4", "mxfp8", "nvfp4"), default="affine")
        if mode == "affine":
            bits = own.choice("bits", of=(2, 3, 4, 5, 6, 8), default=4)
            size = own.choice("group_size", of=(32, 64, 128), default=64)
            scale = dtype if dtype in ("fp32", "bf16", "fp16") else "bf16"
            return own.make("affine", bits=bits, group_size=size, scale_dtype=scale)
        if mode == "nvfp4":
            own.refuse("mode", "nvfp4 without its global scale is not known; known: affine, mxfp4, mxfp8")
        bits = int(mode[-1])
        own.choice("bits", of=(bits,), default=bits)
        own.choice("group_size", of=(32,), default=32)
        return own.make(mode)

    whole = scheme(keys)
    rules = []
    for name, value in keys.data.items():
        if name in keys.requested:
            continue
        if not (isinstance(value, dict) or value is False) or not ("." in name or name in _MLX_ALONE):
            keys.refuse(name, f"{value!r:.60} is not understood: neither a key of mlx-lm nor a module with numbers of its own")
        if isinstance(value, dict):
            own = Keys(value, f"{keys.place}.{name}")
            rules.append(keys.named(scheme(own), [name], name))
            own.done()
        else:
            rules.append(keys.named(None, [name], name))
        keys.requested.add(name)
    return Plan((*rules, Rule(whole, roles=_EVERYTHING)))


# Modules that stand in no other.
_MLX_ALONE = ("lm_head", "embed_tokens", "output")
