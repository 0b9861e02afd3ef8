"""Steady state of a server with continuous batching under random arrivals, in closed form.

One replica runs steps. Each running sequence gets one token per step, and what is left of the token budget goes to prompts in
the order of their arrival (chunked prefill: Sarathi-Serve, arXiv:2403.02310, section 4). Requests arrive at a rate lambda. A
request has a prompt, which adds w seconds to the steps that compute it, and m further tokens, a decode step each. A step of n
sequences takes d(n) before prompts. Then, with rho = lambda E[w]:

1. **Occupancy.** Decode is processor sharing at a speed that depends on the number of sequences: each advances by a token in
   tau(n) = g d(n) / (1 - rho), because prompts take the share rho of the time. The number of running sequences is insensitive
   to the distribution of output lengths beyond the mean: pi(n) ~ prod_{i <= n} lambda E[m] tau(i) / i (Cohen 1979, Acta
   Informatica 12, 245, eq. 3.5), up to the number of slots S (`max_num_seqs`). Beyond it requests wait, each with the ratio
   r = lambda E[m] tau(S)/S, whose mean wait is multiplied by (c_a^2 + c_m^2)/2 (Lee and Longton 1959; Allen-Cunneen). By
   Little's law the mean time between the tokens of a request is E[n] / (lambda E[m]).
2. **Cycles.** Prompts that arrive during a step are computed in the next. Steps are then a branching process with immigration:
   C' = d + (work that arrived during C), so that E[C] = d/(1 - rho), Var C = (Var d + lambda E[w^2] E[C])/(1 - rho^2), the
   third cumulant is (lambda E[w^3] E[C] + 3 lambda E[w^2] rho Var C)/(1 - rho^3), and cycles correlate as rho^j (gated
   service: Takagi 1991, Queueing Analysis 1, chapter 2; the cumulants by the law of total cumulance).
3. **TTFT** = wait for a slot + the rest of the running step + prompts that are computed with or before the request's own + the
   step of its own prompt. The step that runs when a prompt arrives is longer than the mean one, E[C^2]/E[C]. If the token
   budget cannot take all waiting prompts at once, the difference of two Pollaczek-Khinchine waits is added: one with
   w + d * tokens / (budget left) for the service time, one with w.
4. **TPOT.** Behind a prompt come those that arrived during its wait: the first decode steps are longer than the mean by the
   work left behind, which decays as rho^j. Its sum over m steps is g (in 1). The variance over requests is that of d(n) over
   the life of a request, and that of m cycles that correlate as rho^j.
5. **Percentiles** (`tails.py`): waits as gamma distributions with these two moments, over the representative prompts; TPOT as
   beta distributions between the shortest and the longest step.

**Data-parallel ranks** step together: a step is as long as that of the fullest rank. Ranks in step are replicas of their own
with prompts of w_R, one on each rank. Else part 2 is a Markov chain (`ranks.py`), from which the mean, the variance and the
wait of parts 2 and 3 are; prompts are longer by the factor (1 - d/E[C])/(lambda w_R), which is in rho.

Where it stops holding: beyond 0.85 of the saturation rate (waits are then mostly for slots, and 10 to 50 % too short), arrivals
with a coefficient of variation beyond 1.2, and arrivals whose rate drifts faster than requests end. The errors by utilization,
against an event-by-event computation: docs/capacity.md.

Arrays over rates have the shape (rates,); over rates and representative requests of a class (rates, K).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.serving.queueing import tails
from roofline.serving.queueing.ranks import RankCycles, fullest_rank, rank_cycles
from roofline.serving.queueing.replica import BatchServer

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

MAX_LOAD = 0.9995
"""Share of the saturation rate at which rates beyond it are evaluated."""
_ITERATIONS = 4
"""Passes over the equations, each of which uses results of another; they change by less than 1 % after the third."""
_RARE = 0.999


@dataclass(frozen=True)
class Steady:
    """Steady states, one per rate. `running` and waits are of one rank.

    Args:
        server: the server.
        rates: requests/s of all ranks, (rates,).
        saturated: whether the rate is beyond what the server can do.
        running: mean number of decoding sequences.
        step_s: mean seconds of a decode step without prompts, as an arrival meets it.
        prompt_utilization: share of the time that prompts take (rho).
        tpot_s: mean seconds between tokens, over requests of all classes.
        slot_wait_s: mean seconds of waiting for a slot, over all requests.
        slot_wait_probability: share of requests that wait for a slot.
        wait: moments of the time from a slot to the first token, without the request's own prompt.
        own_s: per class, seconds of the steps that compute a prompt, (rates, K).
        tpot: per class, the distribution of TPOT, (rates, K2).
    """

    server: BatchServer
    rates: Array
    saturated: Array
    running: Array
    step_s: Array
    prompt_utilization: Array
    tpot_s: Array
    slot_wait_s: Array
    slot_wait_probability: Array
    wait: tails.Moments
    own_s: tuple[Array, ...]
    tpot: tuple[tails.Bounded, ...]

    def ttft_mean(self, which: int) -> Array:
        """Mean TTFT of the class with index `which`, s, (rates,)."""
        import numpy as np

        return np.asarray(self.own_s[which].mean(axis=1) + self.wait.mean + self.slot_wait_s)

    def tpot_mean(self, which: int) -> Array:
        """Mean TPOT of the class with index `which`, s, (rates,)."""
        import numpy as np

        return np.asarray(self.tpot[which].mean.mean(axis=1))

    def ttft_within(self, which: int, seconds: float | Array) -> Array:
        """Share of class `which` with a TTFT of at most `seconds` (one, or one per rate): (rates,); 0 where saturated."""
        return self._zero_if_saturated(tails.share_within(self.own_s[which], self._waits(), seconds))

    def tpot_within(self, which: int, seconds: float | Array) -> Array:
        """Share of class `which` with a TPOT of at most `seconds` (one, or one per rate): (rates,); 0 where saturated."""
        return self._zero_if_saturated(self.tpot[which].cdf(seconds))

    def ttft_quantile(self, which: int, share: float) -> Array:
        """The TTFT that this share of class `which` does not exceed, s, (rates,); infinite where saturated."""
        return self._quantile(lambda x: tails.share_within(self.own_s[which], self._waits(), x), which, share, tpot=False)

    def tpot_quantile(self, which: int, share: float) -> Array:
        """The TPOT that this share of class `which` does not exceed, s, (rates,); infinite where saturated."""
        return self._quantile(self.tpot[which].cdf, which, share, tpot=True)

    def longest(self, classes: list[int], *, tpot: bool) -> Array:
        """Upper bounds of the TTFT (or TPOT, if `tpot`) of some classes, by index: s, (rates,)."""
        import numpy as np

        if tpot:
            return np.asarray(np.max([self.tpot[which].high.max(axis=1) for which in classes], axis=0))
        after = self._waits()[1][1]
        own = np.max([self.own_s[which].max(axis=1) for which in classes], axis=0)
        return np.asarray(own + after.mean + 40 * np.sqrt(after.variance))

    def _quantile(self, share_within: Any, which: int, share: float, *, tpot: bool) -> Array:
        import numpy as np

        seconds = tails.quantile(share_within, share, self.longest([which], tpot=tpot))
        return np.where(self.saturated, np.inf, seconds)

    def _waits(self) -> tuple[tuple[Array, tails.Moments], ...]:
        """Waits with a slot at once, and after a wait for one; each with its probability."""
        import numpy as np

        probability = self.slot_wait_probability
        slot = self.slot_wait_s / np.maximum(probability, 1e-300)
        after = tails.Moments(self.wait.mean + slot, self.wait.variance + slot**2)
        return ((1 - probability, self.wait), (probability, after))

    def _zero_if_saturated(self, share: Array) -> Array:
        import numpy as np

        return np.where(self.saturated, 0.0, share)


def steady(server: BatchServer, rates: ArrayLike) -> Steady:
    """The steady state of a server at each rate, by the equations of the module's docstring.

    Args:
        server: the server.
        rates: requests/s of all ranks, above 0, a number or (rates,); beyond saturation the state is that just below it.
    """
    import numpy as np

    rates = np.atleast_1d(rates)
    limit = server.capacity * MAX_LOAD
    rate = np.minimum(rates, limit) / server.ranks
    running, prefilling = np.full(rate.shape, 1.0), np.zeros(rate.shape)
    stretch, factor = np.ones(rate.shape), np.ones(rate.shape)
    for _ in range(_ITERATIONS):
        added = [demand.prompts(running) / server.stages for demand in server.demands]
        first, second, third = (server.mean(one**power for one in added) for power in (1, 2, 3))
        work = PromptWork(rate, first, second, third, factor, np.minimum(rate * first * factor, MAX_LOAD))
        occupied = occupancy(server, rate, stretch / (1 - work.rho) * rate * server.mean_steps, prefilling)
        cycle = cycles(work, occupied.step, occupied.step_variance, server.cv)
        unequal = _unequal_ranks(server, rate, first, occupied.step)
        if unequal is not None:
            variance = unequal.square - unequal.mean**2
            cycle = Cycles(unequal.mean, unequal.square, unequal.cube, variance)
            factor = (1 - occupied.step / unequal.mean) / np.maximum(rate * first, 1e-300)
        held = np.zeros(rate.shape)
        if server.hold_steps and server.ranks > 1:
            # seconds between rounds of prompts that are held as long as they may be, and prompts of a rank in that time
            free = np.maximum(1 - rate * first * (1 - server.mean_share), 1e-6)
            between = (server.hold_steps * occupied.step + first * server.mean_share) / free
            each = np.minimum(rate * between, 1)
            fullest = fullest_rank(server.ranks * each, server.ranks, server.scatter or 0.0)
            factor = 1 + server.mean_share * (fullest / each - 1)
            held = np.minimum(1 / rate, between) * (server.ranks - 1) / (2 * server.ranks)
        prompt = _ttft(server, work, added, occupied, cycle, unequal, held)
        extra = _excess_prefill_time(server, work, prompt, cycle)
        behind = server.mean(x * (d.decode_steps > 0) for x, d in zip(extra, server.demands, strict=True))
        used = stretch
        waiting = rate * (prompt.own_mean + prompt.others + prompt.queue)
        running, prefilling = occupied.running, np.minimum(waiting, server.slots - 1)
        stretch = 1 + behind / np.maximum(server.mean_steps * cycle.mean, 1e-300)
    by_class = _tpot(server, work, occupied, cycle, prompt, extra, used)
    return Steady(
        server=server,
        rates=rates,
        saturated=rates >= limit,
        running=occupied.running,
        step_s=occupied.step,
        prompt_utilization=work.rho,
        tpot_s=server.mean(bounded.mean for bounded in by_class),
        slot_wait_s=occupied.slot_wait,
        slot_wait_probability=occupied.slot_wait_probability,
        wait=prompt.wait,
        own_s=prompt.own,
        tpot=by_class,
    )


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Part 1: the distribution of the number of decoding sequences, arrays over rates.

    Args:
        probabilities: of 0, 1, ... sequences, (rates, slots + 1); states with a queue count as all slots taken.
        running: mean number of sequences.
        step: mean seconds of a step without prompts, as an arrival meets it.
        step_variance: its variance.
        steps: seconds of a step by number of sequences, (slots + 1,).
        slot_wait: mean seconds of waiting for a slot, over all requests.
        slot_wait_probability: share of requests that wait for one.
    """

    probabilities: Array
    running: Array
    step: Array
    step_variance: Array
    steps: Array
    slot_wait: Array
    slot_wait_probability: Array


def occupancy(server: BatchServer, rate: Array, pressure: Array, prefilling: Array) -> Occupancy:
    """Part 1: the occupancy, pi(n) ~ prod pressure d(i)/i, up to the slots that are free of prompts, and geometric beyond.

    Args:
        server: the server.
        rate: requests/s of a rank, (rates,).
        pressure: decode steps that arrive per second, times how much longer prompts make a step, 1/s, (rates,).
        prefilling: mean number of slots that prompts hold, at most all but one, (rates,).

    Source: Cohen 1979, Acta Informatica 12, 245, eq. 3.5.
    """
    import numpy as np

    slots, decode = server.slots, server.decode_s
    counts = np.arange(1, slots + 1)
    free = slots - prefilling
    logs = np.cumsum(np.log(np.maximum(pressure, 1e-300))[:, None] + np.log(decode / counts), axis=1)
    logs[counts > np.floor(free)[:, None]] = -np.inf
    logs = np.concatenate([np.zeros((len(rate), 1)), logs], axis=1)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    full = np.floor(free).astype(int)[:, None]
    last = np.take_along_axis(weights, full, axis=1)[:, 0]
    ratio = np.minimum(pressure * np.interp(free, counts, decode) / free, MAX_LOAD)
    beyond = last * ratio / (1 - ratio)
    total = weights.sum(axis=1) + beyond
    probabilities = weights / total[:, None]
    all_taken = (last + beyond) / total
    np.put_along_axis(probabilities, full, all_taken[:, None], axis=1)
    steps = np.concatenate([decode[:1], decode])
    mean = probabilities @ steps
    return Occupancy(
        probabilities=probabilities,
        running=probabilities @ np.arange(slots + 1),
        step=mean,
        step_variance=(probabilities * (steps - mean[:, None]) ** 2).sum(axis=1),
        steps=steps,
        slot_wait=last / total * ratio / (1 - ratio) ** 2 * (server.cv**2 + server.scv_steps) / 2 / rate,
        slot_wait_probability=all_taken,
    )


@dataclass(frozen=True, slots=True)
class PromptWork:
    """Prompts that arrive at a rate, arrays over rates.

    Args:
        rate: requests/s of a rank.
        first: E[w], the seconds that a prompt adds to steps.
        second: E[w^2].
        third: E[w^3].
        factor: on the seconds of prompts, where ranks that step together wait for the fullest.
        rho: share of the time that prompts take.
    """

    rate: Array
    first: Array
    second: Array
    third: Array
    factor: Array
    rho: Array


@dataclass(frozen=True, slots=True)
class Cycles:
    """Part 2: E[C], E[C^2] and E[C^3] of the seconds of a step with its prompts; `from_prompts`: their part of the variance."""

    mean: Array
    square: Array
    cube: Array
    from_prompts: Array


def cycles(work: PromptWork, step: Array, step_variance: Array, cv: float) -> Cycles:
    """Part 2: the stationary moments of C' = d + (work that arrived during C), in s, s^2 and s^3, (rates,).

    Args:
        work: the prompts.
        step: mean of d, s, (rates,).
        step_variance: variance of d, s^2, (rates,).
        cv: coefficient of variation of the times between arrivals.

    Source: gated service, Takagi 1991, Queueing Analysis 1, chapter 2; the cumulants by the law of total cumulance.
    """
    rho = work.rho
    mean = step / (1 - rho)
    from_prompts = work.rate * work.second * work.factor * mean / (1 - rho**2) * cv**2
    variance = from_prompts + step_variance / (1 - rho**2)
    skew = (work.rate * work.third * mean + 3 * work.rate * work.second * rho * variance) / (1 - rho**3)
    return Cycles(mean, variance + mean**2, skew + 3 * variance * mean + mean**3, from_prompts)


@dataclass(frozen=True, slots=True)
class FirstTokenTimes:
    """Part 3: seconds from a slot to the first token, arrays over rates.

    Args:
        own: per class, the steps that compute the request's own prompt, (rates, K).
        own_mean: their mean over all requests.
        residual: the rest of the running step.
        others: prompts that are computed with the own one, or just before it.
        queue: further ones, if the token budget does not take all that wait.
        cap: the longest that prompts can make a step.
        wait: moments of all but the own prompt.
    """

    own: tuple[Array, ...]
    own_mean: Array
    residual: Array
    others: Array
    queue: Array
    cap: Array
    wait: tails.Moments


def _unequal_ranks(server: BatchServer, rate: Array, prompt: Array, step: Array) -> RankCycles | None:
    """Part 2 of ranks that step together and are not in step; None of one rank, of ranks in step and where prompts are held.

    Args:
        server: the server.
        rate: requests/s of a rank, (rates,).
        prompt: mean seconds of a prompt on each rank, w_R, (rates,).
        step: mean seconds of a step without prompts, d, (rates,).
    """
    if server.ranks == 1 or server.hold_steps or server.scatter is None or not prompt.any():
        return None
    share = server.mean_share
    return rank_cycles(rate, step, share * prompt, (1 - share) / server.ranks * prompt, server.ranks, server.scatter)


def _ttft(
    server: BatchServer, work: PromptWork, added: list[Array], occupied: Occupancy, cycle: Cycles, unequal: RankCycles | None,
    held: Array,
) -> FirstTokenTimes:  # fmt: skip
    """Part 3: the time to first token, without the wait for a slot. `added`: seconds that each prompt of each class adds to
    steps, (rates, K); `held`: mean seconds for which prompts are held, (rates,)."""
    import numpy as np

    rate, rho = work.rate, work.rho
    utilization = 1 - occupied.probabilities[:, 0] * (1 - rho)
    left = np.maximum(server.budget - occupied.running * server.step_tokens, 1.0)
    cap = np.maximum(left * work.first / server.mean_tokens, 1e-12)
    # 1: steps are full, and prompts that arrive later are computed in later ones
    full = np.minimum(1.0, rho * cycle.square / cycle.mean / cap)
    residual = utilization * cycle.square / (2 * cycle.mean)
    others = residual * rho * (2 - full)

    slow = [a + d.prompt_tokens * (occupied.step / left)[:, None] for d, a in zip(server.demands, added, strict=True)]
    slow1, slow2, slow3 = (server.mean(one**power for one in slow) for power in (1, 2, 3))
    rho_slow = np.minimum(rate * slow1 * work.factor, MAX_LOAD)
    longer = rate * slow2 / (2 * (1 - rho_slow)) - rate * work.second / (2 * (1 - rho))
    queue = longer * (1 + server.cv**2) / 2
    own = tuple(
        occupied.step[:, None] * np.ceil(d.prompt_tokens / left[:, None])
        + a * server.stages * d.alone(server.ranks)
        + d.after_s
        for d, a in zip(server.demands, added, strict=True)
    )
    # second moments: a uniform part U of a cycle C that is longer than the mean one, and the others' work, which is
    # rho C (1 - U) + rho C U (1 - full) on average, with the variance of a Poisson number of prompts
    slope = 1 - rho * full
    squared = rho**2 + rho * slope + slope**2 / 3
    met = utilization * (cycle.cube / cycle.mean * squared + rate * work.second * (2 - full) / 2 * cycle.square / cycle.mean)
    far = rate * slow3 / (3 * (1 - rho_slow)) - rate * work.third / (3 * (1 - rho))
    variance = np.maximum(met - (residual + others) ** 2, 1e-18) + queue**2 + far
    if unequal is not None:
        alone = occupied.step + work.first * (server.mean_share + (1 - server.mean_share) / server.ranks)
        residual, others = utilization * unequal.residual, unequal.next - alone
        mean = unequal.residual + others
        variance = unequal.wait_square - mean**2 + queue**2 + far
    queue = queue + held
    wait = tails.Moments(residual + others + queue, variance + held**2 / 3)
    return FirstTokenTimes(own, server.mean(own), residual, others, queue, cap, wait)


def _excess_prefill_time(server: BatchServer, work: PromptWork, first: FirstTokenTimes, cycle: Cycles) -> list[Array]:
    """Part 4: per class, the seconds of prompts beyond the mean in the decode steps of each request, (rates, K2).

    They arrived while the request's own prompt waited. The rest decays as rho^j, so that m steps compute x (1 - rho^m)/(1 -
    rho), limited by the free time of those steps.
    """
    import numpy as np

    rho = work.rho[:, None]
    behind = np.maximum(work.rho * (first.own_mean + first.others + first.queue - cycle.mean), 0)[:, None]
    free = np.maximum(first.cap - work.rho * cycle.mean, 1e-12)[:, None]
    extra = []
    for demand in server.demands:
        steps = np.maximum(demand.decode_steps, 1.0)
        total = behind * (1 - rho**steps) / (1 - rho)
        extra.append(total / (1 + total / (steps * free)))
    return extra


def _tpot(
    server: BatchServer, work: PromptWork, occupied: Occupancy, cycle: Cycles, first: FirstTokenTimes, extra: list[Array],
    stretch: Array,
) -> tuple[tails.Bounded, ...]:  # fmt: skip
    """Part 4: per class, the distribution of TPOT over its requests, (rates, K2)."""
    import numpy as np

    arriving = work.rate * server.mean_steps
    # Little's law: over all tokens, the mean time to the next is running / arriving
    token = np.where(arriving > 0, occupied.running / np.maximum(arriving, 1e-300), cycle.mean)
    base = token / stretch
    counts = np.arange(server.slots + 1)
    met = occupied.probabilities * counts
    met = met / met.sum(axis=1, keepdims=True)
    took = occupied.steps * (base / occupied.step)[:, None]
    wander = (met * (took - (met * took).sum(axis=1, keepdims=True)) ** 2).sum(axis=1, keepdims=True)
    shortest = server.decode_s[0]
    at_mean = np.interp(occupied.running, counts[1:], server.decode_s)
    # as full of prompts as a step can be, or with as many sequences as one step in a thousand has, whichever is longer
    rare = occupied.steps[np.argmax(np.cumsum(met, axis=1) >= _RARE, axis=1)]
    longest = np.maximum(at_mean + first.cap, rare)[:, None]
    by_class = []
    for demand, more in zip(server.demands, extra, strict=True):
        steps = np.maximum(demand.decode_steps, 1.0)
        mean = base[:, None] + more / steps
        variance = wander * _variance_of_mean(steps / max(server.mean_steps, 1e-9))
        variance = variance + _variance_of_cycles(cycle.from_prompts, work.rho, steps)
        least = shortest
        if demand.decode_tokens is not None:  # rounds per token, which differ from request to request
            tokens = np.maximum(demand.decode_tokens, 1.0)
            variance = (variance * steps**2 + mean**2 * demand.rounds_variance) / tokens**2
            mean, least = mean * steps / tokens, shortest / server.step_tokens
        low, high = np.minimum(least, mean * (1 - 1e-9)), np.maximum(longest, mean * (1 + 1e-9))
        by_class.append(tails.Bounded(mean, variance, low, high))
    return tuple(by_class)


def _variance_of_mean(life: Array) -> Array:
    """Share of the variance of a process with correlation exp(-t) that is left in its mean over a time x.

    2 (x - 1 + exp(-x)) / x^2, with x in units of the correlation time, here the mean life of a request.

    >>> [round(float(_variance_of_mean(x)), 3) for x in (0.01, 1.0, 10.0)]  # short: all of it; long: about 2/x
    [0.997, 0.736, 0.18]
    """
    import numpy as np

    return np.asarray(2 * (np.expm1(-life) + life) / life**2)


def _variance_of_cycles(variance: Array, rho: Array, steps: Array) -> Array:
    """Variance of the mean of m cycles that correlate as rho^j: var/m ((1 + rho)/(1 - rho) - 2 rho (1 - rho^m)/(m (1 -
    rho)^2)).

    >>> import numpy as np
    >>> float(_variance_of_cycles(np.array([1.0]), np.array([0.5]), np.array([2.0]))[0, 0])  # (1 + 0.5)/2 for two
    0.75
    """
    import numpy as np

    rho = rho[:, None]
    correlated = (1 + rho) / (1 - rho) - 2 * rho * (1 - rho**steps) / (steps * (1 - rho) ** 2)
    return np.asarray(variance[:, None] / steps * correlated)
