"""Which fitted family a kernel belongs to: its op and the formats that it meets."""

from __future__ import annotations

from roofline.dtypes import Dtypes
from roofline.operators.activation import Activation
from roofline.operators.base import Operator
from roofline.predict.efficiency.form import Operators

# Of equal width and speed: what was measured in one of them holds for the other.
_ALIKE = {"fp16": "bf16"}
_KV = ("attention_prefill", "attention_decode", "mla_prefill", "mla_decode")
# Ops whose kernels only move data: formats are bytes, and every fit of the op serves.
_BYTES = (
    "rmsnorm", "rope", "silu_mul", "add", "embedding", "sampling", "copy_d2d", "copy_h2d", "copy_d2h",
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "p2p",
)  # fmt: skip


UNGATED = "ungated"
"""Experts without a gate projection, of which some backends have a kernel of its own."""


def name(op: str, dtypes: Dtypes, *, multiplies_weights: bool, ungated: bool = False) -> str:
    """The family's key in a fit.

    >>> from roofline.measure.records.formats import dtypes as of
    >>> name("gemm", of("fp8"), multiplies_weights=True), name("attention_decode", of("fp16", "fp8"), multiplies_weights=False)
    ('gemm/fp8', 'attention_decode/bf16/kv-fp8')
    """
    if op in _BYTES:
        return op
    own = dtypes.weight if multiplies_weights and dtypes.weight.multiply else dtypes.activation
    parts = [op, _ALIKE.get(own.name, own.name)]
    if op in _KV and dtypes.kv.bytes != dtypes.activation.bytes:
        parts.append(f"kv-{dtypes.kv.name}")
    if ungated:
        parts.append(UNGATED)
    return "/".join(parts)


def of_kernel(op: str, operators: Operators) -> str:
    """The key of a kernel's family."""
    first: Operator = next(iter(operators.values()))
    activation = operators.get("activation")
    ungated = isinstance(activation, Activation) and not activation.gated
    return name(op, first.dtypes, multiplies_weights=first.multiplies_weights, ungated=ungated)


def exact(key: str) -> list[str]:
    """Keys whose fit is of such kernels: a backend without a kernel of its own for ungated experts has them in the other.

    >>> exact("moe/bf16/ungated"), exact("gemm/fp8")
    (['moe/bf16/ungated', 'moe/bf16'], ['gemm/fp8'])
    """
    return [key, key.removesuffix(f"/{UNGATED}")] if key.endswith(UNGATED) else [key]


def nearest(key: str) -> list[str]:
    """Keys whose fit may stand in for one that was not measured, best first, itself included.

    >>> nearest("gemm/fp8_block"), nearest("attention_decode/bf16/kv-int8"), nearest("bmm/bf16")
    (['gemm/fp8_block', 'gemm/fp8', 'gemm/bf16'], ['attention_decode/bf16/kv-int8', 'attention_decode/bf16/kv-fp8', \
'attention_decode/bf16'], ['bmm/bf16', 'gemm/bf16'])
    """
    found = exact(key)
    op, *formats = found[-1].split("/")
    if len(formats) == 2:
        found += [f"{op}/{formats[0]}/kv-fp8", f"{op}/{formats[0]}"]
    if formats and formats[0] != "bf16":
        eight = formats[0].startswith(("fp8", "int8", "mxfp8", "nvfp4", "fp4"))
        found += [f"{op}/{other}" for other in (*(("fp8", "fp8_block") if eight else ()), "bf16")]
    if op == "bmm":
        found += [other.replace("bmm", "gemm", 1) for other in tuple(found)]
    found += {"copy_d2d": ["add"], "sampling": ["rmsnorm"]}.get(op, [])
    return list(dict.fromkeys(found))
