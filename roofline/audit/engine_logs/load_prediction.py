"""Times and rates of a server under a load, from its model and hardware: an estimate in closed form, not a simulation.

A replica has C requests in flight. TPOT is that of `roofline.serving.queueing.closed_loop`. A prompt that arrives waits for
half of a step, and for other prompts as in a queue with one server and service of one length, and is then computed together
with the tokens of the others:

    TTFT(C) = TPOT(C)/2 + rho t_p / (2 (1 - rho)) + t_mixed(C) + (chunks - 1) t_decode(C)

with t_p = t_mixed - t_decode what a prompt adds, and rho = arrivals x t_p. A request takes E2E(C) = TTFT + (n - 1) TPOT, and
Little's law, throughput = C / E2E(C), gives what is not known of the three:

* a limit on the requests in flight, and no rate: C is the limit, and the first C prompts come at once. Later ones come one by
  one; the high end of the band has them come at once for ever, as where all outputs have one length;
* a rate: C is where the throughput is the rate, of the estimate and of the bound each for itself;
  where no C that memory and the engine allow is enough, the server is saturated,
  C is the most, and the queue grows by what arrives more than is served;
* neither: all prompts are there from the start, and C is the most.

The bound of TPOT has decode steps alone, and that of TTFT its own prompt: prompts may be computed together, in steps that a
request does not see. Those of E2E and of rates have the prompts of all: no server has computed a prompt in no time.

With speculative decoding a step is a round, and TPOT is that of a round over its tokens; prompts pass the draft too.

NB: lengths are their means, so that there are no stragglers, and nothing is preempted. A run ends with slots that are empty:
throughput is that of the middle, and the low end of its band has the time of one more output.

Source: Little 1961, doi:10.1287/opre.9.3.383; the mean wait: Pollaczek and Khinchine, in Kleinrock 1975, Queueing Systems I,
section 5.6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from roofline.audit.engine_logs.bench_result import Load
from roofline.errors import InputError
from roofline.formatting import plural
from roofline.predict.duration import ZERO_TIME, Duration
from roofline.predict.request import ResolvedRequest
from roofline.predict.speculation import Speculation
from roofline.predict.timing import pipeline
from roofline.serving.queueing.closed_loop import ClosedLoop
from roofline.serving.queueing.replica import step_seconds
from roofline.specs.workload import Segment, decode, prefill

KINDS = ("bound", "estimate", "low", "high")
_MAX_UTILIZATION = 0.95
"""Of a server by prompts: the queue's formula has a pole at 1."""


@dataclass(frozen=True, slots=True)
class LoadPrediction:
    """Predicted latencies and rates of a server under a load. Means; intervals where kernels were measured.

    Attributes:
        description: how the load was modelled, in words.
        saturated: whether requests arrive faster than they are served.
        concurrency: number of running requests in the whole deployment; not always whole.
        ttft: seconds, the time in the queue included.
        tpot: seconds per output token after the first.
        e2e: seconds of a whole request.
        requests_per_s: requests/s; `low` and `high` are ends of the rate, not of the time.
        capacity: upper bound on requests/s, whatever the arrival rate.
    """

    description: str
    saturated: bool
    concurrency: float
    ttft: Duration
    tpot: Duration
    e2e: Duration
    requests_per_s: Duration
    capacity: float = math.inf


@dataclass(frozen=True)
class LoadPredictor:
    """Predicts latencies and rates of a deployment under a load.

    Attributes:
        loop: the compiled deployment.
        load: the requests.
        tokens: capacity of the KV cache of all replicas together, in tokens.
        sequences: maximum number of running sequences per replica (`max_num_seqs`).
    """

    loop: ClosedLoop
    load: Load
    tokens: float
    sequences: int
    speculation: Speculation | None = None
    """Speculative decoding of the deployment: then a step is a round, of the draft and its verification."""

    @property
    def request(self) -> ResolvedRequest:
        """The resolved deployment."""
        return self.loop.steps.request

    @cached_property
    def max_running(self) -> float:
        """Maximum number of running requests, of the whole deployment; not always whole.

        The least of `max_num_seqs` on all replicas, of what the cache holds with outputs half done, and of the load itself.

        Raises:
            InputError: the cache holds not one request.
        """
        if self.tokens <= 0:
            name, card = self.request.model.name, self.request.hardware.accelerator.name
            raise InputError(f"{name} leaves no memory for a cache on {card}: no time can be predicted")
        if self.tokens < self.load.input_len + self.load.output_len:
            raise InputError(
                f"a request of {self.load.input_len:,.0f} + {self.load.output_len:,.0f} tokens does not fit into a cache "
                f"of {self.tokens:,.0f}: no time can be predicted"
            )
        held = self.tokens / (self.load.input_len + self.load.output_len / 2)
        return float(min(self.sequences * self.request.deployment.data_parallel_size, held, self.load.requests))

    @property
    def limited_by(self) -> str:
        """What sets `max_running`: `the number of requests`, `max_num_seqs` or `the cache`."""
        if self.load.requests <= self.max_running:
            return "the number of requests"
        return (
            "max_num_seqs" if self.sequences * self.request.deployment.data_parallel_size <= self.max_running else "the cache"
        )

    def predict(self) -> LoadPrediction:
        """Latencies and rates of the load: a closed loop, arrivals at a rate, or all requests at once.

        Raises:
            InputError: the cache holds not one request.
        """
        limit = float(self.load.concurrency or math.inf)
        running = min(self.max_running, limit)
        capacity = running / self._at(running).times["e2e", "bound"]
        return replace(self._bounded(self._taken(running, limit), running), capacity=capacity)

    def _bounded(self, prediction: LoadPrediction, running: float) -> LoadPrediction:
        """At a rate the bounds are of the requests that are in flight where each takes no longer than its bound.

        Those that the estimate has in flight are more, and their bound is beaten by a server that is faster than the estimate.
        The mean over the run has the time in it in which the last ones end: C = E2E / (1/rate + E2E / requests).
        """
        load = self.load

        def wanted(count: float) -> float:
            whole = self._at(count).times["e2e", "bound"]
            return whole / (1 / load.rate + whole / load.requests)

        if math.isinf(load.rate) or wanted(running) >= running:
            return prediction
        low, high = 0.0, running
        for _ in range(20):
            middle = (low + high) / 2
            low, high = (middle, high) if wanted(middle) > middle else (low, middle)
        least = self._at(low).times
        times = {name: replace(getattr(prediction, name), bound=least[name, "bound"]) for name in ("ttft", "tpot", "e2e")}
        return replace(prediction, **times)

    def _taken(self, running: float, limit: float) -> LoadPrediction:
        load = self.load
        if math.isinf(load.rate):
            return self._closed(running, limit)
        full = self._at(running)
        if load.rate < 1 / full.seconds(running):
            return self._open(running)
        if limit <= self.max_running:
            return replace(
                self._closed(running, limit),
                description=f"closed loop of {limit:,.0f}: the rate is more than they take",
                saturated=True,
            )
        return self._saturated(running)

    def _closed(self, running: float, limit: float) -> LoadPrediction:
        """At most `running` requests at a time; the rest waits for them, at the client (`limit`) or at the server."""
        load, first = self.load, self._at(running)
        start = self._burst(running)
        waiting = load.requests - running
        if limit <= running:
            way = f"closed loop of {limit:,.0f}"
            queue = 0.0
        elif not waiting:
            way = "all at once, and none waits for another to end"
            queue = 0.0
        elif math.isinf(limit):
            way = f"all at once: {running:,.0f} run at a time, as {self.limited_by} allows; the others wait at the server"
            queue = waiting / 2
        else:
            way = f"{limit:,.0f} in flight, of which {running:,.0f} run, as {self.limited_by} allows"
            queue = limit - running
        share = running / load.requests

        def ttft(kind: str) -> float | None:
            later, early = first.value("ttft", kind), start.get(kind)
            if later is None or early is None:
                return None
            if kind == "high":  # answers of one length end together, so that every wave of prompts comes at once
                later = max(later, early)
            turn = (first.value("e2e", kind) or 0.0) / running
            return share * early + (1 - share) * (later + queue * turn)

        return self._prediction(way, running, first, ttft, saturated=bool(queue))

    def _open(self, running: float) -> LoadPrediction:
        """As many in flight as the rate needs, found by halving."""
        load, low, high = self.load, 0.0, running
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if 1 / self._at(middle).seconds(middle) < load.rate else (low, middle)
        point = self._at(high)
        prediction = self._prediction(
            f"{plural(load.rate, 'request')} per second, {high:,.1f} in flight",
            high,
            point,
            lambda kind: point.value("ttft", kind),
        )
        # the last ones are still in flight when the arrivals end
        times = {kind: load.requests / (load.requests / load.rate + (point.value("e2e", kind) or 0.0)) for kind in KINDS}
        return replace(prediction, requests_per_s=_rates(times, point.known))

    def _saturated(self, running: float) -> LoadPrediction:
        """More arrive than are served: each waits for those before it."""
        load, point = self.load, self._at(running)

        def ttft(kind: str) -> float | None:
            first, whole = point.value("ttft", kind), point.value("e2e", kind)
            if first is None or whole is None:
                return None
            return first + max(load.requests - running, 0) / 2 * max(whole / running - 1 / load.rate, 0.0)

        arriving = plural(load.rate, "request")
        way = f"saturated at {arriving} per second: {running:,.0f} at a time, as {self.limited_by} allows"
        return self._prediction(way, running, point, ttft, saturated=True)

    def _prediction(
        self, way: str, running: float, point: _Point, ttft: Callable[[str], float | None], *, saturated: bool = False
    ) -> LoadPrediction:
        first = {kind: ttft(kind) if point.value("ttft", kind) is not None else None for kind in KINDS}
        rest = {kind: point.value("tpot", kind) for kind in KINDS}
        later = max(self.load.output_len - 1, 0.0)
        slots = {kind: point.value("e2e", kind) for kind in KINDS}
        whole = {kind: _sum(first[kind], later, rest[kind]) for kind in KINDS}
        least = (first["bound"] or 0.0) + point.times["e2e", "bound"] - point.times["ttft", "bound"]
        whole = {kind: None if span is None else max(span, least) for kind, span in whole.items()}
        # a queue at the server is in TTFT, and not in what a slot is taken for
        # and when no prompt is left slots run empty: at the low end of the rate (the high one of times) for the time of one
        # more request
        turns = {kind: self.load.requests / running + (kind == "high") for kind in KINDS}
        rates = {kind: None if slot is None else self.load.requests / (turns[kind] * slot) for kind, slot in slots.items()}
        return LoadPrediction(way, saturated, running, _span(first), _span(rest), _span(whole), _rates(rates, point.known))

    def _burst(self, running: float) -> dict[str, float | None]:
        """Mean TTFT of the first prompts, which come at once: as many whole ones in a step as its budget of tokens has."""
        request, load = self.request, self.load
        replicas = request.deployment.data_parallel_size
        a_replica = max(running / replicas, 1.0)
        length = max(round(load.input_len), 1)
        together = max(min(request.memory.max_num_batched_tokens // length, math.floor(a_replica)), 1)
        steps = math.ceil(a_replica / together)
        prompts = prefill(together * replicas, length)
        took = pipeline(request, prompts) if self.speculation is None else self.speculation.prefill(prompts)
        # of `steps` steps the mean ends after half of them, and half of one
        return {kind: None if (time := getattr(took, kind)) is None else time * (steps + 1) / 2 for kind in KINDS}

    def _at(self, running: float) -> _Point:
        """TTFT, TPOT and E2E with `running` requests in flight."""
        load, request = self.load, self.request
        replicas = request.deployment.data_parallel_size
        prompt = max(round(load.input_len), 1)
        count = max(running, float(replicas))
        tpots = {name: float(value) for name, value in self.loop.tpot(count, prompt, max(load.output_len, 1.0)).items()}
        middle = prompt + int(max(load.output_len - 2, 0) / 2)
        decoding = Segment(count, 1, middle, decode=True)
        chunks = math.ceil(prompt / request.memory.max_num_batched_tokens)
        alone = self._step((decoding,), count / replicas)
        mixed = self._step((decoding, Segment(replicas, prompt, 0)), count / replicas)
        band = self._band(max(round(count), 1), middle)
        draft = self._draft(max(round(count), 1), middle, prompt)
        known, later = not math.isnan(tpots["estimate"]), max(load.output_len - 1, 0.0)
        values: dict[tuple[str, str], float] = {}
        for kind in ("bound", "estimate"):
            if math.isnan(tpots[kind]):
                continue
            drafting, saved, prompt_drafted = draft[kind]
            adds = max(mixed[kind] - alone[kind], 0.0) + prompt_drafted
            computed = chunks * (alone[kind] + drafting) + adds
            turn, tpot = tpots[kind] + drafting, tpots[kind] - saved
            slot = computed + turn / 2 + later * tpot
            utilization = min(count / replicas / slot * adds, _MAX_UTILIZATION)
            waits = 0.0 if kind == "bound" else turn / 2 + utilization / (2 * (1 - utilization)) * adds
            ttft = computed + waits
            values |= {("ttft", kind): ttft, ("tpot", kind): tpot, ("e2e", kind): ttft + later * tpot}
            if kind == "estimate":
                values["ttft", "low"] = computed  # a prompt that comes when a step ends waits for nothing
        if known:
            for kind, factor in zip(("low", "high"), band, strict=True):
                # no run is faster than the hardware, whatever the band says
                first = max(values.get(("ttft", kind), values["ttft", "estimate"]) * factor, values["ttft", "bound"])
                rest = max(values["tpot", "estimate"] * factor, values["tpot", "bound"])
                values |= {("ttft", kind): first, ("tpot", kind): rest, ("e2e", kind): first + later * rest}
        # prompts that no request sees in its TPOT take their time all the same
        least = values["ttft", "bound"] + later * (tpots["shared_bound"] - draft["bound"][1])
        values |= {("e2e", kind): max(values["e2e", kind], least) for kind in KINDS if ("e2e", kind) in values}
        return _Point(values, known)

    def _draft(self, running: int, context: int, prompt: int) -> dict[str, tuple[float, float, float]]:
        """By bound and estimate: what a round takes more than a decode step, what it saves per token, what a prompt takes
        in the draft. All are 0 without speculative decoding."""
        drafted = dict.fromkeys(("bound", "estimate"), (0.0, 0.0, 0.0))
        if (speculation := self.speculation) is None:
            return drafted
        plain, whole = speculation.plain(running, context), speculation.round(running, context)
        first = prefill(self.request.deployment.data_parallel_size, prompt)
        of_prompt = ZERO_TIME if speculation.draft.step is None else speculation.draft.step(first)
        for kind in drafted:
            took, before, read = getattr(whole, kind), getattr(plain, kind), getattr(of_prompt, kind)
            if None not in (took, before, read):
                drafted[kind] = took - before, before - took / speculation.tokens, read
        return drafted

    def _step(self, step: tuple[Segment, ...], sequences: float) -> dict[str, float]:
        """Seconds of a step at the bound, and as an engine takes it."""
        return {name: float(time) for name, time in step_seconds(self.loop.steps, step, sequences).items()}

    def _band(self, running: int, context: int) -> tuple[float, float]:
        """How far a step may be off, as factors: the wider of the kernels' and the engine's."""
        took = pipeline(self.request, decode(running, context))
        if not took.estimate or took.low is None or took.high is None:
            return 1.0, 1.0
        low, high = self.request.engine_band
        return min(low, took.low / took.estimate), max(high, took.high / took.estimate)


@dataclass(frozen=True, slots=True)
class _Point:
    """Times at one number of requests in flight, by name and kind."""

    times: dict[tuple[str, str], float]
    known: bool

    def value(self, name: str, kind: str) -> float | None:
        return self.times.get((name, kind))

    def seconds(self, running: float) -> float:
        """Seconds from the end of one request to that of the next: of the estimate, else of the bound."""
        return (self.value("e2e", "estimate") or self.times["e2e", "bound"]) / running


def _sum(first: float | None, often: float, later: float | None) -> float | None:
    """One time and `often` times another."""
    return None if first is None or later is None else first + often * later


def _span(values: dict[str, float | None]) -> Duration:
    return Duration(values["bound"], None, values["estimate"], values["low"], values["high"])


def _rates(values: dict[str, float | None] | dict[str, float], known: bool) -> Duration:
    """Rates, whose low end comes from the high end of times."""
    if not known:
        return Duration(values["bound"], None)
    return Duration(values["bound"], None, values["estimate"], values["high"], values["low"])
