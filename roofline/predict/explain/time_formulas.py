"""Times of a step and of a request as formulas: the floor, the roofline bound, and the estimate by kernels and by fits.

The bound of a step adds up, over its operators, the time of the resource that each keeps busy longest. By resource that is

    F_compute/P + F_vector/P_v + D_memory/beta + D_link/beta_link

with the FLOP of the operators that are compute-bound, the bytes of those that are memory-bound, and so on: a few terms instead
of one for each operator, and the same number. The values are those of `analyze`, computed by the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isclose

import sympy

from roofline import formatting
from roofline.errors import InputError
from roofline.formulas.symbolic import Values, evaluate, label, quantity, symbol
from roofline.graph.build import Graph, build
from roofline.graph.sharding import Stage, stages
from roofline.numeric import Expr
from roofline.operators.base import Operator
from roofline.predict import assumptions
from roofline.predict.analyze import encoder_of, phase_of
from roofline.predict.bounds import matrix_dtype, times
from roofline.predict.duration import Duration
from roofline.predict.efficiency.estimate import BASIS_TEXTS, Estimator, at_least
from roofline.predict.efficiency.fits import Fitted
from roofline.predict.efficiency.form import Parameter
from roofline.predict.efficiency.kernels import Kernel, kernels
from roofline.predict.explain.explanation import ROOFLINE, Explanation, explanation
from roofline.predict.explain.symbolic_request import ENCODER, SymbolicRequest
from roofline.predict.floor import Floor, graph_floor, stage_floor
from roofline.predict.request import ResolvedRequest
from roofline.predict.timing import (
    decode_contexts,
    encoder,
    pipeline,
    replica,
    stage_bound,
    stage_estimate,
    time_to_first_token,
)
from roofline.specs.hardware import Connection
from roofline.specs.source import Assumption
from roofline.specs.workload import Step, decode

WORDS = ("estimate", "bound", "floor")
"""What a time is given as, and which one a formula without any of these words is of: the first that there is."""
_NEGLIGIBLE = 1e-12
_NAMED = 3
_OUTPUT = quantity("n_out", r"n_{\mathrm{out}}", "tokens", "output tokens per sequence, the first of which prefill generates")
_ENGINE = quantity("t_engine", r"t_{\mathrm{engine}}", "s", "what the engine adds to the kernels of a step")
_HIDDEN = quantity("t_hidden", r"t_{\mathrm{hidden}}", "s", "what two microbatches hide of collectives or of all else")
_OVERLAP = quantity(
    "t_overlap", r"t_{\mathrm{overlap}}", "s", "a second reading of weights, less what two microbatches hide", signed=True
)
_RAISED = quantity("t_raised", r"t_{\mathrm{raised}}", "s", "what the kernels together lack to the bound")


@dataclass(frozen=True)
class _Timed:
    """Steps whose weighted times add up to a time, each on some pipeline stages, and what `analyze` has as that time."""

    request: ResolvedRequest
    steps: Sequence[tuple[float, Step]]
    stages: Sequence[Stage]
    duration: Duration
    about: str
    encoder: Graph = field(default_factory=dict)
    """Operators of the images of the request's prompts, which come before."""

    @cached_property
    def graphs(self) -> list[tuple[float, Step, Stage, Graph]]:
        """The operators of each step and stage, with the weight of the step."""
        request = self.request
        first = [(1, request.workload.prompts, request.memory.stage, self.encoder)] if self.encoder else []
        return first + [
            (weight, step, stage, build(request.model, request.deployment, request.precision, step, stage))
            for weight, step in self.steps
            for stage in self.stages
        ]


def time(symbolic: SymbolicRequest, name: str, word: str = "") -> Explanation:
    """Explain a time of a request or of a step.

    Args:
        symbolic: the request.
        name: "tpot", "ttft", "e2e", "encoder", "prefill", "decode" or "mixed".
        word: "bound", "floor" or "estimate" for one of these alone.

    Returns:
        The estimate, with the bound and the floor as parts; where there is none, the bound with the floor. Seconds.

    Raises:
        InputError: the deployment does not fit, there is no such step, or no estimate.
    """
    _check_fits(symbolic.request)
    if name == "e2e":
        return _choose(name, word, lambda which: _end_to_end(symbolic, which))
    if symbolic.speculation is not None and name in ("ttft", "tpot"):
        from roofline.predict.explain.speculation_formulas import request_time

        speculation = symbolic.speculation
        return _choose(name, word, lambda which: request_time(speculation, name, which))
    if name not in symbolic.timed:
        symbolic.timed[name] = _timed(symbolic, name)
    timed: _Timed = symbolic.timed[name]
    makers: dict[str, Callable[[_Timed, str], Explanation | None]] = {"estimate": _estimate, "bound": _bound, "floor": _floor}
    return _choose(name, word, lambda which: makers[which](timed, f"{name} {which}"))


def _check_fits(request: ResolvedRequest) -> None:
    if not (request.all_fit() or request.ignore_capacity):
        msg = f"{request.model.name} does not fit on {request.hardware.name} like this, so that it has no times: "
        raise InputError(f"{msg}`roofline analyze` says what would fit; --ignore-capacity gives times all the same")


def _choose(name: str, word: str, make: Callable[[str], Explanation | None]) -> Explanation:
    """One field of a time; without a word the first that there is, with the others as its parts."""
    if word:
        if (one := make(word)) is None:
            raise InputError(f"{name} has no estimate here: no kernels were measured. There are its bound and its floor")
        return one
    main, *others = [one for which in WORDS if (one := make(which)) is not None]
    legend = dict.fromkeys(entry for one in (main, *others) for entry in one.legend)
    return replace(main, subject=name, parts=(*main.parts, *others), legend=tuple(legend))


def _timed(symbolic: SymbolicRequest, name: str) -> _Timed:
    """The steps of a time, and its duration as `analyze` has it."""
    request, workload = symbolic.request, symbolic.request.workload
    every = stages(request.model, request.deployment.pipeline_parallel_size)
    if name in ("tpot", "ttft"):
        if workload.segmented:
            raise InputError(f"{name} is of a request, and --segments describes one step: leave it out")
        served = symbolic.served if workload.output_len is not None else None
        if name == "ttft":
            step = workload.prompts
            duration = time_to_first_token(request, step) if served is None else served["ttft_s"]
            seen = f"encoder of {_images(request)}, then " if workload.images else ""
            about = f"time to first token: {seen}prefill of {_prompts(request)}"
            return _Timed(request, [(1, step)], every, duration, about, encoder(request, step))
        if served is None or workload.output_len is None:
            step = decode(workload.batch, workload.context)
            about = f"time per output token: a decode step of {_sequences(request)} after {workload.context:,} cached tokens"
            return _Timed(request, [(1, step)], every, pipeline(request, step), about)
        count = workload.output_len - 1
        if not count:
            raise InputError("tpot: a request with one output token has no further ones")
        points = decode_contexts(workload.input_len, count)
        about = f"time per output token: mean of {formatting.plural(count, 'decode step')} of {_sequences(request)}"
        steps = [(weight, decode(workload.batch, context)) for context, weight in points]
        return _Timed(request, steps, every, served["tpot_s"], about)
    return _timed_step(request, name, every)


def _timed_step(request: ResolvedRequest, name: str, every: Sequence[Stage]) -> _Timed:
    """A step of a request by its name, or the encoder of its images."""
    workload = request.workload
    if name == ENCODER:
        if (made := encoder_of(request)) is None:
            raise InputError("encoder: no prompt has images: give their number per prompt with --images")
        about = f"time of the encoder of {_images(request)}"
        return _Timed(request, [], every[:1], made.time, about, encoder(request, workload.prompts))
    wanted = next(((own, step) for own, step in workload.steps if own == name), None)
    if wanted is None:
        raise InputError(f"{name}: the request has no such step, but {', '.join(step for step, _ in workload.steps)}")
    phase, step = phase_of(request, *wanted), wanted[1]
    about = f"time of the {name} step of {_prompts(request)}" if name == "prefill" else f"time of the {name} step"
    if name == "decode" and not workload.segmented:
        about += f" of {_sequences(request)} after {workload.context:,} cached tokens"
    if len(every) > 1:
        about += ", fullest pipeline stage"
    return _Timed(request, [(1, step)], [request.memory.stage], phase.time, about)


def _sequences(request: ResolvedRequest) -> str:
    return formatting.plural(request.workload.batch, "sequence")


def _images(request: ResolvedRequest) -> str:
    workload = request.workload
    return formatting.plural(workload.images * workload.batch, "image")


def _prompts(request: ResolvedRequest) -> str:
    cached = request.workload.cached_prefix
    hit = f" ({cached:,} of them cached)" if cached else ""
    return f"{_sequences(request)} of {formatting.plural(request.workload.input_len, 'token')}{hit}"


def _end_to_end(symbolic: SymbolicRequest, which: str) -> Explanation | None:
    """TTFT and the further tokens, each at the mean TPOT."""
    request = symbolic.request
    if request.workload.output_len is None:
        raise InputError("e2e is of a request: give the number of its output tokens with --output-len")
    number = request.workload.output_len
    served = symbolic.served
    if (value := getattr(served["e2e_s"], which)) is None:
        return None
    first, further = (_of_request(name, which) for name in ("ttft", "tpot"))
    values: Values = {_OUTPUT: number} | {
        one: getattr(served[key], which) or 0 for one, key in ((first, "ttft_s"), (further, "tpot_s"))
    }
    expr = first + (_OUTPUT - 1) * further if number > 1 else first
    source = "vLLM's serving benchmark: TPOT = (E2E - TTFT)/(output tokens - 1)"
    about = (
        f"from the request to its last token: {_prompts(request)}, {number:,} output tokens; from the {which} of TTFT and TPOT"
    )
    made = explanation(f"e2e {which}", expr, values, unit="s", source=source, about=about, value=value)
    return replace(made, low=served["e2e_s"].low, high=served["e2e_s"].high) if which == "estimate" else made


def _of_request(name: str, which: str) -> sympy.Symbol:
    """The symbol of TTFT or TPOT, of its bound, or of its floor."""
    below = "" if which == "estimate" else f",{which}"
    latex = rf"t_{{\mathrm{{{name}{below}}}}}"
    return quantity(f"t_{name}{below.replace(',', '_')}", latex, "s", f"{name.upper()}, {which}: explain MODEL {name}")


# the bound


_LETTERS = {
    "matrix": ("F", "compute", "FLOP"), "vector": ("F", "vector", "FLOP"), "memory": ("D", "memory", "bytes"),
    "link": ("D", "link", "bytes"),
}  # fmt: skip
_FLOOR_LETTERS = {"matrix": ("F", "matrix", "FLOP"), "memory": ("D", "min", "bytes")}


@dataclass
class _Work:
    """Amounts of work, each with the rate at which it is done."""

    amounts: dict[tuple[str, str, float], float] = field(default_factory=dict)
    """By resource, its name where there are several, and rate."""
    operators: dict[str, set[str]] = field(default_factory=dict)

    def add(self, resource: str, name: str, rate: float, amount: float, path: str = "") -> None:
        """More of a resource's work, of an operator."""
        key = (resource, name, rate)
        self.amounts[key] = self.amounts.get(key, 0.0) + amount
        self.operators.setdefault(resource, set()).add(path)

    def terms(
        self, of: Callable[[str, int], str], letters: Mapping[str, tuple[str, str, str]] = _LETTERS
    ) -> tuple[list[Expr], Values]:
        """The time of each resource in symbols, and their values.

        Args:
            of: what the amount of a resource is, from its name and the number of operators.
            letters: letter, index and unit of the amount of each resource.
        """
        expressions: list[Expr] = []
        values: Values = {}
        several = {resource for resource, *_ in self.amounts if sum(key[0] == resource for key in self.amounts) > 1}
        for number, ((resource, name, rate), amount) in enumerate(self.amounts.items(), 1):
            index = (name if resource == "matrix" else str(number)) if resource in several else ""
            work, speed = _symbols(letters[resource], resource, index, name, of(resource, len(self.operators[resource])))
            expressions.append(work / speed)
            values |= {work: amount, speed: rate}
        return expressions, values


def _symbols(
    letters: tuple[str, str, str], resource: str, index: str, name: str, about: str
) -> tuple[sympy.Symbol, sympy.Symbol]:
    """The symbols of an amount of work and of its rate."""
    letter, word, unit = letters
    below = f"{word},{label(index)}" if index else word
    work = quantity(f"{letter}_{word}{'_' if index else ''}{index}", rf"{letter}_{{\mathrm{{{below}}}}}", unit, about)
    if resource == "matrix":
        return work, symbol("P", index)
    if resource == "memory":
        return work, symbol("beta")
    if resource == "vector":
        return work, quantity("P_v", "P_v", "FLOP/s", "fp32 peak outside the matrix units")
    below = f"link,{index}" if index else "link"
    meaning = f"rate of {name}, one direction"
    return work, quantity(f"β_link{'_' if index else ''}{index}", rf"\beta_{{\mathrm{{{below}}}}}", "bytes/s", meaning)


_BINDS = {"matrix": "compute-bound", "vector": "bound by vector units", "memory": "memory-bound", "link": "link-bound"}


def _of_operators(resource: str, number: int) -> str:
    what = {"matrix": "FLOP", "vector": "FLOP", "memory": "bytes moved", "link": "bytes sent"}[resource]
    return f"{what} by the {formatting.plural(number, _BINDS[resource] + ' operator')}"


def _add_bound(work: _Work, operator: Operator, repeat: Expr, weight: float, path: str, request: ResolvedRequest) -> float:
    """Add what the busiest resource of an operator does, and return its seconds."""
    cost, hardware = operator.cost() * repeat, request.hardware
    resources = times(operator, cost, hardware)
    longest = float(resources.bound)
    if not longest:
        return 0.0
    if resources.memory == longest:
        work.add("memory", "", hardware.bandwidth, weight * cost.bytes, path)
    elif resources.matrix == longest:
        dtype = matrix_dtype(operator, hardware)
        work.add("matrix", dtype, hardware.peak(dtype), weight * cost.matrix_flops, path)
    elif resources.vector == longest:
        work.add("vector", "", hardware.vector_peak or 1.0, weight * cost.vector_flops, path)
    else:
        joined = hardware.to_host() if operator.to_host else hardware.connection(getattr(operator, "span", 2))
        assert joined is not None  # noqa: S101 - it takes time
        name, rate, sent = _slowest_tier(joined, operator, cost.link_bytes)
        work.add("link", name, rate, weight * sent, path)
    return longest


def _slowest_tier(joined: Connection, operator: Operator, sent: float) -> tuple[str, float, float]:
    """Of the links that devices send over, the one that takes longest: its name, rate and bytes."""
    crossing, peers = sent * operator.crossing(joined.together), operator.peers(joined.together)
    inside, across = joined.by_tier(sent, crossing, peers)
    if joined.network is not None and across >= inside:
        return joined.network.name, joined.network.per_direction.value, crossing
    assert joined.inside is not None  # noqa: S101 - it takes time
    return joined.inside.name, joined.within(peers), sent if joined.network is None else sent - crossing


def _bound(timed: _Timed, subject: str) -> Explanation:
    """The operators in sequence, each as long as its busiest resource."""
    request, work, hidden = timed.request, _Work(), 0.0
    for weight, step, _, graph in timed.graphs:
        one_by_one = sum(
            _add_bound(work, operator, repeat, weight, path, request) for path, (operator, repeat) in graph.items()
        )
        if request.deployment.microbatch_overlap:
            hidden += weight * (one_by_one - stage_bound(request, step, graph))
    terms, values = work.terms(_of_operators)
    expr: Expr = sympy.Add(*terms)
    if hidden > _NEGLIGIBLE:
        expr, values = expr - _HIDDEN, {**values, _HIDDEN: hidden}
    about = f"{timed.about}; operators run in sequence, each taking as long as its busiest resource"
    return explanation(subject, expr, values, unit="s", source=ROOFLINE, about=about, value=timed.duration.bound)


def operator_bound(symbolic: SymbolicRequest, path: str, phase: str) -> Explanation:
    """Explain the roofline bound of one operator of a step, all its repeats together, in seconds."""
    request = symbolic.request
    graph = symbolic.graph_in_numbers(phase)
    operator, repeat = graph[path]
    work = _Work()
    value = _add_bound(work, operator, repeat, 1, path, request)
    terms, values = work.terms(lambda resource, _: {"memory": "bytes moved", "link": "bytes sent"}.get(resource, "FLOP"))
    expr = terms[0] if terms else sympy.Integer(0)
    about = f"roofline bound in the {phase} step, all {repeat} repeats: the busiest of compute, memory and link"
    return explanation(f"{path} bound", expr, values, unit="s", source=ROOFLINE, about=about, value=value)


# the floor

_FLOOR_WORDS = {"memory": "minimum bytes read and written", "matrix": "FLOP of matrix products",
                "node": "links inside the node", "network": "links between nodes", "host": "the link to the host"}  # fmt: skip


def _floor(timed: _Timed, subject: str) -> Explanation:
    """The busiest resource of the whole step. Of steps that differ in what that is, each one's."""
    request = timed.request
    floors = [(weight, stage_floor(request, step, stage)) for weight, step in timed.steps for stage in timed.stages]
    if timed.encoder:
        floors.append((1, graph_floor(timed.encoder, request.workload.prompts, request.hardware)))
    winners = {_busiest(floor) for _, floor in floors}
    works: dict[str, _Work] = {}
    seconds: dict[str, float] = {}
    for weight, floor in floors:
        for resource in [*_amounts(floor)] if len(winners) == 1 else [_busiest(floor)]:
            if resource == "memory":
                streamed = floor.weight_bytes + floor.cache_bytes + floor.state_bytes - floor.retained_bytes
                works.setdefault("memory", _Work()).add("memory", "", floor.bandwidth, weight * max(streamed, 0.0))
            elif resource == "matrix":
                for dtype, (flops, peak) in floor.products.items():
                    works.setdefault("matrix", _Work()).add("matrix", dtype, peak, weight * flops)
            else:
                seconds[resource] = seconds.get(resource, 0.0) + weight * floor.link_s[resource]
    expressions: list[Expr] = []
    values: Values = {}
    for work in works.values():
        terms, known = work.terms(lambda name, _: _FLOOR_WORDS[name], _FLOOR_LETTERS)
        expressions.append(sympy.Add(*terms))
        values |= known
    for name, amount in seconds.items():
        link = quantity(f"t_{name}", rf"t_{{\mathrm{{{name}}}}}", "s", f"time of {_FLOOR_WORDS[name]}")
        expressions.append(link)
        values[link] = amount
    expr = expressions[0]
    if len(expressions) > 1:
        expr = sympy.Max(*expressions, evaluate=False) if len(winners) == 1 else sympy.Add(*expressions)
    about = f"{timed.about}; perfect overlap, intermediate results on chip: a lower limit"
    return explanation(subject, expr, values, unit="s", source=ROOFLINE, about=about, value=timed.duration.floor)


def _amounts(floor: Floor) -> dict[str, float]:
    """Seconds of each resource that the step needs."""
    times_of = {"memory": floor.memory_s, "matrix": floor.compute_s, **floor.link_s}
    return {name: float(seconds) for name, seconds in times_of.items() if seconds}


def _busiest(floor: Floor) -> str:
    amounts = _amounts(floor)
    return max(amounts, key=lambda name: amounts[name])


# the estimate


@dataclass
class _Family:
    """Kernels of one fit: their seconds, paths, and the fit."""

    fitted: Fitted | None
    given: bool
    seconds: float = 0.0
    paths: dict[str, None] = field(default_factory=dict)


def _estimate(timed: _Timed, subject: str) -> Explanation | None:
    """The kernels of each fit, and what the engine adds."""
    request, duration = timed.request, timed.duration
    estimator = request.estimator
    if duration.estimate is None:
        return None
    families: dict[str, _Family] = {}
    launched: list[Kernel] = []
    hidden = 0.0
    for weight, step, _, graph in timed.graphs:
        listed = kernels(graph)
        launched += listed
        whole, _parts = stage_estimate(request, step, graph)
        one_by_one = 0.0
        for kernel in listed:
            seconds = float(estimator.seconds(kernel) * kernel.repeat)
            one_by_one += seconds
            fitted = estimator.fitted(kernel)
            family = families.setdefault(_family_name(kernel, fitted), _Family(fitted, estimator.given is not None))
            family.seconds += weight * seconds
            family.paths |= dict.fromkeys(kernel.paths)
        hidden += weight * (one_by_one - (0.0 if whole is None else float(whole.seconds)))
    values: Values = {
        quantity(f"t_{name}", rf"t_{{\mathrm{{{label(name)}}}}}", "s", _of_fit(family)): family.seconds
        for name, family in sorted(families.items(), key=lambda item: -item[1].seconds)
    }
    expr: Expr = sympy.Add(*values)
    added = sum(weight * float(request.engine_seconds(replica(request, step))) for weight, step in timed.steps)
    if added:
        expr, values = expr + _ENGINE, {**values, _ENGINE: added}
    if abs(hidden) > _NEGLIGIBLE:
        expr, values = expr + _OVERLAP, {**values, _OVERLAP: -hidden}
    lacking = duration.estimate - (sum(one.seconds for one in families.values()) + added - hidden)
    if lacking > _NEGLIGIBLE and lacking > 1e-9 * duration.estimate:
        expr, values = expr + _RAISED, {**values, _RAISED: lacking}
    basis = estimator.basis(launched)
    about = f"{timed.about}; {BASIS_TEXTS.get(basis, 'from kernels measured on this accelerator')}"
    fits = [family.fitted for family in families.values() if family.fitted is not None]
    made = explanation(
        subject, expr, values, unit="s", source=_sources(fits) or "given shares of peak and bandwidth", about=about,
        value=duration.estimate, assumptions=assumptions.engine_steps(request.steps, len(timed.stages)) if added else (),
    )  # fmt: skip
    legend = tuple(sorted(made.legend, key=lambda entry: -entry[1]))
    return replace(made, low=duration.low, high=duration.high, legend=legend)


def _family_name(kernel: Kernel, fitted: Fitted | None) -> str:
    """The kind of kernel, and its formats where they are not the usual ones."""
    kind = kernel.op or next(iter(kernel.operators.values())).kind
    formats = [] if fitted is None else [part for part in fitted.key.split("/")[1:] if part != "bf16"]
    return "_".join([kind, *formats]).replace("-", "_")


def _of_fit(family: _Family) -> str:
    """What kernels a fit is of, how good it is, and where it is from, if not from this accelerator's kernels."""
    names = dict.fromkeys(path.rpartition("/")[2] for path in family.paths)
    listed = ", ".join([*names][:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    fitted = family.fitted
    if fitted is None:
        return listed if family.given else f"{listed}; no fit"
    held = fitted.family.held_out
    error = f"; median error {formatting.percent(held.median_ape, 1)}" if held else ""
    elsewhere = "" if fitted.origin in ("fitted", "other backend", "other formats") else f"; {fitted.source}"
    return f"{listed}{error}{elsewhere}"


def _sources(fits: Iterable[Fitted]) -> str:
    """Whose measurements fits are of, and when they were fitted."""
    listed: dict[str, None] = {}
    for fitted in fits:
        if fitted.fit is not None:
            dated = f", fitted {fitted.fit.fitted}"
            if fitted.origin == "prior":
                listed[f"prior: shares of the datasheet that kernels of measured cards reach{dated}"] = None
                continue
            named = [f"{source.title}, {source.url}" if source.url else source.title for source in fitted.fit.sources]
            listed |= dict.fromkeys(f"{one}{dated}" for one in named or [fitted.source])
    return "; ".join(listed)


def kernel_estimate(symbolic: SymbolicRequest, path: str, phase: str) -> Explanation:
    """Explain the estimate of the kernel that an operator of a step is part of, all its calls together, in seconds.

    The formula is that of the fitted form; the legend has its constants, `source` the records that they were fitted to.

    Raises:
        InputError: there are no estimates.
    """
    request = symbolic.request
    estimator, graph = request.estimator, symbolic.graph_in_numbers(phase)
    if not estimator.applies:
        raise InputError(f"{path} has no estimate here: no kernels were measured. There is its bound")
    kernel = next(one for one in kernels(graph) if path in one.paths)
    interval = estimator.step([kernel])[1][kernel.paths]
    if len(kernel.paths) == 1:  # as `analyze` has it, to the last digit
        operator, repeat = graph[path]
        bound = float(times(operator, operator.cost() * repeat, request.hardware).bound)
        interval = at_least(interval, bound, bound)
    terms, fitted = {name: float(value) for name, value in estimator.terms(kernel).items()}, estimator.fitted(kernel)
    at_shares = None if estimator.given is None else _at_shares(kernel, terms["total"], request, estimator.given)
    expr, values = at_shares or _form(kernel, terms, fitted)
    made = explanation(
        f"{path} estimate", expr, values, unit="s", source=_origin(estimator, fitted), value=float(interval.seconds),
        about=_about(estimator, fitted, kernel, phase), assumptions=_notes(estimator, kernel),
    )  # fmt: skip
    constants = () if fitted is None else tuple(map(_constant(fitted), fitted.form.parameters))
    return replace(made, low=float(interval.low), high=float(interval.high), legend=(*made.legend, *constants))


def _constant(fitted: Fitted) -> Callable[[Parameter], tuple[str, float, str]]:
    """Make entries of a legend of the constants of a fit."""

    def entry(one: Parameter) -> tuple[str, float, str]:
        unknown = ", which the records do not determine" if one.name in fitted.family.undetermined else ""
        unit = one.unit.replace("byte", "bytes")
        return one.name, float(fitted.values[one.name]), f"fitted: {one.meaning}{unknown} [{unit}]"

    return entry


_CALLS = quantity("n", "n", "calls", "calls of the kernel: one for each layer that has it")


def _at_shares(
    kernel: Kernel, seconds: float, request: ResolvedRequest, given: tuple[float, float]
) -> tuple[Expr, Values] | None:
    """The slower of matrix units and memory at the shares that the user gave; None where another resource is slower still."""
    if len(kernel.operators) > 1:
        return None
    (operator,) = kernel.operators.values()
    cost, hardware = operator.cost(), request.hardware
    mfu = quantity("mfu", r"e_{\mathrm{mfu}}", "1", "given share of the matrix peak")
    mbu = quantity("mbu", r"e_{\mathrm{mbu}}", "1", "given share of the bandwidth")
    work = quantity("F", "F", "FLOP", "matrix FLOP of one call")
    moved = quantity("D", "D", "bytes", "bytes of one call")
    values: Values = {_CALLS: float(kernel.repeat), moved: cost.bytes, symbol("beta"): hardware.bandwidth, mbu: given[1]}
    expr: Expr = moved / (mbu * symbol("beta"))
    if cost.matrix_flops:
        peak = hardware.peak(matrix_dtype(operator, hardware))
        values |= {work: cost.matrix_flops, symbol("P"): peak, mfu: given[0]}
        expr = sympy.Max(work / (mfu * symbol("P")), expr, evaluate=False)
    return (_CALLS * expr, values) if isclose(evaluate(expr, values), seconds, rel_tol=1e-9) else None


def _form(kernel: Kernel, terms: dict[str, float], fitted: Fitted | None) -> tuple[Expr, Values]:
    """The calls of a kernel, each the sum of its parts; what runs at the same time is one of them."""
    total = terms["total"]
    together = [name for name in (fitted.form.overlapping if fitted else ()) if name in terms]
    adding = {name: value for name, value in terms.items() if name not in ("total", "bound", *together)}
    values: Values = {_CALLS: float(kernel.repeat)}
    expr: Expr = sympy.Integer(0)
    for name, value in adding.items():
        if value:
            one = quantity(f"t_{name}", rf"t_{{\mathrm{{{label(name)}}}}}", "s", _TERMS.get(name, name), signed=value < 0)
            expr, values = expr + one, {**values, one: value}
    rest = total - sum(adding.values())
    if together or not adding:
        listed = " and ".join(f"{name} {formatting.seconds(terms[name])}" for name in together) or "one call"
        at_once = ", at the same time" if len(together) > 1 else ""
        if at_once and rest < max(terms[name] for name in together):
            at_once = "; less, as k is split over more of them"
        if "short" in together:
            ways = [formatting.seconds(terms[name]) for name in ("short", "long")]
            listed, at_once = f"as short messages {ways[0]}, as a pipeline of chunks {ways[1]}", ""
        one = quantity("t_busy", r"t_{\mathrm{busy}}", "s", f"{listed}{at_once}")
        if terms["bound"] < total or rest > 0:
            expr, values = expr + one, {**values, one: rest}
    elif rest > _NEGLIGIBLE:  # the parts are below the bound
        floor = quantity("t_bound", r"t_{\mathrm{bound}}", "s", "roofline bound of one call")
        expr, values = sympy.Max(expr, floor, evaluate=False), {**values, floor: terms["bound"]}
    return _CALLS * expr, values


_TERMS = {
    "launch": "launch of a call, less what hides behind the kernel before", "wait": "wait of a call, whatever its size",
    "quantise": "quantisation of the activations before the product", "beside": "hidden beside the routed experts",
    "blocks": "start and end of thread blocks", "extra": "joining the parts of split keys", "write": "writing keys and values",
    "stream": "activations between the products of the experts", "up_proj": "first product of the experts",
    "down_proj": "second product of the experts", "link": "bytes over the link", "latency": "latency of the messages",
}  # fmt: skip


def _about(estimator: Estimator, fitted: Fitted | None, kernel: Kernel, phase: str) -> str:
    of = f"kernel of the {phase} step" if len(kernel.paths) == 1 else f"one kernel of {len(kernel.paths)} operators ({phase})"
    if estimator.given is not None:
        mfu, mbu = estimator.given
        return f"{of}: at {formatting.percent(mfu)} of the matrix peak and {formatting.percent(mbu)} of the bandwidth, as given"
    if fitted is None:
        return f"{of}: none like it was measured; a launch, then compute, memory and link times in turn"
    return f"{of}; form {fitted.form.name}: {fitted.form.about}"


def _origin(estimator: Estimator, fitted: Fitted | None) -> str:
    """Where a fit is from: card, backend, records, date."""
    if fitted is None or estimator.given is not None:
        return "given shares" if estimator.given is not None else "no measurement"
    family = fitted.family
    records = f"{family.rows:,} records of {formatting.plural(family.shapes, 'shape')}" if family.rows else "no records"
    versions = f" {', '.join(fitted.fit.versions)}" if fitted.fit is not None and fitted.fit.versions else ""
    return f"{fitted.source}{versions}: {records}; {_sources([fitted]) or 'typical values'}"


def _notes(estimator: Estimator, kernel: Kernel) -> list[Assumption]:
    """How good the fit is, and how it is used beyond what it was measured on."""
    return [note for note in assumptions.estimates(estimator, [kernel]) if note.name.startswith("fit")]
