"""Methods of transformers' `QuantizationConfig`s (GPTQ, AWQ, bitsandbytes, FBGEMM, FP8, MXFP4), and NVIDIA ModelOpt."""

from __future__ import annotations

from typing import Any

from roofline.specs.huggingface.methods.base import AND_HEAD, EXPERTS, LAYERS, Keys, Plan, Rule, any_of, kv_cache, method
from roofline.specs.quantization.base import Scheme

# Keys of GPTQ and AWQ that change no size.
HARMLESS = (
    "sym", "desc_act", "true_sequential", "static_groups", "damp_percent", "damp_auto_increment", "act_group_aware", "hyb_act",
    "dataset", "tokenizer", "batch_size", "model_seqlen", "max_input_length", "pad_token_id", "cache_block_outputs", "mse",
    "block_name_to_quantize", "module_name_preceding_first_block", "model_name_or_path", "model_file_base_name", "meta",
    "quantizer", "backend", "use_exllama", "disable_exllama", "exllama_config", "use_cuda_fp16", "pack_dtype",
    # what AutoRound adds: how it was tuned
    "autoround_version", "data_type", "iters", "lr", "minmax_lr", "nsamples", "seqlen", "amp", "scale_dtype",
    "gradient_accumulate_steps", "enable_minmax_tuning", "enable_norm_bias_tuning", "enable_quanted_input", "train_bs",
    "low_gpu_mem_usage", "model_free", "quant_block_list",
    "to_quant_block_names",
)  # fmt: skip


@method("gptq")
def gptq(keys: Keys, dtype: str) -> Plan:
    """The plan of GPTQConfig (transformers) and QuantizeConfig (GPTQModel), with rules by module names in `dynamic`."""
    del dtype
    for name in ("checkpoint_format", "format"):
        keys.choice(name, of=("gptq", "gptq_v2"), default="gptq")
    keys.choice("method", of=("gptq",), default="gptq")
    keys.choice("pack_dtype", of=("int32", "torch.int32"), default="int32")
    keys.choice("is_marlin_format", of=(False,), default=False)
    plain = {"bits": keys.get("bits", default=4), "group_size": keys.get("group_size", default=128)}
    scheme = keys.make("gptq", **plain)
    rules = []
    for pattern, changed in keys.parts("dynamic").items():
        sign, _, expression = pattern.rpartition(":") if pattern[:2] in ("+:", "-:") else ("+", ":", pattern)
        own = {name: changed.get(name, default=value) for name, value in plain.items()}
        changed.done(*HARMLESS)
        rules.append(keys.named(None if sign == "-" else keys.make("gptq", **own), [f"re:{expression}"], "dynamic"))
    rules.append(keys.left("modules_to_not_convert"))
    roles = AND_HEAD if keys.flag("lm_head") else LAYERS
    inside = [
        name
        for names in keys.listed("modules_in_block_to_quantize")
        for name in (names if isinstance(names, list) else [names])
    ]
    keys.done(*HARMLESS)
    if inside:
        only = any_of(inside, "quantization_config.modules_in_block_to_quantize")
        return Plan((*rules, Rule(scheme, only)))
    return Plan((*rules, Rule(scheme, roles=roles)))


@method("awq")
def awq(keys: Keys, dtype: str) -> Plan:
    """The plan of AwqConfig (transformers) and of quant_config.json (AutoAWQ).

    NB: zero points are stored whether they are used or not.
    """
    del dtype
    for name in ("version", "format", "checkpoint_format"):
        keys.choice(name, of=("gemm", "exllama", "ipex"), default="gemm")
    keys.choice("method", of=("awq",), default="awq")
    scheme = keys.make(
        "awq", bits=keys.get("bits", "w_bit", default=4), group_size=keys.get("group_size", "q_group_size", default=128)
    )
    left = keys.left("modules_to_not_convert")
    keys.done("zero_point", "backend", "do_fuse", "fuse_max_seq_len", "modules_to_fuse", "exllama_config", *HARMLESS)
    return Plan((left, Rule(scheme)))


@method("bitsandbytes")
def bitsandbytes(keys: Keys, dtype: str) -> Plan:
    """The plan of BitsAndBytesConfig (transformers): 4 or 8 bits per weight."""
    del dtype
    four = keys.flag("load_in_4bit", "_load_in_4bit")
    eight = keys.flag("load_in_8bit", "_load_in_8bit")
    if four == eight:
        keys.refuse("load_in_4bit", "either load_in_4bit or load_in_8bit has to be true")
    keys.choice("llm_int8_has_fp16_weight", of=(False,), default=False)
    keys.choice("bnb_4bit_quant_type", of=("nf4", "fp4"), default="fp4")
    double = keys.flag("bnb_4bit_use_double_quant")
    left = keys.left("llm_int8_skip_modules")
    keys.done(
        "bnb_4bit_compute_dtype", "bnb_4bit_quant_storage", "llm_int8_threshold", "llm_int8_enable_fp32_cpu_offload",
        "load_in_4bit", "load_in_8bit", "_load_in_4bit", "_load_in_8bit",
    )  # fmt: skip
    return Plan((left, Rule(keys.make("nf4", double_quant=double) if four else keys.make("llm_int8"))))


@method("fbgemm-fp8")
def fbgemm_fp8(keys: Keys, dtype: str) -> Plan:
    """The plan of FbgemmFp8Config (transformers): fp8 with an fp32 scale per output."""
    del dtype
    left = keys.left("modules_to_not_convert")
    keys.done("activation_scale_ub")
    return Plan((left, Rule(keys.make("fp8", strategy="channel"))))


@method("fp8")
def fp8(keys: Keys, dtype: str) -> Plan:
    """The plan of FineGrainedFP8Config (transformers) and Fp8Config (vLLM)."""
    del dtype
    keys.choice("fmt", of=("e4m3", "float8_e4m3fn", "e5m2", "float8_e5m2"), default="e4m3")
    activations = keys.choice("activation_scheme", of=("dynamic", "static"), default="dynamic")
    in_fp4 = keys.choice("expert_dtype", of=("fp8", "fp4"), default="fp8") == "fp4"
    # NB: scale_fmt alone does not tell: DeepSeek-V3.1 names ue8m0 and stores fp32; beside expert_dtype (V4) it is a byte.
    rounded = keys.choice("scale_fmt", of=("float", "ue8m0"), default="float") == "ue8m0" and "expert_dtype" in keys.data
    if (blocks := keys.get("weight_block_size")) is None:
        scheme = keys.make("fp8", activation_scheme=activations)
    elif activations == "static":
        keys.refuse("activation_scheme", "'static' with weight_block_size is not known; known: dynamic")
    else:
        scheme = keys.make("fp8_block", weight_block_size=blocks, scale_dtype="e8m0" if rounded else "fp32")
    rules = [keys.left("modules_to_not_convert", "ignored_layers")]
    if more := keys.listed("modules_to_convert"):
        rules.append(keys.named(scheme, more, "modules_to_convert"))
    if in_fp4:
        rules.append(Rule(keys.make("mxfp4", activations="fp8"), roles=EXPERTS))
    kv = kv_cache(keys)
    keys.done("dequantize", "is_checkpoint_fp8_serialized")
    return Plan((*rules, Rule(scheme)), kv)


@method("mxfp4")
def mxfp4(keys: Keys, dtype: str) -> Plan:
    """The plan of Mxfp4Config (transformers): routed experts alone."""
    del dtype
    left = keys.left("modules_to_not_convert")
    keys.done("dequantize")
    return Plan((left, Rule(keys.make("mxfp4"), roles=EXPERTS)))


_MIXED = "mixed_precision"
_ALGORITHMS: dict[str, dict[str, Any]] = {
    "fp8": {"scheme": "fp8", "activation_scheme": "static"},
    "fp8_per_channel_per_token": {"scheme": "fp8", "strategy": "channel"},
    "fp8_pb_wo": {"scheme": "fp8_block"},
    "mxfp8": {"scheme": "mxfp8"},
    "nvfp4": {"scheme": "nvfp4"},
    "w4a16_nvfp4": {"scheme": "nvfp4", "activation_scheme": "none"},
}
# Type and bits of the weights of a group, and in how large blocks: the algorithm, without and with 16-bit activations.
_GROUPS = {("float", 8, None): ("fp8", None), ("float", 4, 16): ("nvfp4", "w4a16_nvfp4")}


@method("modelopt")
def modelopt(keys: Keys, dtype: str) -> Plan:
    """The plan of NVIDIA ModelOpt, in `quantization_config` or hf_quant_config.json.

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
        whole = _scheme(keys, algorithm)
        for group in groups.values():  # which say it once more
            if _of_group(group) != whole:
                group.refuse("weights", f"and input_activations are not those of quant_algo {algorithm}")
            if (targets := group.listed("targets")) != ["Linear"]:
                group.refuse("targets", f"{targets!r:.60} is not known beside quant_algo; known: ['Linear']")
            group.done()
        rules = [Rule(whole, roles=AND_HEAD)]
    elif layers := keys.parts("quantized_layers"):
        by_scheme: dict[Scheme, list[str]] = {}
        for name, layer in layers.items():
            by_scheme.setdefault(_scheme(layer, layer.choice("quant_algo", of=_ALGORITHMS)), []).append(name)
            layer.done()
        rules = [keys.named(scheme, names, "quantized_layers") for scheme, names in by_scheme.items()]
        keys.choice("group_size", of=(16,), default=16)  # of layers in NVFP4, which say it again
    elif groups:
        rules = [_group(group) for group in groups.values()]
    else:
        keys.refuse("quantized_layers", "is missing, and so is config_groups: which layer is quantised how is not said")
    keys.done("producer", "quantization_status")
    return Plan((left, *rules), kv)


def _scheme(keys: Keys, algorithm: str) -> Scheme:
    size = keys.get("group_size")
    if algorithm.endswith("nvfp4") and size not in (None, 16):
        keys.refuse("group_size", f"{size!r:.60} is not known for NVFP4; known: 16")
    keys_of_scheme = dict(_ALGORITHMS[algorithm])
    return keys.make(keys_of_scheme.pop("scheme"), **keys_of_scheme)


def _group(group: Keys) -> Rule:
    if not (targets := group.listed("targets")):
        group.refuse("targets", "names no modules")
    rule = group.named(_of_group(group), targets, "targets")
    group.done()
    return rule


def _of_group(group: Keys) -> Scheme:
    weights, inputs = group.part("weights"), group.part("input_activations")
    if weights is None:
        group.refuse("weights", "is missing: how weights are stored is not said")
    kind = tuple(weights.get(name) for name in ("type", "num_bits", "group_size"))
    weights.choice("dynamic", of=(False,), default=False)
    known = next((algorithms for numbers, algorithms in _GROUPS.items() if numbers == kind), None)
    algorithm = None if known is None else known[0 if inputs is not None else 1]
    if algorithm is None:
        met = "" if inputs is not None else " and 16-bit activations"
        group.refuse("weights", f"{kind[0]} of {kind[1]} bits in groups of {kind[2]}{met} are not known")
    if inputs is not None:
        if tuple(inputs.get(name) for name in ("type", "num_bits", "group_size")) != kind:
            group.refuse("input_activations", "of another format than weights are not known")
        inputs.choice("dynamic", of=(False,), default=False)
    return _scheme(group, algorithm)
