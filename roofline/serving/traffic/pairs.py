"""Joint lengths of prompts and outputs: long prompts may have short outputs, which two separate distributions do not show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError
from roofline.serving.traffic.lengths import Lengths
from roofline.serving.traffic.lengths.discrete import Observed
from roofline.specs.library import Input

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]

_SHIFTS = 64
"""Number of ways to deal outputs to prompts that are tried."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Observed requests, each equally likely: prompt and output tokens, int64 of shape (requests,)."""

    source: Input
    prompts: Array = field(compare=False, repr=False)
    outputs: Array = field(compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.prompts)

    @property
    def input_len(self) -> Lengths:
        """The distribution of prompt tokens alone."""
        return self._marginal("prompts", self.prompts)

    @property
    def output_len(self) -> Lengths:
        """The distribution of output tokens alone."""
        return self._marginal("outputs", self.outputs)

    def _marginal(self, which: str, values: Array) -> Lengths:
        import numpy as np

        return Observed(f"{which} of {self.source.name}", self.source, np.sort(values))

    def sample_pairs(self, n: int) -> Array:
        """Represent all requests by `n` equally likely pairs of prompt and output tokens: int64, shape (n, 2). Deterministic.

        Requests are sorted by prompt and cut into about sqrt(n) strata, each of which is sorted by output and cut again, so
        that every cell holds 1/n of the requests (one at a border counts in both, in proportion). A pair is the mean of its
        cell, rounded; the sums of prompts and of outputs are off by at most half a token.

        Raises:
            InputError: `n` is below 1.
        """
        import numpy as np

        _at_least_one(n)
        order = np.lexsort((self.outputs, self.prompts))
        prompts, outputs = self.prompts[order].astype(np.float64), self.outputs[order].astype(np.float64)
        strata = max(round(n**0.5), 1)
        sizes = [n // strata + (i < n % strata) for i in range(strata)]
        borders = np.cumsum([0, *sizes]) * (len(self) / n)
        cells: list[Array] = []
        for size, start, end in zip(sizes, borders, borders[1:], strict=False):
            rows = slice(int(start), min(int(np.ceil(end - 1e-9)), len(self)))
            weights = np.minimum(np.arange(rows.start, rows.stop) + 1, end) - np.maximum(
                np.arange(rows.start, rows.stop), start
            )
            within = np.lexsort((prompts[rows], outputs[rows]))
            share = np.concatenate([[0.0], np.cumsum(weights[within])])
            cuts = np.linspace(0, share[-1], size + 1)
            sums = [
                np.interp(cuts, share, np.concatenate([[0.0], np.cumsum((values[rows] * weights)[within])]))
                for values in (prompts, outputs)
            ]
            cells.append(np.diff(np.stack(sums)) * (n / len(self)))
        means = np.concatenate(cells, axis=1)
        return np.stack([_round_sum(means[0]), _round_sum(means[1])], axis=1)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw `size` requests with replacement, as pairs of prompt and output tokens: int64, shape (size, 2)."""
        import numpy as np

        chosen = rng.integers(0, len(self), size)
        return np.stack([self.prompts[chosen], self.outputs[chosen]], axis=1)


def independent(prompts: Lengths, outputs: Lengths, n: int) -> Array:
    """Represent independent lengths by `n` equally likely pairs of prompt and output tokens: int64, shape (n, 2).

    Each column is `quantiles(n)` of its distribution. Outputs are dealt to prompts in the order of the fractions of i/phi (a
    Latin hypercube on a Fibonacci lattice), rotated by the shift that leaves the least correlation.

    Raises:
        InputError: `n` is below 1.

    Source: Niederreiter 1992, Random Number Generation and Quasi-Monte Carlo Methods, section 5.1 (good lattice points).
    """
    import numpy as np

    _at_least_one(n)
    golden = (5**0.5 - 1) / 2
    dealt = np.argsort(np.argsort(np.arange(n) * golden % 1.0))
    first, second = prompts.quantiles(n), outputs.quantiles(n)
    shifts = [(dealt + shift) % n for shift in range(min(n, _SHIFTS))]
    # the sum of products measures the correlation: the least is nearest to the sum of independent columns
    independent_sum = float(first.mean()) * float(second.sum())
    best = min(shifts, key=lambda order: abs(float((first * second[order].astype(np.float64)).sum()) - independent_sum))
    return np.stack([first, second[best]], axis=1)


def _round_sum(values: Array) -> Array:
    """Round to at least 1 each, with the sum off by at most a half: those nearest to the next number go up."""
    import numpy as np

    down = np.floor(values + 1e-9)
    up = int((values - down).sum() + 0.5)
    chosen = np.argsort(down - values, kind="stable")[:up]
    down[chosen] += 1
    return np.maximum(down, 1).astype(np.int64)


def _at_least_one(n: int) -> None:
    if n < 1:
        raise InputError(f"{n} pairs: at least 1 is needed")
