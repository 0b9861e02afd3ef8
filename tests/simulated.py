"""Small servers: a replica with its events, and random servers under random workloads for properties."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import repeat
from typing import Any

from roofline.serving.queueing.rounds import RoundLengths
from roofline.serving.simulation.admission import AdmissionControl, QueueLimit, TTFTControl
from roofline.serving.simulation.autoscaling import AUTOSCALERS, AutoscaleConfig
from roofline.serving.simulation.candidates import CANDIDATES
from roofline.serving.simulation.disaggregation import (
    FIRST_TOKENS,
    TRANSFER,
    FirstToken,
    PoolLog,
    TransferCost,
    Transfers,
    disaggregated_loop,
)
from roofline.serving.simulation.failures import FailureConfig
from roofline.serving.simulation.fleet import Fleet, FleetConfig, FleetRecord
from roofline.serving.simulation.kv_cache import EngineConfig, SpeculativeRounds
from roofline.serving.simulation.kv_tiers import KVTiers, Tier, TierConfig, Transfer
from roofline.serving.simulation.lora import AdapterSlots, LoraConfig, LoraRecord, Product
from roofline.serving.simulation.preemption import MODES, PreemptionPolicy
from roofline.serving.simulation.prefix_cache import ENDLESS, Content
from roofline.serving.simulation.queues import Aged, LeastServed, ShortestFirst
from roofline.serving.simulation.replica import Replica
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.router import ROUTERS, OpenSource, dependent_loop, open_loop, ordered_loop
from roofline.serving.simulation.scheduler import SchedulingPolicy
from roofline.serving.simulation.schedulers import SCHEDULERS
from roofline.serving.simulation.step_log import END, SHED, StepLog
from roofline.serving.simulation.step_time import Cell, Chunk, StepTime
from roofline.serving.simulation.workload import Workload

Event = tuple[Any, ...]
MakeWatch = Callable[[Replica], Callable[[Event], None]]
"""Makes a listener for the events of a replica."""


@dataclass(frozen=True, slots=True)
class AffineStepTime:
    """A step as a sum of seconds.

    They are per step, per sequence that decodes, per token cached for those, per prompt token, and per pair of a prompt token
    with one before it in its prompt.

    >>> times = AffineStepTime(1.0, sequence=0.5, cached=0.25, token=0.125)
    >>> times.cells(2), times.mixed(2, 8, [(4, 0)])  # 1 + 2/2 + 8/4, and 4/8
    ([(inf, 2.0, 0.25)], 4.5)
    """

    base: float
    sequence: float = 0.0
    cached: float = 0.0
    token: float = 0.0
    pair: float = 0.0

    def cells(self, num_sequences: int) -> list[Cell]:
        """Return one piece, in seconds and seconds per cached token."""
        return [(math.inf, self.base + self.sequence * num_sequences, self.cached)]

    def mixed(self, num_sequences: int, num_cached_tokens: int, chunks: Sequence[Chunk]) -> float:
        """Return the sum, in seconds."""
        seconds = self.base + self.sequence * num_sequences + self.cached * num_cached_tokens
        for new, before in chunks:
            seconds += new * (self.token + self.pair * before)
        return seconds


@dataclass(frozen=True)
class Bent:
    """Steps whose time bends twice with the context; each prompt token, and pair with what is cached, takes its time."""

    base: float
    each: float
    cached: float
    token: float
    pair: float

    def cells(self, num_sequences: int) -> list[Cell]:
        """Three pieces that meet at 40 and 100 cached tokens per sequence."""
        n, start, slope = num_sequences, self.base + self.each * num_sequences, self.cached
        return [
            (40 * n, start, slope),
            (100 * n, start - 20 * n * slope, 1.5 * slope),
            (math.inf, start + 80 * n * slope, 0.5 * slope),
        ]

    def mixed(self, num_sequences: int, num_cached_tokens: int, chunks: Sequence[Chunk]) -> float:
        """The same, and the prompts."""
        seconds = self.base
        if num_sequences:
            pieces = self.cells(num_sequences)
            seconds = next(base + slope * num_cached_tokens for below, base, slope in pieces if num_cached_tokens < below)
        return seconds + sum(new * (self.token + self.pair * before) for new, before in chunks)


@dataclass(frozen=True, slots=True)
class LinearCosts:
    """Seconds that are linear in the tokens: `recompute` per token computed again; `copy + move * tokens` each way.

    Args:
        recompute: seconds per token.
        move: seconds per token, one way.
        copy: seconds per copy, one way.
    """

    recompute: float
    move: float
    copy: float = 0.0

    def recompute_seconds(self, tokens: int) -> float:
        """Return the seconds to compute cached tokens again."""
        return self.recompute * tokens

    def swap_seconds(self, tokens: int) -> tuple[float, float]:
        """Return the seconds to copy cached tokens to the host, and back."""
        way = self.copy + self.move * tokens
        return way, way


@dataclass
class Served:
    """What happened: events of each replica, the log, refused requests, the replicas as they were left."""

    replicas: list[Replica]
    log: StepLog
    events: list[tuple[int, Event]] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    record: FleetRecord | None = None
    lora: LoraRecord = field(default_factory=LoraRecord)

    @property
    def failed(self) -> list[int]:
        """Requests that failed with their replicas."""
        return [int(index) for index in self.log.failed[::2]]

    @property
    def shed(self) -> list[int]:
        """Requests that were shed, in order."""
        return [int(index) for index in self.log.sheds[:: len(SHED)]]

    def of(self, *kinds: str, replica: int = 0) -> list[Event]:
        """Events of some kinds (all, where none is named) of a replica."""
        return [event for at, event in self.events if at == replica and (not kinds or event[0] in kinds)]


class InTurn:
    """Requests of clients: each sends the next when its last has ended, `think` seconds later."""

    def __init__(self, requests: Sequence[Request], starts: Sequence[float], think: float = 0.0) -> None:
        self._left, self._think = list(reversed(requests)), think
        self._pending = sorted((time, client) for client, time in enumerate(starts))

    def next_time(self) -> float:
        """Return when the next request arrives, in seconds."""
        return self._pending[0][0] if self._pending else math.inf

    def pop(self) -> Request | None:
        """Return the next request of whoever is next."""
        time, client = heappop(self._pending)
        if not self._left:
            return None
        request = self._left.pop()
        request.arrival_time = request.seen_time = time
        request.client = client
        return request

    def ended(self, request: Request, time: float) -> None:
        """Note that a request has ended, in seconds."""
        heappush(self._pending, (time + self._think, request.client))


def sent(workload: Workload, seed: tuple[int, ...] = (0,)) -> list[Request]:
    """The requests of clients or conversations in the order in which they arrive at a server that takes no time."""
    source, requests = workload.dependent_requests(seed), []
    while (time := source.next_time()) < math.inf:
        if (request := source.pop()) is not None:
            request.first_token_time = time
            source.ended(request, time)
            requests.append(request)
    return requests


def serve(  # noqa: C901 - all that a test may ask for
    policy: str | SchedulingPolicy, requests: Sequence[Request], times: StepTime, config: EngineConfig, *,
    replicas: int = 1, stepwise: bool = False, preemption: PreemptionPolicy | None = None, router: str = "round-robin",
    clients: Sequence[float] = (), think: float = 0.0, watch: MakeWatch | None = None, fleet: FleetConfig | None = None,
    tiers: Sequence[TierConfig] = (), always: bool = False, admission: Callable[[], AdmissionControl] | None = None,
    lora: LoraConfig | None = None,
) -> Served:  # fmt: skip
    """Serve requests; with `clients`, when those start, in a closed loop.

    `watch` makes listeners to every event too, `admission` the control of each replica. With a `fleet` its replicas serve; each
    life of one is a replica of its own in what is returned. `always`: what a tier has is loaded, even where computing it would
    be faster.
    """
    scheduler = SCHEDULERS[policy] if isinstance(policy, str) else policy
    log = StepLog()
    served = Served([], log)
    shared = {tier.name: Tier(tier, config.block_size) for tier in tiers if tier.shared}

    def beside() -> KVTiers | None:
        every = [shared.get(tier.name) or Tier(tier, config.block_size) for tier in tiers]
        return KVTiers(every, times, config.max_num_batched_tokens, config.block_size, always=always) if tiers else None

    def listen(index: int, other: Callable[[Event], None] | None) -> Callable[[Event], None]:
        def listener(event: Event) -> None:
            served.events.append((index, event))
            if other is not None:
                other(event)

        return listener

    def make(index: int) -> Replica:
        replica = Replica(
            scheduler, times, config, log=log, preemption=preemption, index=index, stepwise=stepwise, tiers=beside(),
            admission=None if admission is None else admission(),
            adapters=None if lora is None else AdapterSlots(lora, served.lora),
        )  # fmt: skip
        replica.scheduler.watch = listen(len(served.replicas), None if watch is None else watch(replica))
        served.replicas.append(replica)
        return replica

    probe = Replica(scheduler, times, config)

    def refuse(request: Request) -> bool:
        if probe.refusal(request) is None:
            return False
        served.refused.append(request.index)
        return True

    if fleet is not None:
        several = Fleet(fleet, make, ROUTERS[router].route, log)
        source = InTurn(requests, clients, think) if clients else OpenSource(requests)
        several.serve(source, refuse, dependent=bool(clients))
        rows = range(0, len(log.ends), len(END))
        served.record = several.finish(max((log.ends[row + END.index("ended")] for row in rows), default=0.0))
        return served
    for index in range(replicas):
        make(index)
    route = ROUTERS[router].route(served.replicas)
    if clients:
        dependent_loop(InTurn(requests, clients, think), served.replicas, route, refuse, (log,))
    elif shared:
        ordered_loop(requests, served.replicas, route, refuse, (log,))
    else:
        open_loop(requests, served.replicas, route, refuse)
    return served


@dataclass(frozen=True)
class World:
    """A random server under a random workload, often too small for it."""

    name: str
    mode: str
    run: Callable[..., Served]
    """Serves it, step by step or not; `watch` as that of `serve`."""
    requests: tuple[tuple[float, int, int, int], ...]
    """Arrival, tokens of prompt and output, class; in a closed loop the arrival has no meaning."""
    shares: bool
    """Whether prompts have something in common."""
    tiers: tuple[TierConfig, ...] = ()
    speculation: SpeculativeRounds | None = None


def drawn_policy(rng: random.Random, name: str, seed: int, *, ages: bool = True) -> SchedulingPolicy:
    """A scheduler with or without weights, errors in predicted lengths, ageing, another preemption candidate."""
    policy = SCHEDULERS[name]
    queue = policy.queue
    if isinstance(queue, ShortestFirst) and rng.random() < 0.5:
        queue = ShortestFirst(rng.choice([0.2, 1.0]), (seed,))
    if isinstance(queue, LeastServed):
        queue = LeastServed(rng.choice([(), (1.0, 3.0, 0.7)]))
    if ages and not policy.queue().fifo and rng.random() < 0.5:
        queue = Aged(queue, rng.choice([0.0, 2.0, 15.0]))  # type: ignore[arg-type]
    if not policy.reserves_output and rng.random() < 0.4:
        policy = replace(policy, preemption_candidate=CANDIDATES[rng.choice(sorted(CANDIDATES))].choose)
    return replace(policy, queue=queue)


def drawn_admission(rng: random.Random) -> Callable[[], AdmissionControl] | None:
    """None of most worlds; else a limit of the queue, or objectives for TTFT of some classes."""
    kind = rng.choice([None, None, None, "queue", "slo"])
    if kind is None:
        return None
    limit, objectives = rng.randint(1, 8), [rng.choice([4.0, 15.0, 60.0, math.inf]) for _ in range(3)]
    return lambda: QueueLimit(limit, 3) if kind == "queue" else TTFTControl(objectives)


def world(seed: int, *, tiered: bool = False) -> World:
    """The world of a seed; with `tiered` it has KV cache tiers, and prompts with something in common."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    name = rng.choice(sorted(name for name, one in SCHEDULERS.items() if one.loads_prefixes or not tiered))
    size, blocks = rng.choice([1, 3, 4, 16]), rng.randint(6, 80)
    config = EngineConfig(
        blocks, size, rng.randint(1, 12), rng.randint(12, 64), num_fixed_blocks=rng.choice([0, 0, 1]),
        enable_prefix_caching=rng.random() < 0.5, uncached_first=rng.random() < 0.3,
    )  # fmt: skip
    if tiered:
        config = replace(config, num_fixed_blocks=0, enable_prefix_caching=True)
    mode = "recompute" if tiered else rng.choice(MODES)
    costs = LinearCosts(rng.random() * 0.1, rng.random() * 0.03, rng.random() * 0.5)
    preemption = PreemptionPolicy(mode, costs, rng.choice([math.inf, 60]))
    times = Bent(rng.uniform(0.5, 2), rng.random() * 0.1, rng.random() * 0.01, rng.random() * 0.1, rng.random() * 0.001)
    replicas, router = rng.choice([1, 1, 2, 3]), rng.choice(sorted(ROUTERS))
    num_requests, max_tokens = rng.randint(1, 40), max(2, blocks * size // 2)
    pace = rng.choice([0, 0.1, 1, 10])
    time, requests = 0.0, []
    for _ in range(num_requests):
        requests.append((time, rng.randint(1, max_tokens), rng.randint(1, max_tokens), rng.randint(0, 2)))
        time += rng.expovariate(1 / pace) if pace else 0.0
    contents: list[Content | None] = [None] * num_requests
    if tiered or rng.random() < 0.5:  # a text at the front of each prompt, then one that others may have, or its own
        contents = [
            ((-1 - rng.randrange(2), rng.choice([3, 8, 17])), (rng.choice([-8, -9, index]), ENDLESS))
            for index in range(num_requests)
        ]
    clients = [rng.random() * 3 for _ in range(rng.randint(1, 8))] if rng.random() < 0.3 else []
    tiers, always = _tiers(rng) if tiered else (), rng.random() < 0.3
    if rng.random() < 0.3:
        drafted = rng.randint(0, 5)
        lengths = RoundLengths(drafted, rng.choice([0.0, 0.5, rng.random(), 1.0]))
        config = replace(
            config, speculation=SpeculativeRounds(lengths, rng.choice([0, drafted]), (seed,)),
            max_num_batched_tokens=max(config.max_num_batched_tokens, config.max_num_seqs * (drafted + 1)),
        )  # fmt: skip
    policy = drawn_policy(rng, name, seed)
    admission = drawn_admission(rng)

    def run(
        stepwise: bool, watch: MakeWatch | None = None, fleet: FleetConfig | None = None, lora: LoraConfig | None = None
    ) -> Served:
        several = [Request(index, *one, content=contents[index]) for index, one in enumerate(requests)]
        if lora is not None:
            for request, draw in zip(several, repeat(lora.draws((seed,))), strict=False):
                draw(request)
        together = fleet is None and (lora is None or admission is None or not admission().judges)
        return serve(
            policy, several, times, config, lora=lora, replicas=replicas, stepwise=stepwise, preemption=preemption,
            router=router, clients=clients, think=0.3, watch=watch, fleet=fleet, tiers=tiers, always=always,
            admission=admission if together else None,
        )  # fmt: skip

    return World(name, mode, run, tuple(requests), any(contents), tiers, config.speculation)


def scaled(policy: str = "waiting", **settings: Any) -> AutoscaleConfig:
    """Settings of an autoscaler, with the defaults of its policy."""
    one = AUTOSCALERS[policy]
    defaults = {
        "min": 1, "max": 8, "target": one.target, "interval": one.interval, "scale_down_window": one.scale_down_window,
        "start_up": 60.0,
    }  # fmt: skip
    return AutoscaleConfig(policy=one, **{**defaults, **settings})


def random_fleet(seed: int) -> FleetConfig:
    """A fleet that scales, fails, or both, on the scale of seconds of a random world."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    scale = fail = None
    which = rng.choice(["scale", "fail", "both"])
    if which != "fail":
        policy = rng.choice(sorted(AUTOSCALERS))
        least = rng.randint(0, 2)
        scale = scaled(
            policy, min=least, max=least + rng.randint(1, 4), interval=rng.uniform(2, 20),
            start_up=rng.choice([0.0, 7.3, 31.7]), scale_down_window=rng.choice([0.0, 23.0]),
            target=rng.uniform(0.1, 0.9) if policy == "kv" else rng.uniform(0.5, 6),
        )  # fmt: skip
    if which != "scale":
        at = [(rng.uniform(0, 60), rng.randint(0, 2)) for _ in range(rng.randint(0, 3))]
        fail = FailureConfig(
            mtbf=rng.choice([None, 20.0, 100.0]), at=tuple(sorted(at)), repair=rng.choice([5.3, 40.1, math.inf]),
            retries=rng.randint(0, 4), resume=rng.choice(["restart", "continue"]),
        )  # fmt: skip
    replicas = rng.randint(1, 3) if scale is None else rng.randint(scale.min, scale.max)
    return FleetConfig(replicas=replicas, autoscale=scale, failures=fail)


def _tiers(rng: random.Random) -> tuple[TierConfig, ...]:
    """One tier or two, often too small or too slow; the last may be one for all replicas."""
    num_tiers = rng.choice([1, 2])
    return tuple(
        TierConfig(
            name=f"tier {place}", num_blocks=rng.choice([4, 30, 400]), block_bytes=1.0,
            read=Transfer(rng.choice([0.01, 0.1, 1]) * rng.random(), rng.random() * 0.1),
            write=Transfer(rng.choice([0.01, 1]) * rng.random()), latency=rng.choice([0, 0.5]) * rng.random(),
            shared=place == num_tiers - 1 and rng.random() < 0.5,
        )
        for place in range(num_tiers)
    )  # fmt: skip


def adapters(
    count: int,
    slots: int,
    *,
    on_host: int = 1 << 20,
    load: float = 0.0,
    fetch: float = 0.0,
    token: float = 0.0,
    each: float = 0.0,
) -> LoraConfig:
    """Adapters with a step that is `token` seconds longer per token and `each` per adapter, whichever is more."""
    products = (Product(1.0, token, 0.0, each),)
    return LoraConfig(count, 0.0, slots, on_host, 16, 1.0, 1.0, load, fetch, products, num_drawn=count)


def random_adapters(seed: int) -> LoraConfig:
    """Few slots for a few more adapters, with loads that take as long as steps."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    slots = rng.randint(1, 4)
    return adapters(
        slots + rng.randint(0, 5), slots, on_host=slots + rng.randint(0, 3), load=rng.choice([0.0, 0.7]), fetch=rng.random(),
        token=rng.random() * 0.02, each=rng.random() * 0.3,
    )  # fmt: skip


@dataclass(frozen=True)
class Link:
    """A link of `rate` tokens/s, whose last byte is known `latency` seconds later; a token has `token_bytes` bytes."""

    rate: float
    latency: float = 0.0
    token_bytes: float = 1.0

    def cost(self, num_tokens: int, num_cached_tokens: int) -> tuple[float, float]:
        """Return bytes and seconds."""
        left = num_tokens - num_cached_tokens
        return left * self.token_bytes, left / self.rate


@dataclass
class PoolsServed:
    """What happened in two pools: events of each replica, prefill first, their logs, transfers, refused requests."""

    prefill: list[Replica]
    decode: list[Replica]
    logs: tuple[PoolLog, PoolLog]
    transfers: Transfers
    events: list[tuple[int, Event]] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)

    def ends(self) -> dict[int, dict[str, float]]:
        """Requests that ended, by their number, with the columns of `END`."""
        numbers = [*self.logs[0].ends, *self.logs[1].ends]
        rows = [numbers[at : at + len(END)] for at in range(0, len(numbers), len(END))]
        return {int(row[0]): dict(zip(END, row, strict=True)) for row in rows}

    def sent(self) -> list[dict[str, float]]:
        """Transfers in their order, with the columns of `TRANSFER`."""
        numbers = self.transfers.rows
        rows = [numbers[at : at + len(TRANSFER)] for at in range(0, len(numbers), len(TRANSFER))]
        return [dict(zip(TRANSFER, row, strict=True)) for row in rows]


def serve_pools(
    names: tuple[str | SchedulingPolicy, str | SchedulingPolicy], requests: Sequence[Request], times: StepTime,
    configs: tuple[EngineConfig, EngineConfig],
    cost: TransferCost, *, first_token: FirstToken = FIRST_TOKENS[0], replicas: tuple[int, int] = (1, 1),
    stepwise: bool = False, preemption: PreemptionPolicy | None = None, router: str = "round-robin",
    clients: Sequence[float] = (), think: float = 0.0,
) -> PoolsServed:  # fmt: skip
    """Serve requests in a prefill and a decode pool; schedulers, configurations and replicas of both."""
    logs = PoolLog(), PoolLog()
    pools: list[list[Replica]] = []
    for name, config, log, number in zip(names, configs, logs, replicas, strict=True):
        first, policy = sum(map(len, pools)), SCHEDULERS[name] if isinstance(name, str) else name
        pools.append([
            Replica(policy, times, config, log=log, preemption=preemption, index=index, stepwise=stepwise)
            for index in range(first, first + number)
        ])  # fmt: skip
    prefill, decode = pools
    served = PoolsServed(prefill, decode, logs, Transfers(prefill, decode, cost, first_token))

    def listen(index: int) -> Callable[[Event], None]:
        return lambda event: served.events.append((index, event))

    for replica in (*prefill, *decode):
        replica.scheduler.watch = listen(replica.index)

    def refuse(request: Request) -> bool:
        prompt = Request(request.index, request.arrival_time, request.num_prompt_tokens, 1)
        if prefill[0].refusal(prompt) is None and decode[0].refusal(request) is None:
            return False
        served.refused.append(request.index)
        return True

    source = InTurn(requests, clients, think) if clients else OpenSource(requests)
    routes = ROUTERS[router].route(prefill), ROUTERS[router].route(decode)
    disaggregated_loop(source, prefill, decode, routes, served.transfers, refuse, logs)
    return served


@dataclass(frozen=True)
class PoolsWorld:
    """Two random pools under a random workload, often too small for it."""

    run: Callable[[bool], PoolsServed]
    """Serves it, step by step or not."""
    requests: tuple[tuple[float, int, int, int], ...]
    """Arrival, tokens of prompt and output, class; in a closed loop the arrival has no meaning."""
    first_token: FirstToken


def pools_world(seed: int) -> PoolsWorld:
    """The world of a seed."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    size = rng.choice([1, 3, 4, 16])

    def config() -> EngineConfig:
        return EngineConfig(
            rng.randint(6, 80), size, rng.randint(1, 12), rng.randint(12, 64), num_fixed_blocks=rng.choice([0, 0, 1]),
            enable_prefix_caching=rng.random() < 0.5, uncached_first=rng.random() < 0.3,
        )  # fmt: skip

    configs = config(), config()
    able = sorted(name for name, policy in SCHEDULERS.items() if not policy.static_batching and name != "fair")
    policies = tuple(drawn_policy(rng, rng.choice(able), seed, ages=False) for _ in range(2))
    first_token = rng.choice(FIRST_TOKENS)
    times = Bent(rng.uniform(0.5, 2), rng.random() * 0.1, rng.random() * 0.01, rng.random() * 0.1, rng.random() * 0.001)
    costs = LinearCosts(rng.random() * 0.1, rng.random() * 0.03, rng.random() * 0.5)
    preemption = PreemptionPolicy(rng.choice(MODES), costs, rng.choice([math.inf, 60]))
    max_tokens = max(2, min(one.num_gpu_blocks for one in configs) * size // 2)
    pace, time, requests = rng.choice([0, 0.1, 1, 10]), 0.0, []
    for _ in range(rng.randint(1, 40)):
        requests.append((time, rng.randint(1, max_tokens), rng.randint(1, max_tokens), rng.randint(0, 2)))
        time += rng.expovariate(1 / pace) if pace else 0.0
    contents: list[Content | None] = [None] * len(requests)
    # NB: what `prefix-aware` sees cached within a run of steps is as of its begin
    router = rng.choice(sorted(name for name in ROUTERS if name != "prefix-aware"))
    if rng.random() < 0.5:
        contents = [
            ((-1 - rng.randrange(2), rng.choice([3, 8, 17])), (rng.choice([-8, -9, index]), ENDLESS))
            for index in range(len(requests))
        ]
    clients = [rng.random() * 3 for _ in range(rng.randint(1, 8))] if rng.random() < 0.3 else []
    link = Link(rng.choice([1.0, 10.0, 1000.0]), rng.random())
    replicas = rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2, 3])

    def run(stepwise: bool) -> PoolsServed:
        return serve_pools(
            (policies[0], policies[1]),
            [Request(index, *one, content=contents[index]) for index, one in enumerate(requests)], times, configs, link,
            first_token=first_token, replicas=replicas, stepwise=stepwise, preemption=preemption, router=router,
            clients=clients, think=0.3,
        )  # fmt: skip

    return PoolsWorld(run, tuple(requests), first_token)
