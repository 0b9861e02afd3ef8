"""Measured kernels of a step laid beside the model's operators: which kernels are which operator, what is fused, what is extra.

Both are sequences in the order of a forward pass. The best of all ways to lay them side by side is found by dynamic programming
(Needleman and Wunsch, J. Mol. Biol. 48, 1970): a kernel is an operator, or belongs to the operator before it (an operator of
several kernels), or to none; an operator has kernels, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from roofline.blocks.model import Model
from roofline.cost import ZERO
from roofline.graph.build import Graph
from roofline.measure.profile.trace import ACTIVITIES
from roofline.operators.base import Operator
from roofline.operators.embedding import Embedding
from roofline.operators.gemm import Gemm
from roofline.predict.efficiency.kernels import EXPERTS, kernels
from roofline.specs.kernel_rules import COLLECTIVES, KernelKind

if TYPE_CHECKING:
    from roofline.measure.profile.rules import Identity
    from roofline.measure.profile.trace import Trace

# Kinds of kernels by the kind of the operator. NB: operators that are not here have kernels of their own name.
_KINDS: dict[str, KernelKind] = {
    "embedding": "embedding", "norm": "norm", "gemm": "gemm", "grouped_gemm": "grouped_gemm", "attention": "attention",
    "block_sparse_attention": "attention", "compressed_attention": "attention", "linear_attention": "scan",
    "latent_attention": "latent_attention", "rope": "rope", "activation": "activation", "copy": "kv_write",
    "add": "elementwise",
    "rescale": "elementwise", "combine": "permute", "top_k": "router", "sampling": "sampling", "causal_conv": "convolution",
    "delta_rule": "scan", "scan": "scan", "selective_scan": "scan", "all_reduce": "all_reduce", "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter", "all_to_all": "all_to_all", "send_recv": "send_recv",
    "hyper_connections": "elementwise", "altup": "elementwise", "compress": "elementwise", "index_scores": "gemm",
    "block_scores": "gemm",
}  # fmt: skip

# Kinds of kernels that may be a part of an operator of a kind, and how well they go with it.
_PARTS: dict[KernelKind, dict[KernelKind, float]] = {
    "norm": {"elementwise": 0.5, "reduce": 0.6, "copy": 0.4, "norm": 0.3, "quantize": 0.4},
    "rope": {"elementwise": 0.5, "copy": 0.35, "rope": 1.0},
    "activation": {"elementwise": 0.5, "quantize": 0.4},
    "kv_write": {"copy": 0.5, "kv_write": 1.0, "elementwise": 0.2, "quantize": 0.3},
    "attention": {
        "copy": 0.4, "reduce": 0.3, "elementwise": 0.2, "attention": 3.0, "fill": 0.3, "scheduling": 0.3, "permute": 0.3,
        "gemm": 0.2,
    },
    "latent_attention": {
        "copy": 0.4, "latent_attention": 3.0, "attention": 3.0, "reduce": 0.3, "elementwise": 0.2, "scheduling": 0.3,
    },
    "gemm": {"fill": 0.3, "reduce": 0.4, "copy": 0.2, "elementwise": 0.2, "quantize": 0.2, "activation": 0.2},
    "grouped_gemm": {
        "grouped_gemm": 4.0, "activation": 1.0, "permute": 0.6, "quantize": 0.4, "reduce": 0.4, "fill": 0.3,
        "elementwise": 0.3, "scheduling": 0.4, "copy": 0.3,
    },
    "router": {
        "router": 0.8, "reduce": 0.4, "elementwise": 0.4, "sampling": 0.5, "fill": 0.4, "scheduling": 0.5, "permute": 0.5,
        "copy": 0.3,
    },
    "permute": {"permute": 1.0, "elementwise": 0.3, "reduce": 0.4, "copy": 0.3},
    "sampling": {"sampling": 1.0, "reduce": 0.6, "elementwise": 0.4, "copy": 0.4, "router": 0.3},
    "embedding": {"copy": 0.3, "elementwise": 0.3},
    "scan": {"scan": 2.0, "elementwise": 0.3, "copy": 0.3, "norm": 0.2, "reduce": 0.3, "gemm": 0.2},
    "convolution": {"convolution": 1.0, "copy": 0.4, "elementwise": 0.2},
    "elementwise": {"elementwise": 0.5, "copy": 0.3},
}  # fmt: skip
# What a kernel may be besides an operator of its own kind.
_ALSO: dict[tuple[str, str], float] = {
    ("elementwise", "elementwise"): 2.0, ("sampling", "reduce"): 1.5, ("router", "sampling"): 2.0, ("router", "reduce"): 1.0,
    ("gemm", "router"): 2.5, ("latent_attention", "attention"): 4.0, ("kv_write", "copy"): 0.8, ("permute", "reduce"): 1.5,
    ("embedding", "copy"): 0.5, ("router", "permute"): 0.8,
}  # fmt: skip
_MATCH = {"gemm": 3.0, "grouped_gemm": 5.0, "attention": 5.0, "latent_attention": 5.0, "scan": 5.0}
_SAME_SHAPE, _PART_OF_SHAPE = 6.0, 5.0
_EXTRA, _MISSING, _FUSED = -0.4, -1.0, 1.0
_NEVER = -1e9
_SMALL = 0.02
"""A pass over less than this share of an operator's bytes is no part of it."""
MEMCPY = ACTIVITIES.index("memcpy")
_BAND = 96

ATTENTION = ("attention", "latent_attention")
"""Kinds whose work depends on the lengths of contexts."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What engines compute with one kernel, or a few, in one layer of the model: an operator, or several.

    Attributes:
        path: of the operator, or what the paths of several have in common.
        kind: of its kernels.
        operators: by path.
        layer: its number; -1 before the layers.
        parts: kinds of the operators after the first, by path.
        moved: bytes of device memory.
    """

    path: str
    kind: KernelKind
    operators: tuple[tuple[str, Operator], ...]
    layer: int
    parts: tuple[tuple[str, KernelKind], ...] = ()
    moved: float = 0.0

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of its operators."""
        return tuple(path for path, _ in self.operators)


@dataclass(slots=True)
class Unit:
    """Kernels of one call of a host operator, or a single kernel."""

    kernels: list[int]
    kind: str
    fuses: tuple[str, ...]
    part: bool
    record: dict[str, Any] | None

    @property
    def key(self) -> tuple[Any, ...]:
        """What of it counts for the alignment."""
        record = self.record or {}
        moved = record.get("read_bytes", 0) + record.get("write_bytes", 0)
        return (self.kind, self.fuses, record.get("op"), record.get("n"), record.get("k"), record.get("hidden"), moved)


@dataclass(slots=True)
class Aligned:
    """One step laid beside the model.

    Attributes:
        planned: the model's operators in their order.
        units: the kernels.
        operator: of each unit the number of the operator it belongs to; -1 of extra ones.
        fused: of each operator without kernels the number of the operator whose kernel does its work; -1 where none says so.
        lengths_known: whether the trace says how long the contexts are, without which attention has no work.
    """

    planned: list[Planned]
    units: list[Unit]
    operator: list[int]
    fused: dict[int, int] = field(default_factory=dict)
    lengths_known: bool = True


def planned_operators(model: Model, graph: Graph) -> list[Planned]:
    """The operators of a step in the order in which layers run them.

    The routed experts of a layer are one entry, and so is its attention over sequences of several lengths: engines have one
    kernel for them, or some.

    Args:
        model: gives the order of its layers.
        graph: the operators of a step of one device, by path.
    """
    order = [name for group in model.layers for _ in range(group.repeat) for name in group.pattern]
    single = len(model.layer_types) == 1
    entries = _entries(graph)
    in_layers = [path.startswith("layers/") for path in entries]
    first = in_layers.index(True) if True in in_layers else len(in_layers)
    listed = list(entries)
    rows = [(path, -1) for path in listed[:first]]
    for layer, name in enumerate(order):
        prefix = "layers/" if single else f"layers/{name}/"
        rows += [(path, layer) for path in listed if path.startswith(prefix)]
    rows += [(path, len(order)) for path in listed[first:] if not path.startswith("layers/")]
    return [replace(entries[path], layer=layer) for path, layer in rows]


def _entries(graph: Graph) -> dict[str, Planned]:
    """What one kernel may compute, by path."""
    together: dict[str, tuple[str, ...]] = {}
    for kernel in kernels(graph):
        if kernel.op == EXPERTS:
            together |= dict.fromkeys(kernel.paths, kernel.paths)
    for path in graph:
        base, core, _ = path.partition("/core/")
        if core:
            cores = tuple(other for other in graph if other.startswith(f"{base}/core/"))
            together |= dict.fromkeys(cores, cores)
    entries: dict[str, Planned] = {}
    for path, (operator, _) in graph.items():
        paths = together.get(path, (path,))
        if path != paths[0]:
            continue
        operators = tuple((part, graph[part][0]) for part in paths)
        parts = tuple((part, kind_of(graph[part][0], part)) for part in paths[1:])
        name = path.removesuffix("/up_proj") if path.endswith("experts/up_proj") and len(paths) > 1 else path
        name = name.partition("/core/")[0] + "/core" if "/core/" in name else name
        moved = float(sum((part.cost() for _, part in operators), ZERO).bytes)
        entries[name] = Planned(name, kind_of(operator, path), operators, 0, parts, moved)
    return entries


def kind_of(operator: Operator, path: str) -> KernelKind:
    """The kind of kernels that an operator of a model is."""
    if operator.kind == "sampling" and path.startswith("layers/"):
        return "router"
    if operator.kind == "copy" and not path.endswith("kv_write"):
        return "copy"
    return _KINDS.get(operator.kind, "elementwise")


def units_of(
    trace: Trace, kernels: Sequence[int], identities: Sequence[Identity | None], records: Sequence[dict[str, Any] | None]
) -> list[Unit]:
    """Kernels of a step, those of one call of a host operator together.

    Args:
        trace: as read.
        kernels: indices of a step's kernels.
        identities: of all kernels.
        records: of each host operator.
    """
    columns = trace.kernels
    units: list[Unit] = []
    last_call = -1
    for at in kernels:
        identity, call = identities[at], columns.call[at]
        kind: str = identity.kind if identity is not None else ""
        if columns.activity[at] == MEMCPY:
            kind = "memcpy"  # moves between host and device, or of what a step prepares: no part of a layer
        part = identity is None or identity.part
        operator = columns.operator[at]
        record = records[operator] if operator >= 0 else None
        if units and call >= 0 and call == last_call:
            # of several kernels of one call the longest that is no mere part says what it does
            unit = units[-1]
            longer = columns.duration_s[at] > max(columns.duration_s[other] for other in unit.kernels)
            unit.kernels.append(at)
            if identity is not None and kind != "host" and not part and (unit.part or longer or unit.kind in ("", "host")):
                unit.kind, unit.part, unit.fuses, unit.record = kind, False, identity.fuses, record
            continue
        last_call = call
        units.append(Unit([at], kind, identity.fuses if identity is not None else (), part, record))
    return units


def align(planned: list[Planned], units: list[Unit]) -> Aligned:
    """Lay the kernels of a step beside the model's operators.

    Returns:
        The way with the highest score: a kernel of an operator's kind counts, more so with its very shape; a kernel that
        could be a part of the operator before it counts a little; kernels and operators without the other cost.
    """
    n, m = len(planned), len(units)
    band = max(_BAND, abs(m - n) // 4, m // 8)
    best = [dict[int, float]() for _ in range(n + 1)]
    move = [dict[int, str]() for _ in range(n + 1)]
    known: dict[tuple[Any, ...], tuple[float, float]] = {}
    keys_of_operators = [_operator_key(entry) for entry in planned]
    keys_of_units = [unit.key for unit in units]
    for i in range(n + 1):
        middle = i * m // max(n, 1)
        row, above = best[i], best[i - 1] if i else {}
        for j in range(max(middle - band, 0), min(middle + band, m) + 1):
            score, how = (0.0, "") if i == j == 0 else (_NEVER, "")
            if i and j:
                key = (keys_of_operators[i - 1], keys_of_units[j - 1])
                scores = known.get(key)
                if scores is None:
                    scores = known[key] = _scores(planned[i - 1], units[j - 1])
                matched, part = scores
                if matched > 0 and (value := above.get(j - 1, _NEVER) + matched) > score:
                    score, how = value, "match"
                if part > 0 and (value := row.get(j - 1, _NEVER) + part) > score:
                    score, how = value, "part"
            if j and (value := row.get(j - 1, _NEVER) + _EXTRA) > score:
                score, how = value, "extra"
            if i:
                fused = j > 0 and planned[i - 1].kind in units[j - 1].fuses
                if (value := above.get(j, _NEVER) + (_FUSED if fused else _MISSING)) > score:
                    score, how = value, "missing"
            row[j], move[i][j] = score, how
    return _traced(planned, units, move)


def _traced(planned: list[Planned], units: list[Unit], move: list[dict[int, str]]) -> Aligned:
    """Follow the best way back."""
    i, j = len(planned), len(units)
    operator = [-1] * j
    while i or j:
        how = move[i][j]
        if how == "match":
            operator[j - 1] = i - 1
            i, j = i - 1, j - 1
        elif how == "part":
            operator[j - 1] = i - 1
            j -= 1
        elif how == "extra":
            j -= 1
        else:
            i -= 1
    aligned = Aligned(planned, units, operator)
    has = set(operator)
    for at, entry in enumerate(planned):
        if at not in has:
            aligned.fused[at] = _fused_into(aligned, at, entry)
    return aligned


def _fused_into(aligned: Aligned, at: int, entry: Planned) -> int:
    """The nearest operator, up to three before or after, whose kernel says that it does this one's work as well."""
    near = [number for distance in (1, 2, 3) for number in (at - distance, at + distance)]
    by_operator: dict[int, list[Unit]] = {number: [] for number in near}
    for unit, number in enumerate(aligned.operator):
        if number in by_operator:
            by_operator[number].append(aligned.units[unit])
    for number in near:
        if any(entry.kind in unit.fuses for unit in by_operator[number]):
            return number
    return -1


def _operator_key(entry: Planned) -> tuple[Any, ...]:
    return (entry.path, entry.moved)


def _scores(entry: Planned, unit: Unit) -> tuple[float, float]:
    """How well a kernel is an operator, and how well a further part of it; 0: it is not."""
    if not unit.kind:
        return 0.0, 0.0
    part = _PARTS.get(entry.kind, {}).get(unit.kind, 0.0)  # type: ignore[call-overload]
    record, operator = unit.record or {}, entry.operators[0][1]
    if "read_bytes" in record and record["read_bytes"] + record["write_bytes"] < _SMALL * entry.moved:
        return 0.0, 0.0
    if unit.kind == entry.kind:
        if isinstance(operator, Gemm):
            return _product(operator, unit)
        if isinstance(operator, Embedding):
            whole = record.get("hidden") == operator.width and record.get("n") == operator.entries
            return (_SAME_SHAPE if whole else 1.0), 0.0
        return _MATCH.get(entry.kind, 3.0), part
    if entry.kind in unit.fuses and unit.kind not in COLLECTIVES:
        return 1.5, part
    return _ALSO.get((entry.kind, unit.kind), 0.0), part


def _product(operator: Gemm, unit: Unit) -> tuple[float, float]:
    """A matrix product by its shape: that of the operator, or of one of the matrices that it joins (queries, keys, values)."""
    record = unit.record or {}
    if record.get("op") != "gemm" or "n" not in record or "k" not in record:
        return _MATCH["gemm"], 0.0
    n, k = record["n"], record["k"]
    if (n, k) == (operator.n, operator.k):
        return _SAME_SHAPE, 0.0
    if (n, k) in operator.stored:
        return _PART_OF_SHAPE, _PART_OF_SHAPE
    return 0.0, 0.0
