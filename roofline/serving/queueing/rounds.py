"""Rounds of speculative decoding until a request has its tokens: their exact mean and variance, and random draws.

A round gives a sequence the drafted tokens that are accepted before the first rejection, and one of the model's own: X tokens,
P(X = k) = a^(k-1) (1 - a) for k up to K, and a^K for K + 1 (Leviathan et al. 2023, arXiv:2211.17192, eq. (1)). Rounds are
independent; the one that reaches the last output token ends the request, and what it gives beyond is dropped. So the rounds
R(m) of m tokens are the first passage of a random walk: R(m) = 1 + R(m - X), with R(m) = 0 for m of 0 or less.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from roofline.predict.speculation import tokens_per_round

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

_EXACT = 4096
"""Tokens up to which moments are exact; beyond them both grow by what a token adds on average."""


@dataclass(frozen=True)
class RoundLengths:
    """Tokens that a sequence gets per round.

    Args:
        num_speculative_tokens: drafted tokens per round, K.
        acceptance: probability that a drafted token is accepted, a, 0 to 1.
    """

    num_speculative_tokens: int
    acceptance: float

    @cached_property
    def probabilities(self) -> tuple[float, ...]:
        """Probabilities of 1, 2, ... K + 1 tokens.

        >>> RoundLengths(2, 0.5).probabilities
        (0.5, 0.25, 0.25)
        """
        drafted, accepted = self.num_speculative_tokens, self.acceptance
        return (*(accepted**before * (1 - accepted) for before in range(drafted)), accepted**drafted)

    @property
    def mean(self) -> float:
        """Mean tokens per round, E[X]."""
        return tokens_per_round(self.acceptance, self.num_speculative_tokens)

    @cached_property
    def variance(self) -> float:
        """Variance of the tokens per round.

        >>> RoundLengths(2, 0.5).variance  # 1, 2, 3 with 1/2, 1/4, 1/4: mean 7/4, mean square 15/4
        0.6875
        """
        squares = sum(chance * tokens**2 for tokens, chance in enumerate(self.probabilities, 1))
        return squares - self.mean**2

    def rounds(self, num_tokens: ArrayLike) -> tuple[Array, Array]:
        """Return mean and variance of the rounds that give some numbers of tokens, each of their shape.

        Exact up to 4,096 tokens; beyond them 1/E[X] more rounds per token, and Var[X]/E[X]^3 more variance (renewal theory:
        Feller 1971, An Introduction to Probability Theory 2, section XI.3).

        Args:
            num_tokens: whole numbers, 0 or more.

        >>> mean, variance = RoundLengths(1, 0.5).rounds([0, 1, 2, 3])
        >>> mean.tolist(), variance.tolist()  # 2 tokens: a round of 2, or two of 1 at first
        ([0.0, 1.0, 1.5, 2.25], [0.0, 0.0, 0.25, 0.1875])
        """
        import numpy as np

        tokens = np.asarray(num_tokens)
        most = int(min(tokens.max(initial=0), _EXACT))
        first, second = [0.0], [0.0]
        for length in range(1, most + 1):
            mean = square = 0.0
            for given, chance in enumerate(self.probabilities[: length - 1], 1):
                mean += chance * first[length - given]
                square += chance * second[length - given]
            first.append(1 + mean)
            second.append(1 + 2 * mean + square)
        exact = np.minimum(tokens, most).astype(np.int64)
        means = np.array(first)
        variances = np.maximum(np.array(second) - means**2, 0.0)
        beyond = tokens - exact
        return means[exact] + beyond / self.mean, variances[exact] + beyond * self.variance / self.mean**3


class RoundDraws:
    """Random numbers of rounds: of each request its own, whatever the order in which they are drawn.

    Args:
        lengths: tokens per round.
        seed: of the run.
    """

    __slots__ = ("_generator", "_lengths", "_state", "_thresholds")

    def __init__(self, lengths: RoundLengths, seed: Iterable[int]) -> None:
        import numpy as np

        bits = np.random.Philox(np.random.SeedSequence((*seed, _STREAM)))
        self._lengths, self._generator, self._state = lengths, np.random.Generator(bits), bits.state
        drafted = lengths.num_speculative_tokens
        # at least j drafted tokens are accepted with probability a^j
        self._thresholds = np.array([lengths.acceptance**place for place in range(drafted, 0, -1)])

    def draw(self, index: int, position: int, num_tokens: int) -> tuple[int, int]:
        """Return the rounds that give a request its next tokens, and all tokens of these rounds: some may be beyond its last.

        Args:
            index: number of the request.
            position: output tokens that it has.
            num_tokens: tokens that it still gets, at least 1.
        """
        import numpy as np

        # one generator, set to a place of its own for every request: making one takes five times as long
        state = self._state
        state["state"]["counter"][:] = (0, position, index, 0)
        state["buffer_pos"] = 4
        self._generator.bit_generator.state = state
        most, thresholds = 1 + len(self._thresholds), self._thresholds
        rounds, tokens = 0, 0
        while True:
            left = num_tokens - tokens
            num_draws = min(int(left / self._lengths.mean * 1.1) + 16, left)
            given = most - np.searchsorted(thresholds, self._generator.random(num_draws), side="right")
            sums = np.cumsum(given)
            last = int(np.searchsorted(sums, left))
            if last < num_draws:
                return rounds + last + 1, tokens + int(sums[last])
            rounds, tokens = rounds + num_draws, tokens + int(sums[-1])


_STREAM = 0x5BEC
"""Keeps these draws apart from others of the same seed."""
