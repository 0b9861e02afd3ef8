"""The dtype of a record, as the formats that its operators meet."""

from __future__ import annotations

from roofline.dtypes import FORMATS, Dtypes, Format, parse_dtype
from roofline.errors import UnknownNameError
from roofline.specs.quantization import scheme

# fp32 in memory, multiplied with fewer bits; 8-bit blocks of 128 x 128 weights that share one fp32 scale.
_MORE = {"tf32": Format("tf32", 4, "tf32"), "fp8_block": scheme("fp8_block").format}


def dtypes(dtype: str, kv_dtype: str = "") -> Dtypes:
    """Formats of weights, activations and the KV cache.

    fp8 products take bf16 activations, which are quantised on the way, and give bf16; int8 products take and give int8; int4
    weights meet bf16 activations.

    >>> formats = dtypes("fp8")
    >>> formats.matrix, formats.weight.bytes, formats.activation.bytes
    ('fp8', 1, 2)
    """
    weight = _format(dtype)
    sixteen_bit = weight.multiply in ("fp8", "fp4") or weight.name == "int4"
    activation = FORMATS["bf16"] if sixteen_bit else FORMATS["fp32"] if weight.name == "tf32" else weight
    return Dtypes(weight=weight, activation=activation, kv=parse_dtype(kv_dtype) if kv_dtype else activation)


def canonical(dtype: str) -> str:
    """The one spelling of a dtype.

    >>> canonical("BFloat16"), canonical("TF32")
    ('bf16', 'tf32')
    """
    return _format(dtype).name if dtype else ""


def _format(dtype: str) -> Format:
    name = dtype.strip().lower()
    if name in _MORE:
        return _MORE[name]
    try:
        return parse_dtype(name)
    except UnknownNameError:
        raise UnknownNameError("dtype", dtype, [*FORMATS, *_MORE], list_all=True) from None
