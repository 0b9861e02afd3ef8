"""The columns of a measured record, in the order in which they are written, and the formats that its dtype names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roofline.dtypes import FORMATS, Dtypes, Format, Metadata, parse_dtype
from roofline.errors import UnknownNameError
from roofline.specs.quantization import scheme

ColumnKind = Literal["text", "count", "number"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `count` is a whole number of things, `number` a real one, in the unit that its name or meaning says."""

    name: str
    kind: ColumnKind
    meaning: str


COLUMNS = {
    column.name: column
    for column in (
        Column("source", "text", "who measured"),
        Column(
            "gpu", "text", "id of the accelerator, its name by the driver, or the id of the hardware.yaml beside the records"
        ),
        Column("op", "text", "what was measured"),
        Column("dtype", "text", "of the GEMMs and activations; int4_wo_g128 and int8_wo: of weights alone, with groups of 128"),
        Column("kv_dtype", "text", "of the KV cache; empty: as dtype"),
        Column("m", "count", "gemm, bmm: rows of x[m, k]"),
        Column("n", "count", "gemm, bmm: columns of w[n, k]; embedding: rows of the table; sampling: choices"),
        Column("k", "count", "gemm, bmm: length of the dot products"),
        Column("batch", "count", "sequences; bmm: GEMMs"),
        Column("q_len", "count", "new tokens of a sequence"),
        Column("kv_len", "count", "tokens that a sequence attends to, the new ones included"),
        Column("n_heads", "count", "query heads on the device"),
        Column("n_kv_heads", "count", "KV heads on the device"),
        Column("head_dim", "count", "width of a head; MLA: 192 at prefill (expanded), 576 at decode (absorbed)"),
        Column("window", "count", "tokens that a query sees, itself included; 0: all"),
        Column("tokens", "count", "rows of an element-wise operator, tokens of an expert layer"),
        Column("hidden", "count", "width of a row"),
        Column("inter", "count", "inner width; of experts the full one, of which each of moe_tp devices has a part"),
        Column("experts", "count", "routed experts"),
        Column("topk", "count", "experts of a token"),
        Column("moe_tp", "count", "devices that share each expert"),
        Column("moe_ep", "count", "devices over which whole experts are spread"),
        Column(
            "distribution",
            "text",
            "of the routing: balanced or uniform; anything else, or nothing: unknown",
        ),
        Column("bytes", "count", "of a copy; of the larger of the two buffers that a rank of a collective has"),
        Column("world", "count", "ranks of a collective"),
        Column("latency_us", "number", "median of a call, microseconds"),
        Column("backend", "text", "whose kernels"),
        Column("version", "text", "of the backend"),
        Column("kernel", "text", "which kernel; layer, step: id of the model"),
        Column("tp", "count", "tensor parallelism of the model whose shapes these are; for information"),
        Column("latency_p10_us", "number", "a tenth of the samples were faster"),
        Column("latency_p90_us", "number", "a tenth of the samples were slower"),
        Column(
            "cache", "text", "cold: inputs, weights and outputs came from device memory; warm: they may have been in a cache"
        ),
        Column("chunk_bytes", "count", "bytes of one call of a copy that was made in several"),
        Column("pinned", "text", "true or false: whether the host's memory was page-locked"),
        Column("counters_dram_bytes", "number", "bytes of device memory read and written, by hardware counters"),
        Column("counters_flops", "number", "matrix FLOP, by hardware counters"),
        Column("counters_dram_read_bytes", "number", "bytes of device memory read, by hardware counters"),
        Column("counters_dram_write_bytes", "number", "bytes of device memory written, by hardware counters"),
        Column("counters_l2_bytes", "number", "bytes through the L2 cache, by hardware counters"),
        Column("notes", "text", "how the call was timed, and what else matters"),
    )
}

RESULTS = (
    *(name for name in COLUMNS if name.startswith(("latency_", "counters_"))),
    "notes",
)
"""What a measurement found; the other columns say what was measured, and identify it."""


# A dtype as the formats that operators meet.


def _weight_only(name: str, size: float, metadata: Metadata) -> Format:
    return Format(name, size, None, (metadata,))


# As torch multiplies them (`_weight_int4pack_mm`, `_weight_int8pack_mm`): a bf16 scale and a bf16 zero point for each group of
# inputs of an output; a bf16 scale per output.
WEIGHT_ONLY = {
    format.name: format
    for format in (
        *(_weight_only(f"int4_wo_g{group}", 0.5, Metadata("scales_and_zeros", 4, 1, group)) for group in (32, 64, 128)),
        _weight_only("int8_wo", 1, Metadata("scales", 2, 1, None)),
    )
}
"""Formats of weights alone, which are widened to bf16 for products with bf16 activations."""
# fp32 in memory, multiplied with fewer bits; 8-bit blocks of 128 x 128 weights that share one fp32 scale.
_MORE = {"tf32": Format("tf32", 4, "tf32"), "fp8_block": scheme("fp8_block").format, **WEIGHT_ONLY}


def dtypes(dtype: str, kv_dtype: str = "") -> Dtypes:
    """The formats of weights, activations and the KV cache that the dtype columns of a record mean.

    fp8 GEMMs take bf16 activations, which are quantised on the way, and give bf16; int8 GEMMs take and give int8; weights that
    alone are quantised (int4, `WEIGHT_ONLY`) meet bf16 activations.

    Args:
        dtype: the column `dtype`, in any case: a name of `roofline.dtypes.FORMATS` or of `WEIGHT_ONLY`, "tf32" or "fp8_block".
        kv_dtype: the column `kv_dtype`; empty: the KV cache has the format of the activations.

    Raises:
        UnknownNameError: if one of them is not known.

    >>> formats = dtypes("fp8")
    >>> formats.matrix, formats.weight.bytes, formats.activation.bytes
    ('fp8', 1, 2)
    >>> formats = dtypes("int4_wo_g128")
    >>> formats.matrix, formats.weight.metadata_bytes([(4096, 4096)])  # 4 B for each of 4096 x 32 groups
    ('bf16', 524288)
    """
    weight = _format(dtype)
    sixteen_bit = weight.multiply in ("fp8", "fp4") or weight.name == "int4" or weight.name in WEIGHT_ONLY
    activation = FORMATS["bf16"] if sixteen_bit else FORMATS["fp32"] if weight.name == "tf32" else weight
    return Dtypes(weight=weight, activation=activation, kv=parse_dtype(kv_dtype) if kv_dtype else activation)


def canonical(dtype: str) -> str:
    """The one spelling of a dtype; empty for an empty text.

    Raises:
        UnknownNameError: if it is not known.

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
