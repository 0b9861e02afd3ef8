"""Which formats a model is stored and computed in, once the model's file, the flags and the hardware have spoken."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any, Protocol

from roofline.dtypes import FORMATS, Format, Precision, parse_dtype
from roofline.errors import InputError, UnknownNameError
from roofline.specs.deployment import Deployment
from roofline.specs.engine import Engine
from roofline.specs.quantization import scheme
from roofline.specs.quantization.base import Scheme
from roofline.specs.source import Assumption

_FLOATS = ("fp32", "bf16", "fp16")


class Published(Protocol):
    """What formats are decided from of a model, or of an operator alone: how its weights come."""

    @property
    def dtype(self) -> str:
        """Of weights that are not quantized."""

    @property
    def activation_dtype(self) -> str | None:
        """Of activations, where it is not that of the weights."""

    @property
    def quantization(self) -> tuple[Scheme, ...]:
        """Schemes of those that are."""

    @property
    def layer_types(self) -> Mapping[str, Any]:
        """Layer types by name, with the weights that a scheme leaves out."""

    @property
    def state_dtype(self) -> str | None:
        """Of recurrent state; None: the engine's choice."""

    @property
    def family(self) -> str:
        """By which engines choose formats."""


def resolve_precision(
    model: Published, deployment: Deployment, multiplies: Container[str], engine: Engine | None = None
) -> tuple[Precision, list[Assumption]]:
    """Formats of weights by role, of activations, of the KV cache and of recurrent state.

    Args:
        model: the dtype and the quantisation of the published weights.
        deployment: the dtypes and the scheme that the user gives, which come first.
        multiplies: dtypes that the hardware has a matrix peak for.
        engine: what it makes of dtypes that were not given.

    Returns:
        The formats, and the assumptions that led to them.

    Raises:
        InputError, UnknownNameError: the hardware cannot multiply in the activation dtype that was given.
    """
    notes: list[Assumption] = []
    weight, from_flag = _weights(model, deployment, multiplies, engine, notes)
    activation = _activations(model, deployment, multiplies, weight, notes)
    schemes = _schemes(model, deployment, from_flag=from_flag, notes=notes)
    kv = _kv(deployment, activation, schemes, notes)
    unnamed = "fp32" if engine is None else engine.kv_cache.state_format(model.family) or activation.name
    state = parse_dtype(deployment.mamba_ssm_cache_dtype or model.state_dtype or unnamed)
    stated = deployment.activation_dtype is not None
    weight = _multiplied(weight, activation, multiplies, stated=stated)
    formats = [_format(scheme, activation, multiplies, stated=stated) for scheme in schemes]
    roles = tuple((role, format) for scheme, format in zip(schemes, formats, strict=True) for role in scheme.roles)
    layers: list[tuple[str, tuple[tuple[str, Format], ...]]] = []
    if schemes is model.quantization:
        for name, layer in model.layer_types.items():
            own = [(role, weight) for role in layer.unquantized]
            for scheme in layer.quantization:
                format = _format(scheme, activation, multiplies, stated=stated)
                own += [(role, format) for role in scheme.roles]
            if own:
                layers.append((name, tuple(own)))
    in_layers = (format for _, own in layers for _, format in own)
    for format in dict.fromkeys((weight, *(format for _, format in roles), *in_layers)):
        if format.name == activation.name or (format.multiply in multiplies and format.multiply != activation.name):
            continue
        why = f"{format.name} weights are read at their own size and multiplied as {activation.name}"
        if format.multiply == activation.name:
            why += ", as activations are stated to be"
        elif format.name not in multiplies:
            why = f"the hardware cannot multiply {format.name}: {why}"
        notes.append(Assumption("matrix_dtype", activation.name, "default", why))
    return Precision(weight=weight, activation=activation, kv=kv, state=state, roles=roles, layers=tuple(layers)), notes


def _multiplied(format: Format, activation: Format, multiplies: Container[str], *, stated: bool) -> Format:
    """A format of weights as it is multiplied: in that of wider activations where it is stated, or nothing else can."""
    if stated and format.bytes < activation.bytes:
        return replace(format, multiply=activation.name)
    return format if format.multiply is None or format.multiply in multiplies else replace(format, multiply=None)


def _format(scheme: Scheme, activation: Format, multiplies: Container[str], *, stated: bool) -> Format:
    """The format of a scheme's weights. Where its name states the width of activations (W8A16, W8A8), that decides."""
    bits = scheme.activation_bits
    return _multiplied(scheme.format, activation, multiplies, stated=stated if bits is None else bits >= 16)


def _weights(
    model: Published, deployment: Deployment, multiplies: Container[str], engine: Engine | None, notes: list[Assumption]
) -> tuple[Format, bool]:
    if (bits := deployment.bits_per_weight) is not None:
        if clash := [name for name in ("dtype", "quantization") if getattr(deployment, name) is not None]:
            raise InputError(f"--bits-per-weight is of all weights, as --{clash[0]} is of them: give one of them")
        why = "mean of all weights, scales included; they are multiplied in the activations' dtype"
        notes.append(Assumption("bits_per_weight", bits, "given", why))
        return Format(f"{bits:g}-bit", bits / 8), True
    if deployment.dtype is not None:
        notes.append(Assumption("dtype", deployment.dtype, "given", "all weights"))
        return FORMATS[deployment.dtype], True
    name = model.dtype
    if name == "fp32" and engine is not None and engine.downcasts_fp32:
        small = next((other for other in ("bf16", "fp16") if other in multiplies), name)
        if small != name:
            why = f"the model's file says fp32, which {engine.name}@{engine.version} casts when it loads it"
            notes.append(Assumption("dtype", small, "default", why))
            return FORMATS[small], False
    if name in _FLOATS and name not in multiplies:
        # Engines convert such weights when they load them.
        same_size = [other for other in _FLOATS if other in multiplies and FORMATS[other].bytes == FORMATS[name].bytes]
        if same_size:
            why = f"the hardware has no matrix units for the {name} of the model's file"
            notes.append(Assumption("dtype", same_size[0], "default", why))
            return FORMATS[same_size[0]], False
    notes.append(Assumption("dtype", name, "default", "the model's file"))
    return parse_dtype(name), False


def _activations(
    model: Published, deployment: Deployment, multiplies: Container[str], weight: Format, notes: list[Assumption]
) -> Format:
    if (name := deployment.activation_dtype) is not None:
        works = [dtype for dtype in _FLOATS if dtype in multiplies]
        if name in _FLOATS and name not in works:
            msg = f"activation dtype {name}: this hardware has no matrix units for it. Works here: {', '.join(works)}."
            raise InputError(msg)
        if name not in works:
            raise UnknownNameError("activation dtype for this hardware", name, works)
        notes.append(Assumption("activation_dtype", name, "given", ""))
        return FORMATS[name]
    wanted = weight.name if weight.name in _FLOATS else model.dtype if model.dtype in _FLOATS else "bf16"
    if deployment.dtype is None and model.activation_dtype is not None:
        wanted = model.activation_dtype
    for name in (wanted, "bf16", "fp16", "fp32"):
        if name in multiplies:
            why = "as the weights" if name == weight.name else "the weights are stored in a smaller format"
            if name == model.activation_dtype:
                why = "the model's file"
            if name != wanted:
                why = f"the hardware has no matrix units for {wanted}"
            notes.append(Assumption("activation_dtype", name, "default", why))
            return FORMATS[name]
    raise UnknownNameError("activation dtype for this hardware", wanted, [])


def _kv(deployment: Deployment, activation: Format, schemes: tuple[Scheme, ...], notes: list[Assumption]) -> Format:
    published = next((scheme.kv_cache_dtype for scheme in schemes if scheme.kv_cache_dtype is not None), None)
    computes = "attention computes in the activations' dtype"
    if deployment.kv_cache_dtype is not None:
        notes.append(Assumption("kv_cache_dtype", deployment.kv_cache_dtype, "given", computes))
        return FORMATS[deployment.kv_cache_dtype]
    if published is not None:
        notes.append(Assumption("kv_cache_dtype", published, "default", f"the model's file; {computes}"))
        return FORMATS[published]
    notes.append(Assumption("kv_cache_dtype", activation.name, "default", "as the activations"))
    return activation


def _schemes(model: Published, deployment: Deployment, *, from_flag: bool, notes: list[Assumption]) -> tuple[Scheme, ...]:
    if deployment.quantization == "none":
        notes.append(Assumption("quantization", "none", "given", ""))
        return ()
    if deployment.quantization is not None:
        chosen = scheme(deployment.quantization)
        why = f"{_covered(chosen)}; the rest as dtype"
        notes.append(Assumption("quantization", chosen.name, "given", why))
        return (chosen,)
    if from_flag:
        return ()
    notes += [
        Assumption("quantization", published.name, "default", f"the model's file: {_covered(published)}")
        for published in model.quantization
    ]
    for name, layer in model.layer_types.items():
        if layer.unquantized:
            why = f"the model's file: {' and '.join(layer.unquantized)} weights of {name} layers are not quantised"
            notes.append(Assumption("quantization", "none", "default", why))
        for published in layer.quantization:
            why = f"the model's file, in {name} layers: {_covered(published)}"
            notes.append(Assumption("quantization", published.name, "default", why))
    return model.quantization


def _covered(scheme: Scheme) -> str:
    return f"{' and '.join(scheme.roles)} weights at {scheme.described} ({scheme.source})"
