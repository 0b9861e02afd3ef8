"""From the operators of a step to the kernels that engines launch, as measured records know them."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.graph import Graph
from roofline.numeric import Expr
from roofline.operators.base import Operator
from roofline.operators.grouped_gemm import GroupedGemm

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
    """One call: its op in the words of records (empty: none has measured the like), its operators by name."""

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
    found: list[Kernel] = []
    taken: set[str] = set()
    for path, (operator, repeat) in graph.items():
        if path in taken:
            continue
        if isinstance(operator, GroupedGemm) and path.endswith("experts/up_proj"):
            base = path.removesuffix("experts/up_proj")
            parts = {name: base + part for part, name in _PARTS.items() if base + part in graph}
            taken |= set(parts.values())
            found.append(Kernel(EXPERTS, {name: graph[at][0] for name, at in parts.items()}, tuple(parts.values()), repeat))
        else:
            found.append(Kernel(operator.measured_as, {"": operator}, (path,), repeat))
    return found
