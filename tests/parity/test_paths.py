"""One setting, every path: `analyze`, `compile`, `sweep`, the program of the pages, `simulate` and `op` give the same numbers.

Settings are drawn by `random_settings.py`, with all options that the paths share. FLOP, bytes and bounds agree to 1e-12,
estimates to 1e-9. `ROOFLINE_SETTINGS=2000 pytest tests/parity/test_paths.py` draws 2,000 settings, as `just night` does.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from parity.test_javascript import different, needs_node, run, script
from random_settings import SEED, RandomDeployment, random_deployment
from shared_results import shared

import roofline
from roofline.cost import FIELDS
from roofline.errors import RooflineError
from roofline.graph.build import build
from roofline.operators.base import Operator
from roofline.predict.analyze import Analysis, Phase
from roofline.predict.efficiency.kernels import EXPERTS, Kernel, kernels
from roofline.predict.grid import COLUMNS
from roofline.predict.op import OpResult, op
from roofline.predict.operator_query import CONVENTIONS, operator_queries
from roofline.predict.request import ResolvedRequest, prepare
from roofline.serving.simulation.step_time import StepCosts
from roofline.specs.workload import Step

WORKLOADS = 4
"""Settings of each deployment."""
SETTINGS = int(os.environ.get("ROOFLINE_SETTINGS", "160"))
IN_PART = 160
"""Settings that are drawn together."""
PARTS = range(math.ceil(SETTINGS / IN_PART))
BOUND, ESTIMATE = 1e-12, 1e-9
ESTIMATED = ("estimate", "low", "high")


@dataclass(frozen=True)
class Answered:
    """A deployment with what `analyze` says of each of its workloads."""

    deployment: RandomDeployment
    analyses: tuple[Analysis, ...]

    def __str__(self) -> str:
        return f"{self.deployment}"


@dataclass(frozen=True)
class Part:
    """Settings that are answered; and those drawn in between that are refused, with the message."""

    answered: list[Answered]
    refused: list[tuple[RandomDeployment, dict[str, Any], str]]


def _drawn(number: int) -> Part:
    chance = random.Random(f"{SEED} {number}")  # noqa: S311 - seeded on purpose
    part = Part([], [])
    while len(part.answered) < IN_PART / WORKLOADS:
        one = random_deployment(chance, WORKLOADS)
        analyses = []
        for workload in one.workloads:
            try:
                analyses.append(roofline.analyze(one.model, one.hardware, **one.arguments(workload)))
            except RooflineError as error:
                part.refused.append((one, workload, str(error)))
                break
        else:
            part.answered.append(Answered(one, tuple(analyses)))
    return part


@cache
def drawn(number: int) -> Part:
    """The settings of a part, in every worker of a run the same."""
    return shared(f"paths-{number}", lambda: _drawn(number))


def differ(got: Any, wanted: float | None, tolerance: float) -> bool:
    """Whether two numbers differ by more than a share of them. NaN is what has no number."""
    one = math.nan if got is None else float(got)
    other = math.nan if wanted is None else float(wanted)
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) != math.isnan(other)
    return abs(one - other) > tolerance * max(abs(one), abs(other))


def tolerance(name: str) -> float:
    """Of a column or a key of a result: of estimates and what follows from them, or of bounds and counts."""
    shares = name.endswith(("/mfu", "/mbu"))  # of the peaks, at the estimate
    return ESTIMATE if shares or any(word in name for word in ESTIMATED) else BOUND


def columns_of(analysis: Analysis, phase: Phase) -> dict[str, Any]:
    """The columns of a grid at a point, as `analyze` has them. Without times, those that are none of them."""
    memory = analysis.memory
    values: dict[str, Any] = {
        "flops": phase.cost.flops,
        "bytes": phase.cost.bytes,
        "arithmetic_intensity": phase.cost.flops / phase.cost.bytes,
    }
    if memory.step == phase.name:
        held = memory.weights_bytes + memory.tower_bytes + memory.activation_bytes + memory.reserved_bytes
        values["memory_bytes"] = held + memory.needed_bytes
    if phase.time.bound is None:
        return values
    values |= {f"time_{name}_s": getattr(phase.time, name) for name in ("floor", "bound", "sum", *ESTIMATED)}
    values |= {f"step_{name}_s": getattr(phase.pipeline, name) for name in ("floor", "bound", *ESTIMATED)}
    rates, devices = phase.tokens_per_s, analysis.hardware["devices"]
    for end, rate in (("", rates.bound), ("_estimate", rates.estimate)):
        values[f"tokens_per_s{end}"] = rate
        values[f"tokens_per_s_per_device{end}"] = None if rate is None else rate / devices
    return values | {"bound_by": phase.bound_by}


def compared(got: dict[str, Any], analysis: Analysis, phase: Phase) -> Iterator[str]:
    """What differs between a point of a grid and an analysis."""
    for name, wanted in columns_of(analysis, phase).items():
        if str(got[name]) != wanted if name == "bound_by" else differ(got[name], wanted, tolerance(name)):
            yield f"{name}: {got[name]} and {wanted}"


@pytest.mark.parametrize("number", PARTS)
def test_compiled(number: int) -> None:
    """Arrays of the workloads of a deployment, point by point."""
    for one in drawn(number).answered:
        deployment, workloads = one.deployment, one.deployment.workloads
        points = []
        for phase in deployment.phases:
            step = roofline.compile(deployment.model, deployment.hardware, phase, **deployment.options)
            arrays = step(**deployment.arrays(phase), columns=list(COLUMNS))
            points.append([{name: values[index] for name, values in arrays.items()} for index in range(len(workloads))])
        for index, analysis in enumerate(one.analyses):
            assert all(by_phase[index]["fits"] for by_phase in points) == analysis.memory.fits, one
            for by_phase, phase in zip(points, analysis.phases, strict=True):
                assert list(compared(by_phase[index], analysis, phase)) == [], (one, workloads[index])


@pytest.mark.parametrize("number", PARTS)
def test_sweep(number: int) -> None:
    """A grid that has the workloads of a deployment among its points."""
    for one in drawn(number).answered:
        frame = roofline.sweep(one.deployment.grid(), columns=list(COLUMNS), ignore_capacity=one.deployment.ignore_capacity)
        for workload, analysis in zip(one.deployment.workloads, one.analyses, strict=True):
            fits = []
            for phase in analysis.phases:
                row = one.deployment.row(frame, phase.name, workload)
                fits.append(row["fits"])
                if analysis.memory.fits or one.deployment.ignore_capacity:
                    assert list(compared(row, analysis, phase)) == [], (one, workload)
                elif not row["fits"]:
                    assert all(np.isnan(row[name]) for name in COLUMNS if name.startswith(("time_", "step_", "tokens_")))
            assert all(fits) == analysis.memory.fits, one


@pytest.mark.parametrize("number", PARTS)
def test_refusals(number: int) -> None:
    """What `analyze` refuses, `compile` and `sweep` refuse: at the call, or as a point that has no row."""
    for deployment, workload, why in drawn(number).refused:
        alone = deployment.only(workload)
        assert _compiles(alone) is False, (alone, why)
        try:
            frame = roofline.sweep(alone.grid(), columns=["fits"])
        except RooflineError:
            continue
        assert frame.attrs["refused"], (alone, why)


def _compiles(deployment: RandomDeployment) -> bool:
    """Whether `compile` answers in every phase."""
    try:
        for phase in deployment.phases:
            arrays = deployment.arrays(phase)
            roofline.compile(deployment.model, deployment.hardware, phase, **deployment.options)(**arrays)
    except RooflineError:
        return False
    return True


@needs_node
@pytest.mark.parametrize("number", PARTS)
def test_javascript(number: int, tmp_path: Path) -> None:
    """Every number, text and refusal of `analyze --json`, with options as the controls of a page give them."""
    part = drawn(number)
    cases: list[tuple[str, str, dict[str, Any], Any]] = []
    for one in part.answered:
        of_page = one.deployment.of_page()
        for workload, analysis in zip(one.deployment.workloads, one.analyses, strict=True):
            same = of_page.options == one.deployment.options
            cases.append(
                (
                    of_page.model,
                    of_page.hardware,
                    of_page.arguments(workload),
                    _plain(of_page, workload, analysis if same else None),
                )
            )
    cases += [
        (one.model, one.hardware, one.arguments(workload), _plain(one, workload))
        for one, workload, _ in part.refused
        for one in [one.of_page()]
    ]
    source, data = script()
    evaluate = """(() => {
      library.fill(data.specs);
      return data.cases.map(([model, hardware, options]) => {
        try { return plain(program.run(program.prepare(model, hardware, $.dict(Object.entries(options)))).to_dict()); }
        catch (error) { return { error: error.message, stack: error.stack }; }
      });
    })()"""
    found = run(tmp_path, source, evaluate, {"specs": data, "cases": [case[:3] for case in cases]})
    for (*case, wanted), got in zip(cases, found, strict=True):
        if isinstance(wanted, str):
            assert _cause(got.get("error", "")) == _cause(wanted), case
            continue
        assert "error" not in got, (case, got)
        del got["inputs"], wanted["inputs"]  # which file it was, with its hash
        assert list(different(wanted, got, tolerance=tolerance)) == [], case


def _cause(message: str) -> str:
    """A message without names that were meant: names cannot be misspelt on a page."""
    return re.split(r"\. (?:Did you mean|Known:)", message)[0]


def _plain(deployment: RandomDeployment, workload: dict[str, Any], analysis: Analysis | None = None) -> Any:
    """What Python answers as plain data, or why it refuses."""
    try:
        found = analysis or roofline.analyze(deployment.model, deployment.hardware, **deployment.arguments(workload))
    except RooflineError as error:
        return str(error)
    return json.loads(found.to_json())


EXACT = 16_000
"""Prompt tokens up to which the simulator has an entry for each number; beyond, and of contexts, there are straight lines."""
LINES = 0.01
"""Between their ends, as a share of a step."""


@pytest.mark.parametrize("number", PARTS)
def test_one_request(number: int) -> None:
    """Of one request on each rank: TTFT is the prefill step of `analyze`, and the second token comes a decode step later.

    The formulas that the simulator tabulates are compared at both steps, the tables where they have an entry. A simulated
    server launches kernels of prompts one by one, and takes no less than that.
    """
    answered: Counter[str] = Counter()
    for one in drawn(number).answered:
        options = one.deployment.served()
        ranks, length = options.get("dp", 1), one.deployment.workloads[0]["input_len"]
        where = (one.deployment.model, one.deployment.hardware)
        try:
            request = prepare(*where, **options, batch=ranks, input_len=length)
            simulated = {
                basis: roofline.simulate(
                    *where, workload=f"at-once:{ranks}", input_len=length, output_len=2, basis=basis, **options
                )
                for basis in ("bound", "estimate")
            }
        except RooflineError:
            continue  # of one step (a shared prefix), or not simulated (microbatches that overlap)
        analysis = roofline.analyze(*where, **options, batch=ranks, input_len=length)
        if not analysis.memory.fits:  # a server that loads the weights refuses the request
            assert all(not result.fits or result.requests.completed == 0 for result in simulated.values()), one
            continue
        assert all(result.requests.completed == ranks for result in simulated.values()), one
        for basis, result in simulated.items():
            limit = BOUND if basis == "bound" else ESTIMATE
            steps = [getattr(phase.pipeline, basis) for phase in analysis.phases]
            if None in steps:
                continue  # nothing was measured
            for (_, step), wanted in zip(request.workload.steps, steps, strict=True):
                assert not differ(_formula(request, step, basis), wanted, limit), (one, basis, step)
            prefill, decode = steps
            if basis == "estimate" and request.deployment.pipeline_parallel_size == 1:
                prefill = max(prefill, request.eager_seconds)
            ttft, itl = result.ttft_s.mean, result.itl_s.mean
            assert not differ(ttft, prefill, limit if length < EXACT else LINES), (one, basis, ttft, prefill)
            assert not differ(itl, decode, LINES), (one, basis, itl, decode)
            answered[basis] += 1
    assert all(answered[basis] > IN_PART / WORKLOADS / 5 for basis in ("bound", "estimate")), answered


def _formula(request: ResolvedRequest, step: Step, basis: Any) -> float:
    """Seconds of a step by the formulas of the simulator's tables, through all stages, with what the engine adds."""
    kernels = float(sum(np.sum(seconds) for seconds in StepCosts(request, basis).totals(step, basis)))
    if basis == "bound":
        return kernels
    ranks = request.deployment.data_parallel_size
    return kernels + float(request.engine_seconds(math.ceil(sum(segment.count for segment in step) / ranks)))


UNASKED = ("borrowed", "routing", "copies", "prefix_reads", "stride", "span", "held", "stored")
"""Fields of an operator that are its model's or its deployment's affair, for which `op` takes the default."""
OF_KERNELS = ("peak_flops", "bandwidth", "link_bandwidth", "allreduce_bandwidth", "mfu", "mbu", "engine", "backend")
"""Options of a deployment that `op` takes as they are."""


@pytest.mark.parametrize("number", PARTS)
def test_operators_one_by_one(number: int) -> None:
    """Each kernel of a step by `op`: FLOP, bytes, bound, and the estimate in a step; together they are that of `analyze`."""
    asked: Counter[bool] = Counter()
    results: dict[str, OpResult] = {}
    for one in drawn(number).answered:
        deployment, workload = one.deployment, one.deployment.workloads[0]
        request = prepare(deployment.model, deployment.hardware, **deployment.arguments(workload))
        for (_, step), phase in zip(request.workload.steps, one.analyses[0].phases, strict=True):
            bound, parts = 0.0, {operator.path: operator for operator in phase.operators}
            for kernel in kernels(build(request.model, request.deployment, request.precision, step, request.memory.stage)):
                arguments = _question(kernel, deployment.options)
                asked[arguments is not None] += 1
                if arguments is None:
                    bound += sum(parts[path].times.bound for path in kernel.paths)
                    continue
                key = f"{deployment.hardware} {arguments}"
                if key not in results:
                    results[key] = op(arguments[0], hardware=deployment.hardware, **arguments[1])
                result = results[key]
                bound += result.time.bound * kernel.repeat
                costs = [operator.cost() for operator in kernel.operators.values()]
                for name in FIELDS:
                    wanted = sum(getattr(cost, name) for cost in costs)
                    assert not differ(getattr(result.cost, name), wanted, BOUND), (one, kernel, name)
                least = sum(parts[path].times.bound for path in kernel.paths) / kernel.repeat
                assert not differ(result.time.bound, least, BOUND), (one, kernel)
                if request.estimator.applies and not kernel.beside:  # shared experts run beside the routed ones in a step
                    estimate = request.estimator.interval(kernel)
                    for end, value in (("estimate", estimate.seconds), ("low", estimate.low), ("high", estimate.high)):
                        assert not differ(getattr(result.in_step, end), max(value, least), ESTIMATE), (one, kernel, end)
            if not request.deployment.microbatch_overlap and phase.time.bound is not None:
                assert not differ(bound, phase.time.bound, BOUND), one
    assert asked[True] > 0.7 * asked.total(), asked


def _question(  # noqa: C901 - each thing to say, once
    kernel: Kernel, options: dict[str, Any]
) -> tuple[str, dict[str, Any]] | None:
    """The operator and the arguments of `op` for a kernel; None where it has something for which `op` has no word."""
    given: dict[str, Any] = {name: value for name, value in options.items() if name in OF_KERNELS}
    first = next(iter(kernel.operators.values()))
    dtypes = first.dtypes
    given["kv_cache_dtype"] = dtypes.kv.name
    if dtypes.weight.multiply in (None, dtypes.activation.name):
        given["activation_dtype"] = dtypes.activation.name  # with it weights are multiplied in no other
    if "bits_per_weight" in options and first.parameters:
        given["bits_per_weight"] = options["bits_per_weight"]
    elif dtypes.weight.metadata:
        if "quantization" not in options:
            return None  # the checkpoint's own
        given |= {"quantization": options["quantization"], "dtype": options.get("dtype", dtypes.activation.name)}
    else:
        given["dtype"] = dtypes.weight.name if first.cost().weight_bytes else dtypes.activation.name
    if kernel.op == EXPERTS:
        named = _experts(kernel)
        return None if named is None else ("experts", given | named)
    query = operator_queries()[first.kind]
    if any(_special(first, field) for field in fields(first)) or dtypes.activation.name == "int8":
        return None  # int8: keys and values that are sent as they are cached
    given["mamba_ssm_cache_dtype"] = dtypes.state.name
    for entry in query.dimensions:
        if entry.name == "kv_len":
            given["kv_len"] = first.cached + first.new
        elif entry.name != "context":
            given[entry.name] = getattr(first, entry.field or entry.name)
        if entry.kind == "bytes" and entry.field == "elements":
            given[entry.name] *= dtypes.activation.bytes
        value = given.get(entry.name)
        if entry.kind in ("count", "bytes") and value is not None and (value != int(value) or value < entry.minimum):
            return None  # a mean over devices, or nothing at all
    for option in query.conventions:
        value = getattr(first, CONVENTIONS[option])
        given[option] = {"attention": "eager" if value else "fused", "mla": "absorb" if value else "expand"}.get(option, value)
    return first.kind, given


def _special(operator: Operator, field: Any) -> bool:
    """Whether a field of an operator has a value that cannot be asked for."""
    value = getattr(operator, field.name)
    if field.name in ("decode", "recurrent"):
        return bool(value != (operator.new == 1 and operator.cached > 0))
    if field.name == "stored" and not operator.dtypes.weight.metadata:
        return False  # pieces of a matrix have scales of their own
    return field.name in UNASKED and value != field.default


def _experts(kernel: Kernel) -> dict[str, Any] | None:
    """The dimensions of the experts' kernel."""
    up, down, combine = (kernel.operators[name] for name in ("up_proj", "down_proj", "combine"))
    ranks = up.slots / up.held
    if up.redundant or up.imbalance != 1 or up.bias or combine.scales or combine.tokens != up.tokens:
        return None
    if (ranks > 1 and combine.terms == up.top_k) or up.dtypes != down.dtypes or up.tokens != int(up.tokens):
        return None
    return {
        "tokens": up.tokens, "experts": up.experts, "top_k": up.top_k, "hidden": up.k, "intermediate": down.k,
        "ep": int(ranks), "gated": kernel.operators["activation"].gated, "routing_skew": up.skew,
    }  # fmt: skip
