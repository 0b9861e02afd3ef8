"""What a distribution of lengths answers: mean, variance, ends, equally likely representatives, samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError
from roofline.serving.traffic.lengths.rounding import kept_in_order

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from roofline.specs.library import Input

    Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Lengths(ABC):
    """A distribution of whole numbers of tokens, at least 1. Equal texts are equal values, but of files, whose content counts.

    A continuous distribution is made whole by rounding each draw up or down at random, as likely as it is near, which keeps
    the mean; what is below 1 is 1.
    """

    text: str
    """As it is written, counts in full: `uniform:128:2048`."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """Tokens, on average."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Tokens squared. Of a continuous kind before rounding, which adds at most a quarter."""

    @property
    @abstractmethod
    def minimum(self) -> int:
        """The shortest length that can come."""

    @property
    @abstractmethod
    def maximum(self) -> int | None:
        """The longest length that can come; None: there is no longest."""

    @abstractmethod
    def below(self, fraction: float) -> float:
        """The integral of the quantile function from 0 to `fraction`: what the shortest of the requests, so many of all, add to
        the mean (the Lorenz curve, times the mean). From 0 to `mean`."""

    @abstractmethod
    def quantile(self, fraction: float) -> int:
        """The length that so many of the requests do not exceed, such as the median at 0.5; at least 0 and below 1."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """So many independent lengths, int64."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Files that it was read from."""
        return ()

    @property
    def cv(self) -> float:
        """Standard deviation over mean."""
        return float(self.variance**0.5 / self.mean)

    def quantiles(self, n: int) -> Array:
        """`n` equally likely lengths that stand for the distribution, shortest first, int64.

        They are the means of `n` slices of equal probability, made whole: the order is kept, and the sum is off by at most
        half a token, so the mean by 0.5/n tokens. Their variance is less than that of the distribution by that within the
        slices.
        """
        if n < 1:
            raise InputError(f"{n} representatives of {self.text}: at least 1 is needed")
        sums = [self.below(i / n) for i in range(1, n)]
        ends = [0.0, *sums, self.mean]
        return kept_in_order([(right - left) * n for left, right in pairwise(ends)])

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Kind:
    """How a kind of distribution is written: `word:arguments`, or the argument alone where the word is empty."""

    word: str
    form: str
    example: str
    about: str
    read: Callable[[str, Path | None], Lengths]
    """The distribution from the arguments; paths are seen from the folder. Raises `InputError`."""
