"""A server with continuous batching, as the formulas of `steady.py` want it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


_TINY = 1e-12
"""Seconds that a request costs at the least: of nothing there is no rate."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Requests of one class, by representative ones that are equally likely.

    `prompt_s`: seconds that a prompt adds to steps, with as many running as the row says (`running`), shape (rows, K).
    `prompt_tokens`: tokens to compute, (K,). `answer_steps`: decode steps, (K2,): tokens less the first. `after_s`: seconds
    from the end of a prompt to its first token that keep no step busy (a cache that moves to another server), (K,).
    """

    share: float
    running: Array
    prompt_s: Array
    prompt_tokens: Array
    answer_steps: Array
    after_s: Array | float = 0.0

    def prompts(self, running: Array) -> Array:
        """Seconds that each prompt adds while so many run, shape (rates, K)."""
        import numpy as np

        if len(self.running) == 1:
            return np.broadcast_to(self.prompt_s, (len(running), self.prompt_s.shape[1]))
        place = np.clip(np.searchsorted(self.running, running) - 1, 0, len(self.running) - 2)
        left, right = self.running[place], self.running[place + 1]
        part = np.clip((running - left) / (right - left), 0, 1)[:, None]
        return np.asarray((1 - part) * self.prompt_s[place] + part * self.prompt_s[place + 1])


@dataclass(frozen=True)
class BatchServer:
    """One replica: `decode_s[n - 1]` seconds of a step that n sequences share, without prompts; as many seats as it is long.

    `ranks` of them step together, each with its own seats and an equal part of the arrivals: rates are those of all ranks.
    `stages` of a pipeline work at the same time: a prompt takes a stage its part of the time. `cv`: coefficient of variation
    of the times between arrivals (1: Poisson).
    """

    decode_s: Array
    demands: tuple[Demand, ...]
    budget: int
    ranks: int = 1
    stages: int = 1
    cv: float = 1.0

    @property
    def seats(self) -> int:
        """Requests that hold a place at a time, on one rank."""
        return len(self.decode_s)

    @cached_property
    def mean_steps(self) -> float:
        """Decode steps of a request, on average."""
        return sum(demand.share * float(demand.answer_steps.mean()) for demand in self.demands)

    @cached_property
    def scv_steps(self) -> float:
        """Their squared coefficient of variation."""
        square = sum(demand.share * float((demand.answer_steps**2).mean()) for demand in self.demands)
        return square / self.mean_steps**2 - 1 if self.mean_steps else 0.0

    @cached_property
    def mean_tokens(self) -> float:
        """Tokens of a prompt to compute, on average."""
        return sum(demand.share * float(demand.prompt_tokens.mean()) for demand in self.demands)

    def mean(self, of_each: Iterable[Array]) -> Any:
        """The mean over requests of something of each class, (rates, K): shape (rates,)."""
        return mixed((demand.share for demand in self.demands), (each.mean(axis=1) for each in of_each))

    @cached_property
    def capacity(self) -> float:
        """Requests a second, of all ranks, at which the work that arrives is what can be done.

        All seats are taken: lambda (E[m] d(S)/S + E[w]) = 1; and prompts have no more than the budget leaves them:
        lambda (E[w] + E[tokens] d(n)/(budget - n)) = 1, with the n at which both are met, or all seats.
        """
        import numpy as np

        many = np.arange(1, self.seats + 1)
        left = np.maximum(self.budget - many, 1)
        prompts = self.mean(demand.prompts(many.astype(float)) for demand in self.demands) / self.stages
        by_seats = 1 / np.maximum(self.mean_steps * self.decode_s / many + prompts, _TINY)
        by_budget = 1 / np.maximum(prompts + self.mean_tokens * self.decode_s / left, _TINY)
        # more in the batch is more answers and less room for prompts: the best of what both allow
        return float(np.max(np.minimum(np.maximum.accumulate(by_seats), by_budget))) * self.ranks


def mixed(shares: Iterable[float], values: Iterable[Any]) -> Any:
    """The sum of values by their shares."""
    return sum(share * value for share, value in zip(shares, values, strict=True))
