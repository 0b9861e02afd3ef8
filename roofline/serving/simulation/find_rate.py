"""The highest rate at which a server meets its objectives: bisection over rates, for several seeds.

At a rate the objectives hold if, in every class, at least its percentage of the requests meets them, and the server is not
saturated. For each seed the same arrivals and lengths come at every rate (common random numbers), faster or slower, so that the
search is over one curve; the rates of the seeds differ by chance, and give the interval.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from roofline.errors import InputError, RooflineError
from roofline.predict.options import DEPLOYMENT, of_groups
from roofline.serving.simulation.result import Simulation, intervals
from roofline.serving.simulation.step_tables import shared_tables
from roofline.serving.traffic.resample import resampled
from roofline.serving.traffic.scalars import parse_percentile, parse_rate
from roofline.serving.traffic.trace import Trace, read_trace
from roofline.units import parse_count

SEEDS, REQUESTS = 5, 5000
"""Seeds, and requests of each run of a workload without an end of its own, unless others are given."""
TOLERANCE = 0.01
"""Ratio, less 1, of the lowest rate that fails to the highest that holds, where the search ends."""
_STEPS = 14  # doublings, or halvings, from the first rate
_NEAR = 1.1  # ratio by which the rate of another seed is bracketed
_DIGITS = 4  # of a rate that is tried, so that it can be given again
_OBJECTIVES = ("ttft", "tpot")
_SEARCHES = itertools.count()  # names of tables; the `id` of an object is used again when it has gone

Simulate = Callable[..., Simulation]


@dataclass(frozen=True, slots=True)
class Point:
    """A rate that was tried with a seed.

    Args:
        rate: requests/s.
        seed: of the run.
        within_slo: share of the requests that meet the objectives of their class.
        within: share of those that meet each objective, of the class that is worst off.
        saturated: whether more requests arrived than were served.
        holds: whether the objectives hold.
        binds: what failed, or would next: "ttft", "tpot" or "throughput".
    """

    rate: float
    seed: int
    within_slo: float
    within: Mapping[str, float]
    saturated: bool
    holds: bool
    binds: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "rate": self.rate, "seed": self.seed, "within_slo": self.within_slo,
            **{f"within_{name}": self.within.get(name) for name in _OBJECTIVES},
            "saturated": self.saturated, "holds": self.holds, "binds": self.binds,
        }  # fmt: skip


class _StoppedSearchError(Exception):
    """The user ended a run of the search."""

    def __init__(self, result: Simulation) -> None:
        self.result = result
        super().__init__()


def find_rate(simulate: Simulate, given: dict[str, Any]) -> Simulation:
    """Return the simulation at the highest rate within the objectives, with the search in `find_rate`.

    Args:
        simulate: `roofline.simulate`.
        given: its arguments by name, with `percentile`, and `deployment` as a mapping; `rate` is where the search begins, and
            `replications` the number of seeds.

    Raises:
        InputError: no objective, or an option that is of one run, or has no rate.
    """
    options = {**given, **given["deployment"]}
    for name in ("deployment", "find_rate"):
        options.pop(name)
    for name in ("rows", "perfetto"):
        if options.pop(name, None) is not None:
            raise InputError(f"--find-rate is of many runs{'' if name == 'rows' else f': leave out --{name}'}")
    model, hardware = options.pop("model"), options.pop("hardware")
    percentile = options.pop("percentile")
    percentile = None if percentile is None else _percentile(percentile)
    first = options.pop("rate")
    num_seeds, seed = options.pop("replications"), options.pop("seed")
    count = SEEDS if num_seeds is None else parse_count(num_seeds, "--replications", 1)
    search = _Search(simulate, model, hardware, options, percentile, count, 0 if seed is None else parse_count(seed, "--seed"))
    if str(options.get("workload") or "").partition(":")[0] in ("closed", "at-once"):
        raise InputError("--find-rate: clients, and requests that come all at once, have no rate")
    if options.get("autoscale") is not None:
        raise InputError(
            "--find-rate: a fleet that scales has no rate of its own, it has as many replicas as it may: give --replicas"
        )
    with shared_tables(f"find-rate {next(_SEARCHES)}"):
        return search.run(None if first is None else _rate(first))


def _percentile(value: Any) -> float:
    try:
        return parse_percentile(value)
    except InputError as error:
        raise InputError(f"--percentile: {error}") from None


def _rate(value: Any) -> float:
    try:
        return parse_rate(value)
    except InputError as error:
        raise InputError(f"--rate: {error}") from None


class _Search:
    """The search, and the points that were tried."""

    def __init__(
        self, simulate: Simulate, model: Any, hardware: Any, options: dict[str, Any], percentile: float | None, num_seeds: int,
        seed: int,
    ) -> None:  # fmt: skip
        self.simulate, self.model, self.hardware, self.options = simulate, model, hardware, options
        self.percentile, self.seeds = percentile, range(seed, seed + num_seeds)
        self.points: list[Point] = []
        self.progress = options.pop("progress", None)
        trace = options.get("trace")
        self.trace = trace if isinstance(trace, Trace) or trace is None else read_trace(trace, bool(options["skip_bad_rows"]))
        if self.trace is None and options.get("requests") is None and options.get("until") is None:
            options["requests"] = REQUESTS
        self.limits: dict[str, float] = {}

    def run(self, first: float | None) -> Simulation:
        """Search, beginning at a rate in requests/s; None: at half of what the server could do."""
        try:
            probe = self._simulate(first or 1.0, self.seeds[0], requests=1)
            if not probe.fits:
                return probe
            if not any(one[f"{name}_s"] for one in probe.workload["classes"] for name in _OBJECTIVES):
                raise InputError("--find-rate: the highest rate within what? Give --ttft, --tpot or both")
            start = first or self._guess(probe)
            rates: list[float] = []
            binding: list[str] = []
            for seed in self.seeds:
                held, failed = self._bracket(start, seed, 2.0 if not rates else _NEAR)
                if held is None:
                    break
                while failed is not None and failed.rate / held.rate > 1 + TOLERANCE:
                    middle = self._try(math.sqrt(held.rate * failed.rate), seed)
                    if middle.rate in (held.rate, failed.rate):
                        break
                    held, failed = (middle, failed) if middle.holds else (held, middle)
                rates.append(held.rate)
                binding.append((failed or held).binds)
                start = held.rate
        except _StoppedSearchError as stopped:
            return replace(stopped.result, find_rate=self._described([], []))
        if len(rates) < len(self.seeds):  # with some seed not even the lowest rate holds
            lowest = min(self.points, key=lambda point: point.rate)
            return replace(self._simulate(lowest.rate, lowest.seed), find_rate=self._described([], [lowest.binds]))
        mean = _rounded(math.fsum(rates) / len(rates))
        return replace(self._simulate(mean, self.seeds[0]), find_rate=self._described(rates, binding))

    def _described(self, rates: list[float], binding: list[str]) -> dict[str, Any]:
        """The search as plain data."""
        content: dict[str, Any] = {
            "rate": None, "low": None, "high": None, "level": None, "rates": rates, "seeds": list(self.seeds),
            "percentile": self.percentile or min(self.limits.values(), default=None),
            "binds": max(binding, key=binding.count) if binding else None, "tolerance": TOLERANCE,
            "points": [point.to_dict() for point in sorted(self.points, key=lambda point: (point.rate, point.seed))],
        }  # fmt: skip
        if rates:
            content["rate"] = math.fsum(rates) / len(rates)
        if len(rates) > 1:
            over = intervals([{"rate": rate} for rate in rates])
            one = over["figures"]["rate"]
            content |= {"low": max(one["low"], 0.0), "high": one["high"], "level": over["confidence"]}
        return content

    def _bracket(self, start: float, seed: int, ratio: float) -> tuple[Point | None, Point | None]:
        """The highest rate that holds and the lowest that fails, by steps that grow; None where there is none."""
        held: Point | None = None
        failed: Point | None = None
        rate, step = start, ratio
        for _ in range(_STEPS):
            point = self._try(rate, seed)
            held, failed = (point, failed) if point.holds else (held, point)
            if held is not None and failed is not None:
                break
            rate = rate * step if point.holds else rate / step
            step = min(step * ratio, 2.0) if ratio < 2 else ratio
        return held, failed

    def _try(self, rate: float, seed: int) -> Point:
        rate = _rounded(rate)
        known = next((point for point in self.points if (point.rate, point.seed) == (rate, seed)), None)
        if known is not None:
            return known
        point = self._point(self._simulate(rate, seed), rate, seed)
        self.points.append(point)
        if self.progress is not None:
            self.progress(len(self.points), None)
        return point

    def _simulate(self, rate: float, seed: int, **others: Any) -> Simulation:
        options = {**self.options, **others}
        if self.trace is not None:
            options["trace"] = resampled(self.trace, seed - self.seeds[0]) if self.trace.arrived is not None else self.trace
        result = self.simulate(self.model, self.hardware, rate=rate, seed=seed, **options)
        if result.interrupted:
            raise _StoppedSearchError(result)
        return result

    def _point(self, result: Simulation, rate: float, seed: int) -> Point:
        """Whether the objectives hold, and by how much each of them does or fails."""
        margins: dict[str, float] = {}
        within: dict[str, float] = {}
        holds = not result.saturated
        for one, described in zip(result.classes, result.workload["classes"], strict=True):
            if one["within_slo"] is None:
                continue
            wanted = self.percentile or float(described["percentile"])
            self.limits[one["name"]] = wanted
            holds &= one["within_slo"] >= wanted
            for name in _OBJECTIVES:
                if (share := one[f"within_{name}"]) is not None and described[f"{name}_s"] is not None:
                    margins[name] = min(margins.get(name, math.inf), share - wanted)
                    within[name] = min(within.get(name, math.inf), share)
        worst = min(margins, key=lambda name: margins[name]) if margins else "throughput"
        binds = "throughput" if result.saturated and margins and margins[worst] >= 0 else worst
        return Point(rate, seed, result.within_slo or 0.0, within, result.saturated, bool(holds and margins), binds)

    def _guess(self, probe: Simulation) -> float:
        """Return half of the rate at which the prompts and decode steps of a mean request take all time of the server.

        With as many sequences as run at a time, and as keep to the objective for TPOT.
        """
        import numpy as np

        from roofline.predict.compiled import compile

        one, server = probe.workload["classes"][0], probe.server
        if probe.pools:  # as if all replicas decoded, which the search halves as often as it takes
            server = {**server, "replicas": max(pool["replicas"] for pool in probe.pools)}
        prompt, output = float(one["mean_input"]), float(one["mean_output"])
        alone = (probe.ttft_s.mean or 0.0) + (output - 1) * (probe.tpot_s.mean or 0.0)
        guess = float(server["replicas"]) / max(alone, 1e-9)  # one request at a time
        names = {option.name for option in of_groups(DEPLOYMENT, ("ignore_capacity",))}
        deployment = {name: value for name, value in self.options.items() if name in names and value is not None}
        most = min(server["max_num_seqs"], server["blocks"] * server["block_size"] // max(round(prompt + output), 1), 4096)
        batches = [2**power for power in range(max(int(most), 1).bit_length())]
        try:
            steps = compile(self.model, self.hardware, phase="decode", **deployment)
            times = steps(batch=np.array(batches), context=round(prompt + output / 2), estimate=True)
        except RooflineError:  # such as of replicas that divide a node: the search begins lower
            return guess
        seconds = times["time_estimate_s"] if np.isfinite(times["time_estimate_s"]).all() else times["time_bound_s"]
        allowed = [
            (batch, took) for batch, took in zip(batches, seconds.tolist(), strict=True) if took <= (one["tpot_s"] or math.inf)
        ]
        rates = [1 / ((probe.ttft_s.mean or 0.0) + (output - 1) * took / batch) for batch, took in allowed]
        return max([guess, *(float(server["replicas"] * rate / 2) for rate in rates)])


def _rounded(rate: float) -> float:
    return float(f"{rate:.{_DIGITS}g}")
