"""Who waits for a seat, and who is next."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from roofline.serving.simulation.job import Job


class Queue(Protocol):
    """Requests that wait."""

    fifo: bool
    """Whether one that comes later never goes before those that wait."""

    def append(self, job: Job) -> None:
        """It has arrived."""

    def appendleft(self, job: Job) -> None:
        """It was preempted, and comes before those that have only arrived."""

    def first(self) -> Job:
        """The next."""

    def popleft(self) -> Job:
        """Take the next."""

    def __len__(self) -> int: ...


class Arrival(deque[Job]):
    """First come, first served; those that were preempted at the front."""

    fifo = True

    def first(self) -> Job:
        """The next."""
        return self[0]


class Ordered:
    """The smallest by a key; of equal ones the first that came."""

    fifo = False

    def __init__(self, key: Callable[[Job], Any]) -> None:
        self._key = key
        self._heap: list[tuple[Any, float, int, Job]] = []

    def append(self, job: Job) -> None:
        """Where its key puts it."""
        heapq.heappush(self._heap, (self._key(job), job.arrived, job.index, job))

    appendleft = append

    def first(self) -> Job:
        """The next."""
        return self._heap[0][-1]

    def popleft(self) -> Job:
        """Take the next."""
        return heapq.heappop(self._heap)[-1]

    def __len__(self) -> int:
        return len(self._heap)
