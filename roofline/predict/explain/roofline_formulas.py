"""Formulas of the roofline: arithmetic intensity, the ridge point, critical batch sizes and tensor-parallel sizes, the floor of
decode."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import isclose

import sympy

from roofline.cost import FIELDS, Cost
from roofline.errors import InputError
from roofline.formulas.closed_forms import critical_tensor_parallel
from roofline.formulas.closed_forms import ridge_point as ridge
from roofline.formulas.symbolic import Values, evaluate, quantity, symbol
from roofline.graph.build import Graph
from roofline.numeric import Expr
from roofline.operators.base import Operator
from roofline.operators.collectives import Collective
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.predict.bounds import matrix_dtype
from roofline.predict.explain.explanation import (
    MEMORY_TRAFFIC,
    ROOFLINE,
    SCALING_BOOK,
    WORK,
    Explanation,
    explanation,
    total,
    unit,
)
from roofline.predict.explain.symbolic_request import SymbolicRequest
from roofline.specs.hardware import IN_A_SERVER
from roofline.specs.source import Assumption
from roofline.specs.workload import decode


def fields(known: Values, cost: Cost, source: str) -> dict[str, Explanation]:
    """Return the explanation of every field of a cost in symbols that is not 0, by its name."""
    expressions = {name: sympy.sympify(getattr(cost, name), strict=True) for name in FIELDS}
    return {
        name: explanation(name, expr, known, unit=unit(name), source=source) for name, expr in expressions.items() if expr != 0
    }


def intensity(symbolic: SymbolicRequest, phase: str) -> Explanation:
    """All FLOP over all bytes of a step."""
    graph = symbolic.own_graph(phase)
    cost_of = cache(symbolic.cost)
    totals = {name: symbolic.total(graph, _field(cost_of, name)) for name in (*WORK, *MEMORY_TRAFFIC)}
    parts = fields(symbolic.values, Cost(**totals), "derived: the sum over the operators of the step")
    values = {total(name): part.value for name, part in parts.items()}
    flops = sum(total(name) for name in WORK if name in parts)
    moved = sum(total(name) for name in MEMORY_TRAFFIC if name in parts)
    note = Assumption("step", phase, "default", "all operators of the step on one device; link bytes are not counted")
    return explanation(
        "arithmetic_intensity",
        flops / moved,
        values,
        unit="FLOP/byte",
        source=ROOFLINE,
        assumptions=(note,),
        parts=parts.values(),
    )


def _field(cost_of: Callable[[Operator], Cost], name: str) -> Callable[[Operator], Expr]:
    return lambda operator: getattr(cost_of(operator), name)


def _machine(symbolic: SymbolicRequest) -> Values:
    hardware = symbolic.request.hardware
    return {symbol("P"): hardware.peak(symbolic.request.precision.activation.name), symbol("beta"): hardware.bandwidth}


def ridge_point(symbolic: SymbolicRequest, phase: str) -> Explanation:
    """The intensity at which compute and memory take equally long."""
    del phase
    dtype = symbolic.request.precision.activation.name
    note = Assumption("peak_dtype", dtype, "default", "dense matrix peak of the activations' dtype")
    return explanation("ridge_point", ridge(), _machine(symbolic), unit="FLOP/byte", source=ROOFLINE, assumptions=(note,))


def critical_batch(symbolic: SymbolicRequest, phase: str) -> Explanation:
    """The batch at which the linear operators of a decode step take as long to multiply as their weights to be read."""
    del phase
    hardware, graph = symbolic.request.hardware, symbolic.graph(symbolic.step("decode"), data_parallel_size=1)
    linear = {path: entry for path, entry in graph.items() if isinstance(entry[0], (Gemm, GroupedGemm))}
    compute_time, peaks = _compute_time(symbolic, linear)
    values: Values = {**symbolic.values, **peaks, symbol("beta"): hardware.bandwidth}
    one = {symbol("B"): 1}
    read = symbolic.total(linear, _all_weights)
    ratio = read / symbol("beta") / (compute_time / symbol("B"))
    unchanged = {symbol("P"), symbol("beta"), symbol("b_w"), symbol("b_w", "linear")}
    # what changes with another dimension does not cancel: two values are found sooner than a common divisor
    others = {one: number + 1 for one, number in values.items() if one not in unchanged}
    short = sympy.cancel(ratio) if isclose(evaluate(ratio, values), evaluate(ratio, {**values, **others})) else ratio
    parts: list[Explanation] = []
    if not short.free_symbols <= unchanged:
        weights = quantity("W_linear", r"W_{\mathrm{linear}}", "bytes", "weights of the linear operators")
        work = quantity("t_1", "t_1", "s", "time to multiply one sequence's token by them")
        parts = [
            explanation("linear weights", read, values, unit="bytes", source="derived"),
            explanation("time of one sequence", compute_time.subs(one), values, unit="s", source="derived"),
        ]
        short = weights / (symbol("beta") * work)
        values = {**values, weights: parts[0].value, work: evaluate(compute_time, {**values, **one})}
    notes = [Assumption("traffic", "weights", "default", "weight traffic alone; attention and activations are left out")]
    if any(isinstance(operator, GroupedGemm) for operator, _ in linear.values()):
        notes.append(Assumption("experts", "all", "default", "so large a batch meets every expert, so that all are read"))
    expr = _times(symbolic.request.deployment.data_parallel_size, short)
    return explanation("critical_batch", expr, values, unit="sequences", source=SCALING_BOOK, assumptions=notes, parts=parts)


def _compute_time(symbolic: SymbolicRequest, graph: Graph) -> tuple[Expr, Values]:
    """Seconds of the matrix products of some operators at their peaks, and the peaks: one symbol for each."""
    hardware = symbolic.request.hardware
    rates: dict[float, str] = {}
    for operator, _ in graph.values():
        dtype = matrix_dtype(operator, hardware)
        rates.setdefault(hardware.peak(dtype), dtype)
    seconds: Expr = sympy.Integer(0)
    peaks: Values = {}
    for rate, dtype in rates.items():
        limit = symbol("P", dtype if len(rates) > 1 else "")
        same = {path: entry for path, entry in graph.items() if hardware.peak(matrix_dtype(entry[0], hardware)) == rate}
        seconds, peaks[limit] = seconds + symbolic.total(same, lambda operator: operator.cost().matrix_flops) / limit, rate
    return seconds, peaks


def _times(number: int, expr: Expr) -> Expr:
    """A product whose number stays in front."""
    return expr if number == 1 else sympy.Mul(number, expr, evaluate=False)


def _all_weights(operator: Operator) -> Expr:
    """Bytes of weights that an operator reads in a large step."""
    # NB: a tied LM head reads weights that another operator holds, so that what is read and not what is held counts.
    if isinstance(operator, GroupedGemm):
        return operator.held_bytes
    return operator.cost().weight_bytes


def decode_floor(symbolic: SymbolicRequest, phase: str) -> Explanation:
    """The shortest time of a decode step at batch 1: every weight that it needs is read once."""
    del phase
    streamed = symbolic.total(symbolic.graph(decode(1, 0)), lambda operator: operator.cost().weight_bytes)
    source = "derived: what the operators of the step read"
    part = explanation("streamed weights", streamed, symbolic.values, unit="bytes", source=source)
    weights = quantity("W_streamed", r"W_{\mathrm{streamed}}", "bytes", "weights that one decode step of one sequence reads")
    values = {**_machine(symbolic), weights: part.value}
    return explanation("decode_floor", weights / symbol("beta"), values, unit="s", source=SCALING_BOOK, parts=(part,))


_ALONE = {
    "tensor_parallel_size": 1, "data_parallel_size": 1, "expert_parallel_size": 1, "context_parallel_size": 1,
    "decode_context_parallel_size": 1, "moe_tp": None, "sequence_parallel": False,
}  # fmt: skip


def critical_tp(symbolic: SymbolicRequest, phase: str) -> Explanation:
    """The tensor-parallel size at which the all-reduces of the layers take as long as the work that the devices share.

    The work is the matrix products of the layers, at the slower of matrix units and memory (weights, caches and states); the
    links are those inside a node.

    Raises:
        InputError: a mixed step, or no link that joins two devices.
    """
    request, hardware = symbolic.request, symbolic.request.hardware
    if request.workload.segmented:
        raise InputError("critical_tp is of a prefill or decode step: leave out --segments")
    size = hardware.node.count if hardware.node else IN_A_SERVER
    try:
        joined = hardware.connection(size)
    except InputError:
        size, joined = 2, hardware.connection(2)
    assert joined is not None  # noqa: S101 - of two devices or more
    step = symbolic.step(phase)
    layers = {path: entry for path, entry in symbolic.graph(step, **_ALONE).items() if path.startswith("layers/")}
    shared = {path: entry for path, entry in layers.items() if sympy.sympify(entry[0].cost().matrix_flops, strict=True) != 0}
    pairs = symbolic.graph(step, **{**_ALONE, "tensor_parallel_size": 2})
    sums = {path: entry for path, entry in pairs.items() if path.startswith("layers/") and isinstance(entry[0], Collective)}
    compute_time, peaks = _compute_time(symbolic, shared)
    source = "derived: the operators of the layers on one device"
    moved = explanation(
        "bytes",
        symbolic.total(shared, _lasting),
        symbolic.values,
        unit="bytes",
        source=source,
        about="weights, caches and states",
    )
    # of two devices a ring sends half of the tensor twice: as many bytes as it has
    summed = explanation(
        "summed",
        symbolic.total(sums, lambda operator: operator.cost().link_bytes),
        symbolic.values,
        unit="bytes",
        source=source,
    )
    if not summed.value:
        raise InputError(f"critical_tp: the layers of {request.model.name} have no all-reduces")
    computing = explanation("compute", compute_time, {**symbolic.values, **peaks}, unit="s", source=source)
    compute = quantity("t_compute", r"t_{\mathrm{compute}}", "s", "matrix products of the layers on one device")
    weights = quantity("D_1", "D_1", "bytes", "weights, caches and states that they read on one device")
    tensors = quantity("S_sum", r"S_{\mathrm{sum}}", "bytes", "tensors that the all-reduces of a step sum")
    rate = quantity(
        "W", "W", "bytes/s", f"{joined.inside.name if joined.inside else 'link'}, one direction, all peers together"
    )
    values = {
        compute: computing.value, weights: moved.value, symbol("beta"): hardware.bandwidth, tensors: summed.value,
        rate: joined.within(size),
    }  # fmt: skip
    expr = critical_tensor_parallel(sympy.Max(compute, weights / symbol("beta"), evaluate=False), tensors, rate)
    notes = [
        Assumption("step", phase, "default", "on devices that divide every head, column and expert; bounds, without latency"),
        Assumption("links", str(joined), "default", f"joins {joined.together} devices"),
    ]
    source = f"{SCALING_BOOK.replace('roofline', 'training')} (tensor parallelism); ring: Thakur et al., IJHPCA 19(1), 2005"
    return explanation(
        "critical_tp", expr, values, unit="devices", source=source, assumptions=notes, parts=(computing, moved, summed),
    )  # fmt: skip


def _lasting(operator: Operator) -> Expr:
    """Bytes of weights, caches and states that an operator reads and writes."""
    cost = operator.cost()
    lasting: Expr = (
        cost.weight_bytes + cost.kv_read_bytes + cost.kv_write_bytes + cost.state_read_bytes + cost.state_write_bytes
    )
    return lasting
