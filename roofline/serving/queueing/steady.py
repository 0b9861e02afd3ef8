"""Steady state of a server with continuous batching under random arrivals, in closed form.

One replica runs steps. Each running sequence gets a token a step, and what the budget of tokens leaves goes to prompts in the
order of their arrival (chunked prefill: Sarathi-Serve, arXiv:2403.02310, section 4). Requests come at a rate lambda; a request
has a prompt, which adds w seconds to the steps that compute it, and m further tokens, a decode step each. A step of n sequences
takes d(n) before prompts. Then, with rho = lambda E[w]:

1. **How many run.** Decode is processor sharing at a speed that depends on how many share: each sequence advances by a token
   in tau(n) = g d(n) / (1 - rho), because prompts take the share rho of the time. The number that runs is then insensitive to
   how answers are distributed beyond their mean: pi(n) ~ prod_{i <= n} lambda E[m] tau(i) / i (Cohen 1979, Acta Informatica
   12, 245, eq. 3.5), up to the number of seats; beyond it requests wait, and each is one more with ratio r = lambda E[m]
   tau(S)/S, of which the mean is taken times (c_a^2 + c_m^2)/2 (Lee and Longton 1959; Allen-Cunneen). By Little's law the mean
   time between the tokens of a request is E[n] / (lambda E[m]).
2. **Cycles.** Prompts that arrive during a step are computed in the next. Steps are then a branching process with immigration:
   C' = d + (work that arrived during C), so that E[C] = d/(1 - rho), Var C = (Var d + lambda E[w^2] E[C])/(1 - rho^2), the
   third cumulant is (lambda E[w^3] E[C] + 3 lambda E[w^2] rho Var C)/(1 - rho^3), and cycles correlate as rho^j (gated
   service: Takagi 1991, Queueing Analysis 1, chapter 2; the cumulants by the law of total cumulance).
3. **TTFT** = wait for a seat + what is left of the step that runs + prompts that are computed with or before the own one + the
   own step. The step that runs when a prompt arrives is longer than the mean one, E[C^2]/E[C]. Where the budget of tokens
   cannot take all waiting prompts at once the difference of two Pollaczek-Khinchine waits is added: one with w + d * tokens /
   (budget left) for the service time, one with w.
4. **TPOT.** Behind a prompt come those that arrived during its wait: the first steps of an answer are longer than the mean by
   the work left behind, which decays as rho^j. Its sum over m steps is g (in 1). The variance over requests is that of d(n)
   over the life of a request, and that of m cycles that correlate as rho^j.
5. **Percentiles** (`tails.py`): waits as gamma distributions with these two moments, over the representative prompts; TPOT as
   beta distributions between the shortest and the longest step.

Replicas of one deployment that step together (data-parallel attention) have the prompts of all in their steps: prompts are
dealt to the ranks, and a step has as many rounds of them as the fullest rank.

Where it stops holding: beyond 0.85 of the rate that saturates (waits are then mostly for seats, and 10 to 50 % too short),
arrivals with a coefficient of variation beyond 1.2, and arrivals whose rate drifts faster than requests end. The errors by
utilisation, against an event-by-event computation: docs/capacity.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.serving.queueing import tails
from roofline.serving.queueing.crowd import MOST, crowd
from roofline.serving.queueing.cycles import Work, cycles, together
from roofline.serving.queueing.first_token import first_token
from roofline.serving.queueing.later_tokens import later_tokens, work_behind
from roofline.serving.queueing.server import BatchServer

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

_ROUNDS = 4
"""Passes over the equations, each of which uses numbers of another; they change by less than 1 % after the third."""


@dataclass(frozen=True)
class Steady:
    """Steady states, one a rate; arrays over the rates. `running` and `waits` are of one rank."""

    server: BatchServer
    rates: Array
    saturated: Array
    running: Array
    """Sequences that decode, mean over time."""
    step_s: Array
    """A decode step without prompts, as an arrival meets it."""
    busy: Array
    """Share of the time that prompts take."""
    tpot_s: Array
    """Mean time between tokens, over requests of all classes."""
    seat_wait_s: Array
    seat_wait_chance: Array
    wait: tails.Moments
    """From a seat to the first token, less the own prompt."""
    own_s: tuple[Array, ...]
    """Of each class: seconds of the steps that compute a prompt, (rates, K)."""
    later: tuple[tails.Within, ...]
    """Of each class: TPOT, (rates, K2)."""

    def ttft_mean(self, which: int) -> Array:
        """Mean seconds to the first token of a class."""
        import numpy as np

        return np.asarray(self.own_s[which].mean(axis=1) + self.wait.mean + self.seat_wait_s)

    def tpot_mean(self, which: int) -> Array:
        """Mean seconds between later tokens, over the requests of a class."""
        import numpy as np

        return np.asarray(self.later[which].mean.mean(axis=1))

    def ttft_within(self, which: int, seconds: float | Array) -> Array:
        """Share of a class whose first token comes within so many seconds; 0 where saturated."""
        return self._where(tails.waited(self.own_s[which], self._waits(), seconds))

    def tpot_within(self, which: int, seconds: float | Array) -> Array:
        """Share of a class whose mean time between tokens is at most so many seconds; 0 where saturated."""
        return self._where(self.later[which].below(seconds))

    def ttft_quantile(self, which: int, share: float) -> Array:
        """Seconds within which a share of the first tokens of a class come."""
        import numpy as np

        found = tails.quantile(
            lambda seconds: tails.waited(self.own_s[which], self._waits(), seconds), share, self.longest([which], tpot=False)
        )
        return np.where(self.saturated, np.inf, found)

    def tpot_quantile(self, which: int, share: float) -> Array:
        """Seconds that the mean time between tokens of a share of the requests of a class is at most."""
        import numpy as np

        found = tails.quantile(self.later[which].below, share, self.longest([which], tpot=True))
        return np.where(self.saturated, np.inf, found)

    def longest(self, classes: list[int], *, tpot: bool) -> Array:
        """More than any TTFT (or TPOT) of some classes that percentiles are asked of."""
        import numpy as np

        if tpot:
            return np.asarray(np.maximum(np.max([self.later[which].high.max(axis=1) for which in classes], axis=0), 1e-9))
        return np.asarray(np.max([self._scale(which) for which in classes], axis=0))

    def _waits(self) -> tuple[tuple[Array, tails.Moments], ...]:
        """With a seat at once, or after a wait for one; each with its chance."""
        import numpy as np

        chance = np.clip(self.seat_wait_chance, 0, 1)
        later = np.where(chance > 0, self.seat_wait_s / np.maximum(chance, 1e-300), 0)
        after = tails.Moments(self.wait.mean + later, self.wait.variance + later**2)
        return ((1 - chance, self.wait), (chance, after))

    def _where(self, share: Array) -> Array:
        import numpy as np

        return np.where(self.saturated, 0.0, share)

    def _scale(self, which: int) -> Array:
        """More than any wait that is asked for."""
        import numpy as np

        after = self._waits()[1][1]
        return np.asarray(np.maximum(self.own_s[which].max(axis=1) + after.mean + 40 * np.sqrt(after.variance), 1e-9))


def steady(server: BatchServer, rates: ArrayLike) -> Steady:
    """The steady state at each rate, in requests a second of all ranks: the equations of the module's docstring, a row a rate.
    At rates that saturate the server the state is that just below."""
    import numpy as np

    wanted = np.atleast_1d(np.asarray(rates, dtype=np.float64))
    limit = server.capacity * MOST
    rate = np.minimum(wanted, limit) / server.ranks
    running, held = np.full(rate.shape, 1.0), np.zeros(rate.shape)
    stretch, factor = np.ones(rate.shape), np.ones(rate.shape)
    for _ in range(_ROUNDS):
        added = [demand.prompts(running) / server.stages for demand in server.demands]
        first, second, third = (server.mean(one**power for one in added) for power in (1, 2, 3))
        work = Work(rate, first, second, third, factor, np.minimum(rate * first * factor, MOST))
        people = crowd(server, rate, stretch / (1 - work.rho) * rate * server.mean_steps, held)
        cycle = cycles(work, people.step, people.spread, server.cv)
        prompt = first_token(server, work, added, people, cycle)
        extra = work_behind(server, work, prompt, cycle)
        behind = server.mean(x * (d.answer_steps > 0) for x, d in zip(extra, server.demands, strict=True))
        used = stretch
        running, held = people.running, np.minimum(rate * (prompt.own_mean + prompt.others + prompt.queue), server.seats - 1)
        stretch = 1 + behind / np.maximum(server.mean_steps * cycle.mean, 1e-300)
        factor = together(rate * cycle.mean, server.ranks)
    later = later_tokens(server, work, people, cycle, prompt, extra, used)
    return Steady(
        server=server,
        rates=wanted,
        saturated=wanted >= limit,
        running=people.running,
        step_s=people.step,
        busy=work.rho,
        tpot_s=server.mean(within.mean for within in later),
        seat_wait_s=people.seat_wait,
        seat_wait_chance=people.seat_wait_chance,
        wait=prompt.wait,
        own_s=prompt.own,
        later=later,
    )
