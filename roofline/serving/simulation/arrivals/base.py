"""How requests come: what a kind of arrivals has to answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError
from roofline.serving.traffic.scalars import parse_seconds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]

CHUNK = 8192
"""Arrivals that are drawn at a time."""


@dataclass(frozen=True, slots=True)
class Arrivals(ABC):
    """Requests that come whatever the server does."""

    @property
    @abstractmethod
    def rate(self) -> float | None:
        """Requests a second on average; None where all come at once."""

    @abstractmethod
    def times(self, rng: np.random.Generator) -> Iterator[Array]:
        """Seconds from the start, ascending, a chunk at a time, without end (or as many as come)."""

    @property
    def count(self) -> int | None:
        """How many come; None: as many as are asked for."""
        return None

    def at_rate(self, rate: float) -> Arrivals:
        """The same at another rate.

        Raises:
            InputError: they have none.
        """
        msg = f"a rate of {rate:g} requests/s: all come at once, and there is no rate to change"
        raise InputError(msg)


def gaps(draw: Callable[[int], Array]) -> Iterator[Array]:
    """Times from draws of so many times between arrivals."""
    import numpy as np

    now = 0.0
    while True:
        found = now + np.cumsum(draw(CHUNK))
        yield found
        now = float(found[-1])


def seconds(text: str) -> float:
    """A time in an argument: a number of seconds, or with a unit."""
    try:
        return parse_seconds(float(text))
    except ValueError:
        return parse_seconds(text)


@dataclass(frozen=True, slots=True)
class Clients:
    """So many clients, each of which sends its next request some seconds after it has its answer.

    They begin one after another, evenly over `ramp` seconds; 0: all at once.
    """

    clients: int
    think: float = 0.0
    ramp: float = 0.0
    prompts: int | None = None
    """Prompts that each sends on average: all together send so many times their number. None: no such end."""
    spread: tuple[float, float] | None = None
    """Shares of the nominal lengths between which prompts and answers are drawn; None: as they are given."""
    warm_up: int = 0
    """Prompts a client that are not counted, the first ones; 1: the first wave."""

    def starts(self) -> Iterator[float]:
        """When each sends its first request, ascending."""
        return (self.ramp * index / self.clients for index in range(self.clients))


@dataclass(frozen=True, slots=True)
class Kind:
    """How a kind of arrivals is written: `word:arguments`. `read` has the arguments; a `ValueError` or an `InputError` says
    what is wrong with them."""

    word: str
    form: str
    about: str
    read: Callable[[Sequence[str]], Arrivals | Clients]
