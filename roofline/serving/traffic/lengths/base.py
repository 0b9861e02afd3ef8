"""What a distribution of lengths is, what a kind of distribution is, and how real lengths become whole numbers of tokens."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from roofline.specs.library import Input

    Array = NDArray[Any]

_ROUNDOFF = 1e-9


@dataclass(frozen=True, slots=True)
class Lengths(ABC):
    """A distribution of whole numbers of tokens, at least 1. Equal texts are equal values; files are compared by content.

    A continuous distribution is rounded up or down at random, in proportion to the fraction, which keeps the mean; values
    below 1 become 1.

    Args:
        text: how it is written, with counts in full: `uniform:128:2048`.
    """

    text: str

    @property
    @abstractmethod
    def mean(self) -> float:
        """Mean, in tokens."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance, in tokens squared. Of a continuous kind before rounding, which adds at most a quarter."""

    @property
    @abstractmethod
    def minimum(self) -> int:
        """Shortest possible length, in tokens."""

    @property
    @abstractmethod
    def maximum(self) -> int | None:
        """Longest possible length, in tokens; None: unbounded."""

    @abstractmethod
    def below(self, fraction: float) -> float:
        """The integral of the quantile function from 0 to `fraction`, in tokens: the Lorenz curve times the mean."""

    @abstractmethod
    def quantile(self, fraction: float) -> int:
        """The length in tokens that a fraction of the requests (0 <= fraction < 1) does not exceed; the median at 0.5."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw `size` independent lengths in tokens: int64, shape (size,)."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Files that the distribution was read from."""
        return ()

    def quantiles(self, n: int) -> Array:
        """Represent the distribution by `n` equally likely lengths in tokens, shortest first: int64, shape (n,).

        They are the means of `n` slices of equal probability, rounded so that the order is kept and the sum is off by at most
        half a token, hence the mean by 0.5/n tokens. Their variance lacks the variance within the slices.

        Raises:
            InputError: `n` is below 1.
        """
        if n < 1:
            raise InputError(f"{n} representatives of {self.text}: at least 1 is needed")
        sums = [self.below(i / n) for i in range(1, n)]
        return _round_in_order([(right - left) * n for left, right in pairwise([0.0, *sums, self.mean])])

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class DistributionFamily:
    """A family of distributions and how it is written: `name:arguments`, or the argument alone where the name is empty.

    Packages add one through the entry point group `roofline.lengths`.

    Args:
        name: the word before the colon; empty for a plain length.
        syntax: how it is written, such as `uniform:LO:HI`.
        example: one that parses.
        about: one line for the documentation.
        read: makes the distribution from the arguments; paths are relative to the folder. Raises `InputError`.
    """

    name: str
    syntax: str
    example: str
    about: str
    read: Callable[[str, Path | None], Lengths]

    def split(self, arguments: str, least: int, needs: str, most: int | None = None) -> list[str]:
        """Split arguments at their colons.

        Args:
            arguments: what follows the word.
            least: minimum number of parts.
            needs: what they are, for the message.
            most: maximum number of parts; default: `least`.

        Raises:
            InputError: fewer or more parts, or an empty one.
        """
        parts = [part.strip() for part in arguments.split(":")]
        if not least <= len(parts) <= (most or least) or not all(parts):
            raise InputError(f"{f'{self.name}:{arguments}'!r} is not {self.syntax}: it needs {needs}, such as {self.example}")
        return parts


def _round_in_order(values: Sequence[float]) -> NDArray[np.int64]:
    """Round ascending numbers so that they still ascend and their sum is off by at most a half; int64, each at least 1.

    >>> _round_in_order([1.5, 1.5, 1.5, 1.5]).tolist(), _round_in_order([2.2, 2.9, 7.0]).tolist()
    ([1, 1, 2, 2], [2, 3, 7])
    """
    import numpy as np

    rounded: list[int] = []
    owed = 0.0
    # floors ascend; among equal ones the last go up, and none passes the next floor
    for whole, group in groupby(values, key=_round_down):
        equal = list(group)
        owed += sum(value - whole for value in equal)
        fractional = sum(value - whole > _ROUNDOFF * max(value, 1.0) for value in equal)
        up = min(max(math.floor(owed + 0.5), 0), fractional)
        owed -= up
        rounded += [max(whole, 1)] * (len(equal) - up) + [whole + 1] * up
    return np.array(rounded, dtype=np.int64)


def _round_down(value: float) -> int:
    # differences of sums are off in the last digits: 6.999999999999 is 7
    return math.floor(value + _ROUNDOFF * max(value, 1.0))
