"""The state of a page: what its controls are set to, and the analysis that it asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from roofline.predict.request import Request, prepare

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
_PLAIN = ("batch", "input_len", "context", "output_len", "tp", "pp", "dp", "ep")
# Controls in a unit of their own, the option that they set, and what one of them is in base units. 0: the datasheet's.
_FIGURES = (("peak_tflops", "peak_flops", 1e12), ("bandwidth_gbs", "bandwidth", 1e9), ("memory_gb", "memory", 1e9))


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, and the options that it was made from."""

    request: Request
    options: Values
    values: Values


def options(values: Values) -> Values:
    """Options of `analyze`."""
    found: Values = dict(values["fixed"])
    for name in _PLAIN:
        found[name] = int(values[name])
    if values["weights"] in WEIGHTS:
        name, value = WEIGHTS[values["weights"]]
        found[name] = value
    if values["kv"]:
        found["kv_cache_dtype"] = values["kv"]
    if values["backend"]:
        found["backend"] = values["backend"]
    for key, name, unit in _FIGURES:
        if values[key]:
            found[name] = values[key] * unit
    return found


def asked(values: Values, hardware: str) -> Asked:
    """The request for one hardware. Figures that were typed in belong to the one that the controls name."""
    wanted = options(values)
    if hardware != values["hardware"]:
        wanted = {name: value for name, value in wanted.items() if name not in [entry for _, entry, _ in _FIGURES]}
    request = prepare(values["model"], hardware, **wanted)
    if not values["efficiency"]:
        request = replace(request, estimator=replace(request.estimator, wanted=False), steps=None)
    return Asked(request, wanted, values)
