"""A server with continuous batching, event by event: what the closed forms of `roofline.serving.queueing` are held against.

One replica, one token budget a step (vLLM's scheduler): every running sequence gets a token, what is left of `budget` goes to
prompts in the order of their arrival, in chunks; at most `seats` requests hold a seat, the others wait. A step of n sequences
and x prompt tokens takes base + each * n + token * x seconds. It knows nothing of the package.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Server:
    """Seconds of a step: `base`, `each` sequence, each prompt `token`; the most tokens a step, and requests at a time."""

    base: float
    each: float
    token: float
    budget: int
    seats: int


@dataclass(frozen=True)
class Run:
    """Per request, in order of arrival: seconds to the first token, and between the later ones (nan for one token)."""

    ttft: np.ndarray
    tpot: np.ndarray
    running: float
    """Sequences that decode, mean over time."""


def run(  # noqa: C901 - a scheduler, in one place
    server: Server, arrived: np.ndarray, prompts: np.ndarray, answers: np.ndarray
) -> Run:
    """Serve requests that arrive at these seconds, with so many tokens of prompt and of answer."""
    many = len(arrived)
    arrivals, sizes, lengths = arrived.tolist(), prompts.tolist(), answers.tolist()  # numbers of Python are quicker one by one
    first, last = [0.0] * many, [0.0] * many
    queue: deque[int] = deque()  # have arrived, hold no seat
    seated: deque[list[int]] = deque()  # [request, prompt tokens that are left]
    decoding: list[tuple[int, int]] = []  # (decode steps at whose end it is done, request)
    now, steps, come, area = 0.0, 0, 0, 0.0
    while come < many or queue or seated or decoding:
        if not (queue or seated or decoding):
            now = max(now, arrivals[come])
        while come < many and arrivals[come] <= now:
            queue.append(come)
            come += 1
        while queue and len(seated) + len(decoding) < server.seats:
            request = queue.popleft()
            seated.append([request, sizes[request]])
        running = len(decoding)
        if not seated:
            # nothing changes until the next answer ends or the next prompt comes
            took = server.base + server.each * running
            jump = decoding[0][0] - steps
            if come < many and running < server.seats:
                jump = min(jump, max(math.ceil((arrivals[come] - now) / took), 1))
            now, steps, area = now + jump * took, steps + jump, area + running * jump * took
        else:
            left = server.budget - running
            spent, ended = 0, []
            while seated and left > 0:
                part = min(seated[0][1], left)
                seated[0][1] -= part
                left, spent = left - part, spent + part
                if not seated[0][1]:
                    ended.append(seated.popleft()[0])
            took = server.base + server.each * running + server.token * spent
            now, steps, area = now + took, steps + 1, area + running * took
            for request in ended:
                first[request] = last[request] = now
                if lengths[request] > 1:
                    heapq.heappush(decoding, (steps + lengths[request] - 1, request))
        while decoding and decoding[0][0] <= steps:
            last[heapq.heappop(decoding)[1]] = now
    later = np.where(answers > 1, answers - 1, 1)
    began, ended_at = np.array(first), np.array(last)
    return Run(began - arrived, np.where(answers > 1, (ended_at - began) / later, np.nan), area / now)
