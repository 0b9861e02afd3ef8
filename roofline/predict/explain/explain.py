"""Explain a quantity or an operator: its formula in symbols, the numbers put in, the value, the source.

Formulas come from the same operators and the same graph as the numbers of `analyze`, built with symbols; the value is
that of the formula.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import isclose
from typing import Any

import sympy

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.cost import FIELDS, Cost
from roofline.errors import InputError, UnknownNameError
from roofline.formulas.closed_forms import ridge_point
from roofline.formulas.symbolic import Values, evaluate, quantity, symbol
from roofline.graph.build import CANONICAL, build
from roofline.numeric import Expr
from roofline.operators.base import Operator
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.predict.batch_limits import critical_batch_linear
from roofline.predict.bounds import matrix_dtype
from roofline.predict.drafts import resolve
from roofline.predict.explain.cache_formulas import break_even_link, kv_bytes_per_token, max_batch, max_context
from roofline.predict.explain.explanation import (
    MEMORY_TRAFFIC,
    WORK,
    Explanation,
    bound,
    explanation,
    intensity,
    peak,
    total,
    traffic,
    unit,
)
from roofline.predict.explain.speculation_formulas import SPECULATIVE
from roofline.predict.explain.symbolic_request import SymbolicRequest
from roofline.predict.options import ALL, keywords
from roofline.predict.request import ResolvedRequest, prepare
from roofline.specs.deployment import Deployment
from roofline.specs.hardware import MATRIX_DTYPES, Accelerator, Hardware
from roofline.specs.source import Assumption
from roofline.specs.workload import Step, decode, prefill

_ROOFLINE = 'Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009'
_SCALING = 'Austin et al., "How to Scale Your Model", 2025, https://jax-ml.github.io/scaling-book/roofline'


@keywords(*ALL)
def explain(model: str | Model, subject: str, hardware: str | Hardware | None = None, **options: Any) -> Explanation:
    """Explain a quantity or an operator: its formula in symbols and with numbers.

    Args:
        model: a shipped id, the path of a file, or a loaded model.
        subject: a quantity (`kv_bytes_per_token`, `critical_batch`, ...) or an operator (`layers/attention/qkv_proj`).
        hardware: a shipped id, the path of a file, or loaded hardware; where the subject does not depend on it, None will do.
        **options: those of `analyze`. An operator is that of decode unless `phase` or `segments` say otherwise.

    Returns:
        The explanation. Numbers are of one device of the fullest pipeline stage, batches of the whole deployment.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, a quantity without a closed form for these options.

    >>> result = explain("llama-3.1-8b", "kv_bytes_per_token")
    >>> result.formula, result.substituted, result.value
    ('2·L·n_kv·d_head·b_kv', '2·32·8·128·2', 131072)
    """
    loaded = model if isinstance(model, Model) else load_model(model, options.pop("assume", None))[0]
    if subject in _NEED_HARDWARE and hardware is None:
        msg = f"{subject} depends on the hardware: name one with --hardware"
        raise InputError(msg)
    request, speculation = resolve(loaded, hardware if hardware is not None else _any_hardware(), **options)
    if subject in SPECULATIVE:
        if speculation is None:
            raise InputError(f"{subject} is of speculative decoding: give --num-speculative-tokens, --acceptance and a draft")
        result = SPECULATIVE[subject](speculation)
    else:
        # of both phases an operator is that of decode if it is in both
        phases = tuple(reversed([name for name, _ in request.workload.steps]))
        symbolic = SymbolicRequest(request)
        result = QUANTITIES[subject](symbolic, phases[0]) if subject in QUANTITIES else _operator(symbolic, subject, phases)
        _agrees(result, request)
    return replace(result, assumptions=(*request.assumptions, *result.assumptions))


def _agrees(result: Explanation, request: ResolvedRequest) -> None:
    """Refuse a formula whose value is not what `analyze` finds by search: there it leaves something out."""
    memory, workload = request.memory, request.workload
    searched: dict[str, Callable[[], float | None]] = {
        "critical_batch": lambda: critical_batch_linear(memory, request.hardware),
        "max_batch": lambda: memory.max_batch(workload.context),
        "max_context": lambda: memory.max_context(workload.batch),
    }
    if result.subject not in searched:
        return
    value = searched[result.subject]()
    same = result.value is None if value is None else result.value is not None and isclose(result.value, value, rel_tol=1e-6)
    if not same:
        msg = f"{result.subject} has no short closed form for these options: analyze finds {value} by search"
        raise InputError(msg)


def subjects(model: str | Model) -> tuple[str, ...]:
    """Return everything that `explain` knows about a model: quantities, then operator paths.

    Raises:
        roofline.errors.RooflineError: an unknown model, or a file that is not what it should be.
    """
    loaded = model if isinstance(model, Model) else load_model(model)[0]
    return (*QUANTITIES, *SPECULATIVE, *_paths(SymbolicRequest(prepare(loaded, _any_hardware())), ("decode", "prefill")))


def explain_step(request: ResolvedRequest) -> list[tuple[str, Explanation]]:
    """Return the explanation of every operator of the steps of a request, each with the name of its phase.

    Raises:
        InputError: a step with several kinds of sequences.
    """
    symbolic = SymbolicRequest(request)
    explanations: list[tuple[str, Explanation]] = []
    for name, _ in request.workload.steps:
        graph = symbolic.own_graph(name)
        explanations += [(name, _explained(symbolic, path, name, graph[path][0])) for path in _paths(symbolic, (name,))]
    return explanations


def _paths(symbolic: SymbolicRequest, phases: tuple[str, ...]) -> list[str]:
    request = symbolic.request
    steps: dict[str, Step] = {
        "decode": decode(1, request.workload.context),
        "prefill": prefill(1, request.workload.input_len),
    }
    steps.update(request.workload.steps)
    graphs = (build(request.model, request.deployment, request.precision, steps[phase], symbolic.stage) for phase in phases)
    return list(dict.fromkeys(path for graph in graphs for path in graph))


@cache
def _any_hardware() -> Hardware:
    """Stands in where no hardware is given: multiplies every format; its figures reach no result."""
    rate, size = {"value": "1 TFLOP/s", "source": "none"}, {"value": "1 TB", "source": "none"}
    accelerator = Accelerator(
        schema_version=1,
        kind="accelerator",
        name="any",
        title="any hardware",
        vendor="",
        architecture="",
        peak_flops=dict.fromkeys(MATRIX_DTYPES, rate),
        vector_flops=rate,
        memory={"type": "", "label": size, "reported": size, "bandwidth": {"value": "1 TB/s", "source": "none"}},
        links=({"name": "any", "per_direction": {"value": "1 TB/s", "source": "none"}},),
        sources={"none": {"title": "none"}},
    )
    return Hardware(accelerator)


def _operator(symbolic: SymbolicRequest, path: str, phases: tuple[str, ...]) -> Explanation:
    """One operator of the first of these phases that has it."""
    for phase in phases:
        if path in _paths(symbolic, (phase,)):
            return _explained(symbolic, path, phase, symbolic.own_graph(phase)[path][0])
    raise UnknownNameError("quantity or operator", path, (*QUANTITIES, *SPECULATIVE, *_paths(symbolic, phases)))


def _explained(symbolic: SymbolicRequest, path: str, phase: str, operator: Operator) -> Explanation:
    """One operator of a step, all its repeats together: what it does, what it moves, and the ratio of both."""
    source = _source_of(type(operator))
    cost = symbolic.cost(operator) * symbolic.repeat(path)
    parts = _parts(symbolic, cost, source)
    moved = [name for name in MEMORY_TRAFFIC if name in parts]
    values = {total(name): part.value for name, part in parts.items()}
    if len(moved) > 1:
        parts["bytes"] = explanation("bytes", traffic(moved), values, unit="bytes", source=source)
        values[total("bytes")] = parts["bytes"].value
        moved = ["bytes"]
    worked = [name for name in WORK if name in parts]
    listed = list(parts.values())
    # what makes entries of several tokens does nothing in most steps of decode, and has no intensity there
    if worked and any(parts[name].value for name in moved):
        done = intensity(worked, moved[0])
        listed.append(explanation("arithmetic_intensity", done, values, unit="FLOP/byte", source=_ROOFLINE))
    if "link_bytes" not in parts:  # what a link takes depends on how it joins the devices: analyze names it
        listed += _times_of(symbolic, operator, values, moved)
    in_bytes = [part for part in listed if part.unit == "bytes"]
    main = parts.get("matrix_flops") or (in_bytes[-1] if in_bytes else listed[0])
    legend = {entry[0]: entry for part in listed for entry in part.legend}
    note = Assumption("step", phase, "default", "one device's share, all repeats of the operator together")
    return replace(main, subject=path, parts=tuple(listed), legend=tuple(legend.values()), assumptions=(note,))


def _times_of(symbolic: SymbolicRequest, operator: Operator, values: Values, moved: list[str]) -> list[Explanation]:
    """The time that each resource is busy, and the longest of them, which is the bound; none without hardware.

    `values` are those of the totals, of which `moved` names the one that crosses the bus of device memory.
    """
    hardware = symbolic.request.hardware
    if hardware.accelerator is _any_hardware().accelerator:
        return []
    peaks = {
        "matrix_flops": hardware.peak(matrix_dtype(operator, hardware)),
        "vector_flops": hardware.vector_peak,
        **dict.fromkeys(moved, hardware.bandwidth),
    }
    used = {name: rate for name, rate in peaks.items() if total(name) in values and rate}
    if not used:
        return []
    known = {**values, **{peak(name): rate for name, rate in used.items()}}
    return [explanation("time_bound", bound(used), known, unit="s", source=_ROOFLINE)]


def _parts(symbolic: SymbolicRequest, cost: Cost, source: str) -> dict[str, Explanation]:
    """Every field of a cost that is not 0."""
    expressions = {name: sympy.sympify(getattr(cost, name)) for name in FIELDS}
    return {
        name: explanation(name, expr, symbolic.values, unit=unit(name), source=source)
        for name, expr in expressions.items()
        if expr != 0
    }


def _source_of(operator: type[Operator]) -> str:
    """The reference in an operator's docstring."""
    match = re.search(r"Sources?(?: of [^:]*)?: (.*?)(?:\n\s*\n|\Z)", operator.__doc__ or "", re.DOTALL)
    return " ".join(match[1].split()) if match else ""


def _intensity(symbolic: SymbolicRequest, phase: str) -> Explanation:
    """All FLOP over all bytes of a step."""
    graph = symbolic.own_graph(phase)
    totals = {name: symbolic.total(graph, _field(symbolic, name)) for name in (*WORK, *MEMORY_TRAFFIC)}
    parts = _parts(symbolic, Cost(**totals), "derived: the sum over the operators of the step")
    values = {total(name): part.value for name, part in parts.items()}
    flops = sum(total(name) for name in WORK if name in parts)
    moved = sum(total(name) for name in MEMORY_TRAFFIC if name in parts)
    note = Assumption("step", phase, "default", "all operators of the step on one device; link bytes are not counted")
    return explanation(
        "arithmetic_intensity",
        flops / moved,
        values,
        unit="FLOP/byte",
        source=_ROOFLINE,
        assumptions=(note,),
        parts=parts.values(),
    )


def _field(symbolic: SymbolicRequest, name: str) -> Callable[[Operator], Expr]:
    return lambda operator: getattr(symbolic.cost(operator), name)


def _machine(symbolic: SymbolicRequest) -> Values:
    hardware = symbolic.request.hardware
    return {symbol("P"): hardware.peak(symbolic.request.precision.activation.name), symbol("beta"): hardware.bandwidth}


def _ridge_point(symbolic: SymbolicRequest, phase: str) -> Explanation:
    """The intensity at which compute and memory take equally long."""
    del phase
    dtype = symbolic.request.precision.activation.name
    note = Assumption("peak_dtype", dtype, "default", "dense matrix peak of the activations' dtype")
    return explanation(
        "ridge_point", ridge_point(), _machine(symbolic), unit="FLOP/byte", source=_ROOFLINE, assumptions=(note,)
    )


def _critical_batch(symbolic: SymbolicRequest, phase: str) -> Explanation:
    """The batch at which the linear operators of a decode step take as long to multiply as their weights to be read."""
    del phase
    hardware, graph = symbolic.request.hardware, symbolic.graph(symbolic.step("decode"), data_parallel_size=1)
    linear = {path: entry for path, entry in graph.items() if isinstance(entry[0], (Gemm, GroupedGemm))}
    rates: dict[float, str] = {}
    for operator, _ in linear.values():
        dtype = matrix_dtype(operator, hardware)
        rates.setdefault(hardware.peak(dtype), dtype)
    peaks = {rate: symbol("P", dtype if len(rates) > 1 else "") for rate, dtype in rates.items()}
    values: Values = {
        **symbolic.values,
        **{rate_symbol: rate for rate, rate_symbol in peaks.items()},
        symbol("beta"): hardware.bandwidth,
    }
    one = {symbol("B"): 1}
    read = symbolic.total(linear, _all_weights)
    compute_time: Expr = sympy.Integer(0)
    for rate, rate_symbol in peaks.items():
        same = {path: entry for path, entry in linear.items() if hardware.peak(matrix_dtype(entry[0], hardware)) == rate}
        compute_time += symbolic.total(same, lambda operator: operator.cost().matrix_flops) / rate_symbol
    short = sympy.cancel(read / symbol("beta") / (compute_time / symbol("B")))
    parts: list[Explanation] = []
    if not short.free_symbols <= {symbol("P"), symbol("beta"), symbol("b_w"), symbol("b_w", "linear")}:
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
    return explanation("critical_batch", expr, values, unit="sequences", source=_SCALING, assumptions=notes, parts=parts)


def _times(number: int, expr: Expr) -> Expr:
    """A product whose number stays in front."""
    return expr if number == 1 else sympy.Mul(number, expr, evaluate=False)


def _all_weights(operator: Operator) -> Expr:
    """Bytes of weights that an operator reads in a large step."""
    # NB: a tied LM head reads weights that another operator holds, so that what is read and not what is held counts.
    if isinstance(operator, GroupedGemm):
        return operator.held_bytes
    return operator.cost().weight_bytes


def _decode_floor(symbolic: SymbolicRequest, phase: str) -> Explanation:
    """The shortest time of a decode step at batch 1: every weight that it needs is read once."""
    del phase
    streamed = symbolic.total(symbolic.graph(decode(1, 0)), lambda operator: operator.cost().weight_bytes)
    source = "derived: what the operators of the step read"
    part = explanation("streamed weights", streamed, symbolic.values, unit="bytes", source=source)
    weights = quantity("W_streamed", r"W_{\mathrm{streamed}}", "bytes", "weights that one decode step of one sequence reads")
    values = {**_machine(symbolic), weights: part.value}
    return explanation("decode_floor", weights / symbol("beta"), values, unit="s", source=_SCALING, parts=(part,))


def _parameters(symbolic: SymbolicRequest, phase: str) -> Explanation:
    """Every parameter of the language model, tied weights once."""
    del phase
    # Of the whole model on one device, whatever the deployment is.
    whole = SymbolicRequest(prepare(symbolic.request.model, _any_hardware()))
    graph = build(whole.symbolic_model.model, Deployment(), whole.precision, CANONICAL)
    source = "derived: the weights that the operators hold"
    blocks = whole.blocks(graph, lambda operator: operator.parameters)
    parts = [explanation(name, expr, whole.values, unit="parameters", source=source) for name, expr in blocks.items()]
    total = sum(blocks.values())
    return explanation("parameters", total, whole.values, unit="parameters", source=source, parts=parts)


QUANTITIES: dict[str, Callable[[SymbolicRequest, str], Explanation]] = {
    "parameters": _parameters,
    "kv_bytes_per_token": kv_bytes_per_token,
    "arithmetic_intensity": _intensity,
    "ridge_point": _ridge_point,
    "critical_batch": _critical_batch,
    "decode_floor": _decode_floor,
    "max_batch": max_batch,
    "max_context": max_context,
    "break_even_link": break_even_link,
}
"""What can be explained beside the operators."""

_NEED_HARDWARE = (
    "ridge_point", "critical_batch", "decode_floor", "max_batch", "max_context", "break_even_link", "speculative_tpot",
    "break_even_acceptance",
)  # fmt: skip
