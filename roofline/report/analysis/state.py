"""The state of a page: the values of its controls, and the request that they make."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from roofline.predict.request import ResolvedRequest, prepare

Values = dict[str, Any]
"""What the controls hold, by key, and beside them `model`, `others` (hardware to compare with) and `fixed` (options that no
control changes)."""

# What a choice of weights means as options of `analyze`.
WEIGHTS: dict[str, tuple[str, str]] = {
    "bf16": ("dtype", "bf16"),
    "fp8": ("quantization", "fp8"),
    "awq": ("quantization", "awq"),
    "nvfp4": ("quantization", "nvfp4"),
}
_SIZES = ("tp", "pp", "dp", "ep")
_COUNTS = ("batch", "input_len", "context", "output_len", *_SIZES)


@dataclass(frozen=True, slots=True)
class Typed:
    """A figure that can be typed instead of the datasheet's: its control, the option that it sets, and its unit."""

    key: str
    option: str
    unit: str
    scale: float
    """The unit, in base units."""


FIGURES = (
    Typed("peak_tflops", "peak_flops", "TFLOP/s", 1e12),
    Typed("bandwidth_gbs", "bandwidth", "GB/s", 1e9),
    Typed("memory_gb", "memory", "GB", 1e9),
)


def options(values: Values) -> Values:
    """Options of `analyze`."""
    chosen: Values = {name: int(values[name]) for name in _COUNTS} | dict(values["fixed"])
    if values["weights"] in WEIGHTS:
        name, value = WEIGHTS[values["weights"]]
        chosen[name] = value
    if values["kv"]:
        chosen["kv_cache_dtype"] = values["kv"]
    if values["backend"]:
        chosen["backend"] = values["backend"]
    for figure in FIGURES:
        if values[figure.key]:
            chosen[figure.option] = values[figure.key] * figure.scale
    return chosen


def request_of(values: Values, hardware: str) -> ResolvedRequest:
    """The request for one hardware. Figures that were typed in belong to the one that the controls name."""
    wanted = options(values)
    if hardware != values["hardware"]:
        wanted = {name: value for name, value in wanted.items() if name not in [figure.option for figure in FIGURES]}
    request = prepare(values["model"], hardware, **wanted)
    if values["efficiency"]:
        return request
    return replace(request, estimator=replace(request.estimator, wanted=False), steps=None)


def flags(values: Values) -> tuple[str, ...]:
    """The same options as `roofline analyze` and `roofline report` take them on a command line."""
    line: list[str] = []
    units = {figure.option: figure for figure in FIGURES}
    for name, value in options(values).items():
        flag = f"--{name.replace('_', '-')}"
        if name in units:
            line += [flag, f"{value / units[name].scale:.10g} {units[name].unit}"]
        elif name == "reserve":
            line += [flag, f"{value:.0f} B"]
        elif value is True:
            line.append(flag)
        elif name not in _SIZES or value != 1:
            line += [flag, str(value)]
    return tuple(line)
