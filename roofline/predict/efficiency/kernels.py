"""The kernels that engines launch for the operators of a step, and the fitted family of each: its op and its formats."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.dtypes import Dtypes
from roofline.graph.build import Graph
from roofline.numeric import Expr
from roofline.operators.activation import Activation
from roofline.operators.base import Operator
from roofline.operators.collectives import AllToAll, Collective
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
    """One launched kernel: its op in the words of records ("": none was measured), its operators by name, and its number of
    calls.
    """

    op: str
    operators: dict[str, Operator]
    paths: tuple[str, ...]
    """Where the operators stand in the graph, in the order of `operators`."""
    repeat: Expr
    dispatch: AllToAll | None = None
    """Of experts: the exchange that brought their tokens."""

    @property
    def collective(self) -> bool:
        """Whether devices exchange data in it."""
        return isinstance(next(iter(self.operators.values())), Collective)

    @property
    def beside(self) -> bool:
        """Whether it runs beside the routed experts of its layer: the kernels of shared experts."""
        return "/shared/" in self.paths[0]

    @property
    def timed(self) -> dict[str, Operator]:
        """The operators as they are measured: on one device that does the part of each, where devices share them."""
        return {name: operator.on_one_device for name, operator in self.operators.items()}


def kernels(graph: Graph) -> list[Kernel]:
    """Return the kernels of a step, in the order of its operators; the routed experts of a layer are one."""
    launched: list[Kernel] = []
    taken: set[str] = set()
    for path, (operator, repeat) in graph.items():
        if path in taken:
            continue
        if isinstance(operator, GroupedGemm) and path.endswith("experts/up_proj"):
            base = path.removesuffix("experts/up_proj")
            parts = {name: base + part for part, name in _PARTS.items() if base + part in graph}
            taken |= set(parts.values())
            exchange = graph[f"{base}dispatch"][0] if f"{base}dispatch" in graph else None
            dispatch = exchange if isinstance(exchange, AllToAll) else None
            operators = {name: graph[at][0] for name, at in parts.items()}
            launched.append(Kernel(EXPERTS, operators, tuple(parts.values()), repeat, dispatch))
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
WIDENED = "w"
"""Begins what a key has for weights that are widened to the activations' format: `w4` for those of 4 bits."""
UNGATED = "ungated"
"""Experts without a gate projection, of which some backends have a kernel of its own."""


def family_key(op: str, dtypes: Dtypes, *, multiplies_weights: bool, ungated: bool = False) -> str:
    """Return the key of a family in a fit: its op, then its formats.

    Args:
        op: of measured records.
        dtypes: of the operator.
        multiplies_weights: whether the format of weights names the family, where it is multiplied natively.
        ungated: whether experts have no gate projection.

    >>> from roofline.dtypes import BF16, FORMATS
    >>> from roofline.measure.records.columns import dtypes as of
    >>> family_key("gemm", of("fp8"), multiplies_weights=True)
    'gemm/fp8'
    >>> family_key("attention_decode", of("fp16", "fp8"), multiplies_weights=False)
    'attention_decode/bf16/kv-fp8'
    >>> family_key("gemm", Dtypes(weight=FORMATS["int4"], activation=BF16.activation, kv=BF16.kv), multiplies_weights=True)
    'gemm/bf16/w4'
    """
    if op in _BYTES:
        return op
    native = multiplies_weights and dtypes.weight.multiply not in (None, dtypes.activation.name)
    own = dtypes.weight if native else dtypes.activation
    parts = [op, _SAME_AS.get(own.name, own.name)]
    if multiplies_weights and dtypes.weight_only:
        parts.append(f"{WIDENED}{dtypes.weight.bytes * 8:g}")
    if op in _KV and dtypes.kv.bytes != dtypes.activation.bytes:
        parts.append(f"kv-{dtypes.kv.name}")
    if ungated:
        parts.append(UNGATED)
    return "/".join(parts)


def kernel_family(op: str, operators: Operators) -> str:
    """Return the key of a kernel's family in a fit, such as "gemm/fp8"."""
    first: Operator = next(iter(operators.values()))
    activation = operators.get("activation")
    ungated = isinstance(activation, Activation) and not activation.gated
    return family_key(op, first.dtypes, multiplies_weights=first.multiplies_weights, ungated=ungated)


def exact(key: str) -> list[str]:
    """Return the keys whose fit is of the same kernels: a backend without a kernel for ungated experts runs the gated one.

    >>> exact("moe/bf16/ungated"), exact("gemm/fp8")
    (['moe/bf16/ungated', 'moe/bf16'], ['gemm/fp8'])
    """
    return [key, key.removesuffix(f"/{UNGATED}")] if key.endswith(UNGATED) else [key]


def is_widened(key: str) -> bool:
    """Return whether a key is of products whose weights are widened to the activations' format.

    >>> is_widened("gemm/bf16/w4"), is_widened("moe/bf16/ungated")
    (True, False)
    """
    return any(_width(part) for part in key.split("/")[1:])


def _width(part: str) -> bool:
    return part.removeprefix(WIDENED).isdigit() and part.startswith(WIDENED)


def nearest(key: str) -> list[str]:
    """Keys whose fit may stand in for one that was not measured, best first, itself included.

    >>> nearest("gemm/fp8_block"), nearest("attention_decode/bf16/kv-int8"), nearest("bmm/bf16")
    (['gemm/fp8_block', 'gemm/fp8', 'gemm/bf16'], ['attention_decode/bf16/kv-int8', 'attention_decode/bf16/kv-fp8', \
'attention_decode/bf16'], ['bmm/bf16', 'gemm/bf16'])
    >>> nearest("gemm/bf16/w4")
    ['gemm/bf16/w4', 'gemm/bf16']
    """
    if is_widened(key):
        wide = "/".join(part for part in key.split("/") if not _width(part))
        return [*exact(key), *nearest(wide)]
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
