"""Findings on a deployment: objectives and limits with what is expected, from memory and start to times under load."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Literal

from roofline.audit.config_check.deployment import CheckedDeployment
from roofline.errors import InputError, RooflineError, SpecError
from roofline.predict.request import ResolvedRequest
from roofline.predict.speculation import Speculation
from roofline.serving.planning.load import TTFT, Load, Service
from roofline.serving.planning.performance import ClosedLoopPerformance, LatencyStats, band, closed_loop_performance
from roofline.serving.planning.search import Option, longest_held, prefix_cache, resolve_replica, slots_in_memory, with_chosen
from roofline.serving.planning.sizing import UTILISATION, SizedReplica, coarsened, role_server, size_replica
from roofline.serving.queueing.replica import ESTIMATE, BatchServer, Replica
from roofline.serving.queueing.steady import Steady, steady
from roofline.serving.traffic.classes import RequestClass
from roofline.specs.workload import Segment

Verdict = Literal["met", "at risk", "missed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One objective or limit, with its expected value.

    Attributes:
        objective: `memory` (bytes per device for one request of --max-model-len), `start` (tokens of a step), `gpus` (per
            replica), `length` (share of the requests that are longer than --max-model-len), `utilisation` (share of the rate
            that saturates), `ttft` and `tpot` (seconds, at the percentile), `max_gpus`, `inventory`, `max_cost` (per hour).
        of: name of the class of requests; None: all.
        limit: maximum allowed, in the unit of the objective.
        expected: the value, in the same unit; None: infinite, or not known.
        low: the value with every step at the fast end of its interval.
        high: the value with every step at the slow end.
        verdict: `met` with the whole interval, `at risk` where only the expected value is within the limit, or `missed`.
        percentile: share of the requests that have to meet it, from 0 to 1; None where it does not apply.
        replicas: minimum number of replicas with which it is not missed; None: not known, or none.
    """

    objective: str
    of: str | None
    limit: float | None
    expected: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    percentile: float | None = None
    replicas: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data: one of `check.findings` in `roofline plan --check --json`."""
        return {
            "objective": self.objective, "class": self.of, "percentile": self.percentile, "limit": self.limit,
            "expected": self.expected, "low": self.low, "high": self.high, "verdict": self.verdict, "replicas": self.replicas,
        }  # fmt: skip


# Without load: whether the engine starts, what memory holds, devices, lengths, money.


@dataclass(frozen=True)
class ReplicaCapacity:
    """What the memory of one replica holds.

    Attributes:
        request: the resolved deployment.
        longest: length in tokens of the longest sequence that the engine has to accept.
        held: length in tokens of the longest sequence that memory holds, up to `longest`; 0: not even the weights fit.
        slots: number of requests of mean length that memory holds per data-parallel rank.
        needed_bytes: bytes on the fullest device for one sequence of length `longest` per rank, weights and activations
            included.
        budget_bytes: bytes that the engine uses of a device.
        weights_bytes: bytes of weights on the fullest device.
        option: the replica as an option of `plan`; None where the engine does not start, or holds no request of mean length.
    """

    request: ResolvedRequest
    longest: int
    held: int
    slots: int
    needed_bytes: float
    budget_bytes: float
    weights_bytes: float
    option: Option | None

    @property
    def starts(self) -> bool:
        """Whether memory holds the longest sequence; otherwise the engine refuses to start."""
        return self.held >= self.longest

    @property
    def replica(self) -> SizedReplica | None:
        """The replica with its size; None where the engine does not start, or holds no request of mean length."""
        return None if self.option is None else self.option.sized["both"]


def replica_capacity(deployment: CheckedDeployment) -> ReplicaCapacity:
    """Compute what the memory of one replica of a deployment holds.

    Raises:
        SpecError: an option that is wrong for this model or hardware, with its place in the file.
    """
    query = deployment.query
    request, speculation = _prepared(deployment)
    ranks = request.deployment.data_parallel_size
    wanted = deployment.longest or query.model.max_position_embeddings
    held = longest_held(request, wanted) if request.memory.fits((Segment(ranks, 1, 0, decode=True),)) else 0
    if deployment.longest is None:
        wanted = max(held, 1)
    step = (Segment(ranks, 1, wanted - 1, decode=True),)
    part = request.memory.tightest(step)
    needed = (
        part.loaded_bytes + float(part.activation_bytes(step)) + request.deployment.reserve + float(part.needed_bytes(step))
    )
    slots = slots_in_memory(request, query.load) if held >= wanted else 0
    option = None
    if slots:
        budget = request.memory.max_num_batched_tokens
        verified = 1 if speculation is None else 1 + speculation.options.tokens
        running = max(min(slots, deployment.max_num_seqs, budget // verified), 1)
        steps = Replica(request, running, (budget,), query.attention_dp_balance, speculation)
        caches = prefix_cache(request, query.load, wanted)
        replica = size_replica(steps, query.load, [(running, budget)], slots, prefix_cache=caches)
        hardware = query.hardware[0]
        option = Option(hardware, _precision(request), _layout(request), {"both": with_chosen(replica)}, (), wanted, {})
    return ReplicaCapacity(request, wanted, held, slots, needed, part.budget_bytes, part.loaded_bytes, option)


def _prepared(deployment: CheckedDeployment) -> tuple[ResolvedRequest, Speculation | None]:
    query = deployment.query
    ranks = query.fixed.get("data_parallel_size") or 1
    options: dict[str, Any] = {**query.fixed, "batch": ranks, "input_len": 1, "phase": "decode"}
    try:
        return resolve_replica(query.model, query.hardware[0], options)
    except SpecError:
        raise
    except RooflineError as error:
        words = str(error).lower().replace("-", " ")
        for name, value in deployment.places.items():
            if name.replace("_", " ") in words:
                raise value.error(str(error)) from None
        raise deployment.launch.place.error(str(error)) from None


def _precision(request: ResolvedRequest) -> str:
    deployment, model = request.deployment, request.model
    named = [str(name) for name in (deployment.dtype, deployment.quantization) if name is not None]
    published = model.quantization
    return "/".join(named) or (published[0].name if published else model.dtype)


def _layout(request: ResolvedRequest) -> dict[str, int]:
    deployment = request.deployment
    sizes = {
        "tp": deployment.tensor_parallel_size, "pp": deployment.pipeline_parallel_size, "dp": deployment.data_parallel_size,
        "ep": deployment.expert_parallel_size, "cp": deployment.context_parallel_size,
    }  # fmt: skip
    return {name: size for name, size in sizes.items() if size > 1}


_QUANTILES = 512
_TOLERANCE = 1e-9


def start_findings(deployment: CheckedDeployment, capacity: ReplicaCapacity) -> Iterator[Finding]:
    """Yield findings on whether the engine starts: memory for its longest sequence, tokens of a step, devices."""
    fits = capacity.starts and capacity.slots > 0
    needed = capacity.needed_bytes
    yield Finding("memory", None, capacity.budget_bytes, needed, needed, needed, "met" if fits else "missed")
    if deployment.launch.server.name == "vllm":
        least = max(deployment.max_num_seqs, 0 if deployment.chunked else capacity.longest)
        budget = capacity.request.memory.max_num_batched_tokens
        yield _plain("start", budget, least)
    if (gpus := deployment.launch.gpus) is not None:
        yield _plain("gpus", gpus.value, capacity.request.deployment.devices)


def length_findings(deployment: CheckedDeployment, capacity: ReplicaCapacity) -> Iterator[Finding]:
    """Yield for each class of requests the share that is too long for the engine, where there are any."""
    for one in deployment.query.traffic.classes:
        share = _refused_share(one, capacity.longest)
        if share > 0:
            allowed = 1 - one.percentile
            verdict: Verdict = "missed" if share > allowed + _TOLERANCE else "at risk"
            yield Finding("length", one.name, allowed, share, share, share, verdict, one.percentile)


def _refused_share(requests: RequestClass, longest: int) -> float:
    """The share of the requests whose prompt and output together have more than `longest` tokens.

    Without pairs of lengths, prompts and outputs are taken as independent.
    """
    import numpy as np

    if requests.pairs is not None:
        return float(np.mean(requests.pairs.prompts + requests.pairs.outputs > longest))
    ends = (requests.input_len.maximum, requests.output_len.maximum)
    if None not in ends and sum(end for end in ends if end is not None) <= longest:
        return 0.0
    prompts, outputs = requests.input_len.quantiles(_QUANTILES), requests.output_len.quantiles(_QUANTILES)
    return float(np.mean(prompts[:, None] + outputs[None, :] > longest))


def limit_findings(deployment: CheckedDeployment, capacity: ReplicaCapacity) -> Iterator[Finding]:
    """Yield findings on the limits of the user: accelerators (`max_gpus`, `inventory`) and cost per hour of all replicas.

    Raises:
        InputError: a limit on cost for hardware without a known price.
    """
    query, devices = deployment.query, capacity.request.deployment.devices * deployment.replicas
    hardware = query.hardware[0]
    if query.max_gpus is not None:
        yield _plain("max_gpus", query.max_gpus, devices)
    if query.inventory is not None:
        yield _plain("inventory", replace(query, max_gpus=None).devices(hardware), devices)
    if query.max_cost is not None:
        price = query.prices.of(hardware, devices)
        if price is None:
            raise InputError(f"--max-cost needs a price of {devices:,} x {hardware.name}, and none is known: give --price FILE")
        hour, high = price.value * devices, price.high * devices
        verdict: Verdict = "missed" if hour > query.max_cost else "at risk" if high > query.max_cost else "met"
        yield Finding("max_cost", None, query.max_cost, hour, price.low * devices, high, verdict)


def _plain(objective: str, limit: float, value: float) -> Finding:
    return Finding(objective, None, limit, value, value, value, "missed" if value > limit else "met")


# Under load: every objective at the expected value and at both ends of the band.

_MAX_REPLICAS = 2**20
_EDGES = ("expected", "low", "high")
_WORST: tuple[Verdict, ...] = ("met", "at risk", "missed")


@dataclass(frozen=True)
class LoadFindings:
    """Findings under load for any number of replicas; results are cached.

    Attributes:
        replica: one replica.
        load: the load of all replicas together, which they share equally.
    """

    replica: SizedReplica
    load: Load
    _known: dict[int, tuple[Finding, ...]] = field(default_factory=dict, repr=False)
    _servers: dict[tuple[str, int | None], BatchServer] = field(default_factory=dict, repr=False)

    @property
    def measured(self) -> bool:
        """Whether times are estimates from measured kernels; otherwise they are lower bounds."""
        return self.replica.replica.basis == ESTIMATE

    def findings(self, replicas: int) -> tuple[Finding, ...]:
        """Utilization (in an open loop), then TTFT and TPOT in seconds of each class that has the objective."""
        if replicas not in self._known:
            findings = self._open(replicas) if self.load.concurrency is None else self._closed(replicas)
            self._known[replicas] = tuple(findings)
        return self._known[replicas]

    def min_replicas(self, good: Callable[[tuple[Finding, ...]], bool], above: int) -> int | None:
        """The minimum number of replicas, more than `above`, whose findings are `good`; None where no number suffices.

        Found by bisection: findings must not become worse with more replicas.
        """
        limit = self.max_replicas
        low, high = above, above + 1
        if high > limit:
            return None
        while not good(self.findings(high)):
            if high >= limit:
                return None
            low, high = high, min(2 * high, limit)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if good(self.findings(middle)) else (middle, high)
        return high

    @property
    def max_replicas(self) -> int:
        """Maximum number of replicas that is tried: the number of clients (closed loop), else 2^20. More change nothing."""
        return self.load.concurrency or _MAX_REPLICAS

    def slot_wait(self, replicas: int) -> float | None:
        """Mean time in seconds that a request waits for a slot; None where the replicas are saturated."""
        if self.load.concurrency is not None:
            return closed_loop_performance(self.replica, self.load, self.load.concurrency / replicas).performance.slot_wait_s
        state = steady(self._server("expected", replicas), (self.load.rate or 0.0) / replicas)
        return None if bool(state.saturated[0]) else float(state.slot_wait_s[0])

    def _server(self, edge: str, replicas: int) -> BatchServer:
        """The server at an end of the interval; what its KV cache retains depends on the rate."""
        key = (edge, replicas if self.load.retained else None)
        if key not in self._servers:
            low, high = band(self.replica, self.load)
            scale = {"expected": 1.0, "low": low, "high": high}[edge]
            sized = self.replica.at(self.load, (self.load.rate or 0.0) / replicas)
            self._servers[key] = coarsened(
                role_server(
                    sized.replica, self.load, "both", sized.slots, sized.budget, scale=scale, prefix_cache=sized.prefix_cache,
                    shares=() if sized.cache is None else sized.cache.shares,
                )
            )  # fmt: skip
        return self._servers[key]

    def _open(self, replicas: int) -> list[Finding]:
        rate = (self.load.rate or 0.0) / replicas
        states = {edge: steady(self._server(edge, replicas), rate) for edge in _EDGES}
        utilization = {edge: rate / self._server(edge, replicas).capacity for edge in _EDGES}
        verdict: Verdict = "met"
        if bool(states["expected"].saturated[0]):
            verdict = "missed"
        elif utilization["expected"] > UTILISATION or bool(states["high"].saturated[0]):
            verdict = "at risk"
        findings = [
            Finding("utilisation", None, 1.0, utilization["expected"], utilization["low"], utilization["high"], verdict)
        ]
        for which, service in enumerate(self.load.services):
            for name, limit in _objectives(service):
                seen = [_quantile(states[edge], name, which, service.percentile) for edge in _EDGES]
                findings.append(self._judged(name, service, limit, *seen))
        return findings

    def _closed(self, replicas: int) -> list[Finding]:
        """Percentiles stretch as the means do, at both ends."""
        seen: ClosedLoopPerformance = closed_loop_performance(self.replica, self.load, (self.load.concurrency or 1) / replicas)
        low, high = band(self.replica, self.load)
        findings = []
        for service in self.load.services:
            ttft, tpot = seen.performance.classes[service.name]
            for name, limit in _objectives(service):
                times = ttft if name == TTFT else tpot
                at = inf if times.at is None else times.at
                ends = (at * _stretch(times, times.low, low), at * _stretch(times, times.high, high))
                findings.append(self._judged(name, service, limit, at, *ends))
        return findings

    def _judged(self, name: str, service: Service, limit: float, expected: float, low: float, high: float) -> Finding:
        verdict: Verdict = "missed" if expected > limit else "at risk" if high > limit or not self.measured else "met"
        at, quick, slow = (None if value == inf else value for value in (expected, low, high))
        if not self.measured:
            quick = slow = None
        return Finding(name, service.name, limit, at, quick, slow, verdict, service.percentile)


def _objectives(service: Service) -> list[tuple[str, float]]:
    """Objectives of a class that its requests can miss."""
    longest = float(service.mix.outputs.max()) > 1
    return [(name, limit) for name, limit in service.objectives.items() if name == TTFT or longest]


def _quantile(state: Steady, name: str, which: int, share: float) -> float:
    quantile = state.ttft_quantile(which, share) if name == TTFT else state.tpot_quantile(which, share)
    return float(quantile[0])


def _stretch(times: LatencyStats, end: float | None, otherwise: float) -> float:
    return end / times.mean if times.mean and end is not None else otherwise


def worst_verdict(findings: tuple[Finding, ...]) -> Verdict:
    """The worst verdict of the findings; `met` without any."""
    return max((finding.verdict for finding in findings), key=_WORST.index, default="met")
