"""Times of a server under a load, from its model and hardware: an estimate in closed form, not a simulation.

A replica has C requests under way. TPOT is that of `roofline.serving.queueing.closed_loop`. A prompt that arrives waits for
half of a step, and for other prompts as in a queue with one server and service of one length, and is then computed together
with the tokens of the others:

    TTFT(C) = TPOT(C)/2 + rho t_p / (2 (1 - rho)) + t_mixed(C) + (chunks - 1) t_decode(C)

with t_p = t_mixed - t_decode what a prompt adds, and rho = arrivals x t_p. A request takes E2E(C) = TTFT + (n - 1) TPOT, and
Little's law, throughput = C / E2E(C), gives what is not known of the three:

* a limit on the requests under way, and no rate: C is the limit, and the first C prompts come at once. Later ones come one by
  one; the high end of the band has them come at once for ever, as where all answers have one length;
* a rate: C is where the throughput is the rate, of the estimate and of the bound each for itself;
  where no C that memory and the engine allow is enough, the server is saturated,
  C is the most, and what waits grows by what arrives more than is served;
* neither: all prompts are there from the start, and C is the most.

NB: lengths are their means, so that there are no stragglers, and nothing is preempted. A run ends with slots that are empty:
throughput is that of the middle, and the low end of its band has one answer's time more.

Source: Little 1961, doi:10.1287/opre.9.3.383; the mean wait: Pollaczek and Khinchine, in Kleinrock 1975, Queueing Systems I,
section 5.6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from roofline.audit.engine_logs.benches import Load
from roofline.errors import InputError
from roofline.formatting import plural
from roofline.predict.duration import Duration
from roofline.predict.request import Request
from roofline.predict.timing import pipeline
from roofline.serving.queueing.closed_loop import ClosedLoop
from roofline.serving.queueing.replica import step_seconds
from roofline.specs.workload import Segment, decode, prefill

KINDS = ("bound", "estimate", "low", "high")
_BUSY = 0.95
"""The most that prompts are taken to fill of a server: the queue's formula has a pole at 1."""


@dataclass(frozen=True, slots=True)
class Served:
    """What a load comes to. Times in seconds, each with its band where kernels were measured; `ttft` with its queue."""

    way: str
    """How the load was taken, in a sentence."""
    saturated: bool
    concurrency: float
    ttft: Duration
    tpot: Duration
    e2e: Duration
    requests_per_s: Duration
    """NB: `low` and `high` are of the rate, so that they stand on the high and low of the times."""
    capacity: float = math.inf
    """Requests a second that no kernel beats, however many arrive."""


@dataclass(frozen=True)
class Server:
    """A deployment that a load is put on. `tokens` is the cache of all replicas; `sequences` the most that run at a time."""

    loop: ClosedLoop
    load: Load
    tokens: float
    sequences: int

    @property
    def request(self) -> Request:
        """The deployment."""
        return self.loop.steps.request

    @cached_property
    def most(self) -> float:
        """Requests that run at a time: as the engine allows, and as many as the cache holds half way through an answer.

        Raises:
            InputError: not one request fits.
        """
        if self.tokens <= 0:
            name, card = self.request.model.name, self.request.hardware.accelerator.name
            raise InputError(f"{name} leaves no room for a cache on {card}: no time can be predicted")
        if self.tokens < self.load.input_len + self.load.output_len:
            raise InputError(
                f"a request of {self.load.input_len:,.0f} + {self.load.output_len:,.0f} tokens does not fit into a cache "
                f"of {self.tokens:,.0f}: no time can be predicted"
            )
        held = self.tokens / (self.load.input_len + self.load.output_len / 2)
        return float(min(self.sequences * self.request.deployment.data_parallel_size, held, self.load.requests))

    @property
    def held_by(self) -> str:
        """What limits the requests that run at a time."""
        if self.load.requests <= self.most:
            return "the number of requests"
        return "max_num_seqs" if self.sequences * self.request.deployment.data_parallel_size <= self.most else "the cache"

    def served(self) -> Served:
        """The load's times and rates, by which kind of load it is."""
        limit = float(self.load.concurrency or math.inf)
        running = min(self.most, limit)
        capacity = running / self._at(running).times["e2e", "bound"]
        return replace(self._bounded(self._taken(running, limit), running), capacity=capacity)

    def _bounded(self, found: Served, running: float) -> Served:
        """At a rate the bounds are of the requests that are under way where each takes no longer than its bound.

        Those that the estimate has under way are more, and their bound is beaten by a server that is faster than the estimate.
        The mean over the run has the time in it in which the last ones end: C = E2E / (1/rate + E2E / requests).
        """
        load = self.load

        def wanted(many: float) -> float:
            whole = self._at(many).times["e2e", "bound"]
            return whole / (1 / load.rate + whole / load.requests)

        if math.isinf(load.rate) or wanted(running) >= running:
            return found
        low, high = 0.0, running
        for _ in range(20):
            middle = (low + high) / 2
            low, high = (middle, high) if wanted(middle) > middle else (low, middle)
        least = self._at(low).times
        times = {name: replace(getattr(found, name), bound=least[name, "bound"]) for name in ("ttft", "tpot", "e2e")}
        return replace(found, **times)

    def _taken(self, running: float, limit: float) -> Served:
        load = self.load
        if math.isinf(load.rate):
            return self._closed(running, limit)
        full = self._at(running)
        if load.rate < 1 / full.seconds(running):
            return self._open(running)
        if limit <= self.most:
            return replace(
                self._closed(running, limit),
                way=f"closed loop of {limit:,.0f}: the rate is more than they take",
                saturated=True,
            )
        return self._saturated(running)

    def _closed(self, running: float, limit: float) -> Served:
        """So many requests under way at a time; the rest waits for them, at the client (`limit`) or at the server."""
        load, first = self.load, self._at(running)
        start = self._burst(running)
        waiting = load.requests - running
        if limit <= running:
            way = f"closed loop of {limit:,.0f}"
            queue = 0.0
        elif not waiting:
            way = "all at once, and none waits for another's end"
            queue = 0.0
        elif math.isinf(limit):
            way = f"all at once: {running:,.0f} run at a time, as {self.held_by} allows; the others wait at the server"
            queue = waiting / 2
        else:
            way = f"{limit:,.0f} under way, of which {running:,.0f} run, as {self.held_by} allows"
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

        return self._served(way, running, first, ttft, saturated=bool(queue))

    def _open(self, running: float) -> Served:
        """As many under way as the rate needs, found by halving."""
        load, low, high = self.load, 0.0, running
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if 1 / self._at(middle).seconds(middle) < load.rate else (low, middle)
        found = self._at(high)
        served = self._served(
            f"{plural(load.rate, 'request')} a second, {high:,.1f} under way",
            high,
            found,
            lambda kind: found.value("ttft", kind),
        )
        # the last ones are still under way when the arrivals end
        times = {kind: load.requests / (load.requests / load.rate + (found.value("e2e", kind) or 0.0)) for kind in KINDS}
        return replace(served, requests_per_s=_rates(times, found.known))

    def _saturated(self, running: float) -> Served:
        """More arrive than are served: each waits for those before it."""
        load, found = self.load, self._at(running)

        def ttft(kind: str) -> float | None:
            later, whole = found.value("ttft", kind), found.value("e2e", kind)
            if later is None or whole is None:
                return None
            return later + max(load.requests - running, 0) / 2 * max(whole / running - 1 / load.rate, 0.0)

        arriving = plural(load.rate, "request")
        way = f"saturated at {arriving} a second: {running:,.0f} at a time, as {self.held_by} allows"
        return self._served(way, running, found, ttft, saturated=True)

    def _served(
        self, way: str, running: float, found: _Point, ttft: Callable[[str], float | None], *, saturated: bool = False
    ) -> Served:
        first = {kind: ttft(kind) if found.value("ttft", kind) is not None else None for kind in KINDS}
        rest = {kind: found.value("tpot", kind) for kind in KINDS}
        later = max(self.load.output_len - 1, 0.0)
        whole = {kind: _sum(first[kind], later, rest[kind]) for kind in KINDS}
        # a queue at the server is in TTFT, and not in what a slot is taken for
        # and when no prompt is left slots run empty: at the low end of the rate (the high one of times) for a whole answer more
        turns = {kind: self.load.requests / running + (kind == "high") for kind in KINDS}
        slots = {kind: found.value("e2e", kind) for kind in KINDS}
        rates = {kind: None if slot is None else self.load.requests / (turns[kind] * slot) for kind, slot in slots.items()}
        return Served(way, saturated, running, _span(first), _span(rest), _span(whole), _rates(rates, found.known))

    def _burst(self, running: float) -> dict[str, float | None]:
        """Mean TTFT of the first prompts, which come at once: as many whole ones in a step as its budget of tokens has."""
        request, load = self.request, self.load
        replicas = request.deployment.data_parallel_size
        a_replica = max(running / replicas, 1.0)
        length = max(round(load.input_len), 1)
        together = max(min(request.memory.max_num_batched_tokens // length, math.floor(a_replica)), 1)
        steps = math.ceil(a_replica / together)
        took = pipeline(request, prefill(together * replicas, length))
        # of `steps` steps the mean ends after half of them, and half of one
        return {kind: None if (time := getattr(took, kind)) is None else time * (steps + 1) / 2 for kind in KINDS}

    def _at(self, running: float) -> _Point:
        """TTFT, TPOT and E2E with so many under way."""
        load, request = self.load, self.request
        replicas = request.deployment.data_parallel_size
        prompt = max(round(load.input_len), 1)
        many = max(running, float(replicas))
        found = {name: float(value) for name, value in self.loop.tpot(many, prompt, max(load.output_len, 1.0)).items()}
        middle = prompt + int(max(load.output_len - 2, 0) / 2)
        decoding = Segment(many, 1, middle, decode=True)
        chunks = math.ceil(prompt / request.memory.max_num_batched_tokens)
        alone = self._step((decoding,), many / replicas)
        mixed = self._step((decoding, Segment(replicas, prompt, 0)), many / replicas)
        band = self._band(max(round(many), 1), middle)
        known, later = not math.isnan(found["estimate"]), max(load.output_len - 1, 0.0)
        values: dict[tuple[str, str], float] = {}
        for kind, tpot in (("bound", found["bound"]), ("estimate", found["estimate"])):
            if math.isnan(tpot):
                continue
            adds = max(mixed[kind] - alone[kind], 0.0)
            computed = chunks * alone[kind] + adds
            slot = computed + tpot / 2 + later * tpot
            busy = min(many / replicas / slot * adds, _BUSY)
            waits = 0.0 if kind == "bound" else tpot / 2 + busy / (2 * (1 - busy)) * adds
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
        return _Point(values, known)

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
    """Times at one number of requests under way, by name and kind."""

    times: dict[tuple[str, str], float]
    known: bool

    def value(self, name: str, kind: str) -> float | None:
        return self.times.get((name, kind))

    def seconds(self, running: float) -> float:
        """Seconds from one answer to the next, of all together: of the estimate, else of the bound."""
        return (self.value("e2e", "estimate") or self.times["e2e", "bound"]) / running


def _sum(first: float | None, often: float, later: float | None) -> float | None:
    """A time and another one, so often."""
    return None if first is None or later is None else first + often * later


def _span(values: dict[str, float | None]) -> Duration:
    return Duration(values["bound"], None, values["estimate"], values["low"], values["high"])


def _rates(values: dict[str, float | None] | dict[str, float], known: bool) -> Duration:
    """Rates, whose low end stands on the high end of times."""
    if not known:
        return Duration(values["bound"], None)
    return Duration(values["bound"], None, values["estimate"], values["high"], values["low"])
