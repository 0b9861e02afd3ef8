"""Why there is no answer, and the least that would have to give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.serving.planning.assemble import Draft, cost_per_hour
from roofline.serving.planning.closed import turn
from roofline.serving.planning.load import TPOT, TTFT
from roofline.serving.planning.question import Question
from roofline.serving.planning.search import Option, Unfit
from roofline.serving.planning.sizing import Sized, unloaded

_LARGER = "Allow more or larger devices; a node such as dgx-h100 joins more than its own"
_ABOVE = 1.001
"""A relaxed objective is named a thousandth above what is reached, so that it is met when it is asked for."""


def infeasible(question: Question, found: Sequence[Option], unfit: Sequence[Unfit], drafted: Sequence[Draft]) -> dict[str, Any]:
    """`nearest`: what comes nearest to the question; `relax`: constraints, each with a value that would do."""
    if not found:
        return {"nearest": None, "relax": [_memory(unfit)]}
    if drafted:
        return _too_much(question, drafted)
    return _too_slow(question, found)


def _memory(unfit: Sequence[Unfit]) -> dict[str, Any]:
    known = [one for one in unfit if one.weights_bytes and one.budget_bytes]
    if not known:
        why = f"{unfit[0].hardware.name}: {unfit[0].why}" if unfit else "no hardware is left to look at"
        return {"constraint": "hardware", "from": None, "to": None, "why": why}
    best = min(known, key=lambda one: (one.weights_bytes or 0.0) / (one.budget_bytes or 1.0))
    where = f"{best.hardware.name}, {best.precision}, {_layout(best.layout)}"
    why = f"nothing fits; nearest to it ({where}): {best.why}. {_LARGER}"
    return {"constraint": "memory", "from": best.budget_bytes, "to": best.weights_bytes, "why": why}


def _layout(layout: dict[str, int]) -> str:
    return " ".join(f"{name}={size}" for name, size in layout.items()) or "one device"


def _too_much(question: Question, drafted: Sequence[Draft]) -> dict[str, Any]:
    """Every objective can be met, by more devices or money than there are."""
    priced = [one for one in drafted if cost_per_hour(question, one) is not None]
    relax: list[dict[str, Any]] = []
    fewest = min(drafted, key=lambda one: one.devices)
    nearest = fewest
    if question.max_cost is not None and priced:
        allowed = [one for one in priced if one.devices <= question.devices(one.option.hardware)] or priced
        nearest = min(allowed, key=lambda one: cost_per_hour(question, one) or 0.0)
        cheapest = cost_per_hour(question, nearest) or 0.0
        if cheapest > question.max_cost:
            relax.append({"constraint": "max_cost", "from": question.max_cost, "to": cheapest,
                          "why": f"the cheapest way takes {nearest.devices} x {nearest.option.hardware.name}"})  # fmt: skip
    elif question.max_cost is not None:
        relax.append(
            {"constraint": "price", "from": None, "to": None, "why": "a limit on cost needs prices, and none is known"}
        )
    if question.max_gpus is not None and fewest.devices > question.max_gpus:
        relax.append({"constraint": "max_gpus", "from": question.max_gpus, "to": fewest.devices,
                      "why": f"the fewest are {fewest.devices} x {fewest.option.hardware.name}"})  # fmt: skip
    if question.inventory is not None and fewest.devices > question.devices(fewest.option.hardware):
        relax.append({"constraint": "inventory", "from": question.devices(fewest.option.hardware), "to": fewest.devices,
                      "why": f"{fewest.devices} x {fewest.option.hardware.name} are needed at the least"})  # fmt: skip
    return {"nearest": _of_draft(question, nearest), "relax": relax}


def _of_draft(question: Question, draft: Draft) -> dict[str, Any]:
    return {
        "hardware": draft.option.hardware.name, "devices": draft.devices, "layout": draft.option.layout,
        "precision": draft.option.precision, "cost_per_hour": cost_per_hour(question, draft),
    }  # fmt: skip


def _too_slow(question: Question, found: Sequence[Option]) -> dict[str, Any]:
    """No deployment is quick enough, however many there are."""
    option, one, ratios = min(_reached(question, found), key=lambda each: (max(each[2].values()), sum(each[2].values())))
    relax = []
    for name, ratio in ratios.items():
        if ratio > 1:
            tightest = min(limit for service in question.load.services if (limit := service.objectives.get(name)) is not None)
            why = f"{option.hardware.name}, {option.precision}, {_layout(option.layout)} reaches it with almost no load"
            relax.append({"constraint": name, "from": tightest, "to": tightest * ratio * _ABOVE, "why": why})
    if not relax:  # each alone can be met, and not both by the same
        relax.append({"constraint": "percentile", "from": max(s.percentile for s in question.load.services), "to": 0.5,
                      "why": "the objectives are met by the median, and not by so many"})  # fmt: skip
    limits = {name: min(s.objectives[name] for s in question.load.services if name in s.objectives) for name in ratios}
    return {
        "nearest": {
            "hardware": option.hardware.name, "layout": option.layout, "precision": option.precision,
            **{f"{name}_s": max(limits[name] * ratio * _ABOVE, limits[name]) for name, ratio in ratios.items()},
            "settings": {"max_num_seqs": one.slots, "max_num_batched_tokens": one.budget},
        },
        "relax": relax,
    }  # fmt: skip


def _reached(question: Question, found: Sequence[Option]) -> list[tuple[Option, Sized, dict[str, float]]]:
    """What every deployment reaches over what is asked for: colocated, and on pools of one hardware and precision."""
    reached = [(option, one, _ratios(question, one)) for option in found if (one := option.sized.get("both")) is not None]
    groups: dict[tuple[str, str], list[Option]] = {}
    for option in found:
        if "prefill" in option.sized:
            groups.setdefault((option.hardware.name, option.precision), []).append(option)
    for options in groups.values():
        first = min((_ratios(question, option.sized["prefill"]) for option in options), key=lambda each: sum(each.values()))
        option = min(options, key=lambda each: sum(_ratios(question, each.sized["decode"]).values()))
        later = _ratios(question, option.sized["decode"])
        reached.append((option, option.sized["decode"], {name: max(first[name], later[name]) for name in first}))
    return reached


def _ratios(question: Question, one: Sized) -> dict[str, float]:
    """What is reached over what is asked for."""
    asked = {name for service in question.load.services for name in service.objectives}
    if question.load.concurrency is None:
        reached = unloaded(one, question.load)
        return {name: reached[name] for name in (TTFT, TPOT) if name in asked}
    alone = turn(one, question.load, 1).expected
    found: dict[str, float] = {}
    for service in question.load.services:
        ttft, tpot = alone.classes[service.name]
        for name, times in ((TTFT, ttft), (TPOT, tpot)):
            if (limit := service.objectives.get(name)) is not None:
                found[name] = max(found.get(name, 0.0), (times.at or float("inf")) / limit)
    return found
