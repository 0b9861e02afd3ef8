"""Where the device was idle in a step, and why; and communication that nothing hides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from roofline.measure.profile.trace import Trace


@dataclass(frozen=True, slots=True)
class Gaps:
    """Idle time of a device.

    Attributes:
        span_s: from the first start to the last end.
        running_s: at least one kernel runs, whatever the stream.
        launch_bound_s: idle time before kernels that the host had not launched when the device became free.
        after_sync_s: the part of it in which the host had to wait for the device first (a synchronization that ended in it).
        queued_s: idle time before kernels that were launched already: what the device needs between kernels.
        unknown_s: idle time before kernels of which the launch is not known.
        communication_s: some collective runs.
        communication_exposed_s: the part of it in which no other kernel runs.
        longest: the longest gaps: start, duration and cause ("launch", "sync", "queue", "unknown"), the longest first.
    """

    span_s: float
    running_s: float
    launch_bound_s: float
    after_sync_s: float
    queued_s: float
    unknown_s: float
    communication_s: float
    communication_exposed_s: float
    longest: tuple[tuple[float, float, str], ...] = ()

    @property
    def idle_s(self) -> float:
        """Nothing runs."""
        return self.span_s - self.running_s


LISTED = 20


def find_gaps(trace: Trace, kernels: np.ndarray, collective: np.ndarray) -> Gaps:
    """The idle times between some kernels of a trace, on one device.

    Args:
        trace: as read.
        kernels: indices, in the order of start.
        collective: whether each of all kernels of the trace exchanges data, a boolean array of shape [kernels of the trace].

    Returns:
        The gaps; all zero without kernels.
    """
    import numpy as np

    if not len(kernels):
        return Gaps(0, 0, 0, 0, 0, 0, 0, 0)
    columns = trace.kernels
    start = columns.column("start_s")[kernels]
    end = start + columns.column("duration_s")[kernels]
    launch = columns.column("launch_s")[kernels]
    covered = np.maximum.accumulate(end)
    idle = np.maximum(start[1:] - covered[:-1], 0.0)
    gap = idle > 0
    free, late = covered[:-1], launch[1:] > covered[:-1]
    unknown = np.isnan(launch[1:])
    waits = np.zeros(len(idle), dtype=bool)
    if trace.syncs:
        ends = np.array(sorted(begin + duration for begin, duration in trace.syncs))
        following = np.minimum(np.searchsorted(ends, free), len(ends) - 1)
        waits = (ends[following] >= free) & (ends[following] <= launch[1:])
    shared = collective[kernels]
    alone = _union(start[shared], end[shared])
    both = _union(start, end)
    others = _union(start[~shared], end[~shared])
    causes = np.where(unknown, "unknown", np.where(late, np.where(waits, "sync", "launch"), "queue"))
    longest = sorted(((float(free[at]), float(idle[at]), str(causes[at])) for at in np.flatnonzero(gap)), key=lambda g: -g[1])
    return Gaps(
        span_s=float(covered[-1] - start[0]),
        running_s=both,
        launch_bound_s=float(idle[late & ~unknown].sum()),
        after_sync_s=float(idle[late & ~unknown & waits].sum()),
        queued_s=float(idle[~late & ~unknown].sum()),
        unknown_s=float(idle[unknown].sum()),
        communication_s=alone,
        communication_exposed_s=both - others,
        longest=tuple(longest[:LISTED]),
    )


def running(trace: Trace, kernels: np.ndarray) -> float:
    """The seconds in which at least one of some kernels runs; their indices are in the order of start, on one device."""
    start = trace.kernels.column("start_s")[kernels]
    return _union(start, start + trace.kernels.column("duration_s")[kernels])


def _union(start: np.ndarray, end: np.ndarray) -> float:
    """The length of the union of intervals that are ordered by their start."""
    import numpy as np

    if not len(start):
        return 0.0
    covered = np.maximum.accumulate(end)
    gaps = np.maximum(start[1:] - covered[:-1], 0.0).sum()
    return float(covered[-1] - start[0] - gaps)
