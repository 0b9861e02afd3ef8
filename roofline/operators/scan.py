"""What the recurrences over a sequence share: a state that is read and written once a step, and chunks of tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from roofline.numeric import Expr, ceil_div, minimum
from roofline.operators.base import Operator


def resumed(cached: Expr) -> Expr:
    """1 where a sequence has a recurrent state from earlier steps (`cached` > 0 tokens), 0 where it begins.

    >>> resumed(0), resumed(1), resumed(4096)
    (0, 1, 1)
    """
    return minimum(cached, 1)


def over_chunks(rule: Callable[[Expr], Expr], new: Expr, chunk: Expr) -> Expr:
    """The sum of `rule` over the chunks of `new` tokens.

    Args:
        rule: the value of one chunk, from its number of tokens.
        new: tokens in all, at least 1.
        chunk: tokens of a whole chunk; the last one is as long as what is left.

    >>> over_chunks(lambda tokens: tokens * tokens, 150, 64)  # 64, 64 and 22 tokens
    8676
    """
    whole = ceil_div(new, chunk) - 1
    return whole * rule(chunk) + rule(new - whole * chunk)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan(Operator):
    """A recurrence over the tokens of `batch` sequences, each with `new` tokens after `cached` ones.

    The state of a sequence is as large after a million tokens as after one. It is read once if there were tokens before,
    and written once, in the state's own format; between the tokens of one step it stays on chip.
    NB: kernels that work on the chunks of a prompt in parallel write the state before each chunk to memory and read it
    back. That is not compulsory and not counted.
    """

    multiplies_weights: ClassVar[bool] = False
    batch: Expr
    new: Expr
    cached: Expr
    borrowed: bool = False
    """The weights are another operator's (another segment of the step has read them): read here, held there."""

    @property
    def tokens(self) -> Expr:
        """New tokens of all sequences."""
        return self.batch * self.new

    def state_read(self, elements: Expr) -> Expr:
        """Bytes of recurrent state that the step reads; sequences that begin have none.

        Args:
            elements: of the state of one sequence.
        """
        return self.batch * resumed(self.cached) * elements * self.dtypes.state.bytes

    def state_written(self, elements: Expr) -> Expr:
        """Bytes of recurrent state that the step writes.

        Args:
            elements: of the state of one sequence.
        """
        return self.batch * elements * self.dtypes.state.bytes

    @property
    def parameters(self) -> Expr:
        """Parameters of the recurrence itself, in elements; 0 if they are borrowed."""
        return 0 if self.borrowed else self.weights()

    def weights(self) -> Expr:
        """Weights that the recurrence reads, in elements; 0 unless overridden."""
        return 0
