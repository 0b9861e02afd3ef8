"""Methods of libraries with a format of their own: AutoRound, torchao, Quark, HQQ, AQLM, HIGGS, EETQ, BitNet, EXL, MLX."""

from __future__ import annotations

from typing import Any

from roofline.specs.huggingface.methods.base import AND_HEAD, LAYERS, Keys, Plan, Rule, method
from roofline.specs.huggingface.methods.transformers import HARMLESS
from roofline.specs.quantization.base import Scheme

_EVERYTHING = AND_HEAD | {"embedding", "router"}


@method("auto-round")
def auto_round(keys: Keys, dtype: str) -> Plan:
    """The plan of Intel's AutoRound: the layout of GPTQ without the order of inputs, or of AWQ; `extra_config` by module.

    Source: https://github.com/intel/auto-round, auto_round_extension/torch/qlinear_torch.py and export/export_to_autoround.
    """
    del dtype
    packing = keys.choice(
        "packing_format",
        of=("auto_round:auto_gptq", "auto_round:gptqmodel", "auto_round:auto_awq"),
        default="auto_round:auto_gptq",
    )
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
    keys.done("act_data_type", "act_dynamic", "act_group_size", "act_sym", "super_bits", "super_group_size", *HARMLESS)
    return Plan((*rules, Rule(scheme(bits, size))))


_TORCHAO: dict[str, dict[str, Any]] = {
    # NB: symmetric weights have zero points too
    "Int8WeightOnlyConfig": {"scheme": "int8", "symmetric": False, "scale_dtype": "fp32", "activation_scheme": "none"},
    "Int8DynamicActivationInt8WeightConfig": {"scheme": "int8", "symmetric": False, "scale_dtype": "fp32"},
    "Float8WeightOnlyConfig": {"scheme": "fp8", "strategy": "channel", "activation_scheme": "none"},
    "Float8DynamicActivationFloat8WeightConfig": {"scheme": "fp8"},
    "Int4WeightOnlyConfig": {"scheme": "affine", "bits": 4},
}


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
        return Plan((left, Rule(keys.make("affine", bits=4, group_size=size), roles=roles)))
    types = keys.parts("quant_type")
    if set(types) != {"default"}:
        keys.refuse("quant_type", f"must have one entry, default, not {named!r:.80}")
    config = types["default"]
    name = config.get("_type")
    if name not in _TORCHAO:
        config.refuse("_type", f"{name!r:.60} is not known; known: {', '.join(_TORCHAO)}")
    config.choice("_version", of=(2,))
    data = config.part("_data") or Keys({}, config.place)
    chosen = dict(_TORCHAO[name])
    if name == "Int4WeightOnlyConfig":
        chosen["group_size"] = data.get("group_size", default=128)
    elif name == "Float8DynamicActivationFloat8WeightConfig":
        chosen["strategy"] = "channel" if "PerRow" in str(data.get("granularity")) else "tensor"
    elif "PerRow" not in str(data.get("granularity", default="PerRow")) or data.get("group_size") is not None:
        data.refuse("granularity", "is not known; known: PerRow")
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
    kv = keys.part("kv_cache_quant_config")
    if kv is not None and kv.data:
        cached = True
    keys.done("algo_config", "kv_cache_post_rope", "quant_mode", "softmax_quant_spec", "version", "quark_version")
    return Plan((*rules, Rule(_quark_scheme(whole, dtype), roles=AND_HEAD)), "fp8" if cached else None)


def _quark_scheme(keys: Keys, dtype: str) -> Scheme:
    weight, inputs = keys.part("weight"), keys.part("input_tensors")
    if weight is None:
        keys.refuse("weight", "is missing: how weights are stored is not said")
    kind = weight.choice("dtype", of=("fp8_e4m3", "int8", "fp4"))
    by = weight.choice("qscheme", of=("per_tensor", "per_channel", "per_group"))
    activations = "none" if inputs is None else "dynamic" if inputs.get("is_dynamic") else "static"
    if kind == "fp4" and by == "per_group":
        weight.choice("group_size", of=(32,), default=32)
        weight.choice("scale_format", of=("e8m0",), default="e8m0")
        form = None if inputs is None else inputs.choice("dtype", of=("fp4", "fp8_e4m3"))
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
    parts = Keys({"quant_config": config.data}, keys.place).parts("quant_config")
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
    weights.choice("channel_wise", of=(True,), default=True)
    config.choice("offload_meta", of=(False,), default=False)
    weights.done("axis", "optimize", "round_zero", "view_as_float")
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
    bits = keys.make("mean_bits", bits=keys.get("bits"))
    head = keys.make("mean_bits", bits=keys.get("head_bits", "lm_head_bits", default=16))
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
        size, bits = own.get("group_size", default=64), own.get("bits", default=4)
        own.requested |= {"mode", "group_size", "bits"}
        if mode == "affine":
            scale = dtype if dtype in ("fp32", "bf16", "fp16") else "bf16"
            return own.make("affine", bits=bits, group_size=size, scale_dtype=scale)
        if mode == "nvfp4":
            own.refuse("mode", "nvfp4 without its global scale is not known; known: affine, mxfp4, mxfp8")
        return own.make("mxfp4" if mode == "mxfp4" else "mxfp8")

    whole = scheme(keys)
    rules = []
    for name, value in keys.data.items():
        if name in keys.requested:
            continue
        if isinstance(value, dict):
            rules.append(keys.named(scheme(Keys(value, f"{keys.place}.{name}")), [name], name))
        elif isinstance(value, bool):
            rules.append(keys.named(whole if value else None, [name], name))
        keys.requested.add(name)
    return Plan((*rules, Rule(whole, roles=_EVERYTHING)))
