"""Prompts with their answers: long prompts may have short answers, which two distributions on their own do not tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError
from roofline.serving.traffic.lengths import Lengths
from roofline.serving.traffic.lengths.observed import Observed
from roofline.specs.library import Input

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]

_SHIFTS = 64
"""Ways to deal answers to prompts that are tried."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Observed requests, each equally likely: tokens of the prompt and of the answer, int64, one of each a request."""

    source: Input
    prompts: Array = field(compare=False, repr=False)
    answers: Array = field(compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.prompts)

    @property
    def input_len(self) -> Lengths:
        """Prompts alone."""
        return self._alone("prompts", self.prompts)

    @property
    def output_len(self) -> Lengths:
        """Answers alone."""
        return self._alone("answers", self.answers)

    def _alone(self, which: str, values: Array) -> Lengths:
        import numpy as np

        return Observed(f"{which} of {self.source.name}", self.source, np.sort(values))

    def sample_pairs(self, n: int) -> Array:
        """`n` equally likely (prompt, answer) pairs that stand for all, int64 of shape (n, 2), shortest prompts first.

        Requests are sorted by prompt and cut into about sqrt(n) strata, each of which is sorted by answer and cut again, so
        that every cell holds 1/n of the requests (one at a border counts in both, by its part). A pair is the mean of its cell,
        made whole; the sum of prompts, and of answers, is off by at most half a token.
        """
        import numpy as np

        _at_least_one(n)
        order = np.lexsort((self.answers, self.prompts))
        prompts, answers = self.prompts[order].astype(np.float64), self.answers[order].astype(np.float64)
        strata = max(round(n**0.5), 1)
        sizes = [n // strata + (i < n % strata) for i in range(strata)]
        borders = np.cumsum([0, *sizes]) * (len(self) / n)
        cells: list[Array] = []
        for size, start, end in zip(sizes, borders, borders[1:], strict=False):
            rows = slice(int(start), min(int(np.ceil(end - 1e-9)), len(self)))
            weights = np.minimum(np.arange(rows.start, rows.stop) + 1, end) - np.maximum(
                np.arange(rows.start, rows.stop), start
            )
            within = np.lexsort((prompts[rows], answers[rows]))
            share = np.concatenate([[0.0], np.cumsum(weights[within])])
            cuts = np.linspace(0, share[-1], size + 1)
            sums = [
                np.interp(cuts, share, np.concatenate([[0.0], np.cumsum((values[rows] * weights)[within])]))
                for values in (prompts, answers)
            ]
            cells.append(np.diff(np.stack(sums)) * (n / len(self)))
        means = np.concatenate(cells, axis=1)
        return np.stack([_whole(means[0]), _whole(means[1])], axis=1)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """So many whole requests, drawn with replacement: int64 of shape (size, 2)."""
        import numpy as np

        chosen = rng.integers(0, len(self), size)
        return np.stack([self.prompts[chosen], self.answers[chosen]], axis=1)


def independent(prompts: Lengths, answers: Lengths, n: int) -> Array:
    """`n` equally likely pairs of lengths that have nothing to do with each other, int64 of shape (n, 2).

    Each column is `quantiles(n)` of its distribution; the answers are dealt to the prompts in the order of the fractions of
    i/phi (a Latin hypercube on Fibonacci's lattice), shifted round by that which leaves the least correlation. Deterministic.

    Source: Niederreiter 1992, Random Number Generation and Quasi-Monte Carlo Methods, section 5.1 (good lattice points).
    """
    import numpy as np

    _at_least_one(n)
    golden = (5**0.5 - 1) / 2
    dealt = np.argsort(np.argsort(np.arange(n) * golden % 1.0))
    first, second = prompts.quantiles(n), answers.quantiles(n)
    shifts = [(dealt + shift) % n for shift in range(min(n, _SHIFTS))]
    # of equal columns the sum of products tells the correlation: the least is that nearest to what no correlation gives
    none = float(first.mean()) * float(second.sum())
    best = min(shifts, key=lambda order: abs(float((first * second[order].astype(np.float64)).sum()) - none))
    return np.stack([first, second[best]], axis=1)


def _whole(values: Array) -> Array:
    """Rounded, the sum kept to a half: those nearest to the next number go up. At least 1 each."""
    import numpy as np

    down = np.floor(values + 1e-9)
    up = int((values - down).sum() + 0.5)
    chosen = np.argsort(down - values, kind="stable")[:up]
    down[chosen] += 1
    return np.maximum(down, 1).astype(np.int64)


def _at_least_one(n: int) -> None:
    if n < 1:
        raise InputError(f"{n} pairs: at least 1 is needed")
