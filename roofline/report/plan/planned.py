"""A plan as its page reads it: candidates with the rate that a replica of each serves, prices, and what was asked.

Everything here comes from the JSON of `roofline plan`. Pages hold it as data, and count again for other rates and prices.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds at the planned rate: the mean, the percentile, and the mean with every step at the ends of its interval."""

    mean: float | None
    at: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What starts a replica: the engine with its version, and the line for a shell."""

    engine: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Replicas of one deployment, as planned; `devices` of each. `max_rate`: requests a second that one serves within the
    objectives."""

    role: str
    replicas: int
    spare: int
    devices: int
    layout: str
    settings: str
    max_rate: float
    binds: str
    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassTimes:
    """What one class of requests sees."""

    name: str
    ttft: Times
    tpot: Times


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A deployment that serves the traffic. `number` is its place in the plan, from 1. Tokens a second are those at the planned
    rate; `prompt_share` is the part of the cost that prompts have."""

    number: int
    hardware: str
    title: str
    precision: str
    pools: tuple[Pool, ...]
    ttft: Times
    tpot: Times
    classes: tuple[ClassTimes, ...]
    tokens_per_s: float
    input_tokens_per_s: float
    requests_per_s: float
    utilisation: float | None
    prompt_share: float | None
    following: float | None
    """An hour's cost, on average, with replicas that follow the day; None without a profile."""
    watts: float | None
    basis: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """An hour of one device; None where it is not known. `said`: the price in words, with its source."""

    hardware: str
    key: str
    """Of its control."""
    hour: float | None
    low: float | None
    high: float | None
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """One class of requests."""

    name: str
    rate: float | None
    clients: int | None
    input_len: str
    output_len: str
    mean_input: float
    mean_output: float
    ttft: float | None
    tpot: float | None
    percentile: float
    prefix_hit: float
    burstiness: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """An assumption."""

    name: str
    value: str
    origin: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Deployments that hold not one request, and why."""

    hardware: str
    precision: str
    layout: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that the plan stands on."""

    role: str
    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Relax:
    """A constraint, and the value of it that would do."""

    constraint: str
    was: float | None
    to: float | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """What comes nearest to the question, in words."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What may be used. `inventory`: accelerators by id."""

    max_gpus: int | None
    max_cost: float | None
    inventory: dict[str, int] | None
    spare: int
    modes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The whole. `rate`: requests a second that are planned for; None of a closed loop, which has `clients`. `front`: numbers
    of the candidates that nothing beats in cost, TTFT and TPOT together."""

    model: str
    rate: float | None
    mean_rate: float | None
    clients: int | None
    peak_factor: float
    classes: tuple[Class, ...]
    limits: Limits
    rank: str
    candidates: tuple[Candidate, ...]
    front: tuple[int, ...]
    prices: tuple[Price, ...]
    currency: str
    """"" where no price is known."""
    feasible: bool
    nearest: tuple[Nearest, ...]
    relax: tuple[Relax, ...]
    considered: dict[str, int]
    refused: tuple[Refused, ...]
    notes: tuple[Note, ...]
    files: tuple[File, ...]
    version: str
    data_version: str

    @property
    def percentile(self) -> float:
        """The share of requests that times are told at: the highest of the classes."""
        return max([one.percentile for one in self.classes])


PLAN_DATA = (
    Planned, Candidate, Class, ClassTimes, Command, File, Limits, Nearest, Note, Pool, Price, Refused, Relax, Times,
)  # fmt: skip
"""What a plan is made of, as data of its page."""
