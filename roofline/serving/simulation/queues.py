"""The order in which waiting requests are admitted: as they came, by a key (class, length), by what their class was served.

A queue that reorders by itself (`AgeingQueue`, `FairQueue`) says how long its first request stays the first, so that a run of
decode steps ends where another one would be admitted.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any, Protocol

from roofline.serving.simulation.decode_batch import DecodeBatch
from roofline.serving.simulation.request import Request

_ENDLESS = 1 << 62
_ERRORS = 1 << 20
"""Part of the seed of errors in predicted lengths, which no arrivals and no lengths have."""
_CHUNK = 1 << 12


class RequestQueue(Protocol):
    """Requests that wait."""

    fifo: bool
    """Whether a request that arrives later never goes before those that wait."""

    def append(self, request: Request) -> None:
        """Add a request that has arrived."""

    def appendleft(self, request: Request) -> None:
        """Add a preempted request, before those that have only arrived."""

    def first(self) -> Request:
        """Return the next request, and leave it in the queue, which must not be empty."""

    def popleft(self) -> Request:
        """Take the next request out of the queue, which must not be empty."""

    def remove(self, request: Request) -> None:
        """Take a request out that is not admitted."""

    def before(self, request: Request) -> Iterator[Request]:
        """Yield the requests that go before one that waits."""

    def __iter__(self) -> Iterator[Request]: ...

    def __len__(self) -> int: ...


class ReorderingQueue(RequestQueue, Protocol):
    """Requests that wait, in an order that changes by itself."""

    def settle(self, now: float) -> None:
        """Put the requests in order before the step at `now`, in seconds."""

    def unchanged(self) -> tuple[float, int]:
        """Return until when, in seconds, and for how many decode steps, the first request stays the first."""


class FCFSQueue(deque[Request]):
    """First come, first served; preempted requests at the front."""

    fifo = True

    def first(self) -> Request:
        """Return the next request."""
        return self[0]

    def before(self, request: Request) -> Iterator[Request]:
        """Yield the requests in front of one."""
        for one in self:
            if one is request:
                return
            yield one


class OrderedQueue(ABC):
    """Requests in another order than that of their arrival.

    It counts how many later requests went before each (`Request.num_passed`): those taken since it came, less those that waited
    then.
    """

    fifo = False
    reorders = False

    def __init__(self) -> None:
        self._tickets: dict[Request, int] = {}
        """By request: how many will have been taken when it is its turn, if none that comes later goes before it."""
        self._num_taken = 0

    def append(self, request: Request) -> None:
        """Add a request where it belongs."""
        self._tickets[request] = self._num_taken + len(self._tickets)
        self._insert(request)

    def appendleft(self, request: Request) -> None:
        """Add a preempted request where it belongs."""
        self.append(request)

    def popleft(self) -> Request:
        """Take the next request."""
        return self.take(self.first())

    def take(self, request: Request) -> Request:
        """Take a request that is admitted."""
        passed = self._num_taken - self._tickets.pop(request)
        self._num_taken += 1
        if passed > 0:
            request.num_passed += passed
        self._left(request)
        return request

    def remove(self, request: Request) -> None:
        """Take a request out that is not admitted."""
        del self._tickets[request]
        self._left(request)

    @abstractmethod
    def first(self) -> Request:
        """Return the next request."""

    @abstractmethod
    def before(self, request: Request) -> Iterator[Request]:
        """Yield the requests that go before one that waits, as it is now."""

    @abstractmethod
    def _insert(self, request: Request) -> None:
        """Put a request in order."""

    @abstractmethod
    def _left(self, request: Request) -> None:
        """Note that a request is no longer there."""

    def __contains__(self, request: object) -> bool:
        return request in self._tickets

    def __iter__(self) -> Iterator[Request]:
        return iter(self._tickets)

    def __len__(self) -> int:
        return len(self._tickets)


class PriorityQueue(OrderedQueue):
    """The smallest by a key; of equal ones the first that arrived."""

    def __init__(self, key: Callable[[Request], Any]) -> None:
        super().__init__()
        self._key = key
        self._heap: list[tuple[Any, float, int, Request]] = []
        """With requests that are no longer there."""

    def first(self) -> Request:
        """Return the next request."""
        heap, tickets = self._heap, self._tickets
        while heap[0][-1] not in tickets:
            heappop(heap)
        return heap[0][-1]

    def before(self, request: Request) -> Iterator[Request]:
        """Yield the requests with a smaller key, in no order."""
        own = self._entry(request)[:-1]
        return (one for one in self._tickets if self._entry(one)[:-1] < own)

    def _insert(self, request: Request) -> None:
        heappush(self._heap, self._entry(request))

    def _left(self, request: Request) -> None:
        if self._heap[0][-1] is request:
            heappop(self._heap)

    def _entry(self, request: Request) -> tuple[Any, float, int, Request]:
        return self._key(request), request.arrival_time, request.index, request


PROMPT_WEIGHT, OUTPUT_WEIGHT = 1, 2
"""Service of a prompt token and of an output token (arXiv:2401.00588, section 5.1)."""


class _Counter:
    """The virtual counter of a class: service per weight, of prompts, of output tokens, and of what it was lifted by."""

    __slots__ = ("base", "num_decoding", "num_tokens", "weight")

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.base = 0.0
        self.num_decoding = 0
        self.num_tokens = 0
        """Output tokens, without those of decode steps since requests that decode began, with a minus for the steps before."""

    def at(self, num_steps: int) -> float:
        """Return the value after a number of decode steps of the replica."""
        return self.base + OUTPUT_WEIGHT * (self.num_tokens + self.num_decoding * num_steps) / self.weight

    @property
    def slope(self) -> float:
        """What a decode step adds."""
        return OUTPUT_WEIGHT * self.num_decoding / self.weight


class FairQueue(OrderedQueue):
    """The first request of the class that was served least, by virtual token counters.

    A class is charged for a prompt when the request is first admitted, and for each output token when it is generated. A class
    of which nothing waited is lifted to the least of those that wait when a request of it comes, as far as the server knows:
    between two steps. So it saves up nothing while it is idle.

    Args:
        weights: of the classes, by number; classes beyond have 1.

    Source: Sheng et al. 2024, Fairness in Serving Large Language Models, arXiv:2401.00588, algorithm 2 (VTC), weights in
    section 4.3. A preempted request is not charged twice for its prompt.
    """

    reorders = True

    def __init__(self, weights: Sequence[float] = ()) -> None:
        super().__init__()
        self.meter = self
        self.batch = DecodeBatch()
        """That of the replica, whose steps are counted."""
        self._weights = weights
        self._counters: dict[int, _Counter] = {}
        self._waiting: dict[int, deque[Request]] = {}
        """Of classes of which any waits."""
        self._arrived: list[Request] = []
        """Since the last step was formed."""
        self._last: int | None = None
        """Class of the last request that was taken."""

    # What is served

    def began(self, request: Request) -> None:
        """Note that a request decodes from the next step on."""
        counter = self._counter(request.class_index)
        counter.num_decoding += 1
        counter.num_tokens -= self.batch.num_steps

    def stopped(self, request: Request) -> None:
        """Note that a request does not decode any more."""
        counter = self._counter(request.class_index)
        counter.num_decoding -= 1
        counter.num_tokens += self.batch.num_steps

    def generated(self, request: Request) -> None:
        """Note a token that came with the end of a prompt."""
        self._counter(request.class_index).num_tokens += 1

    def served(self, class_index: int) -> float:
        """Return the counter of a class."""
        return self._counter(class_index).at(self.batch.num_steps)

    # The order

    def settle(self, now: float) -> None:
        """Put the requests that have arrived in order."""
        for request in self._arrived:
            if request in self._tickets:
                self._lift(request.class_index)
                self._waiting.setdefault(request.class_index, deque()).append(request)
        self._arrived.clear()

    def unchanged(self) -> tuple[float, int]:
        """Return until when, in seconds, and for how many decode steps, the first request stays the first."""
        first = self.first().class_index
        least, slope, steps = self.served(first), self._counter(first).slope, float(_ENDLESS)
        for index in self._waiting:
            if (faster := slope - self._counter(index).slope) > 0:
                # NB: rounded down by a trifle, so that it is never too late
                steps = min(steps, (self.served(index) - least) / faster - 1e-6)
        return math.inf, max(math.ceil(steps), 1)

    def appendleft(self, request: Request) -> None:
        """Add a preempted request, before the others of its class."""
        self.settle(0.0)
        self._tickets[request] = self._num_taken
        self._lift(request.class_index)
        self._waiting.setdefault(request.class_index, deque()).appendleft(request)

    def first(self) -> Request:
        """Return the first request of the class with the smallest counter."""
        if self._arrived:
            self.settle(0.0)
        waiting = self._waiting
        if len(waiting) == 1:
            (queue,) = waiting.values()
            return queue[0]
        heads = [(self.served(index), queue[0].arrival_time, queue[0].index) for index, queue in waiting.items()]
        queues = list(waiting.values())
        return queues[heads.index(min(heads))][0]

    def take(self, request: Request) -> Request:
        """Take a request that is admitted, and charge its class for the prompt."""
        super().take(request)
        self._last = request.class_index
        if not request.num_preemptions:
            counter = self._counter(request.class_index)
            counter.base += PROMPT_WEIGHT * request.num_prompt_tokens / counter.weight
        return request

    def before(self, request: Request) -> Iterator[Request]:
        """Yield the earlier requests of its class, and those of classes that were served less."""
        if self._arrived:
            self.settle(0.0)
        own = (self.served(request.class_index), request.class_index)
        for index, queue in self._waiting.items():
            if index == request.class_index:
                for one in queue:
                    if one is request:
                        break
                    yield one
            elif (self.served(index), index) < own:
                yield from queue

    def _insert(self, request: Request) -> None:
        self._arrived.append(request)

    def _left(self, request: Request) -> None:
        if request in self._arrived:
            self._arrived.remove(request)
            return
        queue = self._waiting[request.class_index]
        queue.remove(request)  # near the front
        if not queue:
            del self._waiting[request.class_index]

    def _lift(self, class_index: int) -> None:
        if class_index in self._waiting:
            return
        if self._waiting:
            least = min([self.served(index) for index in self._waiting])
        elif self._last is not None:
            least = self.served(self._last)
        else:
            return
        counter = self._counter(class_index)
        counter.base += max(least - self.served(class_index), 0.0)

    def _counter(self, class_index: int) -> _Counter:
        counter = self._counters.get(class_index)
        if counter is None:
            weight = self._weights[class_index] if class_index < len(self._weights) else 1.0
            counter = self._counters[class_index] = _Counter(weight)
        return counter


class AgeingQueue:
    """Another queue, in which a request that arrived more than a time ago goes before all others, in the order of arrival.

    Args:
        queue: the other queue.
        max_wait: seconds from arrival.
    """

    fifo = False
    reorders = True

    def __init__(self, queue: OrderedQueue, max_wait: float) -> None:
        self._queue, self._max_wait = queue, max_wait
        self._now = -math.inf
        self._by_arrival: list[tuple[float, int, Request]] = []
        """A heap, with requests that are no longer there."""
        self.meter = getattr(queue, "meter", None)

    def append(self, request: Request) -> None:
        """Add a request that has arrived."""
        self._queue.append(request)
        heappush(self._by_arrival, (request.arrival_time, request.index, request))

    def appendleft(self, request: Request) -> None:
        """Add a preempted request."""
        self._queue.appendleft(request)
        heappush(self._by_arrival, (request.arrival_time, request.index, request))

    def settle(self, now: float) -> None:
        """Look at what has arrived, and at what has waited too long, at `now`, in seconds."""
        self._now = now
        if self._queue.reorders:
            self._queue.settle(now)  # type: ignore[attr-defined]

    def unchanged(self) -> tuple[float, int]:
        """Return until when, in seconds, and for how many decode steps, the first request stays the first."""
        due = self._oldest.arrival_time + self._max_wait
        if due <= self._now:
            return math.inf, _ENDLESS
        until, num_steps = self._queue.unchanged() if self._queue.reorders else (math.inf, _ENDLESS)  # type: ignore[attr-defined]
        return min(until, due), num_steps

    def first(self) -> Request:
        """Return the next request."""
        oldest = self._oldest
        return oldest if oldest.arrival_time + self._max_wait <= self._now else self._queue.first()

    def popleft(self) -> Request:
        """Take the next request."""
        return self._queue.take(self.first())

    def remove(self, request: Request) -> None:
        """Take a request out that is not admitted."""
        self._queue.remove(request)

    def before(self, request: Request) -> Iterator[Request]:
        """Yield the requests that go before one that waits, as it is now."""
        aged = {one for one in self._queue if one.arrival_time + self._max_wait <= self._now}
        if request in aged:
            own = (request.arrival_time, request.index)
            yield from (one for one in aged if (one.arrival_time, one.index) < own)
            return
        yield from aged
        yield from (one for one in self._queue.before(request) if one not in aged)

    @property
    def _oldest(self) -> Request:
        heap = self._by_arrival
        while heap[0][-1] not in self._queue:
            heappop(heap)
        return heap[0][-1]

    def __iter__(self) -> Iterator[Request]:
        return iter(self._queue)

    def __len__(self) -> int:
        return len(self._queue)


# What makes queues: values, so that options and the seed of a run can be put in


@dataclass(frozen=True, slots=True)
class ShortestFirst:
    """Makes queues of the shortest request, prompt and output, first.

    Args:
        length_error: standard deviation of the logarithm of the predicted over the true output tokens; 0: they are known.
        seed: of the errors.

    Source: Fu et al. 2024, Efficient LLM Scheduling by Learning to Rank, arXiv:2408.15792, for predicted lengths.
    """

    length_error: float = 0.0
    seed: tuple[int, ...] = ()

    def __call__(self) -> PriorityQueue:
        """Return a queue."""
        if not self.length_error:
            return PriorityQueue(lambda request: request.num_prompt_tokens + request.max_tokens)
        return PriorityQueue(lambda request: request.num_prompt_tokens + self.predicted(request))

    def predicted(self, request: Request) -> float:
        """Return the output tokens that are predicted for a request: log-normal around the true ones, by its number and the
        seed alone."""
        chunk, place = divmod(request.index, _CHUNK)
        return request.max_tokens * math.exp(self.length_error * _normals(self.seed, chunk)[place])

    def for_run(self, weights: Sequence[float], seed: tuple[int, ...]) -> ShortestFirst:
        """Return what makes the queues of a run with a seed."""
        return replace(self, seed=seed)


@lru_cache(maxsize=256)
def _normals(seed: tuple[int, ...], chunk: int) -> list[float]:
    import numpy as np

    draws: list[float] = np.random.default_rng([*seed, _ERRORS, chunk]).standard_normal(_CHUNK).tolist()
    return draws


@dataclass(frozen=True, slots=True)
class LeastServed:
    """Makes queues of the class that was served least first (`FairQueue`), with the weights of the classes."""

    weights: tuple[float, ...] = ()

    def __call__(self) -> FairQueue:
        """Return a queue."""
        return FairQueue(self.weights)

    def for_run(self, weights: Sequence[float], seed: tuple[int, ...]) -> LeastServed:
        """Return what makes the queues of a run whose classes have weights."""
        return replace(self, weights=tuple(weights))


@dataclass(frozen=True, slots=True)
class Aged:
    """Makes queues in which a request that arrived more than `max_wait` seconds ago goes first (`AgeingQueue`)."""

    queue: Callable[[], OrderedQueue]
    max_wait: float

    def __call__(self) -> AgeingQueue:
        """Return a queue."""
        return AgeingQueue(self.queue(), self.max_wait)

    def for_run(self, weights: Sequence[float], seed: tuple[int, ...]) -> Aged:
        """Return what makes the queues of a run."""
        return replace(self, queue=for_run(self.queue, weights, seed))


def for_run(make: Callable[[], Any], weights: Sequence[float], seed: tuple[int, ...]) -> Callable[[], Any]:
    """Return what makes the queues of a run, whose classes have weights, with a seed."""
    of_run = getattr(make, "for_run", None)
    return make if of_run is None else of_run(weights, seed)
