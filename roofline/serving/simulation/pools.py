"""Pools of replicas: those that compute prompts and those that decode, or replicas of several deployments behind one router.

A pool has options of its own, of the deployment and of the server, which go before those of the command. How many replicas
compute prompts and how many decode may be left open: then it is the division of `--replicas` at which the slower pool serves
most requests per second (rate matching, as in DistServe, arXiv:2401.09670, section 4.3, without its search over layouts). A
pool serves as much as it does without a pause: prompts of mean length in full steps, and as many sequences of mean length as
fit and keep the TPOT objective.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from roofline import files, formatting
from roofline.errors import InputError, SpecError, UnknownNameError
from roofline.predict.options import ALIASES, DEPLOYMENT, of_groups, read_quantity
from roofline.predict.request import ResolvedRequest, sized
from roofline.serving.kv_transfer import cache_bytes, cache_link
from roofline.serving.simulation.disaggregation import FIRST_TOKENS, FirstToken
from roofline.serving.simulation.server import MAX_REPLICAS, Pool, Role, ServerConfig, resolve_replica
from roofline.serving.simulation.step_tables import tables_of_pool
from roofline.serving.simulation.workload import Workload
from roofline.specs.base import Scalar, Spec
from roofline.specs.library import Input
from roofline.specs.source import Assumption
from roofline.specs.yaml_file import SectionErrors, read_yaml
from roofline.text import clean
from roofline.units import parse_count

_OF_A_SERVER = ("replicas", "router", "scheduler", "preemption", "num_gpu_blocks_override")
_FIRST_TOKEN = {"vllm": "decode", "sglang": "transfer", "trtllm": "transfer"}
_WHO = {
    "prefill": "the prefill replica gives the first token when the prompt is computed",
    "transfer": "the prefill replica computes the first token, and the decode replica gives it when the cache has arrived",
    "decode": "the decode replica computes the last prompt token again, and gives the first token",
}


class TransferKeys(Spec):
    """How caches move from the prefill pool to the decode pool."""

    bandwidth: Scalar | None = Field(default=None, description="bytes/s per device in one direction; default: of the hardware")
    latency: Scalar | None = Field(default=None, description="seconds from the last byte to the arrival; default: 0")
    first_token: str | None = Field(default=None, description="prefill, transfer or decode; default: as the engine does")


class PoolsFile(Spec):
    """The keys of a file of pools."""

    schema_version: Literal[1] = 1
    kind: Literal["pools"]
    prefill: dict[str, Any] | None = Field(default=None, description="options of the replicas that compute prompts")
    decode: dict[str, Any] | None = Field(default=None, description="options of the replicas that decode")
    transfer: TransferKeys | None = Field(default=None, description="how caches move from one to the other")
    colocated: dict[str, dict[str, Any]] | None = Field(
        default=None, description="options of each pool by its name; all serve whole requests, behind one router"
    )


@dataclass(frozen=True)
class PoolOptions:
    """A pool as it was given.

    Args:
        name: of the pool.
        role: what it does.
        options: of the deployment and the server, by their names in Python.
    """

    name: str
    role: Role
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def deployment(self) -> dict[str, Any]:
        """Options of the deployment."""
        return {name: value for name, value in self.options.items() if name not in (*_OF_A_SERVER, "hardware")}


@dataclass(frozen=True)
class PoolsQuery:
    """Pools as they were given.

    Args:
        pools: at least two of them, or one of several colocated.
        transfer: bandwidth, latency and who gives the first token, as given.
        replicas: of all pools together, where it was given.
        inputs: the file that was read.
    """

    pools: tuple[PoolOptions, ...]
    transfer: Mapping[str, Any]
    replicas: int | None
    inputs: tuple[Input, ...] = ()


@dataclass(frozen=True)
class CacheTransfer:
    """What it takes to send a cache: a `TransferCost`. The slower side decides, of whose devices each sends or receives its
    part over a link of its own.

    Args:
        sender: deployment of a prefill replica.
        receiver: deployment of a decode replica.
        rates: bytes/s per device in one direction, of both.
        links: what they are called.
        latency: seconds from the last byte to the arrival.
        first_token: who gives the first token.
    """

    sender: ResolvedRequest
    receiver: ResolvedRequest
    rates: tuple[float, float]
    links: tuple[str, str]
    latency: float
    first_token: FirstToken

    @cached_property
    def _known(self) -> dict[int, tuple[float, float]]:
        return {}

    def _bytes(self, num_tokens: int) -> tuple[float, float]:
        size = self._known.get(num_tokens)
        if size is None:
            size = self._known[num_tokens] = (cache_bytes(self.sender, num_tokens), cache_bytes(self.receiver, num_tokens))
        return size

    def cost(self, num_tokens: int, num_cached_tokens: int) -> tuple[float, float]:
        """Return the bytes that the device with most of them sends or receives, and the seconds on its link."""
        whole = self._bytes(num_tokens)
        before = self._bytes(num_cached_tokens) if num_cached_tokens else (0.0, 0.0)
        sizes = [max(one - other, 0.0) for one, other in zip(whole, before, strict=True)]
        seconds, size = max((size / rate, size) for size, rate in zip(sizes, self.rates, strict=True))
        return size, seconds


# What was given


def read_pools(  # noqa: C901 - what does not go together
    *, disaggregated: bool, pools: Any, prefill_replicas: Any, decode_replicas: Any, replicas: Any, transfer: Mapping[str, Any]
) -> PoolsQuery | None:
    """Return the pools that the options of `simulate` describe; None: there is one deployment, and no pools.

    Args:
        disaggregated: prefill and decode are separate.
        pools: path of a file of pools.
        prefill_replicas: number of replicas that compute prompts.
        decode_replicas: number of replicas that decode.
        replicas: number of all replicas.
        transfer: options of the transfer by name, None where not given.

    Raises:
        InputError: options that do not go together.
        SpecError: a wrong key or value in the file.
    """
    numbers = {"prefill": prefill_replicas, "decode": decode_replicas}
    of_both = {**{f"{name}_replicas": number for name, number in numbers.items()}, **transfer}
    given = [name for name, value in of_both.items() if value is not None]
    if not disaggregated and pools is None:
        if given:
            flag = given[0].replace("_", "-")
            raise InputError(f"--{flag} is of separate prefill and decode pools: give --disaggregated too")
        return None
    listed = [PoolOptions("prefill", "prefill"), PoolOptions("decode", "decode")]
    own: dict[str, Any] = {}
    inputs: tuple[Input, ...] = ()
    if pools is not None:
        listed, own, inputs = _read_file(Path(pools).expanduser())
    if listed[0].role == "both":
        if disaggregated or given:
            flag = "disaggregated" if disaggregated else given[0].replace("_", "-")
            raise InputError(f"--{flag}: the pools of {pools} are colocated; give it `prefill` and `decode` instead")
        if replicas is not None:
            raise InputError(f"--replicas: {pools} has the replicas of each pool; leave it out")
    whole = None if replicas is None else parse_count(replicas, "--replicas", 1)
    result = []
    for pool in listed:
        number = numbers.get(pool.name)
        if number is not None:
            if "replicas" in pool.options:
                raise InputError(f"--{pool.name}-replicas and `replicas` of {pool.name} in {pools}: give one of them")
            pool = replace(pool, options={**pool.options, "replicas": number})  # noqa: PLW2901
        result.append(pool)
    clash = [name for name, value in transfer.items() if value is not None and own.get(_KEYS[name]) is not None]
    if clash:
        raise InputError(f"--{clash[0].replace('_', '-')} and `transfer` of {pools}: give one of them")
    merged = {key: own.get(key) if transfer[name] is None else transfer[name] for name, key in _KEYS.items()}
    return PoolsQuery(tuple(result), merged, whole, inputs)


_KEYS = {"transfer_bandwidth": "bandwidth", "transfer_latency": "latency", "first_token": "first_token"}


def _read_file(path: Path) -> tuple[list[PoolOptions], dict[str, Any], tuple[Input, ...]]:
    file = read_yaml(path)
    if file.data.get("kind") != "pools":
        raise SpecError("has no `kind: pools`", path=path, line=1, column=1)
    content, fail = file.validate(PoolsFile), SectionErrors(file)
    inputs = (Input("pools", clean(path.name), str(path), file.sha256),)
    if content.colocated is not None:
        for name in ("prefill", "decode", "transfer"):
            if getattr(content, name) is not None:
                raise fail(name, "colocated pools serve whole requests: leave out one or the other")
        if not content.colocated:
            raise fail("colocated", "must be names of pools, each with its options")
        for name, options in content.colocated.items():
            if "router" in options:
                raise fail(("colocated", name, "router"), "one router deals to all pools: give --router")
        return (
            [
                PoolOptions(clean(name), "both", _options(options, ("colocated", name), fail, path.parent))
                for name, options in content.colocated.items()
            ],
            {}, inputs,
        )  # fmt: skip
    missing = [name for name in ("prefill", "decode") if getattr(content, name) is None]
    if missing:
        raise SpecError(
            f"has no `{missing[0]}`: options of a prefill and of a decode pool, or `colocated` pools",
            path=path,
            line=1,
            column=1,
        )
    pools = [
        PoolOptions("prefill", "prefill", _options(content.prefill, ("prefill",), fail, path.parent)),
        PoolOptions("decode", "decode", _options(content.decode, ("decode",), fail, path.parent)),
    ]
    return pools, {} if content.transfer is None else content.transfer.model_dump(), inputs


def _options(content: Mapping[str, Any] | None, place: tuple[str, ...], fail: SectionErrors, folder: Path) -> dict[str, Any]:
    """Options by their names in Python, checked."""
    listed = {option.name for option in of_groups(DEPLOYMENT, ("shared_prefix", "ignore_capacity"))}
    known = {name: name for name in (*listed, "hardware", *_OF_A_SERVER)}
    known |= {alias: name for alias, name in ALIASES.items() if name in listed}
    options: dict[str, Any] = {}
    for key, value in (content or {}).items():
        name = known.get(str(key).lstrip("-").replace("-", "_"))
        if name is None:
            raise fail((*place, key), str(UnknownNameError("option of a pool", str(key), list(known))))
        if name in options:
            raise fail((*place, key), f"{name} is given twice")
        if isinstance(value, dict | list):
            raise fail((*place, key), f"must be one value, not {str(value)[:60]!r}")
        if name == "hardware" and isinstance(value, str) and files.exists(folder / Path(value).expanduser()):
            value = str(folder / Path(value).expanduser())  # noqa: PLW2901 - a path of the file, relative to its folder
        options[name] = value
    return options


# What is simulated

MakeServer = Callable[[ResolvedRequest, PoolOptions, list[Assumption]], ServerConfig]
"""Makes the configuration of one replica's deployment, with what is assumed."""


def resolve_pools(
    query: PoolsQuery, model: Any, hardware: Any, deployment: dict[str, Any], make: MakeServer, load: Workload,
    notes: list[Assumption],
) -> ServerConfig:  # fmt: skip
    """Return the configuration of a server of several pools; it is that of the last pool, which decodes, beside its `pools`.

    Args:
        query: the pools.
        model: a shipped id, the path of a file, or a loaded model.
        hardware: of pools that have none of their own.
        deployment: options of pools that have none of their own.
        make: makes the configuration of a pool.
        load: the requests, by which the pools are matched.
        notes: gets what is assumed.

    Raises:
        OutOfKVBlocksError: not one KV cache block of a replica fits beside the weights.
        InputError: a wrong value, pools that cannot exchange a cache.
    """
    numbers = _numbers(query)
    whole = sum(number for number in numbers if number) if None not in numbers else query.replicas or len(numbers)
    servers: list[ServerConfig] = []
    of_pools: list[tuple[str, list[Assumption]]] = []
    for pool, number in zip(query.pools, numbers, strict=True):
        own = pool.options.get("hardware")
        options = {**_without(deployment, pool.deployment), **pool.deployment}
        one, options = sized(hardware if own is None else own, options, whole if own is None else number or whole)
        request = resolve_replica(model, one, options)
        of_pool: list[Assumption] = []
        with tables_of_pool(json.dumps(pool.options, sort_keys=True, default=str)):
            server = make(request, pool, of_pool)
        if pool.role != "both" and server.scheduler.static_batching:
            raise InputError(
                f"--scheduler {server.scheduler.name}: a static batch computes its prompts and its outputs on one replica; "
                "separate pools need another scheduler"
            )
        of_pools.append((pool.name, of_pool))
        servers.append(server)
    _list_together(of_pools, notes)
    if any(number is None for number in numbers):
        numbers = _matched(query, servers, load, whole, notes)
    if sum(number or 1 for number in numbers) > MAX_REPLICAS:
        raise InputError(f"--replicas must be at most {MAX_REPLICAS:,} of all pools together")
    pools = tuple(
        Pool(one.name, one.role, replace(server, replicas=number or 1))
        for one, server, number in zip(query.pools, servers, numbers, strict=True)
    )
    transfer = None if pools[0].role == "both" else _transfer(query, pools[0].server.request, pools[-1].server.request, notes)
    main = pools[-1].server.request.inputs
    others = (
        replace(entry, role=f"{pool.name}.{entry.role}")
        for pool in pools[:-1] for entry in pool.server.request.inputs if entry not in main
    )  # fmt: skip
    return replace(
        pools[-1].server, replicas=sum(pool.server.replicas for pool in pools), pools=pools, transfer=transfer,
        inputs=(*query.inputs, *others),
    )  # fmt: skip


def _without(deployment: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the command but for those that a pool has under any of their names."""
    return {name: value for name, value in deployment.items() if ALIASES.get(name, name) not in own}


def _numbers(query: PoolsQuery) -> list[int | None]:
    """Replicas of each pool; None: to be found."""
    if query.pools[0].role == "both":
        return [parse_count(pool.options.get("replicas", 1), f"replicas of {pool.name}", 1) for pool in query.pools]
    numbers = [
        None if (number := pool.options.get("replicas")) is None else parse_count(number, f"--{pool.name}-replicas", 1)
        for pool in query.pools
    ]
    known = [number for number in numbers if number is not None]
    if query.replicas is None:
        if len(known) == 1:
            other = query.pools[numbers.index(None)].name
            raise InputError(f"--disaggregated: give --{other}-replicas too, or the --replicas of both pools together")
        return numbers
    left = query.replicas - sum(known)
    if len(known) == 2 and left:
        raise InputError(f"--replicas {query.replicas:,}: the pools have {sum(known):,} together; leave it out")
    if left < 2 - len(known):
        raise InputError(f"--replicas {query.replicas:,}: separate pools have at least one replica each")
    return [left if number is None and known else number for number in numbers]


def _list_together(of_pools: list[tuple[str, list[Assumption]]], notes: list[Assumption]) -> None:
    """List what all pools have in common once, and the rest by the name of its pool."""
    first = of_pools[0][1]
    common = [note for note in first if all(note in others for _, others in of_pools)]
    notes += common
    for name, listed in of_pools:
        notes += [replace(note, name=f"{name}.{note.name}") for note in listed if note not in common]


def _matched(
    query: PoolsQuery, servers: list[ServerConfig], load: Workload, whole: int, notes: list[Assumption]
) -> list[int | None]:
    """The division of all replicas at which the slower pool serves most; of equal ones that with more that decode."""
    prompts, outputs = (prompt_rate(servers[0], load), output_rate(servers[1], load))
    best = max(range(1, whole), key=lambda number: (min(number * prompts, (whole - number) * outputs), -number))
    rates = " and ".join(
        f"{number} that {what} serve{'s' if number == 1 else ''} {formatting.number(number * rate, 3)} req/s"
        for number, what, rate in ((best, "computes prompts", prompts), (whole - best, "decodes", outputs))
        if rate < math.inf
    )  # fmt: skip
    why = f"rate matching: {rates} at most" if rates else "rate matching: no request has more than one token"
    origin: Literal["given", "default"] = "default"
    notes.append(Assumption("prefill_replicas", best, origin, why))
    notes.append(Assumption("decode_replicas", whole - best, origin, f"what is left of {whole:,} replicas"))
    if query.replicas is None:
        notes.append(Assumption("replicas", whole, "default", "one of each pool; --replicas sets how many there are together"))
    return [best, whole - best]


def _mean_lengths(load: Workload) -> tuple[int, float]:
    """Prompt and output tokens of a mean request."""
    weights = [float(one.rate or one.concurrency or 1) for one in load.classes]
    total = sum(weights)
    prompt = sum(weight * one.input_len.mean for weight, one in zip(weights, load.classes, strict=True)) / total
    output = sum(weight * one.output_len.mean for weight, one in zip(weights, load.classes, strict=True)) / total
    return max(round(prompt), 1), max(output, 1.0)


def _num_held(server: ServerConfig, tokens: int) -> int:
    """Sequences of a length whose blocks the KV cache can hold."""
    config = server.config
    return config.num_gpu_blocks // (-(-tokens // config.block_size) + config.num_fixed_blocks)


def prompt_rate(server: ServerConfig, load: Workload) -> float:
    """Return the prompts/s of mean length that one replica computes without a pause, as many at a time as its limits allow."""
    prompt, _ = _mean_lengths(load)
    cached = min(round(prompt * load.mean_hit), prompt - 1)
    budget = server.config.max_num_batched_tokens // server.config.num_microbatches
    if prompt - cached <= budget:
        several = max(min(budget // (prompt - cached), server.tables.max_num_seqs, _num_held(server, prompt)), 1)
        return server.tables.ranks * several / server.tables.mixed(0, 0, [(prompt - cached, cached)] * several)
    seconds = sum(
        server.tables.mixed(0, 0, [(min(budget, prompt - done), done)]) for done in range(cached, prompt, budget)
    )  # fmt: skip
    return server.tables.ranks / seconds


def output_rate(server: ServerConfig, load: Workload) -> float:
    """Return the requests/s of mean length that one replica decodes, with as many sequences as fit and keep the objectives for
    TPOT; infinity where outputs have one token."""
    prompt, output = _mean_lengths(load)
    if output <= 1:
        return math.inf
    config = server.config
    most = max(min(config.max_num_seqs, _num_held(server, round(prompt + output / 2))), 1)
    limit = min((one.tpot for one in load.classes if one.tpot), default=math.inf)

    def seconds(number: int) -> float:
        return server.tables.mixed(number, round(number * (prompt + output / 2)), ())

    low, high = 1, most
    while low < high:  # the most sequences within the limit
        middle = (low + high + 1) // 2
        low, high = (middle, high) if seconds(middle) <= limit else (low, middle - 1)
    return server.tables.ranks * low / ((output - 1) * seconds(low))


def _transfer(  # noqa: C901 - each default with its note
    query: PoolsQuery, sender: ResolvedRequest, receiver: ResolvedRequest, notes: list[Assumption]
) -> CacheTransfer:
    kinds = [one.precision.kv.name for one in (sender, receiver)]
    if kinds[0] != kinds[1]:
        raise InputError(
            f"the prefill pool keeps its KV cache in {kinds[0]} and the decode pool in {kinds[1]}: it is sent as it is, "
            "so give both one --kv-cache-dtype"
        )
    given = query.transfer
    links: list[str] = []
    rates: list[float] = []
    for name, one in (("prefill", sender), ("decode", receiver)):
        if given["bandwidth"] is not None:
            rate = read_quantity("transfer_bandwidth", given["bandwidth"], "byte/s")
            if not 0 < rate < math.inf:
                raise InputError(f"--transfer-bandwidth must be more than 0 and finite, not {given['bandwidth']}")
            links.append("given")
        else:
            link = cache_link(one.hardware)
            if link is None:
                raise InputError(
                    f"no link is known over which {one.hardware.name} sends a KV cache to another server: give "
                    "--transfer-bandwidth"
                )
            links.append(link[0])
            rate = link[1]
            label = "transfer_bandwidth" if not rates else f"{name}.transfer_bandwidth"
            if not rates or (link[0], rate) != (links[0], rates[0]):
                notes.append(Assumption(label, f"{rate / 1e9:g} GB/s", "default", f"{link[0]}, per device in one direction"))
        rates.append(rate)
    latency = 0.0 if given["latency"] is None else read_quantity("transfer_latency", given["latency"], "s")
    if not 0 <= latency < math.inf:
        raise InputError(f"--transfer-latency must be 0 or more and finite, not {given['latency']}")
    if given["latency"] is None:
        notes.append(Assumption("transfer_latency", 0.0, "assumed", "of the servers between the pools nothing is known"))
    first: Any = given["first_token"]
    engine = receiver.engine.name
    if first is None:
        first = _FIRST_TOKEN.get(engine, "transfer")
        notes.append(Assumption("first_token", first, "default", f"as {engine} does: {_WHO[first]}"))
    elif first not in FIRST_TOKENS:
        raise UnknownNameError("--first-token", str(first), FIRST_TOKENS, list_all=True)
    else:
        notes.append(Assumption("first_token", first, "given", _WHO[first]))
    return CacheTransfer(sender, receiver, (rates[0], rates[1]), (links[0], links[1]), latency, first)
