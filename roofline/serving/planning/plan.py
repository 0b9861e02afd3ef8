"""`plan`: a traffic, its objectives and a budget, to deployments that serve it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.errors import InputError, UnknownNameError
from roofline.files import is_folder
from roofline.formatting import percent
from roofline.numeric import pareto_front
from roofline.predict.flags import COUNTS
from roofline.predict.options import ALIASES
from roofline.predict.request import Request
from roofline.serving.planning.assemble import Draft, candidate, cost_per_hour, drafts
from roofline.serving.planning.candidate import Candidate
from roofline.serving.planning.infeasible import infeasible
from roofline.serving.planning.inventory import parse_inventory
from roofline.serving.planning.load import BURSTIEST, Load
from roofline.serving.planning.prices import Prices, load_prices
from roofline.serving.planning.question import MODES, RANKS, Mode, Question
from roofline.serving.planning.rank import order
from roofline.serving.planning.result import Plan
from roofline.serving.planning.search import Option, Unfit, options
from roofline.serving.planning.sizing import UTILISATION
from roofline.serving.planning.stands_on import stands_on
from roofline.serving.traffic.build import load_traffic, single
from roofline.serving.traffic.classes import Traffic
from roofline.specs.assumption import Assumption
from roofline.specs.hardware import Hardware
from roofline.specs.library import Input, ids, load_hardware
from roofline.units import parse_count

TRAFFIC = (
    "rate", "concurrency", "input_len", "output_len", "trace", "ttft", "tpot", "percentile", "prefix_hit", "burstiness",
    "peak_factor", "profile",
)  # fmt: skip
_BURSTY = 1.2
# Options of `analyze` that say what is run: here the traffic does.
_WORKLOAD = ("batch", "context", "segments", "phase", "ignore_capacity")


def plan(
    model: str | PathLike[str] | Model,
    *,
    hardware: str | Hardware | Iterable[str | Hardware] | None = None,
    traffic: str | PathLike[str] | Traffic | None = None,
    price: str | PathLike[str] | None = None,
    inventory: str | dict[str, int] | None = None,
    max_gpus: int | str | None = None,
    max_cost: float | str | None = None,
    spare: int | str | None = None,
    rank: str | None = None,
    mode: str | None = None,
    pue: float | str | None = None,
    top: int | str | None = None,
    skip_bad_rows: bool = False,
    **options_given: Any,
) -> Plan:
    """Deployments that serve a traffic within its objectives, best first.

    Args:
        model: a shipped id, the path of a file, or a loaded model.
        hardware: ids of accelerators or nodes; None: those whose kernels were measured and whose price is known.
        traffic: a file of classes of requests, or what `roofline.serving.traffic` made of one; else the options of one class:
            `rate` (requests/s) or `concurrency`, `input_len`, `output_len` (distributions) or `trace`, `ttft`, `tpot`
            (seconds, or texts with a unit), `percentile`, `prefix_hit`, `burstiness`, `peak_factor`, `profile`.
        price: a file of prices; where it has none, the shipped ranges are used.
        inventory: accelerators that are there, such as `h100-sxm=16,l40s=8`.
        max_gpus: the most accelerators.
        max_cost: the most that an hour may cost, in the prices' currency.
        spare: replicas (of each pool) beyond those that the objectives need.
        rank: `cost`, `gpus` or `latency`.
        mode: `colocated`, `disaggregated` (prompts and answers on servers of their own) or `any`.
        pue: energy of the building over that of its machines, for the bound on energy.
        top: candidates to tell of; those of the Pareto front come on top of it.
        skip_bad_rows: leave broken rows of a trace out.
        **options_given: those of `roofline analyze` that describe the deployment: what is given is not searched.

    Returns:
        The result, in base units; `.to_dict()` has the layout of `roofline plan --json`.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, a file that is not what it should be.
    """
    question = resolve(
        model, hardware, traffic=traffic, price=price, inventory=inventory, max_gpus=max_gpus, max_cost=max_cost, spare=spare,
        rank=rank, mode=mode, pue=pue, top=top, skip_bad_rows=skip_bad_rows, given=options_given,
    )  # fmt: skip
    return answer(question)


def answer(question: Question) -> Plan:
    """The plan of a resolved question."""
    found: list[Option] = []
    unfit: list[Unfit] = []
    for option in options(question):
        (found if isinstance(option, Option) else unfit).append(option)  # type: ignore[arg-type]
    if not found and (wrong := [one.error for one in unfit if one.error is not None]) and len(wrong) == len(unfit):
        raise wrong[0]  # nothing was ever looked at: what was given is wrong
    drafted = drafts(question, found)
    within = [one for one in drafted if _affordable(question, one)]
    ranked = order(question, within)
    chosen = list(range(min(question.top, len(ranked))))
    best = pareto_front([measures for _, measures in ranked])
    chosen = sorted({*chosen, *best})
    candidates = tuple(candidate(question, ranked[index][0]) for index in chosen)
    first = ranked[0][0].parts[-1][1].replica.request if ranked else None
    return told(
        question,
        candidates,
        first,
        pareto=tuple(chosen.index(index) for index in best),
        infeasible=None if candidates else infeasible(question, found, unfit, drafted),
        considered={
            "deployments": len(found) + len(unfit),
            "fit": len(found),
            "meet": len(drafted),
            "within_limits": len(within),
        },
        refused=tuple(
            {"hardware": one.hardware.name, "precision": one.precision, "layout": one.layout, "why": one.why} for one in unfit
        ),
    )


def told(question: Question, candidates: tuple[Candidate, ...], first: Request | None, **found: Any) -> Plan:
    """Candidates with the question that they answer, and what the first stands on; `found` are the other keys of a plan."""
    below = () if first is None else stands_on(first, question.load)
    return Plan(
        inputs=_inputs(question),
        model={"name": question.model.name, "source": [one.url or one.title for one in question.model.sources.values()]},
        traffic=_traffic(question),
        limits={
            "max_gpus": question.max_gpus, "max_cost": question.max_cost, "inventory": question.inventory,
            "spare": question.spare, "modes": list(question.modes),
        },
        rank=question.rank,
        candidates=candidates,
        assumptions=(*_assumptions(question, candidates), *below),
        **found,
    )  # fmt: skip


def _affordable(question: Question, draft: Draft) -> bool:
    if draft.devices > question.devices(draft.option.hardware):
        return False
    cost = cost_per_hour(question, draft)
    return question.max_cost is None or (cost is not None and cost <= question.max_cost)


def resolve(
    model: Any, hardware: Any, *, traffic: Any, price: Any, inventory: Any, max_gpus: Any, max_cost: Any, spare: Any, rank: Any,
    mode: Any, pue: Any, top: Any, skip_bad_rows: bool, given: dict[str, Any],
) -> Question:  # fmt: skip
    """The options of `plan` as a question with nothing left open; `given`: those of the deployment and of one class."""
    fixed = {ALIASES.get(name, name): value for name, value in given.items() if value is not None and value is not False}
    for name in fixed.keys() & COUNTS.keys():
        fixed[name] = parse_count(fixed[name], name.replace("_", "-"), minimum=1)
    if clash := [name for name in _WORKLOAD if name in fixed]:
        raise InputError(f"--{clash[0].replace('_', '-')} is no option of plan: the traffic says what is run")
    inputs: list[Input] = []
    if not isinstance(model, Model):
        model, read = load_model(model, fixed.pop("assume", None))
        inputs.append(read)
    words = {name: fixed.pop(name, None) for name in TRAFFIC}
    asked = _load(traffic, words, skip_bad_rows)
    prices = load_prices(price)
    stock = parse_inventory(inventory) if isinstance(inventory, str) else inventory
    devices, files = _hardware(hardware, prices, stock)
    load = Load.of(asked)
    _check_lengths(model, load, fixed)
    return Question(
        model=model,
        traffic=asked,
        load=load,
        hardware=devices,
        fixed=fixed,
        prices=prices,
        inputs=(*inputs, *files, *asked.inputs, *prices.inputs),
        rank=_named("rank", rank, RANKS, "cost"),
        modes=_modes(mode),
        spare=0 if spare is None else parse_count(spare, "spare", minimum=0),
        max_gpus=None if max_gpus is None else parse_count(max_gpus, "max-gpus", minimum=1),
        max_cost=None if max_cost is None else _positive("max-cost", max_cost, "an amount an hour in the prices' currency"),
        inventory=stock,
        pue=1.0 if pue is None else _positive("pue", pue, "1 or more", least=1.0),
        top=10 if top is None else parse_count(top, "top", minimum=1),
    )


def _load(traffic: Any, words: dict[str, Any], skip_bad_rows: bool) -> Traffic:
    given = [name for name, value in words.items() if value is not None]
    if traffic is None:
        return single(**words, skip_bad_rows=skip_bad_rows)
    if given:
        raise InputError(f"--traffic says what comes: leave out --{given[0].replace('_', '-')}")
    return traffic if isinstance(traffic, Traffic) else load_traffic(Path(traffic), skip_bad_rows=skip_bad_rows)


def _hardware(given: Any, prices: Prices, stock: dict[str, int] | None) -> tuple[tuple[Hardware, ...], list[Input]]:
    names: list[Any] = []
    if given is None:
        names = list(stock) if stock else _usual(prices)
    elif isinstance(given, str | Hardware | PathLike):
        names = [given]
    else:
        names = list(given)
    parts: list[Any] = []
    for name in names:
        parts += [part.strip() for part in name.split(",") if part.strip()] if isinstance(name, str) else [name]
    if not parts:
        raise InputError("--hardware names nothing: give ids such as h100-sxm, separated by commas")
    found: dict[str, Hardware] = {}
    files: list[Input] = []
    for part in parts:
        one, read = (part, []) if isinstance(part, Hardware) else load_hardware(part)
        if one.name not in found:
            found[one.name] = one
            files += read
    return tuple(found.values()), files


def _usual(prices: Prices) -> list[str]:
    """Accelerators whose kernels were measured, and whose price is known."""
    from roofline.specs.library import shipped

    measured = {folder.name for folder in (shipped("hardware") / "fits").iterdir() if is_folder(folder)}
    return [name for name in ids("hardware") if name in measured and name in prices.names]


def _check_lengths(model: Model, load: Load, fixed: dict[str, Any]) -> None:
    """Requests that no deployment of the model could serve."""
    most = int(fixed.get("max_model_len") or model.max_position_embeddings)
    what = "--max-model-len" if fixed.get("max_model_len") else f"the {most:,} tokens that {model.name} was made for"
    shortest = min(int(s.mix.prompts.min() + s.mix.outputs.min()) for s in load.services)
    mean = load.mean_input + load.mean_output
    if shortest > most or mean > most:
        tokens = shortest if shortest > most else round(mean)
        where = "every request has" if shortest > most else "the mean request has"
        raise InputError(f"{where} {tokens:,} tokens or more, beyond {what}")


def _modes(mode: Any) -> tuple[Mode, ...]:
    name = _named("mode", mode, MODES, "any")
    return ("colocated", "disaggregated") if name == "any" else (name,)


def _named(what: str, value: Any, allowed: Sequence[str], default: str) -> Any:
    if value is None:
        return default
    if value not in allowed:
        raise UnknownNameError(what, str(value), allowed, list_all=True)
    return value


def _positive(what: str, value: Any, allowed: str, least: float = 0.0) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (number > 0 and number >= least and number < math.inf):
        raise InputError(f"--{what} must be {allowed}, more than 0 and finite, not {value}")
    return number


def _inputs(question: Question) -> dict[str, Any]:
    """Every file, under its role; of several in one role the later ones under role and name."""
    found: dict[str, Any] = {}
    for entry in dict.fromkeys(question.inputs):
        key = entry.role if entry.role not in found else f"{entry.role}.{entry.name}"
        found[key] = {"name": entry.name, "path": entry.path, "sha256": entry.sha256}
    return found


def _traffic(question: Question) -> dict[str, Any]:
    traffic, load = question.traffic, question.load
    return {
        "rate": load.rate,
        "mean_rate": load.mean_rate,
        "concurrency": load.concurrency,
        "peak_factor": traffic.peak_factor,
        "profile": None if traffic.profile is None else list(traffic.profile.factors),
        "classes": [
            {
                "name": one.name, "rate": one.rate, "concurrency": one.concurrency, "input_len": str(one.input_len),
                "output_len": str(one.output_len), "mean_input": one.input_len.mean, "mean_output": one.output_len.mean,
                "ttft_s": one.ttft, "tpot_s": one.tpot, "percentile": one.percentile, "prefix_hit": one.prefix_hit,
                "burstiness": one.burstiness,
            }
            for one in traffic.classes
        ],
    }  # fmt: skip


def _assumptions(question: Question, candidates: Sequence[Any]) -> Iterable[Assumption]:
    yield from question.traffic.assumptions
    load = question.load
    if load.concurrency is None:
        yield Assumption(
            "queueing", "processor sharing with prompt cycles", "default",
            "approximation, docs/capacity.md has its errors; no replica is planned beyond "
            f"{percent(UTILISATION, 0)} of the rate that saturates it",
        )  # fmt: skip
        if load.burstiness > _BURSTY:
            used = "" if load.burstiness <= BURSTIEST else f"; waits are computed with {BURSTIEST:g}"
            why = f"arrivals beyond {_BURSTY:g} are bursts that the approximation does not hold for{used}: simulate the traffic"
            yield Assumption("burstiness", load.burstiness, "given", why)
    else:
        yield Assumption("closed loop", load.concurrency, "given",
                         "TTFT is decided by how the clients start and how equal their lengths are; TPOT is not")  # fmt: skip
    yield Assumption("memory", "mean lengths", "default",
                     "slots are as many requests of mean length, each at its last token, as memory holds")  # fmt: skip
    if any(service.mix.hit for service in load.services):
        yield Assumption("prefix_hit", max(s.mix.hit for s in load.services), "given",
                         "the same share of every prompt is cached; its memory is counted for each request")  # fmt: skip
    devices = {one.name: one for one in question.hardware}
    priced = {name: price for name in {one.hardware for one in candidates} if (price := question.prices.of(devices[name]))}
    for hardware, price in sorted(priced.items()):
        spread = f" ({price.low:g} to {price.high:g})" if price.low < price.high else ""
        value = f"{price.value:g} {price.currency}/h{spread}"
        yield Assumption(f"price.{hardware}", value, "given" if price.origin == "given" else "assumed", price.describe())
    if any(one.power.watts is not None for one in candidates):
        yield Assumption("power", "TDP", "default", "an upper bound: every device draws its TDP all the time, times the PUE "
                         f"of {question.pue:g}")  # fmt: skip
