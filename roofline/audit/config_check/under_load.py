"""What so many replicas give their users: every objective at the expected value and at both ends of the band."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from roofline.audit.config_check.result import Finding, Verdict
from roofline.serving.planning.load import TPOT, TTFT, Load, Service
from roofline.serving.planning.performance import ClosedLoopPerformance, Times, band, closed_loop_performance
from roofline.serving.planning.sizing import UTILISATION, SizedReplica, coarsened, role_server
from roofline.serving.queueing.replica import ESTIMATE, BatchServer
from roofline.serving.queueing.steady import Steady, steady

_MOST_REPLICAS = 2**20
_EDGES = ("expected", "low", "high")
_WORST: tuple[Verdict, ...] = ("met", "at risk", "missed")


@dataclass(frozen=True)
class UnderLoad:
    """A replica of a deployment, asked about numbers of them. Answers are kept."""

    one: SizedReplica
    load: Load
    _known: dict[int, tuple[Finding, ...]] = field(default_factory=dict, repr=False)
    _servers: dict[str, BatchServer] = field(default_factory=dict, repr=False)

    @property
    def measured(self) -> bool:
        """Whether times are estimates, and not bounds alone."""
        return self.one.replica.basis == ESTIMATE

    def findings(self, replicas: int) -> tuple[Finding, ...]:
        """Utilisation (not of clients that wait for their answers), then TTFT and TPOT of each class that has them."""
        if replicas not in self._known:
            found = self._open(replicas) if self.load.concurrency is None else self._closed(replicas)
            self._known[replicas] = tuple(found)
        return self._known[replicas]

    def fewest(self, good: Callable[[tuple[Finding, ...]], bool], above: int) -> int | None:
        """The fewest replicas beyond `above` whose findings are good; None where no number of them has such."""
        limit = self.most_replicas
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
    def most_replicas(self) -> int:
        """More than this changes nothing: a replica has hardly any load, or a client of its own."""
        return self.load.concurrency or _MOST_REPLICAS

    def seat_wait(self, replicas: int) -> float | None:
        """Mean seconds that a request waits for a seat; None where that has no end."""
        if self.load.concurrency is not None:
            return closed_loop_performance(self.one, self.load, self.load.concurrency / replicas).performance.slot_wait_s
        state = steady(self._server("expected"), (self.load.rate or 0.0) / replicas)
        return None if bool(state.saturated[0]) else float(state.slot_wait_s[0])

    def _server(self, edge: str) -> BatchServer:
        if edge not in self._servers:
            low, high = band(self.one, self.load)
            scale = {"expected": 1.0, "low": low, "high": high}[edge]
            self._servers[edge] = coarsened(
                role_server(self.one.replica, self.load, "both", self.one.slots, self.one.budget, scale=scale)
            )
        return self._servers[edge]

    def _open(self, replicas: int) -> list[Finding]:
        rate = (self.load.rate or 0.0) / replicas
        states = {edge: steady(self._server(edge), rate) for edge in _EDGES}
        busy = {edge: rate / self._server(edge).capacity for edge in _EDGES}
        verdict: Verdict = "met"
        if bool(states["expected"].saturated[0]):
            verdict = "missed"
        elif busy["expected"] > UTILISATION or bool(states["high"].saturated[0]):
            verdict = "at risk"
        found = [Finding("utilisation", None, 1.0, busy["expected"], busy["low"], busy["high"], verdict)]
        for which, service in enumerate(self.load.services):
            for name, limit in _asked(service):
                seen = [_quantile(states[edge], name, which, service.percentile) for edge in _EDGES]
                found.append(self._judged(name, service, limit, *seen))
        return found

    def _closed(self, replicas: int) -> list[Finding]:
        """Percentiles stretch as the means do, at both ends."""
        seen: ClosedLoopPerformance = closed_loop_performance(self.one, self.load, (self.load.concurrency or 1) / replicas)
        low, high = band(self.one, self.load)
        found = []
        for service in self.load.services:
            ttft, tpot = seen.performance.classes[service.name]
            for name, limit in _asked(service):
                times = ttft if name == TTFT else tpot
                at = inf if times.at is None else times.at
                ends = (at * _stretch(times, times.low, low), at * _stretch(times, times.high, high))
                found.append(self._judged(name, service, limit, at, *ends))
        return found

    def _judged(self, name: str, service: Service, limit: float, expected: float, low: float, high: float) -> Finding:
        verdict: Verdict = "missed" if expected > limit else "at risk" if high > limit or not self.measured else "met"
        at, least, most = (None if value == inf else value for value in (expected, low, high))
        if not self.measured:
            least = most = None
        return Finding(name, service.name, limit, at, least, most, verdict, service.percentile)


def _asked(service: Service) -> list[tuple[str, float]]:
    """Objectives of a class that its requests can miss."""
    answers = float(service.mix.outputs.max()) > 1
    return [(name, limit) for name, limit in service.objectives.items() if name == TTFT or answers]


def _quantile(state: Steady, name: str, which: int, share: float) -> float:
    found = state.ttft_quantile(which, share) if name == TTFT else state.tpot_quantile(which, share)
    return float(found[0])


def _stretch(times: Times, end: float | None, otherwise: float) -> float:
    return end / times.mean if times.mean and end is not None else otherwise


def worst(findings: tuple[Finding, ...]) -> Verdict:
    """The worst of their verdicts."""
    return max((finding.verdict for finding in findings), key=_WORST.index, default="met")


__all__ = ["TPOT", "TTFT", "UnderLoad", "worst"]
