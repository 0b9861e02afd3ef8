"""How often the 95 % intervals of `simulate` hold the truth: queues whose waiting times are known, over many seeds.

One running request at a time, prompts of one length and outputs of one token, Poisson arrivals: M/D/1, whose TTFT has a known
mean (Pollaczek and Khinchine) and known percentiles (Crommelin 1932). And an M/M/1 queue, computed by Lindley's recursion and
given to the same batches, whose times in the system are exponential.

    python benchmarks/confidence.py [--seeds 200]
"""

from __future__ import annotations

import argparse
import math
import sys
from decimal import Decimal, getcontext
from typing import Any

import numpy as np

from roofline.serving.simulation.batches import Batches
from roofline.serving.simulation.confidence import QUANTILES, Interval, confidence
from roofline.serving.simulation.run import run
from roofline.serving.simulation.server import ServerConfig, resolve_replica, resolve_server
from roofline.serving.simulation.simulate import warm_up_of
from roofline.serving.simulation.workload import read_workload

CASES = ((0.5, 2_000), (0.5, 5_000), (0.8, 5_000), (0.8, 20_000), (0.9, 50_000))
"""Utilisation of the server, and requests of a run."""
PROMPT = 1000


def deterministic_quantile(load: float, share: float) -> float:
    """Waiting time of M/D/1 that a share of the requests does not exceed, in service times.

    Source: Crommelin 1932, Delay probability formulae when the holding times are constant, Post Office Electrical Engineers'
    Journal 25. Terms of both signs nearly cancel: they are added up in 60 digits.
    """
    getcontext().prec = 60
    rate = Decimal(load)

    def up_to(wait: float) -> float:
        total = Decimal(0)
        for done in range(int(wait) + 1):
            at = rate * (Decimal(done) - Decimal(wait))
            total += at**done / math.factorial(done) * (-at).exp()
        return float((1 - rate) * total)

    low, high = 0.0, 1.0
    while up_to(high) < share:
        high *= 2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if up_to(middle) >= share else (middle, high)
    return high


def served() -> tuple[ServerConfig, float]:
    """A server that runs one request at a time, and the seconds of each."""
    options = {"max_num_seqs": 1, "max_num_batched_tokens": PROMPT}
    server = resolve_server(
        resolve_replica("llama-3.1-8b", "a100-sxm-80gb", options), scheduler=None, preemption=None, basis="bound", replicas=1,
        balancer=None, stepwise=False, notes=[],
    )  # fmt: skip
    alone = read_workload(workload="at-once:1", input_len=PROMPT, output_len=1, notes=[])
    return server, run(server, alone, (0, 0), 0.0).metrics.times["ttft"].total


def of_deterministic(server: ServerConfig, service: float, load: float, requests: int, seed: int) -> dict[str, Interval]:
    """Intervals of the time to first token in service times, with the warm-up cut."""
    workload = read_workload(rate=load / service, input_len=PROMPT, output_len=1, requests=requests, notes=[])
    one = run(server, workload, (seed, 0), 0.0)
    warm_up_of(workload, [one])
    intervals = confidence([one.metrics.counted_batches]).latencies["ttft"]
    return {name: _over(each, service) for name, each in intervals.items()}


def _over(interval: Interval, unit: float) -> Interval:
    if interval.low is None or interval.high is None:
        return interval
    return Interval(interval.low / unit, interval.high / unit)


def of_exponential(load: float, requests: int, seed: int) -> dict[str, Interval]:
    """Intervals of the time in an M/M/1 queue in mean service times, by Lindley's recursion."""
    rng = np.random.default_rng([seed, 1])
    gaps, service = rng.exponential(1 / load, requests), rng.exponential(1.0, requests)
    free = np.concatenate([[0.0], np.cumsum(service[:-1] - gaps[1:])])
    times = free - np.minimum.accumulate(free) + service
    batches = Batches()
    for index in range(1, requests):
        if index >= batches.next_index:
            batches.begin(float(index))
    for batch, rows in batches.of_requests(np.arange(requests)):
        batch.completed += len(rows)
        batch.times["ttft"].add(times[rows])
    return dict(confidence([list(batches)]).latencies["ttft"])


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200, help="runs of each case [200]")
    seeds = parser.parse_args().seeds
    server, service = served()
    print("queue  load requests  figure  given   hold the truth  median half-width")
    for load, requests in CASES:
        wait = load / (2 * (1 - load))
        known: dict[str, dict[str, float]] = {
            "M/D/1": {"mean": 1 + wait} | {name: 1 + deterministic_quantile(load, at) for name, at in QUANTILES.items()},
            "M/M/1": {"mean": 1 / (1 - load)} | {name: -math.log(1 - at) / (1 - load) for name, at in QUANTILES.items()},
        }
        for queue, truth in known.items():
            results: list[dict[str, Any]] = [
                of_deterministic(server, service, load, requests, seed) if queue == "M/D/1"
                else of_exponential(load, requests, seed)
                for seed in range(seeds)
            ]  # fmt: skip
            for name, value in truth.items():
                given = [one[name] for one in results if one[name].low is not None]
                hold = sum(one.low <= value <= one.high for one in given)
                width = float(np.median([one.high - one.low for one in given])) / 2 / value if given else math.nan
                share = f"{hold / len(given):14.1%}" if given else f"{'':14}"
                print(f"{queue}  {load:4} {requests:8,}  {name:6} {len(given) / seeds:6.0%}  {share}  {width:17.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
