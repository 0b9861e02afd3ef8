"""Names of models, devices and quantization methods as engines print them, translated to ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from roofline import files
from roofline.blocks.model import Model
from roofline.errors import InputError, RooflineError
from roofline.specs.library import by_driver_name, find, ids, is_path, text_of
from roofline.specs.quantization import scheme as known_scheme

# What fine-tuning and quantising put behind a name: the dimensions stay those of the base.
_SUFFIX = re.compile(
    r"[-_.](?:instruct|it|chat|hf|base|fp8|fp8-dynamic|dynamic|awq|gptq|int4|int8|w4a16|w8a8|w8a16|quantized|bnb|4bit|8bit|"
    r"(?:instruct|thinking)-2\d(?:0\d|1[0-2])|nvfp4|mxfp4|marlin|g128|autoround|[a-z0-9]*tuned|gguf|\d{5}-of-\d{5}|ud|(?:i?q|tq)\d(?:_\w+)?|[bf]f?(?:16|32))$"
)
_HF_ID = re.compile(r"^hf_id:\s*(\S+)", re.MULTILINE)
_CACHED = re.compile(r"models--([^/]+?)--([^/]+)")


def model(name: str) -> str:
    """The model that an engine was started with, as `load_model` takes it: a local folder with a config.json, else the id of a
    shipped model with the same dimensions.

    Args:
        name: as the log has it: `org/name`, a path of a Hugging Face cache, or any folder.

    >>> model("meta-llama/Llama-3.1-8B-Instruct"), model("neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8")
    ('llama-3.1-8b', 'llama-3.1-8b')
    >>> model("Qwen/Qwen3-30B-A3B-Instruct-2507")
    'qwen3-30b-a3b'
    >>> model("/cache/models--Qwen--Qwen3-32B/snapshots/9216db5781bf")
    'qwen3-32b'

    Raises:
        InputError: no shipped model is this one.
    """
    if is_path(name) and files.is_file(Path(name) / "config.json"):
        return name
    if name.endswith(".gguf") and files.is_file(Path(name)):
        return name
    cached = _CACHED.search(name)
    wanted = f"{cached[1]}/{cached[2]}" if cached else name.rstrip("/").removesuffix(".gguf")
    known = ids("models")
    for entry, path in known.items():
        match = _HF_ID.search(text_of(path))
        if match and match[1].strip("\"'").lower() == wanted.lower():
            return entry
    for base in _bases(wanted.rpartition("/")[2].lower()):
        if (known_id := _known(base, known)) is not None:
            return known_id
    raise InputError(f"the model {name!r:.120} is none that is shipped: give MODEL, an id, a YAML file or a config.json")


def _bases(name: str) -> list[str]:
    """A name with one suffix less at a time, each with and without Meta's prefix, and in the spelling of ids."""
    bases = []
    for _ in range(8):
        bases += [name, name.removeprefix("meta-")]
        shorter = _SUFFIX.sub("", name)
        if shorter == name:
            break
        name = shorter
    return bases


def _known(name: str, known: dict[str, Path]) -> str | None:
    """The id of a shipped model by its own name or an alias of it."""
    if name in known:
        return name
    if not re.fullmatch(r"[\w.-]{1,200}", name):
        return None
    try:
        return find("models", name).stem
    except RooflineError:
        return None


def device(name: str, known: Callable[[str], str | None] = by_driver_name) -> str | None:
    """The id of the accelerator in the name of a file of tuned kernels, where underscores are blanks; None: not known.

    Args:
        name: such as the part after `device_name=`.
        known: maps the driver's name of a device to its id, or None.

    >>> device("NVIDIA_H100_80GB_HBM3")
    'h100-sxm'
    """
    return known(name.replace("_", " "))


def accelerators(name: str) -> list[str]:
    """The ids of the accelerators that a short name without separators can mean: that id, else those that begin with it.

    >>> accelerators("RTX4090"), accelerators("RTXPRO6000")
    (['rtx-4090'], ['rtx-pro-6000-server', 'rtx-pro-6000-ws'])
    """
    key = re.sub(r"[^a-z0-9]", "", name.lower())
    known = {entry: entry.replace("-", "") for entry in ids("hardware")}
    whole = [entry for entry, short in known.items() if short == key]
    return whole or [entry for entry, short in known.items() if key and short.startswith(key)]


_SCHEMES = {
    "fp8": "fp8", "ptpc_fp8": "fp8", "fbgemm_fp8": "fp8", "modelopt": "fp8", "modelopt_fp8": "fp8", "w8a8_fp8": "fp8",
    "w8a8_int8": "int8", "awq": "awq", "awq_marlin": "awq", "gptq": "gptq", "gptq_marlin": "gptq", "bitsandbytes": "nf4",
    "mxfp4": "mxfp4", "modelopt_fp4": "nvfp4", "petit_nvfp4": "nvfp4",
}  # fmt: skip
# compressed-tensors names the container, not the format: the model's name usually does.
_IN_NAMES = {"fp8": "fp8", "w8a8": "int8", "int8": "int8", "nvfp4": "nvfp4", "w4a16": "gptq", "int4": "gptq", "awq": "awq"}


def scheme(quantization: str | None, model: str) -> str | None:
    """Our name of the quantization scheme of the weights; None where they are not quantized.

    Args:
        quantization: the engine's name of the method (`--quantization`); None: none.
        model: name of the checkpoint, which tells the format where the method does not.

    >>> scheme("awq_marlin", "org/m"), scheme("compressed-tensors", "org/m-FP8-dynamic"), scheme(None, "org/m")
    ('awq', 'fp8', None)

    Raises:
        InputError: neither the method nor the name of the checkpoint tells the format.
    """
    if quantization is None:
        return None
    name = quantization.strip().lower()
    if name in _SCHEMES:
        return _SCHEMES[name]
    for part, name in _IN_NAMES.items():
        if part in model.lower():
            return name
    raise InputError(
        f"the log says quantization {quantization}, which does not tell the format of the weights: give --quantization"
    )


def quantizes_activations(model: Model, quantization: str | None) -> bool:
    """Whether products are in a format of the weights' own, so that an engine's `dtype` is that of what lies between them.

    As `--activation-dtype` it would say that products are in it too.

    Args:
        model: with the quantization of its file.
        quantization: our name of the scheme that takes its place; None: none does.
    """
    schemes = model.quantization if quantization is None else () if quantization == "none" else (known_scheme(quantization),)
    return any(scheme.format.multiply is not None for scheme in schemes)


Unit = Literal["byte", "token", "x", "s", "1/s"]
NEAR = 0.05
"""Relative gap up to which a prediction without an interval needs no reason."""
CLOSE = 0.01
"""Relative gap up to which no prediction needs a reason, however narrow its interval."""


@dataclass(frozen=True, slots=True)
class Row:
    """A quantity measured and predicted, in base units.

    Attributes:
        quantity: its name, with the unit.
        unit: of all figures of the row; `x` is a factor.
        measured: by the engine or the benchmark.
        predicted: None where it cannot be predicted.
        low: lower end of the prediction interval; None without one.
        high: upper end, likewise.
        bound: the roofline bound: of a time the shortest, of a rate the highest, with operators in sequence; None of other
            quantities.
        basis: what the prediction is computed from.
        why: likely reasons for a gap; empty where there is none.
    """

    quantity: str
    unit: Unit
    measured: float
    predicted: float | None
    low: float | None = None
    high: float | None = None
    bound: float | None = None
    basis: str = "model and hardware"
    why: str = ""

    @property
    def ratio(self) -> float | None:
        """Predicted over measured; None without a prediction or where 0 was measured."""
        return self.predicted / self.measured if self.predicted is not None and self.measured else None

    @property
    def within(self) -> bool | None:
        """Whether measurement and prediction agree: to 1 %, or the measurement lies in the interval; without one, to 5 %.

        None without a prediction.
        """
        if self.predicted is None:
            return None
        if self.ratio is not None and abs(self.ratio - 1) <= CLOSE:
            return True
        if self.low is not None and self.high is not None:
            return self.low <= self.measured <= self.high
        return self.ratio is not None and abs(self.ratio - 1) <= NEAR

    def to_dict(self) -> dict[str, Any]:
        """Plain data: one of `rows` in `roofline compare --json`."""
        return {
            "quantity": self.quantity,
            "unit": self.unit,
            "measured": self.measured,
            "predicted": self.predicted,
            "ratio": self.ratio,
            "low": self.low,
            "high": self.high,
            "bound": self.bound,
            "within": self.within,
            "basis": self.basis,
            "why": self.why,
        }
