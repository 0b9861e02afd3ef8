"""The requests of a replica that decode, as sums: many equal steps are advanced at once.

Decode steps are counted. A request decodes in every one of them, so the step that ends it is known when it begins. What n
sequences have cached grows by n per step, so that with t = a + b c seconds per step at c cached tokens, k steps take
k (a + b c) + b n k (k - 1)/2. With speculative decoding c grows by what a round gives (`speculation.py`).
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import ceil, inf, sqrt

from roofline.serving.simulation.request import Request


def run_seconds(num_steps: int, seconds: float, slope: float) -> float:
    """Return the seconds of `num_steps` steps, of which the first takes `seconds` and each `slope` seconds more than the last.

    >>> run_seconds(3, 2.0, 0.5)  # 2 + 2.5 + 3
    7.5
    """
    return num_steps * seconds + slope * (num_steps * (num_steps - 1) * 0.5)


def steps_until(time: float, start: float, seconds: float, slope: float, num_steps: int) -> int:
    """Return the number of steps from `start` up to the first that ends at `time` or later, at most `num_steps`.

    Args:
        time: seconds on the clock of the run.
        start: when the first step begins, likewise.
        seconds: of the first step.
        slope: seconds that each step takes more than the one before.
        num_steps: steps that are planned.

    >>> steps_until(4.5, 0.0, 2.0, 0.5, 10), steps_until(4.6, 0.0, 2.0, 0.5, 10)  # they end at 2, 4.5, 7.5, ...
    (2, 3)
    """
    left = time - start
    if left <= seconds:
        steps = 1
    elif slope:
        half = seconds - slope / 2
        steps = ceil((sqrt(max(half * half + 2 * slope * left, 0.0)) - half) / slope)
    else:
        steps = ceil(left / seconds)
    # the root is rounded; each sum is `run_seconds`
    while steps > 1 and start + ((steps - 1) * seconds + slope * ((steps - 1) * (steps - 2) * 0.5)) >= time:
        steps -= 1
    while steps < num_steps and start + (steps * seconds + slope * (steps * (steps - 1) * 0.5)) < time:
        steps += 1
    return steps


class DecodeBatch:
    """Requests that decode."""

    __slots__ = (
        "ends", "last_token_time", "num_cached_tokens", "num_sequences", "num_stalled", "num_steps", "stalled",
        "tokens_per_step",
    )  # fmt: skip

    def __init__(self) -> None:
        self.num_sequences = 0
        self.num_cached_tokens: float = 0
        """Of all sequences together."""
        self.tokens_per_step: float = 0
        """Tokens that all sequences together get per decode step: one each, with speculative decoding more."""
        self.num_steps = 0
        """Decode steps so far."""
        self.last_token_time = -inf
        """When the sequences had their latest token, unless they began to decode later."""
        self.stalled: dict[float, int] = {}
        """Sequences whose latest token is older than the last step, which had no decodes: how many, by its time."""
        self.num_stalled = 0
        self.ends: list[tuple[int, int, Request]] = []
        """A heap of (final step, index, request); void where the step is no longer the request's."""

    def add(self, request: Request, num_cached_tokens: int) -> None:
        """Add a request with its cached tokens, which decodes from the next step on."""
        num_steps = self.num_steps
        request.cache_offset = num_cached_tokens - num_steps
        request.final_step = final_step = num_steps + request.max_tokens - request.num_output_tokens
        heappush(self.ends, (final_step, request.index, request))
        self.num_sequences += 1
        self.num_cached_tokens += num_cached_tokens
        self.tokens_per_step += 1

    def remove(self, request: Request) -> int:
        """Take a request out before its end; returns its cached tokens."""
        num_cached_tokens = request.cache_offset + self.num_steps
        request.final_step = -1
        self.num_sequences -= 1
        self.num_cached_tokens -= num_cached_tokens
        self.tokens_per_step -= 1
        return num_cached_tokens

    def cached_tokens(self, request: Request) -> float:
        """Return the cached tokens of a request that decodes."""
        return request.cache_offset + self.num_steps

    def num_output_tokens(self, request: Request) -> int:
        """Return the output tokens that a request that decodes has so far."""
        return request.max_tokens - (request.final_step - self.num_steps)

    def steps_until_end(self) -> int:
        """Return the number of decode steps up to the first that ends a request. The batch must not be empty."""
        ends = self.ends
        top = ends[0]
        while top[2].final_step != top[0]:
            heappop(ends)
            top = ends[0]
        return top[0] - self.num_steps

    def pop_ended(self) -> list[Request]:
        """Take out the requests whose final step is done, and return them."""
        ends, num_steps = self.ends, self.num_steps
        ended = []
        while ends and ends[0][0] <= num_steps:
            final_step, _, request = heappop(ends)
            if request.final_step == final_step:
                self._end(request)
                ended.append(request)
        return ended

    def _end(self, request: Request) -> None:
        """Take out a request whose final step is done."""
        request.final_step = -1  # a request that was swapped may be in the heap twice
        self.num_sequences -= 1
        self.num_cached_tokens -= request.cache_offset + self.num_steps
        self.tokens_per_step -= 1

    # Sequences that wait for their next token while steps without decodes, or copies, go on

    def stall(self, time: float) -> None:
        """Note that a step that began at `time` (in seconds) has no decodes: every sequence waits for its token."""
        self.stalled[time] = self.stalled.get(time, 0) + self.num_sequences - self.num_stalled
        self.num_stalled = self.num_sequences

    def add_stalled(self, time: float) -> None:
        """Note that a request that was added had its latest token at `time`, in seconds, before the last step."""
        self.stalled[time] = self.stalled.get(time, 0) + 1
        self.num_stalled += 1

    def remove_stalled(self, time: float) -> None:
        """Note that a request was removed whose latest token came at `time`, in seconds."""
        if time in self.stalled:
            self.num_stalled -= 1
            self.stalled[time] -= 1
            if not self.stalled[time]:
                del self.stalled[time]

    def pop_stalled(self) -> list[tuple[float, int]]:
        """Note that every sequence gets a token; returns pairs of the time of the token before, in seconds, and the number of
        sequences that were stalled since then."""
        stalled = list(self.stalled.items())
        self.stalled.clear()
        self.num_stalled = 0
        return stalled
