"""Metrics of a run: latencies, tokens, goodput, and levels over time, summed up from its log part by part; and for
how long the matrix units and the memory of a device run at their peaks.

The work of every step comes from the runs and chunks of the log, by the same formulas as its seconds (`step_tables.py`), on
grids: work is affine in tokens and contexts, but for the experts that a step reads, which the grid follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from roofline.serving.simulation.batches import OF_CLASS, Batch, Batches, Groups, merged
from roofline.serving.simulation.histogram import Histogram
from roofline.serving.simulation.step_log import CHUNK, END, GAP, LOAD, RECOMPUTED, RUN, SHED, StepLog
from roofline.serving.simulation.step_tables import StepTables, knots
from roofline.serving.simulation.step_time import RESOURCES
from roofline.specs.workload import Segment

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roofline.serving.simulation.fleet import FleetRecord

    Array = NDArray[Any]

COSTS = ("recomputed_tokens", "recompute_s", "swapped_tokens", "swap_s")
"""What preemptions cost."""
LEVELS = ("running", "waiting", "blocks")
FLEET_LEVELS = ("replicas", "serving")
"""Replicas that are held, and of those the ones that serve: where their number changes."""
COUNTS = ("arrived", "ended", "shed", "output_tokens", "prompt_tokens", "preemptions", "recomputed_tokens", "swapped_tokens")
"""Prompt tokens include those that are computed again; swapped tokens count when they move out."""
STARVED_BY = 100
"""Later requests that are admitted before one that a scheduler starves, at least."""
INTERVALS = 512
_FIRST_WIDTH = 1 / 64  # seconds
_STEP_RATIO = 1e-3
"""Share by which steps that are counted as one may differ."""

Objectives = Mapping[int, tuple[float, float]]
"""TTFT and TPOT objectives in seconds, by class."""


class TimeSeries:
    """Levels (integrated over time) and counts by interval: at most `INTERVALS` equal ones, which double in width when time
    runs past them."""

    __slots__ = ("sums", "width")

    def __init__(self) -> None:
        import numpy as np

        self.width = _FIRST_WIDTH
        self.sums: dict[str, Array] = {name: np.zeros(INTERVALS) for name in (*LEVELS, *COUNTS)}

    def extend_to(self, time: float) -> None:
        """Widen the intervals until a time, in seconds, is in one of them."""
        import numpy as np

        while time >= self.width * INTERVALS:
            for name, values in self.sums.items():
                self.sums[name] = np.concatenate([values[0::2] + values[1::2], np.zeros(INTERVALS // 2)])
            self.width *= 2

    def count(self, name: str, times: Array, weights: Array | None = None) -> None:
        """Add events at `times` in seconds, shape (n,), each with a weight, shape (n,); default 1."""
        import numpy as np

        if len(times):
            self.extend_to(float(times.max()))
            self.sums[name] += np.bincount((times / self.width).astype(np.int64), weights, INTERVALS)

    def count_evenly(self, name: str, begins: Array, ends: Array, amounts: Array) -> None:
        """Add `amounts` that come evenly from `begins` to `ends`, in seconds; all of shape (n,)."""
        import numpy as np

        self.level(name, begins, ends, amounts / np.maximum(ends - begins, 1e-300))

    def level(self, name: str, begins: Array, ends: Array, values: Array) -> None:
        """Add a level with `values` from `begins` to `ends`, in seconds, all of shape (n,); those of several replicas add up.

        The integral over each interval is a sum of parts none of which is negative, so intervals without any stay exactly 0.
        """
        import numpy as np

        if not len(ends):
            return
        self.extend_to(float(ends.max()))
        width = self.width
        first = (begins / width).astype(np.int64)
        pieces = (ends / width).astype(np.int64) - first + 1
        # NB: the steps of a replica follow one another, so that there are few more pieces than values and intervals
        of = np.repeat(np.arange(len(pieces)), pieces)
        place = first[of] + np.arange(len(of)) - (np.cumsum(pieces) - pieces)[of]
        within = np.minimum(ends[of], (place + 1) * width) - np.maximum(begins[of], place * width)
        self.sums[name] += np.bincount(place, values[of] * within, INTERVALS)

    def ramp(self, name: str, begins: Array, ends: Array, means: Array, grown: Array) -> None:
        """Add a level with `means` that grows evenly by `grown` from `begins` to `ends`, in seconds; all of shape (n,).

        Within an interval it is flat.
        """
        import numpy as np

        if not len(ends):
            return
        self.extend_to(float(ends.max()))
        tall = (grown > 0) & (ends - begins > self.width / 2)
        if not tall.any():
            self.level(name, begins, ends, means)
            return
        flat = ~tall
        self.level(name, begins[flat], ends[flat], means[flat])
        begins, ends, means, grown = (values[tall] for values in (begins, ends, means, grown))
        pieces = np.ceil((ends - begins) * (2 / self.width)).astype(np.int64)
        of = np.repeat(np.arange(len(pieces)), pieces)
        share = (np.arange(len(of)) - (np.cumsum(pieces) - pieces)[of]) / pieces[of]  # of the time, before each piece
        took = (ends - begins)[of]
        first, part = begins[of] + took * share, 1 / pieces[of]
        last = np.minimum(first + took * part, ends[of])
        self.level(name, first, last, means[of] + grown[of] * (share + part / 2 - 0.5))

    def mean(self, name: str, begin: float, end: float) -> float:
        """Return a level's mean, or a count's rate per second, between two times in seconds, by whole intervals."""
        first, last = int(begin / self.width), max(int(end / self.width), int(begin / self.width) + 1)
        return float(self.sums[name][first:last].sum() / (last - first) / self.width)

    def to_dict(self, until: float) -> dict[str, Any]:
        """Return plain data, interval by interval up to a time in seconds: means of levels, and counts per second."""
        num = min(int(until / self.width) + 1, INTERVALS)
        values = {name: (sums[:num] / self.width).tolist() for name, sums in self.sums.items()}
        levels = (*LEVELS, *FLEET_LEVELS)
        return {"interval_s": self.width, **{name if name in levels else f"{name}_per_s": of for name, of in values.items()}}


class Metrics:
    """Sums over a run.

    Args:
        num_warm_up: the first requests, which are not counted.
        objectives: TTFT and TPOT objectives by class.
        utilization: computes busy seconds from the log; None: they are not counted.
        rows: gets the requests that have ended, as columns of `END`, part by part.
    """

    def __init__(
        self, *, num_warm_up: int = 0, objectives: Objectives | None = None,
        utilization: Utilization | None = None, rows: Callable[[dict[str, Array]], None] | None = None,
    ) -> None:  # fmt: skip
        self.objectives, self.rows = objectives or {}, rows
        self.batches = Batches(num_warm_up)
        self.groups = {name: Groups(num_warm_up) for name in ("ttft", "e2e")}
        """Latencies by which the warm-up is cut."""
        self.num_cut_batches = 0
        """The first batches, which do not count either: they are of the warm-up."""
        self._counted: Batch | None = None
        self.series = TimeSeries()
        self._utilization = utilization
        self.utilized_s = {"matrix": 0.0, "memory": 0.0}
        self.recomputed_tokens = self.recompute_s = self.swapped_tokens = self.swap_s = 0.0
        """What preemptions cost, of the whole run: tokens computed again, seconds that steps took longer for them, tokens that
        moved to the host, seconds in which steps waited for copies."""
        self.last = 0.0
        """When the last request ended."""
        self.longest_wait: dict[str, Any] | None = None
        """Of the request with the longest time to first token: `request`, `class` (its number), `seconds`, and how many that
        came later were `admitted_before` it, at least."""
        self.longest_passed: dict[str, Any] | None = None
        """The same of those before which at least `STARVED_BY` later ones were admitted."""
        self.block_seconds = 0.0

    # What counts

    @property
    def counted(self) -> Batch:
        """Sums over the requests that count: completed ones, those that met the SLO, their tokens and latencies."""
        if self._counted is None:
            self._counted = merged(self.counted_batches)
        return self._counted

    @property
    def counted_batches(self) -> list[Batch]:
        """Batches of the requests that count, in the order of their arrival."""
        return list(self.batches)[self.num_cut_batches :]

    @property
    def times(self) -> dict[str, Histogram]:
        """Latencies of the requests that count, in seconds, by name."""
        return self.counted.times

    @property
    def after(self) -> float:
        """When the first request that counts arrived, in seconds; 0 where all count, infinity where it has not come."""
        starts = self.batches.starts
        return starts[self.num_cut_batches] if self.num_cut_batches < len(starts) else math.inf

    def cut(self, num_requests: int) -> int:
        """Leave the first requests out, in whole batches; return how many requests those have."""
        width = self.batches.width
        self.num_cut_batches = -(-num_requests // width)
        self._counted = None
        return self.num_cut_batches * width

    # The log

    def read(self, log: StepLog, pool: PoolSums | None = None) -> None:
        """Add the rows of a log to the sums, and empty it; those of a pool to its own sums too."""
        import numpy as np

        def table(row: Sequence[float], width: int) -> Array:
            return np.array(row, dtype=np.float64).reshape(-1, width)

        runs, ended = table(log.runs, len(RUN)), table(log.ends, len(END))
        gaps, swapped, chunks = table(log.gaps, len(GAP)), table(log.swapped, 2), table(log.chunks, len(CHUNK))
        recomputed, failed, loads, shed = (
            table(log.recomputed, len(RECOMPUTED)),
            table(log.failed, 2),
            table(log.loads, len(LOAD)),
            table(log.sheds, len(SHED)),
        )
        dropped, gap_ends = (np.array(row, dtype=np.float64) for row in (log.dropped, log.gap_ends))
        log.clear()
        self._counted = None
        self._add_ended(dict(zip(END, ended.T, strict=True)))
        if len(failed):
            self._add_failed(*failed.T)
        if len(shed):
            self._add_shed(dict(zip(SHED, shed.T, strict=True)))
        self._add_runs(dict(zip(RUN, runs.T, strict=True)), gives_tokens=pool is None or pool.gives_tokens)
        if pool is not None:
            pool.add(runs, chunks)
        for batch, rows in self.batches.of_times(gap_ends):
            batch.times["itl"].add(gaps[rows, 0], gaps[rows, 1])
        for batch, rows in self.batches.of_requests(loads[:, 0]) if len(loads) else ():
            for tier in np.unique(loads[rows, 1]).astype(np.int64).tolist():
                tokens = float(loads[rows, 2][loads[rows, 1] == tier].sum())
                batch.loaded_tokens[tier] = batch.loaded_tokens.get(tier, 0.0) + tokens
        self.series.count("preemptions", np.concatenate([dropped, swapped[:, 0]]))
        self.series.count("swapped_tokens", swapped[:, 0], swapped[:, 1])
        self.swapped_tokens += float(swapped[:, 1].sum())
        self.series.count_evenly("recomputed_tokens", *recomputed[:, :3].T)
        self.recomputed_tokens += float(recomputed[:, 2].sum())
        self.recompute_s += float(recomputed[:, 3].sum())
        if self._utilization is not None:
            for name, seconds in self._utilization.seconds(runs, chunks).items():
                self.utilized_s[name] += seconds

    def _add_ended(self, ended: dict[str, Array]) -> None:
        import numpy as np

        arrived, at, output = ended["arrived"], ended["ended"], ended["output"]
        if not len(at):
            return
        if self.rows is not None:
            self.rows(ended)
        self.last = max(self.last, float(at.max()))
        self.series.count("arrived", arrived)
        self.series.count("ended", at)
        ttft, e2e = ended["first"] - arrived, at - arrived
        tpot = (at - ended["first"]) / np.maximum(output - 1, 1)
        good = np.ones(len(at), dtype=bool)
        within = {"ttft": good.copy(), "tpot": good.copy()}
        for index, (max_ttft, max_tpot) in self.objectives.items():
            others = ended["class"] != index
            within["ttft"] &= others | (ttft <= max_ttft)
            within["tpot"] &= others | (tpot <= max_tpot) | (output == 1)
        good = within["ttft"] & within["tpot"]
        self.longest_wait = _longest(ended, ttft, self.longest_wait)
        if (passed := ended["passed"] >= STARVED_BY).any():
            self.longest_passed = _longest({name: of[passed] for name, of in ended.items()}, ttft[passed], self.longest_passed)
        several_classes = bool((ended["class"] != ended["class"][0]).any())
        self.groups["ttft"].add(ended["index"], ttft)
        self.groups["e2e"].add(ended["index"], e2e)
        for batch, rows in self.batches.of_requests(ended["index"]):
            several = rows[output[rows] > 1]
            batch.times["ttft"].add(ttft[rows])
            batch.times["e2e"].add(e2e[rows])
            batch.times["tpot"].add(tpot[several])
            batch.completed += len(rows)
            batch.good += int(good[rows].sum())
            batch.output_tokens += float(output[rows].sum())
            batch.prompt_tokens += float(ended["prompt"][rows].sum())
            batch.cached_tokens += float(ended["cached"][rows].sum())
            batch.preempted += int((ended["preemptions"][rows] > 0).sum())
            which = ended["class"][rows]
            for index in np.unique(which).astype(np.int64).tolist() if several_classes else [int(which[0])]:
                of = rows[which == index]
                sums = (one[of].sum() for one in (good, within["ttft"], within["tpot"], ttft, e2e, output))
                batch.add_class(index, [float(len(of)), *map(float, sums), 0.0, 0.0])

    def _add_failed(self, indices: Array, classes: Array) -> None:
        import numpy as np

        for batch, rows in self.batches.of_requests(indices):
            batch.failed += len(rows)
            for index, number in zip(*np.unique(classes[rows], return_counts=True), strict=True):
                batch.add_class(int(index), [*[0.0] * (len(OF_CLASS) - 2), float(number), 0.0])

    def _add_shed(self, shed: dict[str, Array]) -> None:
        import numpy as np

        self.series.count("arrived", shed["arrived"])
        self.series.count("shed", shed["shed"])
        for batch, rows in self.batches.of_requests(shed["index"]):
            batch.shed += len(rows)
            for index, num in zip(*np.unique(shed["class"][rows], return_counts=True), strict=True):
                batch.add_class(int(index), [*[0.0] * (len(OF_CLASS) - 1), float(num)])

    def _add_runs(self, runs: dict[str, Array], *, gives_tokens: bool = True) -> None:
        import numpy as np

        begins, ends, steps = runs["begins"], runs["ends"], runs["steps"]
        if not len(ends):
            return
        sequences = runs["sequences"]
        self.block_seconds += float(((ends - begins) * runs["blocks"]).sum())
        for name in ("running", "waiting"):
            self.series.level(name, begins, ends, runs[name])
        self.series.ramp("blocks", begins, ends, runs["blocks"], runs["grown"])
        self.swap_s += float(runs["lead"].sum())
        prompts_ended = runs["prompts"] if gives_tokens else 0.0
        self.series.count_evenly("output_tokens", begins, ends, runs["tokens"] * steps + prompts_ended)
        prompts = runs["prompt_tokens"] > 0
        self.series.count_evenly("prompt_tokens", begins[prompts], ends[prompts], runs["prompt_tokens"][prompts])
        decode = np.flatnonzero(sequences > 0)
        for batch, positions in self.batches.of_times(begins[decode]):
            _add_gaps(batch.times["itl"], {name: runs[name][decode[positions]] for name in _OF_GAPS})

    def add_fleet(self, record: FleetRecord) -> None:
        """Add the replicas of a fleet, and the waits of requests at the router, to the series."""
        import numpy as np

        for name, spans in (("replicas", record.held), ("serving", record.served), ("waiting", record.queued)):
            begins, ends = np.array(spans, dtype=np.float64).reshape(-1, 2).T
            self.series.sums.setdefault(name, np.zeros(INTERVALS))
            self.series.level(name, begins, ends, np.ones(len(ends)))

    def saturated(self, first: float, last: float) -> bool:
        """Return whether requests that arrived between two times, in seconds, came faster than they were served.

        In the second half of that time more must have arrived than have ended or were shed, by 2 % of those that arrived, and
        by more than chance brings (three times the root of their number); and there must be requests that wait.
        """
        width, sums = self.series.width, self.series.sums
        middle, end = int((first + last) / 2 / width), int(last / width) + 1
        arrived, ended, shed = (float(sums[name][middle:end].sum()) for name in ("arrived", "ended", "shed"))
        ended += shed
        waiting = self.series.mean("waiting", last - (last - first) / 20, last)
        return arrived - ended > max(arrived / 50, 3 * math.sqrt(arrived)) and waiting >= 1


def _longest(ended: dict[str, Array], ttft: Array, before: dict[str, Any] | None) -> dict[str, Any]:
    """The longest time to first token of requests that have ended, or of those before."""
    place = int(ttft.argmax())
    if before is not None and before["seconds"] >= ttft[place]:
        return before
    return {
        "request": int(ended["index"][place]), "class": int(ended["class"][place]), "seconds": float(ttft[place]),
        "admitted_before": int(ended["passed"][place]),
    }  # fmt: skip


class PoolSums:
    """Sums over the steps of one pool of replicas.

    Args:
        utilization: computes busy seconds from its log.
        gives_tokens: whether the token after a prompt is one that the client gets.
    """

    __slots__ = (
        "block_seconds",
        "gives_tokens",
        "running_s",
        "step_s",
        "utilization",
        "utilized_s",
        "waiting_s",
    )

    def __init__(self, utilization: Utilization, *, gives_tokens: bool = True) -> None:
        self.utilization, self.gives_tokens = utilization, gives_tokens
        self.utilized_s = dict.fromkeys(("matrix", "memory"), 0.0)
        self.block_seconds = self.step_s = self.running_s = self.waiting_s = 0.0
        """Blocks taken, time in steps, requests that run and that wait, integrated over the steps."""

    def add(self, runs: Array, chunks: Array) -> None:
        """Add rows with the columns `RUN` and `CHUNK`."""
        took = runs[:, _COLUMN["ends"]] - runs[:, _COLUMN["begins"]]
        self.step_s += float(took.sum())
        self.block_seconds += float(took @ runs[:, _COLUMN["blocks"]])
        self.running_s += float(took @ runs[:, _COLUMN["running"]])
        self.waiting_s += float(took @ runs[:, _COLUMN["waiting"]])
        for name, seconds in self.utilization.seconds(runs, chunks).items():
            self.utilized_s[name] += seconds


_OF_GAPS = ("lead", "more", "seconds", "sequences", "stalled", "steps")


def _add_gaps(times: Histogram, runs: dict[str, Array]) -> None:
    """Add the times between tokens of runs of steps that decode."""
    import numpy as np

    sequences, steps = runs["sequences"], runs["steps"]
    times.add(runs["seconds"] + runs["lead"], sequences - runs["stalled"])
    longer = steps > 1
    seconds, more, steps, sequences = (values[longer] for values in (runs["seconds"], runs["more"], steps, sequences))
    last = seconds + more * (steps - 1)
    # the later steps of a run in pieces of steps that are nearly equal; their sum is exact
    pieces = np.clip(np.ceil(np.abs(last / seconds - 1) / _STEP_RATIO), 1, steps - 1).astype(np.int64)
    of = np.repeat(np.arange(len(pieces)), pieces)
    place = np.arange(len(of)) - np.repeat(np.cumsum(pieces) - pieces, pieces) + 0.5
    share = (steps - 1)[of] / pieces[of]
    times.add(seconds[of] + more[of] * (0.5 + place * share), sequences[of] * share)


_COLUMN = {name: place for place, name in enumerate(RUN)}
_POINTS = 24  # numbers of sequences


@dataclass
class Utilization:
    """Seconds at the peaks for the steps of one replica, mean over its pipeline stages."""

    tables: StepTables

    def seconds(self, runs: Array, chunks: Array) -> dict[str, float]:
        """Return the seconds at the peak of each of `RESOURCES` over all steps of a log.

        Args:
            runs: rows with the columns `RUN`, (runs, 16).
            chunks: rows with the columns `CHUNK`, (chunks, 2).
        """
        import numpy as np

        sequences, steps = runs[:, _COLUMN["sequences"]], runs[:, _COLUMN["steps"]]
        tokens = runs[:, _COLUMN["prompt_tokens"]]
        decode, prompt = sequences > 0, tokens > 0
        grown = runs[decode, _COLUMN["tokens"]] / sequences[decode]
        context = runs[decode, _COLUMN["cached"]] / sequences[decode] + grown * (steps[decode] - 1) / 2
        decodes = np.ceil(sequences[prompt] / self.tables.num_microbatches) * self.tables.num_step_tokens
        new, before = chunks.T
        past = before > 0
        at_peak: dict[str, float] = {}
        for name in RESOURCES:
            grids = self._grids[name]
            total = float((_bilinear(grids["decode"], sequences[decode], context) * steps[decode]).sum())
            if prompt.any():
                rest = np.interp(decodes + tokens[prompt], *grids["rest"])
                rest -= np.where(decodes > 0, np.interp(decodes, *grids["rest"]), 0.0)
                total += float(rest.sum() + np.interp(new, *grids["own"]).sum())
            if past.any():
                total += float(_bilinear(grids["past"], new[past], before[past]).sum())
            at_peak[name] = total
        return at_peak

    @cached_property
    def _grids(self) -> dict[str, dict[str, Any]]:
        import numpy as np

        tables, stages = self.tables, self.tables.num_microbatches
        budget = tables.request.memory.max_num_batched_tokens + tables.max_num_seqs
        sequences = np.unique(np.geomspace(1, max(tables.max_num_seqs, 2), _POINTS).round())
        contexts = np.array([1, *knots(tables.max_model_len, 1.25)[1:]], dtype=np.float64)
        tokens = np.array([1, 2, 4, 8, *knots(max(budget, tables.max_model_len), 1.05)[1:]], dtype=np.float64)
        microbatches = np.minimum(stages, sequences)[:, None]
        batch = np.ceil(sequences[:, None] / microbatches)
        alone = tables.utilization((Segment(tables.ranks, tokens, 0),))
        later = tables.utilization((Segment(tables.ranks, tokens[:, None], contexts),))
        grids: dict[str, dict[str, Any]] = {}
        for name in RESOURCES:
            whole = sum(tables.decode_seconds(batch, contexts, name)) * microbatches / stages
            first = np.sum([parts.total for parts in later[name]], axis=0)
            shared = sum(parts.rest + parts.prompts for parts in alone[name])
            grids[name] = {
                "decode": (sequences, contexts, np.broadcast_to(whole, (len(sequences), len(contexts)))),
                "rest": (tokens, np.broadcast_to(shared, tokens.shape) / stages),
                "own": (tokens, np.broadcast_to(sum(parts.own for parts in alone[name]), tokens.shape) / stages),
                "past": (tokens, contexts, (first - first[:, :1]) / stages),
            }
        return grids


def _bilinear(grid: tuple[Array, Array, Array], x: Array, y: Array) -> Array:
    import numpy as np

    xs, ys, values = grid
    i = np.clip(np.searchsorted(xs, x, side="right") - 1, 0, len(xs) - 2)
    j = np.clip(np.searchsorted(ys, y, side="right") - 1, 0, len(ys) - 2)
    u, v = (x - xs[i]) / (xs[i + 1] - xs[i]), (y - ys[j]) / (ys[j + 1] - ys[j])
    near = values[i, j] * (1 - v) + values[i, j + 1] * v
    far = values[i + 1, j] * (1 - v) + values[i + 1, j + 1] * v
    return np.asarray(near * (1 - u) + far * u)
