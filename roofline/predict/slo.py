"""What a service-level objective allows: the largest batch whose decode step, and a prompt alone, are quick enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from roofline.predict.duration import Duration
from roofline.predict.request import ResolvedRequest
from roofline.predict.timing import pipeline, time_to_first_token
from roofline.specs.workload import Segment, Step, decode

MOST = 2**20
"""Sequences of a replica beyond which no batch is looked for: an SLO that allows that many sets no limit."""
_SECOND = 64


@dataclass(frozen=True, slots=True)
class Slo:
    """Objectives in seconds for the first token and for the time between later ones; None: no objective."""

    ttft: float | None = None
    tpot: float | None = None

    @property
    def ttft_s(self) -> float | None:
        """Return the objective for TTFT in seconds."""
        return self.ttft

    @property
    def tpot_s(self) -> float | None:
        """Return the objective for TPOT in seconds."""
        return self.tpot

    @property
    def given(self) -> bool:
        """Return whether there is any objective."""
        return self.ttft is not None or self.tpot is not None


@dataclass(frozen=True, slots=True)
class Allowed:
    """Batches of the whole deployment that an SLO allows; None: it sets no limit; 0: not even one sequence.

    `bound` goes by the bound, so that no kernel allows more; `batch` by the estimate, or by the bound where there is none;
    `low` and `high` by the slow and the quick end of its interval, as far as the bound allows.
    """

    batch: int | None = None
    bound: int | None = None
    low: int | None = None
    high: int | None = None


Tpot = Callable[[int], Duration]
"""Seconds between the tokens of a sequence, by the batch."""


def prompt_step(request: ResolvedRequest, context: int, cached_prefix: int = 0) -> Step | None:
    """Return the prefill of one prompt of `context` tokens alone; None if it is 0.

    Of a prompt that begins with the shared prefix, or whose first `cached_prefix` tokens are in the prefix cache, the rest is
    computed, and at least its last token.
    """
    if context == 0:
        return None
    cached = min(max(request.deployment.conventions.shared_prefix, cached_prefix), context - 1)
    return (Segment(1, context - cached, cached),)


def first_token(request: ResolvedRequest, context: int) -> Duration | None:
    """Return the TTFT of one prompt of `context` tokens alone: one prefill, no queue; None if `context` is 0."""
    step = prompt_step(request, context)
    return None if step is None else time_to_first_token(request, step)


def next_token(request: ResolvedRequest, context: int) -> Tpot:
    """Return a function from the batch to the TPOT at a context: a decode step through all stages. Each batch is computed once.

    Args:
        request: the model on its deployment.
        context: tokens cached per sequence before the step.
    """
    steps: dict[int, Duration] = {}

    def tpot(batch: int) -> Duration:
        if batch not in steps:
            steps[batch] = pipeline(request, decode(batch, context))
        return steps[batch]

    return tpot


def without_estimate(request: ResolvedRequest) -> ResolvedRequest:
    """Return the request without estimates, so that all its times are bounds."""
    return replace(request, estimator=replace(request.estimator, wanted=False), steps=None)


def allowed(slo: Slo, ttft: Duration | None, tpot: Tpot, bound: Tpot, replicas: int) -> Allowed:
    """Return the batches that an SLO allows.

    Args:
        slo: the objectives.
        ttft: of one prompt alone; None: no prompt.
        tpot: by the batch of the whole deployment.
        bound: the same, computed without estimates.
        replicas: data-parallel replicas; batches are multiples of them.
    """
    if not slo.given:
        return Allowed()
    most = within(slo, ttft, bound, "bound", replicas)
    if tpot(replicas).estimate is None:
        return Allowed(most, most)
    names = ("estimate", "high", "low")  # the interval's slow end allows least
    batch, low, high = [_lower(within(slo, ttft, tpot, name, replicas), most) for name in names]
    return Allowed(batch, most, low, high)


def _lower(first: int | None, second: int | None) -> int | None:
    """The lower of two limits, of which None is none."""
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)


def within(slo: Slo, ttft: Duration | None, tpot: Tpot, name: str, replicas: int) -> int | None:
    """Return the largest batch of the whole deployment that an SLO allows; None: no limit; 0: none.

    Args:
        slo: the objectives.
        ttft: of one prompt alone; None: no prompt.
        tpot: by the batch of the whole deployment.
        name: the field of durations to judge by, such as "bound" or "estimate".
        replicas: data-parallel replicas; the batch is a multiple of them.
    """
    limit = slo.tpot
    if slo.ttft is not None and ttft is not None and (getattr(ttft, name) or 0.0) > slo.ttft:
        return 0
    if limit is None:
        return None
    most = largest_within(lambda batch: getattr(tpot(batch * replicas), name) or 0.0, limit, MOST)
    return None if most == MOST else most * replicas


def largest_within(seconds: Callable[[int], float], limit: float, most: int) -> int:
    """Return the largest whole number from 1 to `most` that takes at most `limit` seconds while one more takes longer; 0: none.

    Times that are nearly a straight line take a few evaluations: the next numbers tried are those where the line between the
    last two crosses the limit, then the middle. Where times fall again in places (more rows in fewer waves of tiles) there are
    several such numbers, a few per cent apart, and this is one of them.

    Args:
        seconds: time by number.
        limit: seconds.
        most: the largest number tried.

    >>> largest_within(lambda n: 5 + n / 10, 12.0, 1000), largest_within(lambda n: n * n, 80, 1000)
    (70, 8)
    >>> [largest_within(lambda n: n, limit, 8) for limit in (0.5, 7.5, 100)]
    [0, 7, 8]
    """
    low, short = 1, seconds(1)
    if short > limit:
        return 0
    high, long = min(_SECOND, most), seconds(min(_SECOND, most))
    while long <= limit:
        if high >= most:
            return most
        slope = (long - short) / (high - low) if high > low else 0.0
        reach = (limit - long) / slope if slope > 0 else float(most)
        low, short = high, long
        # beyond the crossing, so that the limit lies between; a quarter more, for what grows slower than the line
        high = min(most, low + max(int(min(reach, most) * 1.25) + 1, 2))
        long = seconds(high)
    while high - low > 1:
        crossing = low + int((high - low) * (limit - short) / (long - short))
        for number in (crossing, crossing + 1, -1):
            looked = (low + high) // 2 if number < 0 else number
            if low < looked < high:
                took = seconds(looked)
                if took <= limit:
                    low, short = looked, took
                else:
                    high, long = looked, took
    return low
