"""compressed-tensors: the format of llm-compressor, whose schemes are put together from parts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from roofline.specs.huggingface.methods.base import AND_HEAD, OF_SCALES, Keys, Match, Plan, Rule, kv_cache, method
from roofline.specs.quantization.base import Scheme

_CLASSES = {"Linear": AND_HEAD, "Embedding": frozenset({"embedding"})}
_W123 = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}
_CLASS = re.compile(r"[A-Z][A-Za-z0-9]*")
_DTYPES = {"torch.float32": "fp32", "torch.bfloat16": "bf16", "torch.float16": "fp16"}


@method("compressed-tensors")
def compressed_tensors(keys: Keys, dtype: str) -> Plan:
    """The plan of compressed-tensors: groups of modules, by name or by class (`Linear`: LM head too), less those to ignore.

    Source: https://github.com/vllm-project/compressed-tensors, quantization/quant_config.py and quant_args.py.
    """
    whole = keys.get("format")
    by_name: list[Rule] = []
    by_class: list[Rule] = []
    for group in keys.parts("config_groups").values():
        scheme = _scheme(group, whole, dtype)
        if not (targets := group.listed("targets")):
            group.refuse("targets", "names no modules")
        if not all(isinstance(target, str) for target in targets):
            group.refuse("targets", f"must be a list of names, not {targets!r:.60}")
        group.done()
        if (unknown := next((one for one in targets if one not in _CLASSES and _CLASS.fullmatch(one)), None)) is not None:
            group.refuse("targets", f"the class of modules {unknown!r:.60} is not known; known: {', '.join(_CLASSES)}")
        if names := [target for target in targets if target not in _CLASSES]:
            rule = group.named(scheme, names, "targets", whole=True)
            by_name.append(replace(rule, matches=_with_names_of_engines(rule.matches)))
        by_class += [Rule(scheme, roles=_CLASSES[target]) for target in targets if target in _CLASSES]
    if not by_name and not by_class:
        keys.refuse("config_groups", "no group has targets")
    left = keys.left("ignore", whole=True)
    sparsity = keys.part("sparsity_config")
    if sparsity is not None and sparsity.data:
        sparsity.choice("format", of=("dense",), default="dense")
        sparsity.done("ignore", "targets", "registry_requires_subclass", "global_sparsity", "sparsity_structure")
    _refuse_online_transforms(keys)
    kv = kv_cache(keys)
    # NB: what DeepSeek-V4 says of the experts of its own checkpoint is not of this one, whose groups say it.
    keys.done("quantization_status", "global_compression_ratio", "version", "run_compressed", "dequantize", "expert_dtype")
    return Plan((left, *by_name, *by_class), kv)


def _with_names_of_engines(matches: Match) -> Match:
    """A test that also takes experts of DeepSeek-V4 (`ffn.experts.0.w1`) by what vLLM calls them: gate_proj and so on."""

    def match(name: str) -> bool:
        before, _, last = name.rpartition(".")
        other = _W123.get(last) if ".ffn." in before else None
        return matches(name) or (other is not None and matches(f"{before}.{other}"))

    return match


def _refuse_online_transforms(keys: Keys) -> None:
    """Refuse rotations of activations (`transform_config`); those of weights are part of what is stored, of the same size.

    Source: https://github.com/vllm-project/compressed-tensors, transform/transform_args.py (TransformLocation).
    """
    config = keys.part("transform_config")
    if config is None:
        return
    for transform in config.parts("config_groups").values():
        for place in transform.listed("apply"):
            location = place.get("location") if isinstance(place, dict) else None
            if location not in ("weight_input", "weight_output"):
                transform.refuse("apply", f"location {location!r:.60} is not known; known: weight_input, weight_output")
        transform.done("type", "head_dim", "block_size", "precision", "randomize", "requires_grad")
    config.done()


@dataclass(frozen=True, slots=True)
class _Weights:
    """What a group says of its weights and of the inputs that they meet."""

    group: Keys
    kind: str
    bits: Any
    strategy: str
    size: Any
    blocks: Any
    symmetric: bool
    in_order: bool
    scale_dtype: str
    inputs: Keys | None

    @property
    def activations(self) -> str:
        """How inputs are scaled. NB: `local` is dynamic in the end: NVFP4's scales of blocks, below a static one of all."""
        if self.inputs is None:
            return "none"
        return "static" if self.inputs.choice("dynamic", of=(True, False, "local"), default=False) is False else "dynamic"

    def inputs_of(self, kind: str, bits: int, size: int | None = None) -> None:
        """Refuse inputs of another type, width or group than a format multiplies; none at all is fine.

        Raises:
            InputError: `type`, `num_bits` or `group_size` is another; the library's defaults are int and 8.
        """
        if self.inputs is None:
            return
        self.inputs.choice("type", of=(kind,), default="int")
        self.inputs.choice("num_bits", of=(bits,), default=8)
        if size is not None:
            self.inputs.choice("group_size", of=(size,), default=size)


def _scheme(group: Keys, whole: Any, dtype: str) -> Scheme:
    """The scheme of a group."""
    weights = group.part("weights")
    if weights is None:
        group.refuse("weights", "is missing: how weights are stored is not said")
    size, strategy = weights.get("group_size"), weights.get("strategy")
    if strategy is None:  # as the library fills it in
        strategy = "tensor" if size is None else "channel" if size == -1 else "group"
    if size not in (None, -1) and strategy not in ("group", "tensor_group"):
        weights.refuse("group_size", f"{size!r:.60} is not understood beside strategy {strategy!r:.60}")
    if (blocks := weights.get("block_structure")) is not None and strategy != "block":
        weights.refuse("block_structure", f"{blocks!r:.60} is not understood beside strategy {strategy!r:.60}")
    tensors = _Weights(
        group=group,
        kind=weights.choice("type", of=("int", "float"), default="int"),
        bits=weights.get("num_bits", default=8),
        strategy=str(strategy),
        size=size,
        blocks=blocks,
        symmetric=weights.flag("symmetric", default=True),
        in_order=weights.choice("actorder", of=_ORDERS, default=False) not in (True, "group"),
        scale_dtype=_scale_dtype(weights, dtype if dtype in _DTYPES.values() else "bf16"),
        inputs=group.part("input_activations"),
    )
    weights.choice("dynamic", of=(False,), default=False)
    if not tensors.symmetric:
        weights.choice("zp_dtype", of=("torch.int8",), default="torch.int8")
        if tensors.kind == "float":
            weights.refuse("symmetric", "zero points of float weights are not known")
    weights.done("observer", "observer_kwargs", "zp_dtype")
    if tensors.inputs is not None:
        _check_inputs(tensors.inputs)
    form = group.choice("format", of=_FORMS, default=whole)
    if (scheme := _FORMS[form](tensors)) is None:
        msg = f"{tensors.kind} weights of {tensors.bits} bits by {tensors.strategy} in the format {form} are not known"
        group.refuse("weights", msg)
    return scheme


def _check_inputs(inputs: Keys) -> None:
    """Refuse what is no value of keys of activations, also where no count depends on it."""
    inputs.choice("dynamic", of=(True, False, "local"), default=False)
    inputs.flag("symmetric", default=True)
    inputs.choice("strategy", of=("token", "tensor", "group", "tensor_group", "channel"), default="tensor")
    inputs.choice("group_size", of=(-1, 16, 32, 64, 128, 256), default=-1)
    inputs.requested |= {"type", "num_bits"}
    inputs.done(*OF_SCALES)


_ORDERS = (True, False, "group", "weight", "static", "dynamic")


def _scale_dtype(weights: Keys, default: str) -> str:
    """The dtype of scales. NB: formats of a byte a scale have their own, whatever stands here."""
    named = weights.get("scale_dtype")
    if named is None or str(named) in ("torch.float8_e4m3fn", "torch.uint8"):
        return default
    return _DTYPES[weights.choice("scale_dtype", of=_DTYPES)]


def _packed(weights: _Weights) -> Scheme | None:
    if weights.kind != "int" or weights.strategy not in ("group", "channel"):
        return None
    return weights.group.make(
        "pack_quantized",
        bits=weights.bits,
        group_size=-1 if weights.strategy == "channel" else weights.size,
        symmetric=weights.symmetric,
        g_idx=not weights.in_order,
        scale_dtype=weights.scale_dtype,
        activations=_eight_bits(weights.inputs),
    )


def _eight_bits(inputs: Keys | None) -> str:
    if inputs is None:
        return "none"
    inputs.choice("num_bits", of=(8,), default=8)
    return "int8" if inputs.choice("type", of=("int", "float"), default="int") == "int" else "fp8"


def _int8(weights: _Weights) -> Scheme | None:
    if (weights.kind, weights.bits) != ("int", 8) or weights.strategy not in ("tensor", "channel"):
        return None
    weights.inputs_of("int", 8)
    if weights.inputs is not None and weights.activations == "static" and not weights.inputs.flag("symmetric", default=True):
        weights.inputs.refuse("symmetric", "stored zero points of activations are not known")
    return weights.group.make(
        "int8",
        strategy=weights.strategy,
        symmetric=weights.symmetric,
        scale_dtype=weights.scale_dtype,
        activation_scheme=weights.activations,
    )


def _float8(weights: _Weights) -> Scheme | None:
    if (weights.kind, weights.bits) != ("float", 8):
        return None
    weights.inputs_of("float", 8)
    make, scale = weights.group.make, weights.scale_dtype
    if weights.strategy == "block" and weights.blocks is not None and weights.activations == "dynamic":
        return make("fp8_block", weight_block_size=weights.blocks, scale_dtype=scale)
    if weights.strategy in ("tensor", "channel"):
        return make("fp8", strategy=weights.strategy, scale_dtype=scale, activation_scheme=weights.activations)
    return None


def _nvfp4(weights: _Weights) -> Scheme | None:
    if (weights.kind, weights.bits) != ("float", 4) or weights.size not in (None, 16):
        return None
    weights.inputs_of("float", 4, 16)
    return weights.group.make("nvfp4", activation_scheme="none" if weights.inputs is None else "static")


def _mxfp4(weights: _Weights) -> Scheme | None:
    if (weights.kind, weights.bits) != ("float", 4) or weights.size not in (None, 32):
        return None
    bits = None
    if weights.inputs is not None:
        weights.inputs.choice("type", of=("float",), default="int")
        bits = weights.inputs.choice("num_bits", of=(4, 8), default=8)
        if bits == 4:
            weights.inputs_of("float", 4, 32)
    return weights.group.make("mxfp4", activations="none" if bits is None else f"fp{bits}")


def _mxfp8(weights: _Weights) -> Scheme | None:
    if (weights.kind, weights.bits) != ("float", 8) or weights.size not in (None, 32):
        return None
    if weights.inputs is None:
        weights.group.refuse("input_activations", "is missing: mxfp8 weights that meet 16-bit activations are not known")
    weights.inputs_of("float", 8, 32)
    return weights.group.make("mxfp8")


_FORMS: dict[str, Callable[[_Weights], Scheme | None]] = {
    "pack-quantized": _packed,
    "int-quantized": _int8,
    "float-quantized": _float8,
    "naive-quantized": lambda weights: _int8(weights) or _float8(weights),
    "nvfp4-pack-quantized": _nvfp4,
    "mxfp4-pack-quantized": _mxfp4,
    "mxfp8-quantized": _mxfp8,
}
