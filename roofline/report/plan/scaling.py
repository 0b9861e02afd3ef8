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
_MAX_FRONT_COST = 3.0
"""Times the least cost beyond which a candidate is left out of the Pareto front, as in the plan."""
Values = dict[str, Any]
"""What the controls hold: `rate`, and a single price under its key; 0 where none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """A candidate at a rate and a price. Without the plan's currency, money is a plain number.

    Args:
        replicas: of each pool, spares included.
        per_hour: cost per hour of all devices; None without a price.
        low: cost per hour at the low end of the price's range.
        high: cost per hour at the high end.
        million: cost per million tokens, input and output.
        utilisation: as a fraction; None if it cannot be derived from that of the plan.
        breaks_at: requests/s at which the first pool is full, spares not counted; None for a closed loop.
        headroom: how much the rate can grow until then, as a fraction.
    """

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
    """What the controls hold at first: the planned rate and prices."""
    values: Values = {} if planned.rate is None else {"rate": planned.rate}
    for price in planned.prices:
        if not price.offers:
            values[price.key] = 0.0 if price.hour is None else price.hour
    return values


def same_rate(planned: Planned, values: Values) -> bool:
    """Whether the rate is the planned one, as it always is for a closed loop."""
    return planned.rate is None or values["rate"] == planned.rate


def as_planned(planned: Planned, values: Values) -> bool:
    """Whether rate and prices are those of the plan."""
    single = [price for price in planned.prices if not price.offers]
    unchanged = [values[price.key] == (0.0 if price.hour is None else price.hour) for price in single]
    return same_rate(planned, values) and all(unchanged)


def replicas(pool: Pool, rate: float) -> int:
    """Replicas of a pool, spares included, that serve `rate` requests/s within the objectives."""
    return max(math.ceil(rate / pool.max_rate * (1 - _TINY)), 1) + pool.spare


def price_of(planned: Planned, candidate: Candidate) -> Price:
    """The price of a candidate's hardware."""
    return next(price for price in planned.prices if price.hardware == candidate.hardware)


def cost_per_hour(price: Price, devices: int, values: Values) -> float:
    """Cost per hour of a number of devices: at the price that the controls hold, or by its offers. 0 where none is known."""
    if not price.offers:
        hour: float = values[price.key]
        return hour * devices
    return _by_offers(price, devices, "hour")


def _by_offers(price: Price, devices: int, end: str) -> float:
    """Cost per hour of a number of devices that use up one offer after another; `end`: hour, low or high."""
    left, cost = devices, 0.0
    for offer in price.offers:
        number = left if offer.count is None else min(left, offer.count)
        each = offer.low if end == "low" else offer.high if end == "high" else offer.hour
        cost += number * each
        left -= number
    return cost


def _available(price: Price) -> int | None:
    """Devices of all offers together; None: any number."""
    available = 0
    for offer in price.offers:
        if offer.count is None:
            return None
        available += offer.count
    return available if price.offers else None


def _scaled(planned: Planned, candidate: Candidate, values: Values) -> Scaled:
    """A candidate at the rate and the prices that the controls hold."""
    rate = None if planned.rate is None else values["rate"]
    counts = [pool.replicas if rate is None else replicas(pool, rate) for pool in candidate.pools]
    sizes = [pool.devices * count for pool, count in zip(candidate.pools, counts, strict=True)]
    devices = sum(sizes)
    price = price_of(planned, candidate)
    cost = cost_per_hour(price, devices, values) or None
    low, high = None, None
    if price.offers:
        low, high = _by_offers(price, devices, "low"), _by_offers(price, devices, "high")
    elif values[price.key] == price.hour:  # the range is that of the plan's price
        low = None if price.low is None else price.low * devices
        high = None if price.high is None else price.high * devices
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
        low=low,
        high=high,
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
    offered = _available(price_of(planned, candidate))
    if offered is not None and devices > offered:
        exceeded.append(f"more than the {offered:,} that have a price")
    if limits.max_cost is not None and (cost is None or cost > limits.max_cost * (1 + _TINY)):
        exceeded.append(f"more than {limits.max_cost:,.10g} per hour")
    return ", ".join(exceeded)


def ordered(planned: Planned, values: Values) -> list[Scaled]:
    """All candidates ranked as the plan would: those beyond a limit last, equal ones in the plan's order."""
    candidates = [_scaled(planned, candidate, values) for candidate in planned.candidates]
    if as_planned(planned, values):
        return candidates
    return sorted(candidates, key=lambda one: _rank(planned.rank, one))


def _rank(rank: str, one: Scaled) -> tuple[float, ...]:
    # NB: products of the same price differ in their last digits
    cost = math.inf if one.per_hour is None else round(one.per_hour, 9)
    beyond = 2.0 if not able(one) else 1.0 if one.beyond else 0.0
    if rank == "token-cost" and one.million is not None:
        return (beyond, round(one.million, 12), one.devices, one.of.number)
    if rank == "gpus":
        return (beyond, one.devices, cost, one.of.number)
    if rank == "latency":  # of times, which are the plan's
        return (beyond, one.of.number)
    return (beyond, cost, one.devices, one.of.number)


def _cost(rank: str, one: Scaled) -> float:
    """Cost per hour, or per million tokens where that is what candidates are ranked by."""
    value = one.million if rank == "token-cost" else one.per_hour
    return 0.0 if value is None else round(value, 9)


def able(one: Scaled) -> bool:
    """Whether no simulation shows that it misses an objective."""
    return one.of.simulated is None or one.of.simulated.verdict != "misses"


def total_cost(one: Scaled) -> float | None:
    """Cost of offline work until it is done; None without a price, or of other work."""
    if one.per_hour is None or one.of.finish is None or one.of.finish.mean is None:
        return None
    return one.per_hour * one.of.finish.mean / 3600


def on_front(planned: Planned, values: Values, candidates: list[Scaled]) -> list[int]:
    """Numbers of the candidates that none listed beats in cost (devices, if some price is unknown), TTFT and TPOT."""
    if as_planned(planned, values):
        return list(planned.front)
    timed = [one for one in candidates if one.of.ttft.mean is not None and one.of.tpot.mean is not None and able(one)]
    by_devices = any(one.per_hour is None for one in timed)
    measures = [
        (float(one.devices) if by_devices or one.per_hour is None else _cost(planned.rank, one),
         (one.of.ttft.mean or 0.0) if one.of.finish is None else (one.of.finish.mean or 0.0),
         (one.of.tpot.mean or 0.0) if one.of.finish is None else 0.0)
        for one in timed
    ]  # fmt: skip
    most = _MAX_FRONT_COST * min([measure[0] for measure in measures]) if measures else 0.0
    return sorted([timed[index].of.number for index in pareto_front(measures) if measures[index][0] <= most])
