"""How a server's state goes over time, in at most so many equal intervals, which double when time runs out of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

INTERVALS = 512
_FIRST = 1 / 64  # seconds
LEVELS = ("running", "waiting", "blocks")
COUNTS = ("arrived", "ended", "output_tokens", "prompt_tokens", "preemptions", "recomputed_tokens", "swapped_tokens")
"""Prompt tokens with those that are computed again; swapped ones as they move out."""


class Series:
    """Levels (integrated over time) and counts by interval."""

    __slots__ = ("sums", "width")

    def __init__(self) -> None:
        import numpy as np

        self.width = _FIRST
        self.sums: dict[str, Array] = {name: np.zeros(INTERVALS) for name in (*LEVELS, *COUNTS)}

    def reach(self, time: float) -> None:
        """Widen the intervals until a time is in one of them."""
        import numpy as np

        while time >= self.width * INTERVALS:
            for name, values in self.sums.items():
                self.sums[name] = np.concatenate([values[0::2] + values[1::2], np.zeros(INTERVALS // 2)])
            self.width *= 2

    def count(self, name: str, times: Array, weights: Array | None = None) -> None:
        """Events at times, each of a weight."""
        import numpy as np

        if len(times):
            self.reach(float(times.max()))
            self.sums[name] += np.bincount((times / self.width).astype(np.int64), weights, INTERVALS)

    def level(self, name: str, begins: Array, ends: Array, values: Array) -> None:
        """Something that has a value from one time to another; what several replicas have adds up."""
        self._spread(name, begins, ends, values)

    def ramp(self, name: str, begins: Array, ends: Array, means: Array, grown: Array) -> None:
        """A level that grows evenly, by so much; `means` are those of the whole time. It is flat within an interval."""
        import numpy as np

        if not len(ends):
            return
        self.reach(float(ends.max()))
        tall = (grown > 0) & (ends - begins > self.width / 2)
        if not tall.any():
            self._spread(name, begins, ends, means)
            return
        flat = ~tall
        self._spread(name, begins[flat], ends[flat], means[flat])
        begins, ends, means, grown = (values[tall] for values in (begins, ends, means, grown))
        pieces = np.ceil((ends - begins) * (2 / self.width)).astype(np.int64)
        of = np.repeat(np.arange(len(pieces)), pieces)
        share = (np.arange(len(of)) - (np.cumsum(pieces) - pieces)[of]) / pieces[of]  # of the time, before each piece
        took = (ends - begins)[of]
        first, part = begins[of] + took * share, 1 / pieces[of]
        last = np.minimum(first + took * part, ends[of])
        self._spread(name, first, last, means[of] + grown[of] * (share + part / 2 - 0.5))

    def spread(self, name: str, begins: Array, ends: Array, amounts: Array) -> None:
        """Counts that come evenly from one time to another."""
        import numpy as np

        self._spread(name, begins, ends, amounts / np.maximum(ends - begins, 1e-300))

    def _spread(self, name: str, begins: Array, ends: Array, rates: Array) -> None:
        """The integral of rates over each interval: a sum of parts that are none of them negative, so that intervals without
        any stay exactly 0."""
        import numpy as np

        if not len(ends):
            return
        self.reach(float(ends.max()))
        width = self.width
        first = (begins / width).astype(np.int64)
        pieces = (ends / width).astype(np.int64) - first + 1
        # NB: what a replica does comes one after another, so that there are few more pieces than rates and intervals
        of = np.repeat(np.arange(len(pieces)), pieces)
        place = first[of] + np.arange(len(of)) - (np.cumsum(pieces) - pieces)[of]
        within = np.minimum(ends[of], (place + 1) * width) - np.maximum(begins[of], place * width)
        self.sums[name] += np.bincount(place, rates[of] * within, INTERVALS)

    def mean(self, name: str, begin: float, end: float) -> float:
        """A level's mean, or a count's rate, between two times, by whole intervals."""
        first, last = int(begin / self.width), max(int(end / self.width), int(begin / self.width) + 1)
        return float(self.sums[name][first:last].sum() / (last - first) / self.width)

    def to_dict(self, until: float) -> dict[str, Any]:
        """Interval by interval, up to a time: means of levels, and counts a second."""
        many = min(int(until / self.width) + 1, INTERVALS)
        found: dict[str, Any] = {"interval_s": self.width}
        for name in LEVELS:
            found[name] = (self.sums[name][:many] / self.width).tolist()
        for name in COUNTS:
            found[f"{name}_per_s"] = (self.sums[name][:many] / self.width).tolist()
        return found
