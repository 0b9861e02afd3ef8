"""The query of a plan: its load (classes of requests with their objectives, as input of the queueing formulas), the model,
what may be searched, what is fixed, and the limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from roofline.blocks.model import Model
from roofline.errors import InputError
from roofline.serving.planning.prefix_cache import Turns
from roofline.serving.queueing.replica import REPRESENTATIVES, Mix
from roofline.serving.traffic.classes import Traffic
from roofline.specs.hardware import Hardware
from roofline.specs.library import Input
from roofline.specs.prices import Prices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roofline.serving.traffic.classes import RequestClass, Traffic

    Array = NDArray[Any]

TTFT, TPOT = "ttft", "tpot"
_LONGEST = 0.999
"""Share of requests that `--max-model-len` has to hold if lengths are unbounded."""
_ROUND = 1024
BURSTIEST = 3.0
"""Maximum coefficient of variation of times between arrivals in the formulas: they do not hold beyond it, and a higher one of a
trace comes from silences as much as from bursts."""


@dataclass(frozen=True, slots=True, eq=False)
class Service:
    """One class: its requests, and the TTFT and TPOT, s, that a share (`percentile`) of them has to meet.

    `turns`: what the KV cache may retain of them, of all classes where one has conversations or system prompts; None: nothing.
    """

    name: str
    mix: Mix
    ttft: float | None
    tpot: float | None
    percentile: float
    turns: Turns | None = None

    @property
    def objectives(self) -> dict[str, float]:
        """The objectives that are set, in s, by `ttft` and `tpot`."""
        return {name: value for name, value in ((TTFT, self.ttft), (TPOT, self.tpot)) if value is not None}


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """All classes together.

    Args:
        services: the classes.
        rate: planned requests/s, those of the peak; None in a closed loop.
        mean_rate: mean requests/s over a day; None in a closed loop.
        concurrency: clients, each with one request in flight; None in an open loop. Of offline work, its requests.
        cv: coefficient of variation of the times between arrivals, as the formulas use it.
        burstiness: that of the burstiest class.
        mean_input: prompt tokens, at least 1.
        mean_output: output tokens, at least 1.
        longest: tokens of the longest request that is planned for.
        beyond: tokens of the longest possible request; None: unbounded.
    """

    services: tuple[Service, ...]
    rate: float | None
    mean_rate: float | None
    concurrency: int | None
    cv: float
    burstiness: float
    mean_input: float
    mean_output: float
    longest: int
    beyond: int | None

    @property
    def mix(self) -> tuple[Mix, ...]:
        """The requests of each class, for the queueing formulas."""
        return tuple(service.mix for service in self.services)

    @property
    def retained(self) -> tuple[tuple[Mix, Turns], ...]:
        """The requests and turns of each class, where some have prompts that the KV cache may retain; else none."""
        return tuple((one.mix, one.turns) for one in self.services if one.turns is not None)

    @property
    def has_cached_prompts(self) -> bool:
        """Whether some prompts, or parts of them, are in the prefix cache."""
        return bool(self.retained) or any(service.mix.cached for service in self.services)

    @classmethod
    def of(cls, traffic: Traffic) -> Load:
        """The load of some traffic at its peak, with means weighted by the arrivals (by the clients, in a closed loop).

        Raises:
            InputError: some classes have clients and some have rates; clients that hold conversations.
        """
        if named := [one.name for one in traffic.classes if one.adapter is not None]:
            raise InputError(
                f"class {named[0]!r} has a LoRA adapter, and what those take is simulated (roofline simulate), not planned"
            )
        closed = traffic.closed
        shared = [(one.name, one.conversation) for one in traffic.classes if one.conversation is not None]
        if closed and (talking := [name for name, conversation in shared if conversation.turns is not None]):
            raise InputError(
                f"class {talking[0]!r} has clients that hold conversations, which are simulated (roofline simulate), not "
                "planned: give the rate of their turns, clients/(pause + time of a turn), instead of a concurrency"
            )
        parts = [float(one.concurrency if closed else one.rate) for one in traffic.classes]  # type: ignore[arg-type]
        shares = [part / sum(parts) for part in parts]
        services = tuple(
            _service(one, share, retained=bool(shared)) for one, share in zip(traffic.classes, shares, strict=True)
        )
        classes = list(zip(traffic.classes, shares, strict=True))
        ends = [_end(one) for one in traffic.classes]
        return cls(
            services=services,
            rate=None if closed else sum(parts) * traffic.peak_factor,
            mean_rate=None if closed else sum(parts),
            concurrency=round(sum(parts) * traffic.peak_factor) if closed else None,
            cv=min(sum(share * one.burstiness**2 for one, share in classes) ** 0.5, BURSTIEST),
            burstiness=max(one.burstiness for one in traffic.classes),
            mean_input=sum(
                share * (one.input_len.mean if service.turns is None else service.turns.mean_prompt)
                for service, (one, share) in zip(services, classes, strict=True)
            ),
            mean_output=sum(share * one.output_len.mean for one, share in classes),
            longest=max(_longest(one, service.turns) for service, one in zip(services, traffic.classes, strict=True)),
            beyond=None if None in ends else max(end for end in ends if end is not None),
        )


def _service(one: RequestClass, share: float, *, retained: bool) -> Service:
    import numpy as np

    turns = Turns.of(one) if retained else None
    prompts = turns.representatives() if turns is not None else np.sort(one.input_len.quantiles(REPRESENTATIVES))
    outputs = np.sort(one.output_len.quantiles(REPRESENTATIVES)).astype(np.float64)
    mix = Mix(share, prompts.astype(np.float64), outputs, one.prefix_hit, one.cached_prefix)
    return Service(one.name, mix, one.ttft, one.tpot, one.percentile, turns)


def _end(one: RequestClass) -> int | None:
    """Maximum tokens of a request of a class; None: unbounded."""
    prompt, output, shared = one.input_len.maximum, one.output_len.maximum, one.conversation
    turns = 1 if shared is None or shared.turns is None else shared.turns.maximum
    if prompt is None or output is None or turns is None:
        return None
    return turns * (prompt + output) + (0 if shared is None else shared.system_prompt)


def _longest(one: RequestClass, turns: Turns | None) -> int:
    """Tokens that 99.9 % of the requests of a class do not exceed."""
    import numpy as np

    end = _end(one)
    far = one.input_len.quantile(_LONGEST) + one.output_len.quantile(_LONGEST)
    if turns is not None and one.conversation is not None:
        far = math.ceil(np.quantile(turns.prompts + turns.outputs, _LONGEST))
    return end if end is not None and end <= 2 * far else -(-far // _ROUND) * _ROUND


@dataclass(frozen=True, slots=True)
class BatchWork:
    """Offline batch work: requests that are all there at once, and have to be done by a time.

    Args:
        output_tokens: tokens to generate; those of prompts are not counted.
        requests: with as many at their mean length, rounded up.
        deadline_s: seconds from the start to the end of the last request.
    """

    output_tokens: int
    requests: int
    deadline_s: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"output_tokens": self.output_tokens, "requests": self.requests, "deadline_s": self.deadline_s}


Rank = Literal["cost", "token-cost", "gpus", "latency"]
RANKS = ("cost", "token-cost", "gpus", "latency")
MAX_FRONT_COST = 3.0
"""Times the least cost (devices without prices) beyond which a deployment is left out of the Pareto front."""
Mode = Literal["colocated", "disaggregated"]
MODES = ("colocated", "disaggregated", "any")
MARGIN = 0.1
"""By which share of its cost prefill and decode pools have to be cheaper than the best colocated deployment, by default."""
SIMULATED, MAX_SIMULATED = 3, 100
"""Candidates that are simulated by default, and at most."""
MAX_DEVICES = 128
"""Per replica."""


@dataclass(frozen=True)
class Query:
    """A resolved query.

    Args:
        model: the model.
        traffic: what arrives.
        load: its summary.
        hardware: kinds of hardware to search.
        fixed: options of `analyze` that are not searched.
        prices: prices by hardware.
        inputs: files that were read.
        rank: order of the candidates.
        modes: colocated, disaggregated, or both.
        spare: replicas of each pool for those that fail.
        max_gpus: maximum accelerators.
        max_cost: maximum cost per hour, in the currency of the prices.
        inventory: available accelerators by name.
        pue: energy of the building over that of its machines.
        start_up: seconds from the request for a replica until it serves; None: to load its weights and start its engine.
        top: number of candidates to return.
        attention_dp_balance: prompts are held until every data-parallel rank can start one.
        fp8_kv_cache: whether a cache in fp8 is tried beside the one that a model or checkpoint asks for.
        batch: offline work; then `load` has its requests as clients.
        margin: share of the cost by which prefill and decode pools have to be cheaper than the best colocated deployment.
        simulate_top: number of candidates to simulate.
    """

    model: Model
    traffic: Traffic
    load: Load
    hardware: tuple[Hardware, ...]
    fixed: dict[str, Any]
    prices: Prices
    inputs: tuple[Input, ...]
    rank: Rank = "cost"
    modes: tuple[Mode, ...] = ("colocated", "disaggregated")
    spare: int = 0
    max_gpus: int | None = None
    max_cost: float | None = None
    inventory: dict[str, int] | None = None
    pue: float = 1.0
    start_up: float | None = None
    top: int = 10
    attention_dp_balance: bool = False
    fp8_kv_cache: bool = False
    batch: BatchWork | None = None
    margin: float = MARGIN
    simulate_top: int = 0

    def devices(self, hardware: Hardware) -> int:
        """Maximum number of devices of a kind of hardware, by `max_gpus`, the inventory and offers; 2^60 without a limit."""
        limits = [self.max_gpus] if self.max_gpus is not None else []
        if (price := self.prices.of(hardware)) is not None and price.available is not None:
            limits.append(price.available)
        if self.inventory is not None:
            named = (hardware.name, hardware.accelerator.name)
            limits.append(max((self.inventory[name] for name in named if name in self.inventory), default=0))
        return min(limits, default=2**60)
