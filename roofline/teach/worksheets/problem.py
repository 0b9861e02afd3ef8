"""What a problem is: its text, its answer, the usual wrong answers, and the way to the right one. Frozen values in "
"base units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from roofline.predict.explain.value import Explanation

FORMAT = 1
"""Version of how problems are drawn. Raise it where a change gives other problems for the same seed."""

Topic = Literal["transformer", "kv-cache", "roofline", "batching", "measured", "moe", "preemption", "serving"]
Kind = Literal[
    "bytes", "flop", "flop/s", "bytes/s", "flop/byte", "s", "tokens", "tokens/s", "requests/s", "sequences", "parameters",
    "devices", "usd", "share", "ratio", "choice",
]  # fmt: skip
"""What an answer is. A `share` is a fraction, shown in percent; a `ratio` a plain number; of a `choice` the value is "
"its place."""

TOLERANCE = 0.01
"""How far an answer may be from the right one, as a share of it: two significant digits more than mistakes differ by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The right answer, in base units (byte, FLOP, second, ...)."""

    value: float
    kind: Kind
    tolerance: float = TOLERANCE
    """0: the number itself, as counts of a few things are."""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A wrong answer that people give, in the unit of the answer, and what to tell them."""

    name: str
    value: float
    hint: str


@dataclass(frozen=True, slots=True)
class Worked:
    """A formula in symbols, with numbers, and worked out. It is made when it is shown: symbols take their time."""

    lead: str
    make: Callable[[], Explanation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem with its numbers."""

    title: str
    text: str
    answer: Answer
    mistakes: tuple[Mistake, ...]
    solution: tuple[str | Worked, ...]
    source: str = ""
    """Where the problem, or a figure in it, is from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """A problem on a sheet."""

    number: int
    template: str
    minutes: int
    problem: Problem
