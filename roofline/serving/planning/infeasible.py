"""Why no candidate exists, and the smallest relaxations that would give one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.serving.planning.batch import batch_performance
from roofline.serving.planning.candidates import CandidateDraft, cost_per_hour
from roofline.serving.planning.load import TPOT, TTFT, Query
from roofline.serving.planning.performance import closed_loop_performance
from roofline.serving.planning.search import Option, RejectedLayout
from roofline.serving.planning.sizing import SizedReplica, unloaded

_LARGER = "Allow more or larger devices; a node such as dgx-h100 joins more than its own"
_MARGIN = 1.001
"""A relaxed objective is a thousandth above what is achieved, so that it is met when it is set."""


def infeasible(
    query: Query, options: Sequence[Option], unfit: Sequence[RejectedLayout], drafted: Sequence[CandidateDraft]
) -> dict[str, Any]:
    """Explain why a query has no candidate.

    Args:
        query: the query.
        options: deployments that fit.
        unfit: deployments that do not.
        drafted: those that meet the objectives, beyond the limits.

    Returns:
        The keys `nearest`, the deployment that comes nearest (None if nothing fits), and `relax`, a list of constraints: each
        with its name, its value (`from`), a value that would do (`to`; None: unknown) in base units, and `why`.
    """
    if not options:
        return {"nearest": None, "relax": [_no_deployment(unfit)]}
    if drafted:
        return _beyond_limits(query, drafted)
    in_time = [option for option in options if option.sized["both"].max_rate > 0] if query.batch is not None else []
    return _too_late(query, in_time) if in_time else _too_slow(query, options)


def _too_late(query: Query, options: Sequence[Option]) -> dict[str, Any]:
    """No deployment ends offline work in time, even with a replica for every request, or as many as the limits allow."""
    work = query.batch
    assert work is not None  # noqa: S101 - of batch work alone
    ends = []
    for option in options:
        most, price = query.devices(option.hardware), query.prices.of(option.hardware)
        if query.max_cost is not None:
            most = 0 if price is None else min(most, price.affordable(query.max_cost))
        replicas = min(work.requests, most // option.devices - query.spare)
        if replicas > 0:
            ends.append(
                (batch_performance(option.sized["both"], query.load, work.requests / replicas).finish_s, replicas, option)
            )
    if not ends:
        return {"nearest": None, "relax": []}
    finish, replicas, option = min(ends, key=lambda each: (each[0], each[1]))
    devices = replicas * option.devices
    why = f"{devices:,} x {option.hardware.name} with {option.precision} weights and {_layout(option.layout)} end then"
    return {
        "nearest": {
            "hardware": option.hardware.name, "devices": devices, "layout": option.layout, "precision": option.precision,
            "finish_s": finish,
        },
        "relax": [{"constraint": "deadline", "from": work.deadline_s, "to": finish * _MARGIN, "why": why}],
    }  # fmt: skip


def _no_deployment(unfit: Sequence[RejectedLayout]) -> dict[str, Any]:
    known = [one for one in unfit if one.weights_bytes and one.budget_bytes]
    fits = [one for one in unfit if one.fits]
    if fits or not known:
        why = "no hardware is left to look at"
        if unfit:
            one = (fits or unfit)[0]
            why = f"{one.hardware.name}: {one.why}"
        return {"constraint": "hardware", "from": None, "to": None, "why": why}
    best = min(known, key=lambda one: (one.weights_bytes or 0.0) / (one.budget_bytes or 1.0))
    where = f"{best.hardware.name}, {best.precision}, {_layout(best.layout)}"
    why = f"nothing fits; nearest to it ({where}): {best.why}. {_LARGER}"
    return {"constraint": "memory", "from": best.budget_bytes, "to": best.weights_bytes, "why": why}


def _layout(layout: dict[str, int]) -> str:
    return " ".join(f"{name}={size}" for name, size in layout.items()) or "one device"


def _beyond_limits(query: Query, drafted: Sequence[CandidateDraft]) -> dict[str, Any]:
    """Every objective can be met, with more devices or money than allowed."""
    priced = [one for one in drafted if cost_per_hour(query, one) is not None]
    relax: list[dict[str, Any]] = []
    fewest = min(drafted, key=lambda one: one.devices)
    nearest = fewest
    if query.max_cost is not None and priced:
        allowed = [one for one in priced if one.devices <= query.devices(one.option.hardware)] or priced
        nearest = min(allowed, key=lambda one: cost_per_hour(query, one) or 0.0)
        cheapest = cost_per_hour(query, nearest) or 0.0
        if cheapest > query.max_cost:
            relax.append({"constraint": "max_cost", "from": query.max_cost, "to": cheapest,
                          "why": f"the cheapest way takes {nearest.devices} x {nearest.option.hardware.name}"})  # fmt: skip
    elif query.max_cost is not None and not any(query.prices.of(one.option.hardware) for one in drafted):
        relax.append(
            {"constraint": "price", "from": None, "to": None, "why": "a limit on cost needs prices, and none is known"}
        )
    if query.max_gpus is not None and fewest.devices > query.max_gpus:
        relax.append({"constraint": "max_gpus", "from": query.max_gpus, "to": fewest.devices,
                      "why": f"the fewest are {fewest.devices} x {fewest.option.hardware.name}"})  # fmt: skip
    if query.inventory is not None and fewest.devices > query.devices(fewest.option.hardware):
        relax.append({"constraint": "inventory", "from": query.devices(fewest.option.hardware), "to": fewest.devices,
                      "why": f"{fewest.devices} x {fewest.option.hardware.name} are needed at the least"})  # fmt: skip
    price = query.prices.of(fewest.option.hardware)
    if price is not None and price.available is not None and fewest.devices > price.available:
        relax.append({"constraint": "offers", "from": price.available, "to": fewest.devices,
                      "why": f"{fewest.devices} x {fewest.option.hardware.name} are needed at the least"})  # fmt: skip
    if query.batch is not None:
        relax += _too_late(query, list({id(one.option): one.option for one in drafted}.values()))["relax"]
    return {"nearest": _of_draft(query, nearest), "relax": relax}


def _of_draft(query: Query, draft: CandidateDraft) -> dict[str, Any]:
    return {
        "hardware": draft.option.hardware.name, "devices": draft.devices, "layout": draft.option.layout,
        "precision": draft.option.precision, "cost_per_hour": cost_per_hour(query, draft),
    }  # fmt: skip


def _too_slow(query: Query, options: Sequence[Option]) -> dict[str, Any]:
    """No deployment meets the objectives, however many replicas there are."""
    option, one, ratios = min(_achieved(query, options), key=lambda each: (max(each[2].values()), sum(each[2].values())))
    relax = []
    for name, ratio in ratios.items():
        if ratio > 1:
            tightest = min(limit for service in query.load.services if (limit := service.objectives.get(name)) is not None)
            deployment = f"{option.hardware.name} with {option.precision} weights and {_layout(option.layout)}"
            why = f"{deployment} reaches it at almost no load"
            relax.append({"constraint": name, "from": tightest, "to": tightest * ratio * _MARGIN, "why": why})
    if not relax:  # each alone can be met, but not both by the same deployment
        relax.append({"constraint": "percentile", "from": max(s.percentile for s in query.load.services), "to": 0.5,
                      "why": "the median request meets the objectives; too few others do"})  # fmt: skip
    limits = {name: min(s.objectives[name] for s in query.load.services if name in s.objectives) for name in ratios}
    return {
        "nearest": {
            "hardware": option.hardware.name, "layout": option.layout, "precision": option.precision,
            **{f"{name}_s": max(limits[name] * ratio * _MARGIN, limits[name]) for name, ratio in ratios.items()},
            "settings": {"max_num_seqs": one.slots, "max_num_batched_tokens": one.budget},
        },
        "relax": relax,
    }  # fmt: skip


def _achieved(query: Query, options: Sequence[Option]) -> list[tuple[Option, SizedReplica, dict[str, float]]]:
    """Every deployment with what it achieves over the objectives: colocated, and in pools of one hardware and precision."""
    achieved = [(option, one, _ratios(query, one)) for option in options if (one := option.sized.get("both")) is not None]
    groups: dict[tuple[str, str], list[Option]] = {}
    for option in options:
        if "prefill" in option.sized:
            groups.setdefault((option.hardware.name, option.precision), []).append(option)
    for group in groups.values():
        prefill = min((_ratios(query, option.sized["prefill"]) for option in group), key=lambda each: sum(each.values()))
        option = min(group, key=lambda each: sum(_ratios(query, each.sized["decode"]).values()))
        decode = _ratios(query, option.sized["decode"])
        achieved.append((option, option.sized["decode"], {name: max(prefill[name], decode[name]) for name in prefill}))
    return achieved


def _ratios(query: Query, one: SizedReplica) -> dict[str, float]:
    """What a replica with almost no load achieves over the objectives."""
    objectives = {name for service in query.load.services for name in service.objectives}
    if query.load.concurrency is None:
        achieved = unloaded(one, query.load)
        return {name: achieved[name] for name in (TTFT, TPOT) if name in objectives}
    alone = closed_loop_performance(one, query.load, 1).performance
    ratios: dict[str, float] = {}
    for service in query.load.services:
        ttft, tpot = alone.classes[service.name]
        for name, times in ((TTFT, ttft), (TPOT, tpot)):
            if (limit := service.objectives.get(name)) is not None:
                ratios[name] = max(ratios.get(name, 0.0), (times.at or float("inf")) / limit)
    return ratios
