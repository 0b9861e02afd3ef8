"""Sums over a run by batches of requests in the order of their arrival: what intervals and the warm-up are computed from.

There are 32 to 64 batches of equally many requests, whatever the length of the run: when a 65th would begin, neighbours are
merged. Tokens count in the batch whose requests arrive while their step begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from roofline.serving.simulation.histogram import Histogram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

TIMES = ("ttft", "tpot", "itl", "e2e")
MAX_BATCHES = 64
GROUP = 5
"""Requests of a group of `Groups`, whose means the warm-up is cut by."""
_MAX_GROUPS = 1 << 16


OF_CLASS = ("completed", "good", "within_ttft", "within_tpot", "ttft", "e2e", "output_tokens", "failed", "shed")
"""Sums over the requests of a class."""


class Batch:
    """Sums over some requests: their latencies in seconds, how many completed, how many of those met the SLO, their tokens; how
    many failed with their replica, or were shed; and `OF_CLASS` by the number of their class."""

    __slots__ = (
        "cached_tokens", "classes", "completed", "failed", "good", "loaded_tokens", "output_tokens", "preempted",
        "prompt_tokens", "shed", "times",
    )  # fmt: skip

    def __init__(self) -> None:
        self.times = {name: Histogram() for name in TIMES}
        self.completed = self.failed = self.good = self.preempted = self.shed = 0
        self.output_tokens = self.prompt_tokens = self.cached_tokens = 0.0
        self.classes: dict[int, list[float]] = {}
        self.loaded_tokens: dict[int, float] = {}
        """Of `cached_tokens` those that were loaded from each KV cache tier, by its place."""

    @property
    def ended(self) -> int:
        """Requests that completed, failed or were shed: all that can miss the SLO."""
        return self.completed + self.failed + self.shed

    def add_class(self, index: int, sums: Sequence[float]) -> None:
        """Add `OF_CLASS` of some requests of a class."""
        before = self.classes.get(index, [0.0] * len(OF_CLASS))
        self.classes[index] = [one + more for one, more in zip(before, sums, strict=True)]

    def merge(self, other: Batch) -> None:
        """Add the sums of another batch."""
        for name, times in self.times.items():
            times.merge(other.times[name])
        self.completed += other.completed
        self.failed += other.failed
        self.good += other.good
        self.preempted += other.preempted
        self.shed += other.shed
        self.output_tokens += other.output_tokens
        self.prompt_tokens += other.prompt_tokens
        self.cached_tokens += other.cached_tokens
        for index, sums in other.classes.items():
            self.add_class(index, sums)
        for tier, tokens in other.loaded_tokens.items():
            self.loaded_tokens[tier] = self.loaded_tokens.get(tier, 0.0) + tokens


def merged(batches: Sequence[Batch]) -> Batch:
    """Return the sums over several batches."""
    whole = Batch()
    for one in batches:
        whole.merge(one)
    return whole


class Batches:
    """The batches of a run.

    Args:
        first_index: number of the first request that counts; those before it are in no batch.
    """

    __slots__ = ("_layout", "first_index", "next_index")

    def __init__(self, first_index: int = 0) -> None:
        self.first_index = self.next_index = first_index
        self._layout: tuple[int, list[float], list[Batch]] = (1, [], [])
        if not first_index:
            self.begin(0.0)

    @property
    def width(self) -> int:
        """Requests per batch."""
        return self._layout[0]

    @property
    def starts(self) -> list[float]:
        """When the first request of each batch arrived, in seconds; of the first batch of a whole run: 0."""
        return self._layout[1]

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._layout[2])

    def __len__(self) -> int:
        return len(self._layout[2])

    def begin(self, time: float) -> None:
        """Begin the batch of the request `next_index`, which arrives at `time`, in seconds."""
        width, starts, batches = self._layout
        if len(batches) >= MAX_BATCHES:
            pairs = zip(batches[0::2], batches[1::2], strict=True)
            width, starts, batches = 2 * width, starts[0::2], [merged(pair) for pair in pairs]
        # NB: assigned at once, so that a signal finds one or the other
        self._layout = (width, [*starts, time], [*batches, Batch()])
        self.next_index = self.first_index + (len(batches) + 1) * width

    def of_requests(self, indices: Array) -> Iterator[tuple[Batch, Array]]:
        """Yield each batch with the positions of its requests in `indices`, shape (n,): numbers of requests."""
        import numpy as np

        return self._groups(((indices - self.first_index) // self.width).astype(np.int64))

    def of_times(self, times: Array) -> Iterator[tuple[Batch, Array]]:
        """Yield each batch with the positions of the times, in seconds, shape (n,), at which its requests arrived."""
        import numpy as np

        return self._groups(np.searchsorted(self.starts, times, side="right") - 1)

    def _groups(self, numbers: Array) -> Iterator[tuple[Batch, Array]]:
        import numpy as np

        batches = self._layout[2]
        numbers = np.minimum(numbers, len(batches) - 1)  # of a log whose arrivals nothing has announced
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        edges = np.flatnonzero(np.diff(ordered)) + 1
        for part in np.split(order, edges):
            if len(part) and (number := int(numbers[part[0]])) >= 0:
                yield batches[number], part


class Groups:
    """Sums of a latency over groups of five requests in the order of their arrival; of a run of more than 300,000 requests over
    ten, twenty, ... requests.

    Args:
        first_index: number of the first request that counts.
    """

    __slots__ = ("_counts", "_sums", "first_index", "size")

    def __init__(self, first_index: int = 0) -> None:
        import numpy as np

        self.first_index, self.size = first_index, GROUP
        self._sums: Array = np.zeros(256)
        self._counts: Array = np.zeros(256)

    def add(self, indices: Array, seconds: Array) -> None:
        """Add times in seconds of the requests with numbers, both of shape (n,)."""
        import numpy as np

        counts = indices >= self.first_index
        indices, seconds = indices[counts].astype(np.int64) - self.first_index, seconds[counts]
        if not len(indices):
            return
        last = int(indices.max())
        while last // self.size >= _MAX_GROUPS:
            # NB: whole powers of two, so that there are always pairs
            self._sums, self._counts = (one[0::2] + one[1::2] for one in (self._sums, self._counts))
            self.size *= 2
        groups = indices // self.size
        num_groups = last // self.size + 1
        if (more := (1 << num_groups.bit_length()) - len(self._sums)) > 0:
            self._sums, self._counts = (np.concatenate([one, np.zeros(more)]) for one in (self._sums, self._counts))
        self._sums[:num_groups] += np.bincount(groups, seconds, num_groups)
        self._counts[:num_groups] += np.bincount(groups, minlength=num_groups)

    def sums(self) -> tuple[Array, Array]:
        """Return the sums in seconds and the numbers of requests of all groups up to the last with any, each (groups,)."""
        import numpy as np

        num_groups = int(np.flatnonzero(self._counts).max(initial=-1)) + 1
        return self._sums[:num_groups], self._counts[:num_groups]
