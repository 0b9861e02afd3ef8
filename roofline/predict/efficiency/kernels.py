"""The kernels that engines launch for the operators of a step, and the fitted family of each: its op and its formats."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.dtypes import Dtypes
from roofline.graph.build import Graph
from roofline.numeric import Expr
from roofline.operators.activation import Activation
from roofline.operators.base import Operator
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.predict.efficiency.form import Operators

# The routed experts of a layer are one kernel to an engine, and one row of a record.
# NB: the names are those of `roofline.measure.records.ops`.
EXPERTS = "moe"
_PARTS = {
    "experts/up_proj": "up_proj",
    "experts/activation": "activation",
    "experts/down_proj": "down_proj",
    "combine": "combine",
}


@dataclass(frozen=True, slots=True)
class Kernel:
    """One call: its op in the words of records (empty: nothing like it was measured), its operators by name."""

    op: str
    operators: dict[str, Operator]
    paths: tuple[str, ...]
    """Where the operators stand in the graph, in the order of `operators`."""
    repeat: Expr

    @property
    def timed(self) -> dict[str, Operator]:
        """The operators as they are measured: on one device that does the part of each, where devices share them."""
        return {name: operator.alone for name, operator in self.operators.items()}


def kernels(graph: Graph) -> list[Kernel]:
    """The kernels of a step, in the order of its operators."""
    launched: list[Kernel] = []
    taken: set[str] = set()
    for path, (operator, repeat) in graph.items():
        if path in taken:
            continue
        if isinstance(operator, GroupedGemm) and path.endswith("experts/up_proj"):
            base = path.removesuffix("experts/up_proj")
            parts = {name: base + part for part, name in _PARTS.items() if base + part in graph}
            taken |= set(parts.values())
            launched.append(Kernel(EXPERTS, {name: graph[at][0] for name, at in parts.items()}, tuple(parts.values()), repeat))
        else:
            launched.append(Kernel(operator.measured_as, {"": operator}, (path,), repeat))
    return launched


# Of equal width and speed: what was measured in one of them holds for the other.
_SAME_AS = {"fp16": "bf16"}
_KV = ("attention_prefill", "attention_decode", "mla_prefill", "mla_decode")
# Ops whose kernels only move data: formats are bytes, and every fit of the op serves.
_BYTES = (
    "rmsnorm", "rope", "silu_mul", "add", "embedding", "sampling", "copy_d2d", "copy_h2d", "copy_d2h",
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "p2p",
)  # fmt: skip
UNGATED = "ungated"
"""Experts without a gate projection, of which some backends have a kernel of its own."""


def family_key(op: str, dtypes: Dtypes, *, multiplies_weights: bool, ungated: bool = False) -> str:
    """The family's key in a fit.

    >>> from roofline.measure.records.columns import dtypes as of
    >>> family_key("gemm", of("fp8"), multiplies_weights=True)
    'gemm/fp8'
    >>> family_key("attention_decode", of("fp16", "fp8"), multiplies_weights=False)
    'attention_decode/bf16/kv-fp8'
    """
    if op in _BYTES:
        return op
    own = dtypes.weight if multiplies_weights and dtypes.weight.multiply else dtypes.activation
    parts = [op, _SAME_AS.get(own.name, own.name)]
    if op in _KV and dtypes.kv.bytes != dtypes.activation.bytes:
        parts.append(f"kv-{dtypes.kv.name}")
    if ungated:
        parts.append(UNGATED)
    return "/".join(parts)


def kernel_family(op: str, operators: Operators) -> str:
    """The key of a kernel's family in a fit, such as "gemm/fp8"."""
    first: Operator = next(iter(operators.values()))
    activation = operators.get("activation")
    ungated = isinstance(activation, Activation) and not activation.gated
    return family_key(op, first.dtypes, multiplies_weights=first.multiplies_weights, ungated=ungated)


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
    keys = exact(key)
    op, *formats = keys[-1].split("/")
    if len(formats) == 2:
        keys += [f"{op}/{formats[0]}/kv-fp8", f"{op}/{formats[0]}"]
    if formats and formats[0] != "bf16":
        eight = formats[0].startswith(("fp8", "int8", "mxfp8", "nvfp4", "fp4"))
        keys += [f"{op}/{other}" for other in (*(("fp8", "fp8_block") if eight else ()), "bf16")]
    if op == "bmm":
        keys += [other.replace("bmm", "gemm", 1) for other in tuple(keys)]
    keys += {"copy_d2d": ["add"], "sampling": ["rmsnorm"]}.get(op, [])
    return list(dict.fromkeys(keys))
