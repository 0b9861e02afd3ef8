"""Arrival processes: when requests arrive at a server.

An open loop (`Arrivals`) sends requests whatever the server does. A closed loop (`Clients`) sends the next request of a client
after the response to its last one. Each process has a spelling, such as `poisson:8`; packages add processes through the
entry-point group `roofline.arrivals`, each an `ArrivalProcess`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from roofline.errors import InputError, UnknownNameError
from roofline.registry import Registry
from roofline.serving.traffic.lengths import parse_range
from roofline.serving.traffic.profile import Profile
from roofline.serving.traffic.scalars import parse_burstiness, parse_peak_factor, parse_rate, parse_seconds
from roofline.units import parse_count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]

CHUNK = 8192
"""Arrivals drawn at a time."""


@dataclass(frozen=True, slots=True)
class Arrivals(ABC):
    """Arrivals of an open loop."""

    @property
    @abstractmethod
    def rate(self) -> float | None:
        """Mean rate in requests/s; None if all requests arrive at once."""

    @abstractmethod
    def times(self, rng: np.random.Generator) -> Iterator[Array]:
        """Yield arrival times in seconds from the start, ascending: float64, shape (CHUNK,), without end."""

    @property
    def count(self) -> int | None:
        """Number of requests that arrive; None: as many as the run allows."""
        return None

    def expected(self, until: float) -> float:
        """Return how many requests arrive up to a time in seconds, on average; infinity if all arrive at once."""
        return math.inf if self.rate is None else self.rate * until

    def at_rate(self, rate: float) -> Arrivals:
        """Return the same process at another mean rate in requests/s.

        Raises:
            InputError: the process has no rate: all requests arrive at once.
        """
        msg = f"a rate of {rate:g} requests/s: all come at once, and there is no rate to change"
        raise InputError(msg)


@dataclass(frozen=True, slots=True)
class RatedArrivals(Arrivals):
    """Arrivals with a mean rate of `per_second` requests/s: the base of all processes below but `AtOnce`."""

    per_second: float

    @property
    def rate(self) -> float:
        """Mean rate in requests/s."""
        return self.per_second

    def at_rate(self, rate: float) -> Self:
        """Return the same process at another mean rate in requests/s."""
        return replace(self, per_second=rate)


@dataclass(frozen=True, slots=True)
class Constant(RatedArrivals):
    """Equal times between arrivals; the first request arrives at 0."""

    def times(self, rng: np.random.Generator) -> Iterator[Array]:
        """Yield arrival times in seconds, ascending: shape (CHUNK,), without end."""
        import numpy as np

        first = 0
        while True:
            yield np.arange(first, first + CHUNK) / self.per_second
            first += CHUNK


@dataclass(frozen=True, slots=True)
class Poisson(RatedArrivals):
    """Exponential times between arrivals."""

    def times(self, rng: np.random.Generator) -> Iterator[Array]:
        """Yield arrival times in seconds, ascending: shape (CHUNK,), without end."""
        return _cumulated(lambda num: rng.exponential(1 / self.per_second, num))


@dataclass(frozen=True, slots=True)
class Gamma(RatedArrivals):
    """Gamma-distributed times between arrivals, with a standard deviation of `cv` times their mean."""

    cv: float

    def times(self, rng: np.random.Generator) -> Iterator[Array]:
        """Yield arrival times in seconds, ascending: shape (CHUNK,), without end."""
        shape = self.cv**-2
        return _cumulated(lambda num: rng.gamma(shape, 1 / (shape * self.per_second), num))


@dataclass(frozen=True, slots=True)
class Bursty(RatedArrivals):
    """An interrupted Poisson process: in bursts of exponential length (mean `seconds`) requests arrive at `factor` times the
    mean rate; between bursts none arrive.

    Source: Kuczura 1973, The interrupted Poisson process as an overflow process, Bell System Technical Journal 52(3).
    """

    factor: float
    seconds: float = 10.0

    def times(self, rng: np.random.Generator) -> Iterator[Array]:
        """Yield arrival times in seconds, ascending: shape (CHUNK,), without end."""
        import numpy as np

        in_bursts = 0.0  # seconds of bursts, and of bursts and pauses, at the end of the last chunk
        elapsed = 0.0
        while True:
            within = in_bursts + np.cumsum(rng.exponential(1 / (self.per_second * self.factor), CHUNK))
            lengths, end = [0.0], in_bursts
            pauses = []
            while end < within[-1]:
                length = float(rng.exponential(self.seconds))
                end += length
                lengths.append(length)
                pauses.append(float(rng.exponential(self.seconds * (self.factor - 1))))
            edges = in_bursts + np.cumsum(lengths)[:-1]
            paused = np.concatenate([[0.0], np.cumsum(pauses)])
            burst = np.searchsorted(edges, within, side="right") - 1
            times = elapsed + (within - in_bursts) + paused[burst]
            yield times
            in_bursts, elapsed = float(within[-1]), float(times[-1])


@dataclass(frozen=True, slots=True)
class Modulated(Arrivals):
    """A process whose rate follows a profile that repeats every `day` seconds, with the mean rate of the process.

    The clock of the process runs as fast as the load is high: of a Poisson process this is the one with that rate, piecewise
    constant (Cinlar 1975, Introduction to Stochastic Processes, section 4.7).
    """

    process: RatedArrivals
    profile: Profile
    day: float

    @property
    def rate(self) -> float:
        """Mean rate in requests/s over a day."""
        return self.process.rate

    def at_rate(self, rate: float) -> Modulated:
        """Return the same process at another mean rate in requests/s."""
        return replace(self, process=self.process.at_rate(rate))

    def expected(self, until: float) -> float:
        """Return how many requests arrive up to a time in seconds, on average."""
        factors = self.profile.factors
        days, seconds = divmod(until, self.day)
        parts = seconds * len(factors) / self.day
        whole = int(parts)
        since = math.fsum(factors[:whole]) + (factors[whole] * (parts - whole) if whole < len(factors) else 0.0)
        return self.rate * self.day * (days + since / len(factors))

    def times(self, rng: np.random.Generator) -> Iterator[Array]:
        """Yield arrival times in seconds, ascending: shape (CHUNK,), without end."""
        import numpy as np

        factors = np.array(self.profile.factors)
        part = self.day / len(factors)
        load = np.concatenate([[0.0], np.cumsum(factors * part)])  # of a day of the process, up to the begin of each part
        load[-1] = self.day  # their mean is 1
        for times in self.process.times(rng):
            days, within = np.divmod(times, self.day)
            place = np.minimum(np.searchsorted(load, within, side="right") - 1, np.flatnonzero(factors)[-1])
            yield days * self.day + place * part + (within - load[place]) / factors[place]


@dataclass(frozen=True, slots=True)
class AtOnce(Arrivals):
    """All requests at time 0, as offline benchmarks send them; `num_requests` None: as many as the run allows."""

    num_requests: int | None = None

    @property
    def rate(self) -> None:
        """None: all requests arrive at once."""
        return

    @property
    def count(self) -> int | None:
        """Number of requests that arrive; None: as many as the run allows."""
        return self.num_requests

    def times(self, rng: np.random.Generator) -> Iterator[Array]:
        """Yield arrays of zeros, shape (CHUNK,), without end."""
        import numpy as np

        while True:
            yield np.zeros(CHUNK)


@dataclass(frozen=True, slots=True)
class Clients:
    """A closed loop: each of `clients` sends its next request `think` seconds after the response to its last one.

    Clients begin one after another, evenly over `ramp` seconds; 0: all at once.

    NB: clients that begin at once with prompts of one length stay in step, and TTFT is then many prompts long. How they begin,
    how many prompts each sends, which of them count and how equal lengths are decides TTFT more than the server does
    (docs/closed-loop.md).
    """

    clients: int
    think: float = 0.0
    ramp: float = 0.0
    prompts: int | None = None
    """Prompts per client on average: together the clients send `prompts * clients`. None: no limit."""
    spread: tuple[float, float] | None = None
    """Lengths are drawn between these shares of the nominal ones; None: the nominal lengths."""
    warm_up: int = 0
    """Prompts per client, the first ones, that are not counted."""

    def starts(self) -> Iterator[float]:
        """Yield the time of each client's first request in seconds, ascending."""
        return (self.ramp * index / self.clients for index in range(self.clients))


@dataclass(frozen=True, slots=True)
class ArrivalProcess:
    """An arrival process and how it is written: `name:arguments`.

    Args:
        name: the word before the first colon.
        syntax: how it is written, such as `poisson:RATE`, for help and messages.
        about: one line on what it does.
        read: makes `Arrivals` or `Clients` of the arguments; a `ValueError` or an `InputError` says what is wrong with them.
    """

    name: str
    syntax: str
    about: str
    read: Callable[[Sequence[str]], Arrivals | Clients]


def parse_arrivals(text: str) -> Arrivals | Clients:
    """Return the arrivals of a spelling: `poisson:8`, `gamma:8:2`, `closed:32`, `at-once:1000`, ...

    >>> parse_arrivals("gamma:300/min:2").rate
    5.0

    Raises:
        InputError: no such process, wrong arguments, or a value outside its range.
    """
    word, *arguments = (part.strip() for part in text.split(":"))
    if word not in ARRIVALS:
        forms = ", ".join(process.syntax for process in ARRIVALS.values())
        raise UnknownNameError("arrivals", word, ARRIVALS, f"Allowed: {forms}, or a YAML file of traffic.")
    process = ARRIVALS[word]
    try:
        return process.read(arguments)
    except InputError as error:
        raise InputError(f"{text}: {error}") from None
    except (TypeError, ValueError):
        raise InputError(f"{text}: must be {process.syntax}") from None


def _cumulated(draw: Callable[[int], Array]) -> Iterator[Array]:
    """Arrival times from draws of times between arrivals."""
    import numpy as np

    now = 0.0
    while True:
        times = now + np.cumsum(draw(CHUNK))
        yield times
        now = float(times[-1])


def _seconds(text: str) -> float:
    """A number of seconds, or a number with a unit."""
    try:
        return parse_seconds(float(text))
    except ValueError:
        return parse_seconds(text)


def _read_at_once(arguments: Sequence[str]) -> AtOnce:
    if not arguments:
        return AtOnce()
    (num,) = arguments
    return AtOnce(parse_count(num, "N", minimum=1))


def _read_bursty(arguments: Sequence[str]) -> Bursty:
    rate, factor, *rest = arguments
    (length,) = rest or ["10"]
    peak = parse_peak_factor(factor)
    if peak <= 1:
        raise InputError("the rate of a burst must be more than the mean one: a factor above 1, such as 4")
    return Bursty(parse_rate(rate), peak, _seconds(length))


def _read_constant(arguments: Sequence[str]) -> Constant:
    (rate,) = arguments
    return Constant(parse_rate(rate))


def _read_poisson(arguments: Sequence[str]) -> Poisson:
    (rate,) = arguments
    return Poisson(parse_rate(rate))


def _read_gamma(arguments: Sequence[str]) -> Arrivals:
    rate, cv = arguments
    burstiness = parse_burstiness(cv)
    return Gamma(parse_rate(rate), burstiness) if burstiness else Constant(parse_rate(rate))


def _read_closed(arguments: Sequence[str]) -> Clients:
    clients, *rest = arguments
    texts: dict[str, str] = {}
    for place, text in enumerate(rest):
        name, named, value = (part.strip() for part in text.partition("="))
        if not named:
            # NB: values without a name come first, and their place says what they are
            if place >= len(_PLACED) or len(texts) < place or any(one not in _PLACED[:place] for one in texts):
                raise ValueError(text)
            name, value = _PLACED[place], text
        name = name.replace("_", "-")
        if name not in _CLIENT_OPTIONS:
            raise UnknownNameError("input of a closed loop", name, _CLIENT_OPTIONS, list_all=True)
        if name in texts:
            raise InputError(f"{name} is given twice")
        texts[name] = value
    options = {name.replace("-", "_"): _client_option(name, value) for name, value in texts.items()}
    loop = Clients(parse_count(clients, "clients", minimum=1), **options)
    if loop.prompts is not None and loop.warm_up >= loop.prompts:
        raise InputError(f"warm-up={loop.warm_up} leaves none of the {loop.prompts} prompts of a client to count")
    return loop


def _client_option(name: str, value: str) -> Any:
    try:
        return _CLIENT_OPTIONS[name](value)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _seconds_or_0(text: str) -> float:
    return 0.0 if text == "0" else _seconds(text)


_CLIENT_OPTIONS: dict[str, Callable[[str], Any]] = {
    "think": _seconds_or_0,
    "ramp": _seconds_or_0,
    "prompts": lambda text: parse_count(text, "prompts per client", minimum=1),
    "spread": parse_range,
    "warm-up": lambda text: parse_count(text, "prompts per client"),
}
_PLACED = ("think", "ramp")

ARRIVALS: Registry[ArrivalProcess] = Registry(
    "arrival process",
    (
        ArrivalProcess("at-once", "at-once[:N]", "all at time 0", _read_at_once),
        ArrivalProcess(
            "bursty", "bursty:RATE:FACTOR[:SECONDS]", "bursts of FACTOR times the rate, of SECONDS each (10)", _read_bursty
        ),
        ArrivalProcess(
            "closed",
            "closed:CLIENTS[:THINK[:RAMP]][:prompts=N][:spread=LO-HI][:warm-up=N]",
            "each client sends its next request THINK after its response, N in all; they begin over RAMP; lengths are drawn "
            "from LO to HI of the nominal ones; the first prompts of each client are not counted",
            _read_closed,
        ),
        ArrivalProcess("constant", "constant:RATE", "times between arrivals are equal", _read_constant),
        ArrivalProcess(
            "gamma", "gamma:RATE:CV", "standard deviation of the times between arrivals over their mean: CV", _read_gamma
        ),
        ArrivalProcess("poisson", "poisson:RATE", "times between arrivals are exponential", _read_poisson),
    ),
    group="roofline.arrivals",
    accepts=ArrivalProcess,
)
"""Arrival processes by name."""
