"""A step: one forward pass over a batch of segments, each a number of sequences with new and with cached tokens."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from roofline.errors import InputError
from roofline.numeric import Expr
from roofline.units import parse_count


@dataclass(frozen=True, slots=True)
class Segment:
    """`count` sequences, each with `new` tokens in this step after `cached` tokens in the cache: numbers, arrays or symbols.

    `decode` says that the tokens are generated, not a prompt's. It matters where engines use other kernels for decode
    (attention; MLA absorbs its projections), and they go by the phase: a prompt of one token, or the last token of a prompt
    that came in chunks, is computed as prompts are.
    """

    count: Expr
    new: Expr
    cached: Expr
    decode: bool = False

    @property
    def tokens(self) -> Expr:
        """Number of new tokens of all its sequences."""
        return self.count * self.new

    def __str__(self) -> str:
        return f"{self.count}x{self.new}@{self.cached}"


Step = tuple[Segment, ...]


def prefill(batch: Expr, input_len: Expr, cached: Expr = 0) -> Step:
    """The step that processes `batch` prompts of `input_len` tokens each, of which the first `cached` are in the cache."""
    return (Segment(batch, input_len - cached, cached),)


def cached_tokens(input_len: int, hit: float) -> int:
    """The tokens of a prompt that a prefix cache with a share of it saves: whole ones, and at least one is computed.

    >>> cached_tokens(4096, 0.875), cached_tokens(1000, 0.7), cached_tokens(1000, 1)
    (3584, 700, 999)
    """
    computed = math.ceil(input_len * (1 - hit) - 1e-6)  # NB: 1000 * (1 - 0.7) is a little more than 300
    return input_len - max(computed, 1)


def decode(batch: Expr, context: Expr) -> Step:
    """The step that generates one token for each of `batch` sequences, which have `context` cached tokens each."""
    return (Segment(batch, 1, context, decode=True),)


def merged(step: Step) -> Step:
    """The same step with equal segments combined: two of 1x1@4096 become 2x1@4096."""
    counts: dict[tuple[Expr, Expr, bool], Expr] = {}
    for segment in step:
        key = (segment.new, segment.cached, segment.decode)
        counts[key] = counts.get(key, 0) + segment.count
    return tuple(Segment(count, new, cached, decode) for (new, cached, decode), count in counts.items())


_SEGMENT = re.compile(r"([^x@]+)x([^x@]+)@([^x@]+)")


def parse_segments(text: str) -> Step:
    """The step of a text `COUNTxNEW@CACHED,...`: sequences, new tokens and cached tokens of each segment.

    One new token is a generated one if anything is cached; without, it is a prompt of one token: the first token that is
    generated comes out of the prompt's step.

    >>> [str(segment) for segment in parse_segments("32x1@4k, 1x512@0, 1x1@4k")]  # equal ones are one
    ['33x1@4096', '1x512@0']
    >>> [segment.decode for segment in parse_segments("1x1@4k, 1x1@0")]
    [True, False]

    Raises:
        InputError: no segment, or one that cannot be read.
        UnitError: a count or a number of new tokens below 1, or a number that is not whole.
    """
    segments = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _SEGMENT.fullmatch(part)
        if not match:
            msg = f"cannot read segment {part!r}: write COUNTxNEW@CACHED, such as 32x1@4096,1x512@0"
            raise InputError(msg)
        count, new, cached = (
            parse_count(value, f"{what} of segment {part!r}", minimum)
            for value, what, minimum in zip(match.groups(), ("count", "new tokens", "cached tokens"), (1, 1, 0), strict=True)
        )
        segments.append(Segment(count, new, cached, decode=new == 1 and cached > 0))
    if not segments:
        msg = f"no segments in {text!r}: write COUNTxNEW@CACHED, such as 32x1@4096,1x512@0"
        raise InputError(msg)
    return merged(tuple(segments))


def tokens(step: Step) -> Expr:
    """Number of new tokens of all segments."""
    return sum((segment.tokens for segment in step[1:]), step[0].tokens)


def sequences(step: Step) -> Expr:
    """Number of sequences of all segments."""
    return sum((segment.count for segment in step[1:]), step[0].count)
