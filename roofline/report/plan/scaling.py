"""A plan at another rate and at other prices: replicas, devices and money counted again.

A replica serves `max_rate` requests/s within the objectives, however many there are of it. So at a rate R each pool has

    ceil(R / max_rate) + spare

replicas, and costs follow. Times were predicted at the planned rate, and stay what they were.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from roofline.numeric import pareto_front
from roofline.report.plan.load import Candidate, Planned, Pool, Price

_TINY = 1e-9
"""By which a quotient may miss a whole number."""
Values = dict[str, Any]
"""What the controls hold: `rate`, and a price under its key; 0 where none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """A candidate at a rate and a price. `replicas` of each pool, spares included; `breaks_at`, `headroom` without the spares;
    `utilisation` is None where it does not follow from that of the plan."""

    of: Candidate
    replicas: tuple[int, ...]
    devices: int
    per_hour: float | None
    low: float | None
    high: float | None
    million: float | None
    million_input: float | None
    million_output: float | None
    utilisation: float | None
    breaks_at: float | None
    headroom: float | None
    binds: str
    beyond: str
    """The limit that it is beyond, in words; "" if none."""


def first_values(planned: Planned) -> Values:
    """What the controls hold at first: the plan."""
    values: Values = {} if planned.rate is None else {"rate": planned.rate}
    for price in planned.prices:
        values[price.key] = 0.0 if price.hour is None else price.hour
    return values


def same_rate(planned: Planned, values: Values) -> bool:
    """Whether the rate is the planned one; a closed loop has no other."""
    return planned.rate is None or values["rate"] == planned.rate


def as_planned(planned: Planned, values: Values) -> bool:
    """Whether nothing was moved."""
    unchanged = [values[price.key] == (0.0 if price.hour is None else price.hour) for price in planned.prices]
    return same_rate(planned, values) and all(unchanged)


def replicas(pool: Pool, rate: float) -> int:
    """Replicas of a pool at a rate, spares included."""
    return max(math.ceil(rate / pool.max_rate * (1 - _TINY)), 1) + pool.spare


def price_of(planned: Planned, candidate: Candidate) -> Price:
    """What is known of the price of a candidate's hardware."""
    return next(price for price in planned.prices if price.hardware == candidate.hardware)


def scaled(planned: Planned, candidate: Candidate, values: Values) -> Scaled:
    """A candidate at the rate and the prices of a state."""
    rate = None if planned.rate is None else values["rate"]
    counts = [pool.replicas if rate is None else replicas(pool, rate) for pool in candidate.pools]
    sizes = [pool.devices * count for pool, count in zip(candidate.pools, counts, strict=True)]
    devices = sum(sizes)
    price = price_of(planned, candidate)
    hour = values[price.key]
    cost = hour * devices if hour else None
    own = hour == price.hour  # the range is that of the plan's price
    factor = 1.0 if rate is None or planned.rate is None else rate / planned.rate
    mean = factor if rate is None else factor / planned.peak_factor
    share = sizes[0] / devices if len(sizes) == 2 else candidate.prompt_share
    second = None if cost is None else cost / 3600
    inputs, outputs = candidate.input_tokens_per_s * mean, (candidate.tokens_per_s - candidate.input_tokens_per_s) * mean
    most = [pool.max_rate * (count - pool.spare) for pool, count in zip(candidate.pools, counts, strict=True)]
    least = min(most)
    usage = candidate.utilisation
    if usage is not None and rate != planned.rate:
        before = candidate.pools[0].replicas
        usage = usage * factor * before / counts[0] if len(counts) == 1 else None
    return Scaled(
        of=candidate,
        replicas=tuple(counts),
        devices=devices,
        per_hour=cost,
        low=price.low * devices if own and price.low is not None else None,
        high=price.high * devices if own and price.high is not None else None,
        million=None if second is None else second / (inputs + outputs) * 1e6,
        million_input=None if second is None or share is None or not inputs else second * share / inputs * 1e6,
        million_output=None if second is None or share is None or not outputs else second * (1 - share) / outputs * 1e6,
        utilisation=usage,
        breaks_at=None if rate is None else least,
        headroom=None if rate is None else least / rate - 1,
        binds=candidate.pools[most.index(least)].binds,
        beyond=_beyond(planned, candidate, devices, cost),
    )


def _beyond(planned: Planned, candidate: Candidate, devices: int, cost: float | None) -> str:
    limits, exceeded = planned.limits, []
    if limits.max_gpus is not None and devices > limits.max_gpus:
        exceeded.append(f"more than {limits.max_gpus:,} devices")
    stock = None if limits.inventory is None else limits.inventory.get(candidate.hardware)
    if stock is not None and devices > stock:
        exceeded.append(f"more than the {stock:,} that are there")
    if limits.max_cost is not None and (cost is None or cost > limits.max_cost * (1 + _TINY)):
        exceeded.append(f"more than {limits.max_cost:,.10g} per hour")
    return ", ".join(exceeded)


def ordered(planned: Planned, values: Values) -> list[Scaled]:
    """All candidates as the plan would rank them: those beyond a limit last, of equal ones in the plan's order."""
    candidates = [scaled(planned, candidate, values) for candidate in planned.candidates]
    if as_planned(planned, values):
        return candidates
    return sorted(candidates, key=lambda one: _rank(planned.rank, one))


def _rank(rank: str, one: Scaled) -> tuple[float, ...]:
    # NB: products of the same price differ in their last digits
    cost = math.inf if one.per_hour is None else round(one.per_hour, 9)
    beyond = 1.0 if one.beyond else 0.0
    if rank == "gpus":
        return (beyond, one.devices, cost, one.of.number)
    if rank == "latency":  # of times, which are the plan's
        return (beyond, one.of.number)
    return (beyond, cost, one.devices, one.of.number)


def on_front(planned: Planned, values: Values, candidates: list[Scaled]) -> list[int]:
    """Numbers of the candidates that nothing listed beats in cost (devices, where some price is not known), TTFT and TPOT."""
    if as_planned(planned, values):
        return list(planned.front)
    timed = [one for one in candidates if one.of.ttft.mean is not None and one.of.tpot.mean is not None]
    by_devices = any(one.per_hour is None for one in timed)
    measures = [
        (float(one.devices) if by_devices or one.per_hour is None else round(one.per_hour, 9), one.of.ttft.mean or 0.0,
         one.of.tpot.mean or 0.0)
        for one in timed
    ]  # fmt: skip
    return sorted([timed[index].of.number for index in pareto_front(measures)])
