"""Measure one point: make its inputs, time it, fill the columns of a record; leave out what would take too long."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import torch

from roofline.measure.bench.devices import Device, SamplingBudget, Timing
from roofline.measure.bench.kernels import make
from roofline.measure.bench.kernels.base import NotRunnableError, TensorFactory, first_line, nbytes, tf32
from roofline.measure.bench.point import COMPILED, Point
from roofline.measure.bench.suites import COLD, MOST_SETS

_SHARE_OF_MEMORY = 0.6  # of what is free: outputs and what kernels take for themselves need memory too
_SHARE_OF_SETS = 0.3  # likewise, for the sets of a cold point: a host with a large cache has other work in its memory


def measure(point: Point, device: Device, factory: TensorFactory, effort: SamplingBudget, pace: SeenRates) -> Timing:
    """Measure a point.

    Args:
        point: what to measure.
        device: where.
        factory: makes the inputs: one set, or for cold points as many as exceed the caches.
        effort: how long to sample.
        pace: refuses points that would take too long.

    Raises:
        NotRunnableError: if the device or torch cannot run it, memory is too small, or it would take too long.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with tf32(allowed=point.dtype == "tf32"), torch.no_grad():
                return _measure(point, device, factory, effort, pace)
        except NotRunnableError as error:
            why = " ".join([str(error), *_words(caught)])
        except torch.OutOfMemoryError:
            why = "out of memory"
        except Exception as error:  # noqa: BLE001 - compilers and kernels raise what they like, and the next point goes on
            why = f"{type(error).__name__}: {first_line(error)}"
    # NB: raised out here, where nothing holds the frames above with the memory of the point in them.
    raise NotRunnableError(why)


def _words(caught: list[warnings.WarningMessage]) -> list[str]:
    """Why torch did not choose a kernel, which it says in warnings."""
    texts = [str(warning.message).partition(" (Triggered internally")[0] for warning in caught]
    return [text for text in dict.fromkeys(texts) if not text.rstrip().endswith("not used because:")][:1]


def _measure(point: Point, device: Device, factory: TensorFactory, effort: SamplingBudget, pace: SeenRates) -> Timing:
    least = point.cost.bytes
    if least > _SHARE_OF_MEMORY * device.free_bytes():
        raise NotRunnableError(f"needs {least / 2**30:.1f} GiB, {device.free_bytes() / 2**30:.1f} GiB are free")
    kernel = make(point, factory)
    first = kernel.inputs()
    begin = time.monotonic()
    outputs: list[Any] = [kernel.run(*first)]  # also shows early whether it runs at all
    device.wait()
    if point.backend != COMPILED:  # whose first call compiles
        pace.check_first(time.monotonic() - begin)
    # Of a table or of many experts a call touches a part.
    each = min(nbytes((first, outputs)), point.cost.bytes)
    sets = [first]
    wanted = max(1, min(MOST_SETS, math.ceil(2 * COLD * device.cache_bytes / each))) if point.cache == "cold" else 1
    if wanted > 1:
        available = _SHARE_OF_SETS * device.free_bytes()
        if nbytes(first) < device.free_bytes():  # the most that a second set may take
            sets.append(kernel.inputs())
        # NB: a table that all sets share is in memory once
        another = nbytes((sets, outputs)) - nbytes(first)
        if len(sets) == 1 or (wanted - 1) * another > available:
            raise NotRunnableError("too little memory for inputs that are not in the cache")
        sets += [kernel.inputs() for _ in range(wanted - 2)]
    # Each set keeps its last output, so that outputs take turns in memory as inputs do.
    outputs += [None] * (len(sets) - 1)

    def run(turn: int) -> None:
        index = turn % len(sets)
        outputs[index] = kernel.run(*sets[index])

    pace.check(point)
    return device.measure(run, len(sets), effort, launches=point.timing == "eager", composed=kernel.composed)


def record(point: Point, timing: Timing, columns: dict[str, str], counted: dict[str, float]) -> dict[str, str]:
    """The row of a measurement, cells as text.

    Args:
        point: what was measured.
        timing: of one call; latencies are written in microseconds.
        columns: that identify the record (`Point.columns`).
        counted: hardware counters by column.
    """
    return columns | {
        "latency_us": f"{timing.median * 1e6:.4f}",
        "latency_p10_us": f"{timing.p10 * 1e6:.4f}",
        "latency_p90_us": f"{timing.p90 * 1e6:.4f}",
        "notes": timing.notes,
        **{name: f"{value:.0f}" for name, value in counted.items()},
    }


_CALLS = 10  # warm-up and samples at least
_LAUNCH = 1e-4  # seconds


@dataclass(slots=True)
class SeenRates:
    """The best rates so far of each `Point.kind`: FLOP/s and byte/s. What has not been seen is taken to be fast."""

    longest: float
    """Seconds that a point may take."""
    flops: dict[tuple[str, str, str], float] = field(default_factory=dict)
    bandwidth: dict[tuple[str, str, str], float] = field(default_factory=dict)

    def seconds(self, point: Point) -> float:
        """The expected seconds of a call, by the rates of its kind; 0 where none was seen."""
        kind, cost = point.kind, point.cost
        by_flops = cost.matrix_flops / self.flops[kind] if self.flops.get(kind) else 0.0
        by_bytes = cost.bytes / self.bandwidth[kind] if kind in self.bandwidth else 0.0
        # NB: each rate was reached where the other resource may have been the slower one: the larger is an upper estimate.
        return float(min(filter(None, (by_flops, by_bytes)), default=0.0))

    def learn(self, point: Point, seconds: float) -> None:
        """Take in the seconds of a call; below 0.1 ms it is mostly launches, and says nothing about rates."""
        if seconds < _LAUNCH:
            return
        kind, cost = point.kind, point.cost
        self.flops[kind] = max(self.flops.get(kind, 0.0), cost.matrix_flops / seconds)
        self.bandwidth[kind] = max(self.bandwidth.get(kind, 0.0), cost.bytes / seconds)

    def check(self, point: Point) -> None:
        """Refuse a point that would take too long.

        Raises:
            NotRunnableError: if ten calls are expected to take more than `longest`.
        """
        expected = self.seconds(point) * _CALLS
        if expected > self.longest:
            raise NotRunnableError(f"would take about {expected:.0f} s on this device: left out")

    def check_first(self, seconds: float) -> None:
        """Refuse a point by the seconds of its first call.

        Raises:
            NotRunnableError: if they are more than `longest`.
        """
        if seconds > self.longest:
            raise NotRunnableError(f"its first call took {seconds:.0f} s on this device: left out")


def _kind(point: Point) -> tuple[str, str, str]:
    return point.op, point.dtype, point.backend
