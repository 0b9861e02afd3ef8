"""Number formats: how many bytes an element takes, and which matrix peak multiplies it.

A storage format may be smaller than what is multiplied: int4 weights are read at half a byte an element and multiplied
in the dtype of the activations. Block-scaled formats count their scales.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.errors import UnknownNameError
from roofline.numeric import Expr


@dataclass(frozen=True, slots=True)
class Format:
    """How elements lie in memory.

    `bytes` is the mean size of an element, scales included; `multiply` names the matrix peak that weights in the format
    are multiplied at, activations being converted to it (None: the weights are converted to the activations' dtype).
    """

    name: str
    bytes: Expr
    multiply: str | None = None


FP32 = Format("fp32", 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dtypes:
    """The formats that one operator meets."""

    weight: Format
    activation: Format
    kv: Format
    state: Format = FP32
    """Recurrent state."""

    @property
    def matrix(self) -> str:
        """The dtype in which the operator would like to multiply."""
        return self.weight.multiply or self.activation.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """The formats of a whole model: of activations, of the KV cache, of recurrent state, and of weights by their role in
    the model."""

    weight: Format
    activation: Format
    kv: Format
    state: Format = FP32
    roles: tuple[tuple[str, Format], ...] = ()
    """Roles (`linear`, `experts`, `router`, `norm`, `embedding`, `lm_head`) whose weights are not in `weight`."""

    def dtypes(self, role: str) -> Dtypes:
        """What an operator meets whose weights have that role."""
        weight = next((format for name, format in self.roles if name == role), self.weight)
        return Dtypes(weight=weight, activation=self.activation, kv=self.kv, state=self.state)


FORMATS = {
    format.name: format
    for format in (
        FP32,
        Format("bf16", 2),
        Format("fp16", 2),
        Format("fp8", 1, "fp8"),
        Format("int8", 1, "int8"),
        # NB: 4-bit formats without a scheme carry no scales; `--quantization` names a scheme that does.
        Format("int4", 0.5),
        Format("fp4", 0.5, "fp4"),
    )
}

_ALIASES = {
    "float32": "fp32", "float": "fp32", "bfloat16": "bf16", "float16": "fp16", "half": "fp16",
    "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "float8_e4m3fn": "fp8", "e4m3": "fp8", "float8": "fp8",
}  # fmt: skip


def parse_dtype(name: str, what: str = "dtype") -> Format:
    """The format of that name, also in the spellings of PyTorch and of the engines.

    >>> parse_dtype("bfloat16").bytes
    2
    """
    key = name.strip().lower().removeprefix("torch.")
    key = _ALIASES.get(key, key)
    if key not in FORMATS:
        raise UnknownNameError(what, name, FORMATS, list_all=True)
    return FORMATS[key]


BF16 = Dtypes(weight=FORMATS["bf16"], activation=FORMATS["bf16"], kv=FORMATS["bf16"])
