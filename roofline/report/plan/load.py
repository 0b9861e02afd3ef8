"""The JSON of `roofline plan`, of a run or a file, read and checked."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from roofline import formatting
from roofline.errors import SpecError
from roofline.predict.efficiency.estimate import BASIS_TEXTS
from roofline.predict.engine_command import start_line

_SIZES = (("tensor", "tp"), ("pipeline", "pp"), ("data", "dp"), ("expert", "ep"), ("context", "cp"))
_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,40}")
_ROLES = ("both", "prefill", "decode")
_SECONDS = ("ttft", "tpot", "ttft_s", "tpot_s")
_Kind = TypeVar("_Kind")


def is_plan(value: object) -> bool:
    """Whether a JSON value is a result of `roofline plan`."""
    return isinstance(value, dict) and {"candidates", "pareto", "traffic", "infeasible"} <= value.keys()


def planned(result: Mapping[str, Any], path: Path | None = None) -> Planned:
    """A plan's JSON as checked data; `path` is the file to name in errors.

    Raises:
        SpecError: a key is missing or has a wrong value, or the JSON is of `plan --check`.
    """
    read = _Reader(path)
    if "check" in result:
        raise SpecError("is of `plan --check`, which has no page: plan without it", path=path)
    traffic, limits = read.mapping(result, "traffic"), read.mapping(result, "limits")
    listed = read.entries(result, "candidates")
    closed = read.number(traffic, "rate", optional=True) is None
    peak = read.number(traffic, "peak_factor")
    candidates = tuple(_candidate(read, index, entry, closed, peak) for index, entry in enumerate(listed))
    classes = tuple(_class(read, entry) for entry in read.entries(traffic, "classes"))
    if not classes:
        raise read.wrong("traffic.classes", "is empty")
    infeasible = result.get("infeasible")
    if not candidates and not isinstance(infeasible, dict):
        raise read.wrong("infeasible", "must say why there is no candidate")
    front = read.items(result, "pareto")
    if any(not isinstance(index, int) or not 0 <= index < len(candidates) for index in front):
        raise read.wrong("pareto", "must be a list of indices of candidates")
    why = infeasible if not candidates and isinstance(infeasible, dict) else {}
    return Planned(
        model=_title(read, read.mapping(result, "model")),
        rate=read.number(traffic, "rate", optional=True),
        mean_rate=read.number(traffic, "mean_rate", optional=True),
        clients=read.whole(traffic, "concurrency", optional=True),
        batch=_batch(read, traffic),
        peak_factor=peak,
        classes=classes,
        limits=_limits(read, limits),
        rank=read.text(result, "rank"),
        candidates=candidates,
        front=tuple(index + 1 for index in front),
        prices=_prices(read, listed),
        currency=next((str(entry["currency"]) for entry in listed if entry.get("currency")), ""),
        feasible=bool(candidates),
        nearest=_nearest(why.get("nearest")),
        relax=tuple(_relax(read, entry) for entry in (read.entries(why, "relax") if why else ())),
        considered={name: read.whole(read.mapping(result, "considered"), name) for name in result.get("considered") or {}},
        refused=tuple(
            Refused(
                hardware=read.text(entry, "hardware"), precision=read.text(entry, "precision"),
                layout=_layout(entry.get("layout") or {}), why=read.text(entry, "why"),
            )
            for entry in read.entries(result, "refused")
        ),
        notes=tuple(
            Note(name=read.text(entry, "name"), value=_stated(entry.get("value")), origin=read.text(entry, "origin"),
                 why=read.text(entry, "why"))
            for entry in read.entries(result, "assumptions")
        ),
        files=tuple(
            File(role=str(role).partition(" ")[0], name=str(entry.get("name", "")), sha256=str(entry.get("sha256", "")))
            for role, entry in read.mapping(result, "inputs").items() if isinstance(entry, dict)
        ),
        version=str(result.get("tool_version", "")),
        data_version=str(result.get("data_version", "")),
    )  # fmt: skip


def _candidate(read: _Reader, index: int, entry: dict[str, Any], closed: bool, peak: float) -> Candidate:
    read = read.inside(f"candidates[{index}].")
    pools = tuple(_pool(read, one) for one in read.entries(entry, "pools"))
    if not pools:
        raise read.wrong("pools", "is empty")
    rates, cost = read.mapping(entry, "throughput"), read.mapping(entry, "cost_per_million_tokens")
    inputs, outputs = read.number(rates, "input_tokens_per_s"), read.number(rates, "output_tokens_per_s")
    hour, million = read.number(entry, "cost_per_hour", optional=True), read.number(cost, "input", optional=True)
    # what was paid for prompts, of all that was paid: at the mean load, for which prices of tokens are
    mean_inputs = inputs if closed else inputs / peak
    share = None if not hour or million is None else million * mean_inputs * 3600 / 1e6 / hour
    return Candidate(
        number=index + 1,
        hardware=read.text(entry, "hardware"),
        title=read.text(entry, "title"),
        precision=read.text(entry, "precision"),
        pools=pools,
        ttft=_times(read, entry, "ttft_s"),
        tpot=_times(read, entry, "tpot_s"),
        classes=tuple(
            ClassTimes(name=str(name), ttft=_times(read, one, "ttft_s"), tpot=_times(read, one, "tpot_s"))
            for name, one in read.mapping(entry, "classes").items()
        ),
        tokens_per_s=inputs + outputs,
        input_tokens_per_s=inputs,
        requests_per_s=read.number(rates, "requests_per_s"),
        utilisation=read.number(entry, "utilisation", optional=True),
        prompt_share=share,
        following=read.number(entry, "cost_per_hour_scaled", optional=True),
        watts=read.number(entry.get("power") or {}, "watts_at_most", optional=True),
        basis=read.text(entry, "basis"),
        notes=tuple(map(str, read.items(entry, "notes"))),
        provenance=BASIS_TEXTS.get(str(entry.get("estimate_basis")), ""),
        finish=_finish(read, entry),
        simulated=_simulated(read, entry.get("simulated")),
        kv_cache=_kv_cache(read, entry),
    )  # fmt: skip


def _kv_cache(read: _Reader, entry: dict[str, Any]) -> tuple[str, ...]:
    """What the KV cache of a replica retains, as the cells of a table; plans of older releases have none."""
    if entry.get("kv_cache") is None:
        return ()
    state = read.mapping(entry, "kv_cache")
    each = read.number(state, "bytes_per_token")
    parts = [read.number(state, f"{name}_tokens") * each for name in ("running", "shared", "idle", "ended")]
    age, needed = (read.number(state, name, optional=True) for name in ("eviction_age_s", "needed_tokens"))
    return (
        *(formatting.binary(size, 3) for size in (read.number(state, "capacity_bytes"), *parts)),
        "" if age is None else formatting.duration(age),
        f"{read.number(state, 'retained_sessions'):,.0f} of {read.number(state, 'idle_sessions'):,.0f}",
        formatting.percent(read.number(state, "hit_rate"), digits=3),
        "" if needed is None else formatting.binary(needed * each, 3),
    )


def _batch(read: _Reader, traffic: dict[str, Any]) -> Batch | None:
    """Offline work; plans of older releases have none."""
    if traffic.get("batch") is None:
        return None
    entry = read.mapping(traffic, "batch")
    return Batch(
        output_tokens=read.whole(entry, "output_tokens"), requests=read.whole(entry, "requests"),
        deadline=read.number(entry, "deadline_s"),
    )  # fmt: skip


def _finish(read: _Reader, entry: dict[str, Any]) -> Times | None:
    if entry.get("finish_s") is None:
        return None
    times = read.mapping(entry, "finish_s")
    mean, low, high = (read.number(times, key, optional=True) for key in ("mean", "low", "high"))
    return Times(mean=mean, at=None, low=low, high=high)


def _simulated(read: _Reader, entry: object) -> Simulated | None:
    if not isinstance(entry, dict):
        return None
    times = {}
    for name in ("ttft_s", "tpot_s"):
        one = read.mapping(entry, name)
        mean, at, low, high = (read.number(one, key, optional=True) for key in ("mean", "pP", "low", "high"))
        times[name] = Times(mean=mean, at=at, low=low, high=high)
    return Simulated(
        verdict="not simulated" if entry.get("holds") is None else "holds" if entry["holds"] else "misses",
        why=str(entry.get("why") or ""),
        replicas=read.whole(entry, "replicas", optional=True),
        planned_replicas=read.whole(entry, "planned_replicas"),
        ttft=times["ttft_s"],
        tpot=times["tpot_s"],
        finish=read.number(entry, "finish_s", optional=True),
        within=read.number(entry, "within_slo", optional=True),
        requests=read.whole(entry, "requests"),
    )


def _pool(read: _Reader, entry: dict[str, Any]) -> Pool:
    deployment, role = read.mapping(entry, "deployment"), read.text(entry, "role")
    if role not in _ROLES:
        raise read.wrong("pools.role", f"must be one of {', '.join(_ROLES)}, not {role!r}")
    flags = read.mapping(entry, "engine_flags")
    settings = [f"{words} {deployment[name]:,}" for name, words in _SETTINGS if isinstance(deployment.get(name), int)]
    most, replicas, spare = read.number(entry, "max_rate"), read.whole(entry, "replicas"), read.whole(entry, "spare")
    devices = read.whole(entry, "devices")
    if most <= 0 or devices < 1 or not 0 <= spare < replicas:
        raise read.wrong("pools", "must have a max_rate above 0, devices, and more replicas than spares")
    return Pool(
        role=role,
        replicas=replicas,
        spare=spare,
        devices=devices,
        layout=_layout({short: deployment.get(f"{long}_parallel", 1) for long, short in _SIZES}),
        settings=", ".join(settings),
        max_rate=most,
        binds=read.text(entry, "binds"),
        # the plan's engine first; vLLM's is the line that was looked at most
        commands=tuple(
            Command(engine=engine, line=start_line(tuple(map(str, words)), _files(read, entry, engine)))
            for engine, words in sorted(
                ((str(engine), words) for engine, words in flags.items()),
                key=lambda each: (each[0] != deployment.get("engine"), not each[0].startswith("vllm"), each[0]),
            )
            if isinstance(words, list)
        ),
    )


def _files(read: _Reader, entry: dict[str, Any], engine: str) -> dict[str, str]:
    """The files that an engine's command names, by name; plans of older releases have none."""
    written = read.mapping(entry, "engine_files") if "engine_files" in entry else {}
    files = written.get(engine)
    return {str(name): str(content) for name, content in files.items()} if isinstance(files, dict) else {}


_SETTINGS = (("max_num_seqs", "sequences"), ("max_num_batched_tokens", "tokens per step"))


def _times(read: _Reader, entry: dict[str, Any], name: str) -> Times:
    times = read.mapping(entry, name)
    mean, at, low, high = (read.number(times, key, optional=True) for key in ("mean", "pP", "low", "high"))
    return Times(mean=mean, at=at, low=low, high=high)


def _class(read: _Reader, entry: dict[str, Any]) -> Class:
    return Class(
        name=read.text(entry, "name"),
        rate=read.number(entry, "rate", optional=True),
        clients=read.whole(entry, "concurrency", optional=True),
        input_len=read.text(entry, "input_len"),
        output_len=read.text(entry, "output_len"),
        mean_input=read.number(entry, "mean_input"),
        mean_output=read.number(entry, "mean_output"),
        ttft=read.number(entry, "ttft_s", optional=True),
        tpot=read.number(entry, "tpot_s", optional=True),
        percentile=read.number(entry, "percentile"),
        prefix_hit=read.number(entry, "prefix_hit"),
        burstiness=read.number(entry, "burstiness"),
    )


def _limits(read: _Reader, entry: dict[str, Any]) -> Limits:
    stock = entry.get("inventory")
    return Limits(
        max_gpus=read.whole(entry, "max_gpus", optional=True),
        max_cost=read.number(entry, "max_cost", optional=True),
        inventory={str(name): read.whole(stock, name) for name in stock} if isinstance(stock, dict) else None,
        spare=read.whole(entry, "spare"),
        modes=tuple(map(str, read.items(entry, "modes"))),
    )


def _prices(read: _Reader, candidates: Sequence[dict[str, Any]]) -> tuple[Price, ...]:
    """Of each hardware, in the order of the candidates: an hour of one device, from that of all."""
    prices: dict[str, Price] = {}
    for entry in candidates:
        name, count = str(entry["hardware"]), read.whole(entry, "devices")
        if name in prices:
            continue
        hour, spread = read.number(entry, "cost_per_hour", optional=True), entry.get("cost_per_hour_range")
        ends = spread if isinstance(spread, list) and len(spread) == 2 else (None, None)
        key = name if _PLAIN.fullmatch(name) else str(len(prices))
        prices[name] = Price(
            hardware=name,
            key=f"price.{key}",
            hour=None if hour is None else _each(hour, count),
            low=_each(ends[0], count),
            high=_each(ends[1], count),
            price=str(entry.get("price") or "not known"),
            offers=tuple(_offer(read, offer) for offer in (read.entries(entry, "offers") if "offers" in entry else ())),
        )
    return tuple(prices.values())


def _offer(read: _Reader, entry: dict[str, Any]) -> Offer:
    hour = read.number(entry, "price")
    ends = entry.get("range")
    low, high = ends if isinstance(ends, list) and len(ends) == 2 else (hour, hour)
    return Offer(count=read.whole(entry, "count", optional=True), hour=hour, low=float(low), high=float(high))


def _each(whole: Any, count: int) -> float | None:
    """A device's part, in as many digits as one can read and type."""
    return float(f"{whole / count:.8g}") if isinstance(whole, int | float) else None


def _nearest(entry: object) -> tuple[Nearest, ...]:
    if not isinstance(entry, dict):
        return ()
    nearest = []
    for name, value in entry.items():
        if value is None:
            continue
        if name == "layout" and isinstance(value, dict):
            text = _layout(value)
        elif isinstance(value, dict):
            text = ", ".join(f"{key} {_stated(part)}" for key, part in value.items())
        else:
            text = formatting.seconds(value) if name in _SECONDS and isinstance(value, int | float) else _stated(value)
        nearest.append(Nearest(name=str(name).removesuffix("_s").replace("_", " "), value=text))
    return tuple(nearest)


def _relax(read: _Reader, entry: dict[str, Any]) -> Relax:
    was, to = (read.number(entry, key, optional=True) for key in ("from", "to"))
    return Relax(constraint=read.text(entry, "constraint"), was=was, to=to, why=read.text(entry, "why"))


def _layout(sizes: Mapping[str, Any]) -> str:
    """`tp=2 pp=2`, or `one device`."""
    return " ".join(f"{name}={size}" for name, size in sizes.items() if size != 1) or "one device"


def _stated(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "–" if value is None else str(value)
    return f"{value:,.4g}" if abs(value) < 1e6 else f"{value:,.0f}"


class _Reader:
    """Looks keys up, and raises errors that name the key."""

    def __init__(self, path: Path | None, before: str = "") -> None:
        self._path, self._before = path, before

    def inside(self, before: str) -> _Reader:
        return _Reader(self._path, before)

    def wrong(self, key: str, why: str) -> SpecError:
        return SpecError(f"is no plan: {self._before}{key} {why}", path=self._path)

    def _of(self, entry: Mapping[str, Any], key: str, kind: type[_Kind], what: str) -> _Kind:
        value = entry.get(key)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(key, f"must be {what}")
        return value

    def mapping(self, entry: Mapping[str, Any], key: str) -> dict[str, Any]:
        return self._of(entry, key, dict, "an object")

    def items(self, entry: Mapping[str, Any], key: str) -> list[Any]:
        return self._of(entry, key, list, "a list")

    def entries(self, entry: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
        items = self.items(entry, key)
        if not all(isinstance(each, dict) for each in items):
            raise self.wrong(key, "must be a list of objects")
        return items

    def text(self, entry: Mapping[str, Any], key: str) -> str:
        return self._of(entry, key, str, "a text")

    def number(self, entry: Mapping[str, Any], key: str, *, optional: bool = False) -> Any:
        """A number; None, where it may be missing."""
        value = entry.get(key)
        if value is None and optional:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise self.wrong(key, "must be a number, 0 or more")
        return value

    def whole(self, entry: Mapping[str, Any], key: str, *, optional: bool = False) -> Any:
        value = self.number(entry, key, optional=optional)
        if value is not None and value != int(value):
            raise self.wrong(key, "must be a whole number")
        return value


# Classes


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """A latency in seconds at the planned rate: mean, percentile, and the mean at either end of the step times' interval."""

    mean: float | None
    at: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The command that starts a replica: engine with version, and the line for a shell."""

    engine: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Replicas of one deployment, as planned.

    Args:
        replicas: spares included.
        devices: of each replica.
        max_rate: requests/s that one replica serves within the objectives.
        binds: what limits that rate.
    """

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
    """Latencies of one class of requests."""

    name: str
    ttft: Times
    tpot: Times


def _title(read: _Reader, model: Mapping[str, Any]) -> str:
    """The model's title, or its name where the file has no title."""
    return str(model["title"]) if isinstance(model.get("title"), str) else read.text(model, "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A deployment that serves the traffic.

    Args:
        number: rank in the plan, from 1.
        tokens_per_s: input and output tokens/s at the planned rate.
        input_tokens_per_s: likewise, of prompts alone.
        utilisation: fraction of the rate at which the fuller pool saturates.
        prompt_share: fraction of the cost that prompts account for.
        watts: of all devices together, at most.
    """

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
    provenance: str = ""
    """What its estimates rest on, where that is not measurements of the card."""
    finish: Times | None = None
    """When offline work is done, in seconds from its start."""
    simulated: Simulated | None = None
    kv_cache: tuple[str, ...] = ()
    """What its KV cache retains, as cells of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What the simulation of a candidate shows; times in seconds, their intervals those of confidence.

    Args:
        verdict: "holds", "misses" or "not simulated".
        why: why it was not simulated.
        replicas: with which the objectives hold, spares not counted.
        planned_replicas: by the closed form.
        within: share of the requests within all objectives.
        requests: that were simulated.
    """

    verdict: str
    why: str
    replicas: int | None
    planned_replicas: int
    ttft: Times
    tpot: Times
    finish: float | None
    within: float | None
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Offline work: output tokens, in how many requests, and seconds until they have to be done."""

    output_tokens: int
    requests: int
    deadline: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A price of a limited number of devices per hour, with its range; any number if `count` is None."""

    count: int | None
    hour: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Price of one device of a hardware per hour, with its range; None where it is not known.

    With offers, each of which is used up before the next, it is a mean that depends on the number of devices.
    """

    hardware: str
    key: str
    """Of its control."""
    hour: float | None
    low: float | None
    high: float | None
    price: str
    """As it was given."""
    offers: tuple[Offer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """One class of requests: mean requests/s or clients, lengths in tokens, objectives in seconds.

    Args:
        percentile: fraction of the requests for which the objectives must hold.
        prefix_hit: fraction of a prompt's tokens that are in the prefix cache.
        burstiness: standard deviation of the times between arrivals over their mean; 1 for a Poisson process.
    """

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
    """A deployment that cannot hold a single request, and why."""

    hardware: str
    precision: str
    layout: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that the plan is computed from."""

    role: str
    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Relax:
    """A constraint, and the value to which it would have to be relaxed, in base units."""

    constraint: str
    was: float | None
    to: float | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """A property of the deployment nearest to the query, as text."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the plan: devices, cost per hour, stock of accelerators by id, spare replicas per pool, ways of serving."""

    max_gpus: int | None
    max_cost: float | None
    inventory: dict[str, int] | None
    spare: int
    modes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan.

    Args:
        rate: requests/s that are planned for, at the peak; None for a closed loop, which has `clients`.
        mean_rate: requests/s on average over the day.
        front: numbers of the candidates that no other beats in cost, TTFT and TPOT together.
        considered: counts of deployments after each step of the search.
    """

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
    batch: Batch | None = None
    """Offline work, which has neither a rate nor clients."""

    @property
    def percentile(self) -> float:
        """The fraction of requests that percentiles of latency are of: the highest of the classes."""
        return max([one.percentile for one in self.classes])


PLAN_DATA = (
    Planned, Batch, Candidate, Class, ClassTimes, Command, File, Limits, Nearest, Note, Pool, Price, Refused, Relax, Simulated,
    Times,
)  # fmt: skip
"""What a plan is made of, as data of its page."""
