"""Offline batch work: requests that are all there at once, on replicas that run full until the last one has ended.

Nothing waits for a user, so a replica runs as many sequences as memory and `max_num_seqs` hold, without a cap on utilization. A
deployment takes the fewest replicas that end in time (`queueing/offline.py`), which share the requests evenly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from roofline.serving.planning.load import BatchWork, Load
from roofline.serving.planning.performance import (
    ClosedLoopPerformance,
    LatencyStats,
    band,
    closed_loop_performance,
    closed_loop_server,
)
from roofline.serving.planning.prefix_cache import PrefixCacheModel
from roofline.serving.planning.sizing import Binds, SizedReplica, role_server
from roofline.serving.queueing.offline import OfflineRun, offline_run, shares
from roofline.serving.queueing.replica import BOUND, Replica

_FULL = 24
"""Generations of requests after which a replica runs at full load."""


@dataclass(frozen=True, slots=True)
class BatchPerformance:
    """What replicas do with offline work.

    Args:
        finish_s: seconds until the last request has ended, as expected.
        low_s: the same with every step at the low end of its interval; None of bounds.
        high_s: at the high end.
        bound_s: with every step at its bound.
        each: what requests of one replica experience; its rate is that of its requests over the finish time.
    """

    finish_s: float
    low_s: float | None
    high_s: float | None
    bound_s: float
    each: ClosedLoopPerformance


def size_for_batch(
    replica: Replica, load: Load, settings: Iterable[tuple[int, int]], memory_slots: int,
    prefix_cache: Callable[[int], PrefixCacheModel] | None = None,
) -> SizedReplica:  # fmt: skip
    """The replica in the setting with the highest throughput at full load; its rate is 0 if all miss the TPOT objective.

    Args:
        replica: the deployment.
        load: the requests, with an objective for TPOT or without.
        settings: pairs of slots per rank and tokens per step; at least one.
        memory_slots: slots per rank that memory holds.
        prefix_cache: makes the KV cache of a token budget, where requests have prompts that it retains.
    """
    tried: list[SizedReplica] = []
    limited = any(service.objectives for service in load.services)
    for slots, budget in settings:
        binds: Binds = "memory" if slots >= memory_slots else "throughput"
        cache = None if prefix_cache is None else prefix_cache(budget)
        server = role_server(replica, load, "both", slots, budget, prefix_cache=cache)
        one = SizedReplica(replica, server, "both", slots, budget, 0.0, binds, cache)
        sequences = slots * replica.ranks
        rate = offline_run(closed_loop_server(one, load), _FULL * sequences).rate
        if limited and batch_performance(one, load, _FULL * sequences).each.misses(load):
            rate = 0.0
        tried.append(replace(one, max_rate=rate))
    best = max(tried, key=lambda one: one.max_rate)
    return replace(best, binds="tpot") if any(one.max_rate == 0 for one in tried) else best


def fewest_replicas(sized: SizedReplica, load: Load, work: BatchWork) -> int | None:
    """The fewest replicas that end by the deadline; None if a request alone takes longer."""
    server = closed_loop_server(sized, load)

    def late(replicas: int) -> bool:
        return offline_run(server, work.requests / replicas).finish_s > work.deadline_s

    if not sized.max_rate or late(work.requests):
        return None
    fails = math.ceil(work.requests / (sized.max_rate * work.deadline_s)) - 1  # at full load from start to end
    step = 1
    while late(ends := min(fails + step, work.requests)):
        fails, step = ends, 2 * step
    while ends - fails > 1:
        middle = (fails + ends) // 2
        fails, ends = (middle, ends) if late(middle) else (fails, middle)
    return ends


def batch_performance(sized: SizedReplica, load: Load, share: float) -> BatchPerformance:
    """The finish time of a replica, and what its requests experience.

    Args:
        sized: the replica.
        load: the requests.
        share: number of requests of this replica.
    """
    run = offline_run(closed_loop_server(sized, load), share)
    low, high = band(sized, load)
    estimated = sized.replica.basis != BOUND
    bound = run if not estimated else _at_bound(sized, load, share)
    clients = min(share, float(sized.slots * sized.replica.ranks))
    loop = closed_loop_performance(sized, load, clients)
    seen = loop.performance
    ttft = _waits(run, seen.ttft, bound, low if estimated else None, high if estimated else None)
    more = run.tpot_s / seen.tpot.mean if seen.tpot.mean else 1.0  # prompts may leave slots free
    at = partial(_scaled, factor=more)
    classes = {name: (replace(ttft, percentile=own.percentile), at(tpot)) for name, (own, tpot) in seen.classes.items()}
    return BatchPerformance(
        finish_s=run.finish_s,
        low_s=max(run.finish_s * low, bound.finish_s) if estimated else None,
        high_s=run.finish_s * high if estimated else None,
        bound_s=bound.finish_s,
        each=ClosedLoopPerformance(
            share,
            share / run.finish_s,
            replace(
                seen, ttft=ttft, tpot=at(seen.tpot), classes=classes, running=run.running,
                slot_wait_s=float(run.waits_s.mean()), utilisation=min(share / run.finish_s / run.rate, 1.0),
            ),
        ),
    )  # fmt: skip


def _at_bound(sized: SizedReplica, load: Load, requests: float) -> OfflineRun:
    server = role_server(sized.replica, load, "both", sized.slots, sized.budget, basis=BOUND, prefix_cache=sized.prefix_cache)
    return offline_run(closed_loop_server(replace(sized, server=server), load), requests)


def _scaled(times: LatencyStats, factor: float) -> LatencyStats:
    return replace(times.mapped(lambda value: value * factor, lambda value: value * factor), bound=times.bound)


def _waits(run: OfflineRun, own: LatencyStats, bound: OfflineRun, low: float | None, high: float | None) -> LatencyStats:
    """TTFT: the wait for a slot, and the step that computes the prompt. `own` has the percentile that was set."""
    import numpy as np

    def at(share: float) -> float:
        return float(np.interp(share, shares(), run.first_s))

    mean, lowest = float(run.first_s.mean()), float(bound.first_s.mean())
    return LatencyStats(
        mean=mean,
        p50=at(0.5),
        at=at(own.percentile),
        low=None if low is None else max(mean * low, lowest),
        high=None if high is None else mean * high,
        bound=lowest,
        percentile=own.percentile,
    )
