"""The dtype of a record, as the formats that its operators meet."""

from __future__ import annotations

from roofline.dtypes import FORMATS, Dtypes, Format, parse_dtype

# fp32 in memory, multiplied with fewer bits; 8-bit blocks of 128 x 128 weights that share one fp32 scale.
_MORE = {"tf32": Format("tf32", 4, "tf32"), "fp8_block": Format("fp8_block", 1 + 4 / 128**2, "fp8")}


def dtypes(dtype: str, kv_dtype: str = "") -> Dtypes:
    """Formats of weights, activations and the KV cache.

    fp8 products take bf16 activations, which are quantised on the way, and give bf16; int8 products take and give int8.

    >>> formats = dtypes("fp8")
    >>> formats.matrix, formats.weight.bytes, formats.activation.bytes
    ('fp8', 1, 2)
    """
    weight = _MORE.get(dtype) or parse_dtype(dtype)
    activation = FORMATS["bf16"] if weight.multiply in ("fp8", "fp4") else FORMATS["fp32"] if dtype == "tf32" else weight
    return Dtypes(weight=weight, activation=activation, kv=parse_dtype(kv_dtype) if kv_dtype else activation)
