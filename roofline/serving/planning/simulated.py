"""The first candidates of a plan, simulated: replicas are added until the objectives hold, or taken away while they still do.

The closed form ranks everything that was searched, in seconds; the simulation (`roofline.simulate`) has what it leaves out:
the order of requests, their real lengths, preemption, bursts. Each candidate gets the same requests, and is simulated with the
replicas that were planned:

* it misses an objective, or is saturated: with more, up to `_MORE` times;
* it holds: with fewer, by bisection, with three seeds. NB: fewer count as enough only if the whole confidence interval of the
  share of requests within all objectives is above what is wanted (without an interval: if half as many miss them as may), and
  up to `_SATURATION` of the saturation rate.

Of more than `_SLICE` replicas as many get their part of the traffic: the router deals requests evenly. Of offline work one
replica is simulated, with its share of the requests, or as many as show its rate at full load.

The idea of a search by simulation: Vidur, arXiv:2405.05465, section 6 (Vidur-Search).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from roofline.errors import RooflineError
from roofline.serving.planning.candidates import (
    CandidateDraft,
    PoolSize,
    Ranked,
    batch_draft,
    closed_loop_draft,
    cost_per_hour,
    order,
)  # fmt: skip
from roofline.serving.planning.load import Query
from roofline.serving.planning.result import Simulated, SimulatedRun
from roofline.serving.simulation.arrivals import AtOnce
from roofline.serving.simulation.result import Simulation
from roofline.serving.simulation.simulate import simulate
from roofline.serving.simulation.step_tables import shared_tables
from roofline.serving.simulation.workload import Workload
from roofline.serving.traffic.classes import Traffic

_MORE, _STEP = 6, 0.05
"""How often replicas are added, and how many, as a share of those that were planned (at least one)."""
_SATURATION = 0.95
_SLICE = 32
_REQUESTS, _EACH, _GENERATIONS, _MOST = 10_000, 1000, 20, 100_000
"""Requests of a run: at least these, per replica, and times those that run at a time; at most."""
_FULL_LOAD = 20_000
"""Most requests of offline work that are simulated: the time of the rest follows from the rate of the latter half of these."""
_SEED, _SEEDS = 0, 3
_TIMES = ("ttft", "tpot")
_SERVERS = itertools.count()  # names of tables; the `id` of an object is used again when it has gone


def simulate_first(query: Query, ranked: list[Ranked]) -> tuple[list[Ranked], dict[int, Simulated], dict[str, Any]]:
    """Simulate the first candidates, and rank them again.

    Args:
        query: the query, with the number of candidates to simulate.
        ranked: candidates by the closed form, best first.

    Returns:
        The candidates: those that hold first, by what the simulation shows, then those that were not simulated, then those that
        miss an objective; what was simulated, by `id` of the draft; and a summary for the result.
    """
    held: list[CandidateDraft] = []
    missed: list[Ranked] = []
    others: list[Ranked] = []
    known: dict[int, Simulated] = {}
    count = 0
    for one in ranked:
        if count == query.simulate_top:
            others.append(one)
            continue
        simulated, draft = _of_draft(query, one.draft)
        known[id(draft)] = simulated
        count += simulated.holds is not None
        if simulated.holds:
            held.append(draft)
        elif simulated.holds is None:
            others.append(one)
        else:
            missed.append(Ranked(draft, one.measures, one.value))
    runs = [run for one in known.values() for run in one.runs]
    summary = {
        "top": query.simulate_top,
        "candidates": count,
        "holds": len(held),
        "skipped": sum(one.holds is None for one in known.values()),
        "runs": len(runs),
        "requests": sum(run.requests for run in runs),
        "seed": _SEED,
    }
    return [*order(query, held, known), *others, *missed], known, summary


def _of_draft(query: Query, draft: CandidateDraft) -> tuple[Simulated, CandidateDraft]:
    """The simulation of a candidate, and the candidate with the replicas that hold."""
    planned = draft.pools[0].replicas
    if len(draft.pools) > 1:
        return Simulated(why="prefill and decode pools are not simulated", planned_replicas=planned), draft
    server = _Server(query, draft)
    try:
        with shared_tables(f"plan {next(_SERVERS)}"):
            replicas = server.fewest(planned)
            last, result = server.run(replicas + query.spare)
    except RooflineError as error:
        return Simulated(why=str(error), planned_replicas=planned), draft
    holds = server.run(replicas)[0].holds
    simulated = Simulated(
        holds=holds, replicas=replicas, planned_replicas=planned, runs=tuple(server.tried),
        requests_per_s=_rate(query, last, result), finish_s=last.finish_s, simulation=result, requests=last.requests,
    )  # fmt: skip
    return simulated, draft if replicas == planned else server.draft(replicas)


def _rate(query: Query, last: SimulatedRun, result: Simulation) -> float:
    """Requests/s of all replicas."""
    if query.batch is not None and last.finish_s:
        return query.batch.requests / last.finish_s
    rate = result.throughput["requests_per_s"]
    if query.load.concurrency is not None and result.e2e_s.mean:
        return query.load.concurrency / result.e2e_s.mean  # by Little's law: without the clients that stop at the end
    return rate * last.replicas / last.simulated_replicas


class _Server:
    """A candidate that is simulated with some numbers of replicas; runs are remembered."""

    def __init__(self, query: Query, draft: CandidateDraft) -> None:
        self.planned = draft.pools[0].replicas
        self.query, self.drafted, self.option = query, draft, draft.option
        self.sized = draft.pools[0].sized
        self.known: dict[int, tuple[SimulatedRun, Simulation]] = {}

    @property
    def tried(self) -> list[SimulatedRun]:
        """The runs so far, by replicas."""
        return [self.known[replicas][0] for replicas in sorted(self.known)]

    def fewest(self, planned: int) -> int:
        """The fewest replicas that hold, near those that were planned; the highest number tried if none do."""
        step = max(round(_STEP * planned), 1)
        replicas = planned
        for _ in range(_MORE):
            if self.run(replicas)[0].holds or not self._allowed(replicas + step):
                break
            replicas += step
        if not self.run(replicas)[0].holds:
            return replicas
        if replicas > planned:
            return self._bisect(replicas - step, replicas, lambda run: run.holds)
        lowest = self._lowest()
        if not self.query.batch and not any(service.objectives for service in self.query.load.services):
            return planned  # nothing says how few are enough
        if planned - 1 < lowest or not self.run(planned - 1)[0].safe:
            return planned
        return self._bisect(lowest - 1, planned - 1, lambda run: run.safe)

    def _bisect(self, fails: int, holds: int, enough: Callable[[SimulatedRun], bool]) -> int:
        while holds - fails > 1:
            middle = (fails + holds) // 2
            fails, holds = (fails, middle) if enough(self.run(middle)[0]) else (middle, holds)
        return holds

    def _lowest(self) -> int:
        """Replicas below which a rate saturates them, or offline work cannot end in time."""
        query, capacity = self.query, self.sized.server.capacity
        if query.batch is not None:
            return max(math.ceil(query.batch.requests / (1.1 * self.sized.max_rate * query.batch.deadline_s)), 1)
        return 1 if query.load.rate is None else max(math.ceil(query.load.rate / (_SATURATION * capacity)), 1)

    def _allowed(self, replicas: int) -> bool:
        devices = (replicas + self.query.spare) * self.option.devices
        if devices > self.query.devices(self.option.hardware):
            return False
        cost = cost_per_hour(self.query, self.draft(replicas)) if self.query.max_cost is not None else None
        return cost is None or self.query.max_cost is None or cost <= self.query.max_cost

    def draft(self, replicas: int) -> CandidateDraft:
        """The candidate with another number of replicas, each with the rate that the simulation shows it to serve."""
        query = self.query
        if query.batch is not None:
            return batch_draft(query, self.option, replicas) or self.drafted
        if query.load.concurrency is not None:
            return closed_loop_draft(query, self.option, replicas)
        sized = replace(self.sized, max_rate=(query.load.rate or 0.0) / replicas)
        return CandidateDraft((PoolSize(self.option, "both", sized, replicas),), query.spare)

    def run(self, replicas: int) -> tuple[SimulatedRun, Simulation]:
        """Simulate some replicas."""
        if replicas not in self.known:
            self.known[replicas] = self._offline(replicas) if self.query.batch is not None else self._online(replicas)
        return self.known[replicas]

    def _online(self, replicas: int) -> tuple[SimulatedRun, Simulation]:
        query, together = self.query, min(replicas, _SLICE)
        classes = query.traffic.at_peak
        if together < replicas:
            classes = tuple(one.scaled(together / replicas) for one in classes)
        running = min(self.sized.slots * self.sized.replica.ranks, self._running(replicas)) * together
        requests = min(round(max(_REQUESTS, _EACH * together, _GENERATIONS * running)), _MOST)
        seeds = _SEEDS if replicas < self.planned else None
        result = self._simulate(Traffic(classes=classes), together, requests, replications=seeds)
        margins, within = _margins(result)
        holds = not result.saturated and all(margin >= 0 for margin in margins)
        wanted = max(service.percentile for service in query.load.services)
        low, within_slo = (result.confidence.get("within_slo") or {}).get("low"), result.within_slo or 0.0
        if low is None:  # none beyond the objectives, or dependent: half as many may be as otherwise
            low = within_slo - (1 - within_slo)
        run = SimulatedRun(
            replicas=replicas, simulated_replicas=together, requests=result.requests.arrived, holds=holds,
            safe=holds and low >= wanted, saturated=result.saturated, within=within,
        )  # fmt: skip
        return run, result

    def _running(self, replicas: int) -> float:
        """Requests of a replica at a time, about: of clients all."""
        if self.query.load.concurrency is not None:
            return self.query.load.concurrency / replicas
        seen = self.sized.server
        return (self.query.load.rate or 0.0) / replicas * seen.mean_steps * float(seen.decode_s[-1])

    def _offline(self, replicas: int) -> tuple[SimulatedRun, Simulation]:
        work = self.query.batch
        assert work is not None  # noqa: S101 - of batch work alone
        share = math.ceil(work.requests / replicas)
        half = max(_FULL_LOAD // 2, 10 * self.sized.slots * self.sized.replica.ranks)
        if share <= 2 * half:
            result = self._at_once(share)
            finish, requests = result.duration_s, share
        else:
            first, result = self._at_once(half), self._at_once(2 * half)
            rate = half / (result.duration_s - first.duration_s)
            finish, requests = result.duration_s + (share - 2 * half) / rate, 3 * half
        margins, within = _margins(result)
        holds = finish <= work.deadline_s and all(margin >= 0 for margin in margins)
        run = SimulatedRun(
            replicas=replicas, simulated_replicas=1, requests=requests, holds=holds, safe=holds, saturated=False,
            within=within, finish_s=finish,
        )  # fmt: skip
        return run, result

    def _at_once(self, requests: int) -> Simulation:
        one = replace(self.query.traffic.classes[0], concurrency=1)
        return self._simulate(Workload(classes=(one,), arrivals=(AtOnce(requests),), source=f"at-once:{requests}"), 1, None)

    def _simulate(
        self, workload: Traffic | Workload, replicas: int, requests: int | None, replications: int | None = None
    ) -> Simulation:
        deployment = {
            **self.option.fixed, "max_num_seqs": self.sized.slots, "max_num_batched_tokens": self.sized.budget,
            "max_model_len": self.option.longest,
        }  # fmt: skip
        if any(turns.conversation.turns is not None for _, turns in self.query.load.retained):
            deployment["router"] = "session-sticky"
        return simulate(
            self.sized.replica.request.model, self.option.hardware, workload=workload, requests=requests, replicas=replicas,
            seed=_SEED, replications=replications, attention_dp_balance=self.query.attention_dp_balance, **deployment,
        )  # fmt: skip


def _margins(result: Simulation) -> tuple[list[float], dict[str, float]]:
    """By how much the share of requests within each objective is above what is wanted, and the least share by objective."""
    margins: list[float] = []
    within: dict[str, float] = {}
    for one, described in zip(result.classes, result.workload["classes"], strict=True):
        for name in _TIMES:
            if (share := one[f"within_{name}"]) is not None:
                margins.append(share - float(described["percentile"]))
                within[name] = min(within.get(name, 1.0), share)
    return margins, within
