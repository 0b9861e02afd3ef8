"""`plan`: from traffic, objectives, limits and the devices that one has to deployments that serve it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Unpack

from pydantic import Field

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.errors import InputError, UnknownNameError
from roofline.files import is_folder
from roofline.formatting import percent
from roofline.numeric import pareto_front
from roofline.predict.analyze import estimate_notes
from roofline.predict.options import ALIASES, DEPLOYMENT, SPECULATION, SpeculationOptions, keywords
from roofline.predict.request import COUNTS, ResolvedRequest
from roofline.serving.options import PLAN, ObjectiveOptions, PlanOptions, RequestClassOptions
from roofline.serving.planning.candidates import (
    CandidateDraft,
    Ranked,
    candidate,
    cost_per_hour,
    drafts,
    order,
    typical_steps,
)  # fmt: skip
from roofline.serving.planning.infeasible import infeasible
from roofline.serving.planning.load import (
    BURSTIEST,
    MARGIN,
    MAX_FRONT_COST,
    MAX_SIMULATED,
    MODES,
    RANKS,
    SIMULATED,
    BatchWork,
    Load,
    Mode,
    Query,
)
from roofline.serving.planning.result import Candidate, Plan, Simulated
from roofline.serving.planning.search import Option, RejectedLayout, search
from roofline.serving.planning.sizing import UTILISATION
from roofline.serving.simulation.autoscaling import start_up as time_of_start
from roofline.serving.simulation.settings import parse_delay
from roofline.serving.traffic.build import load_traffic, single
from roofline.serving.traffic.classes import Traffic
from roofline.serving.traffic.scalars import parse_seconds, parse_share
from roofline.specs.base import Scalar, Spec
from roofline.specs.hardware import Hardware
from roofline.specs.library import Input, ids, load_hardware, shipped, split_count
from roofline.specs.prices import Prices, load_prices
from roofline.specs.source import Assumption
from roofline.specs.yaml_file import SectionErrors, read_yaml, with_section
from roofline.text import clean
from roofline.units import parse_count

_EXAMPLE = "h100-sxm=16,a100-sxm-80gb=8"


class InventoryFile(Spec):
    """The keys of a file of inventory."""

    schema_version: Literal[1] = 1
    kind: Literal["inventory"] = "inventory"
    inventory: dict[str, Scalar] = Field(description="number available, by accelerator or node")


def parse_inventory(text: str) -> dict[str, int]:
    """Parse an inventory: the number of available accelerators by id of hardware.

    The number of a node counts nodes: `dgx-h100=2` is {"dgx-h100": 16}, in accelerators.

    Args:
        text: such as `h100-sxm=16,a100-sxm-80gb=8`, or the path of a YAML file of ids and numbers.

    Raises:
        InputError: an unknown or ambiguous id, a duplicate, an invalid number.
        SpecError: one of these in a file, with its place; an empty file.

    >>> parse_inventory("h100-sxm=16, dgx-h100=2")
    {'h100-sxm': 16, 'dgx-h100': 16}
    """
    stripped = text.strip()
    if "=" not in stripped and Path(stripped).suffix.lower() in (".yaml", ".yml"):
        return _file(Path(stripped).expanduser())
    accelerators: dict[str, int] = {}
    for part in stripped.split(","):
        name, equals, count = (piece.strip() for piece in part.partition("="))
        if not name or not equals or not count:
            raise InputError(f"cannot read {stripped[:60]!r} as inventory: write ID=COUNT, such as {_EXAMPLE}, or a .yaml file")
        _add(accelerators, name, count)
    return accelerators


def _file(path: Path) -> dict[str, int]:
    file = with_section(read_yaml(path), "inventory", InventoryFile)
    entries = file.validate(InventoryFile).inventory
    if not entries:
        raise SectionErrors(file)("inventory", "at least one accelerator is needed, such as h100-sxm: 16")
    accelerators: dict[str, int] = {}
    for name, count in entries.items():
        try:
            _add(accelerators, name, count)
        except InputError as error:
            raise SectionErrors(file)(("inventory", name), str(error)) from None
    return accelerators


def _add(accelerators: dict[str, int], name: str, count: str) -> None:
    number = parse_count(count, f"the number of {clean(name)}", minimum=1)
    hardware, _ = load_hardware(name)
    if hardware.name in accelerators:
        raise InputError(f"{hardware.name} is there twice: write it once, with the total")
    accelerators[hardware.name] = number * (hardware.node.count if hardware.node else 1)


TRAFFIC = (*RequestClassOptions.__annotations__, *ObjectiveOptions.__annotations__)
"""Options of one class of requests, instead of a file of traffic."""
_BURSTY = 1.2
# Options of `analyze` that describe the workload: here the traffic does.
_WORKLOAD = ("batch", "context", "segments", "phase", "ignore_capacity")
_CHOSEN = ("batch", "input_len", "context", "max_num_seqs", "max_num_batched_tokens")
"""Assumptions that a plan replaces by its own choices and the traffic."""


@keywords(*DEPLOYMENT, SPECULATION, first=(PLAN[name] for name in TRAFFIC))
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
    rank: Literal["cost", "token-cost", "gpus", "latency"] | None = None,
    mode: Literal["colocated", "disaggregated", "any"] | None = None,
    pue: float | str | None = None,
    start_up: float | str | None = None,
    top: int | str | None = None,
    tokens: int | str | None = None,
    deadline: float | str | None = None,
    allow_disaggregated: float | str | None = None,
    simulate: bool = False,
    simulate_top: int | str | None = None,
    attention_dp_balance: bool = False,
    fp8_kv_cache: bool = False,
    skip_bad_rows: bool = False,
    **options: Unpack[PlanOptions],
) -> Plan:
    """Find deployments that serve traffic within its objectives, best first.

    Args:
        model: a shipped id, the path of a file, or a loaded model.
        hardware: ids of accelerators or nodes; None: those with measured kernels and a known price.
        traffic: a file of classes of requests, or loaded traffic; else the options of one class:
            `rate` (requests/s) or `concurrency`, `input_len`, `output_len` (distributions) or `trace`, `ttft`, `tpot`
            (seconds, or texts with a unit), `percentile`, `prefix_hit`, `cached_prefix`, `system_prompt`,
            `system_prompts`, `turns`, `think`, `burstiness`, `peak_factor`, `profile`.
        price: a file of prices; the shipped ranges are used for hardware that it lacks.
        inventory: available accelerators, such as `h100-sxm=16,l40s=8`.
        max_gpus: maximum number of accelerators.
        max_cost: maximum cost per hour, in the currency of the prices.
        spare: replicas (of each pool) beyond those that the objectives need.
        rank: `cost` (per hour; default at a rate), `token-cost` (default with clients), `gpus` or `latency`.
        mode: `colocated`, `disaggregated` (prefill and decode on separate servers) or `any`.
        pue: energy of the building over that of its machines (at least 1), for the bound on energy.
        start_up: seconds, or a text such as `2 min`, from the request for a replica until it serves, for the cost of a fleet
            that follows a `profile`; default: its weights at 1.55 GB/s, and 30 s.
        top: number of candidates to return; those of the Pareto front are added.
        tokens: offline batch work: output tokens to generate (prompts are not counted); instead of `rate` and `concurrency`.
        deadline: seconds, or a text such as `12 h`, in which they have to be done.
        allow_disaggregated: how much cheaper than the best colocated deployment, as a fraction, prefill and decode pools have
            to be (default 0.1); 0: as soon as they are.
        simulate: simulate the first candidates, and rank them again.
        simulate_top: how many (default 3); implies `simulate`.
        attention_dp_balance: prompts are held until every data-parallel rank can start one, for at most 50 steps.
        fp8_kv_cache: try a cache in fp8 too, where the model or checkpoint does not ask for one.
        skip_bad_rows: leave broken rows of a trace out.
        **options: those of `roofline analyze` that describe the deployment, and speculative decoding: what is given is not
            searched.

    Returns:
        The result, in base units; `.to_dict()` has the layout of `roofline plan --json`.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, a file that is not what it should be.
    """
    query = resolve(
        model, hardware, traffic=traffic, price=price, inventory=inventory, max_gpus=max_gpus, max_cost=max_cost, spare=spare,
        rank=rank, mode=mode, pue=pue, top=top, skip_bad_rows=skip_bad_rows, options={**options}, tokens=tokens,
        deadline=deadline, margin=allow_disaggregated, simulate_top=_simulated(simulate, simulate_top),
    )  # fmt: skip
    if fp8_kv_cache and query.fixed.get("kv_cache_dtype") is not None:
        raise InputError("--kv-cache-dtype fixes the data type of the KV cache: leave out --fp8-kv-cache")
    if query.batch is not None and any(query.fixed.get(name) is not None for name in SpeculationOptions.__annotations__):
        raise InputError("--tokens: offline batch work is not planned with speculative decoding; leave one of them out")
    if start_up is not None:
        if query.traffic.profile is None:
            raise InputError("--start-up is of a fleet that follows a profile: give --profile too")
        try:
            query = replace(query, start_up=parse_delay(start_up))
        except InputError as error:
            raise InputError(f"--start-up: {error}") from None
    return _run(replace(query, attention_dp_balance=attention_dp_balance, fp8_kv_cache=fp8_kv_cache))


def _run(query: Query) -> Plan:
    """Compute the plan of a resolved query."""
    options: list[Option] = []
    unfit: list[RejectedLayout] = []
    for option in search(query):
        (options if isinstance(option, Option) else unfit).append(option)  # type: ignore[arg-type]
    if not options and (wrong := [one.error for one in unfit if one.error is not None]) and len(wrong) == len(unfit):
        raise wrong[0]  # nothing was searched: a given option is wrong
    drafted = drafts(query, options)
    within = [one for one in drafted if _within_limits(query, one)]
    ranked, passed_over = _without_pools(query, order(query, within))
    simulated: dict[int, Simulated] = {}
    simulation = None
    if query.simulate_top:
        from roofline.serving.planning.simulated import (
            simulate_first,  # only where it is used: the simulator takes time to load
        )

        ranked, simulated, simulation = simulate_first(query, ranked)
    chosen = list(range(min(query.top, len(ranked))))
    most = MAX_FRONT_COST * min((one.measures[0] for one in ranked), default=0.0)
    missed = {key for key, one in simulated.items() if one.holds is False}
    able = [index for index, one in enumerate(ranked) if id(one.draft) not in missed]
    front = [able[index] for index in pareto_front([ranked[index].measures for index in able])]
    best = [index for index in front if ranked[index].measures[0] <= most]
    chosen = sorted({*chosen, *best})
    candidates = tuple(
        replace(candidate(query, ranked[index].draft), simulated=simulated.get(id(ranked[index].draft))) for index in chosen
    )
    first = ranked[0].draft.pools[-1].sized.replica.request if ranked else None
    return assemble(
        query,
        candidates,
        first,
        pareto=tuple(chosen.index(index) for index in best),
        passed_over=passed_over,
        simulation=simulation,
        infeasible=None if candidates else infeasible(query, options, unfit, drafted),
        considered={
            "deployments": len(options) + len(unfit),
            "fit": len(options),
            "meet": len(drafted),
            "within_limits": len(within),
        },
        refused=tuple(
            {"hardware": one.hardware.name, "precision": one.precision, "layout": one.layout, "why": one.why} for one in unfit
        ),
    )


def _without_pools(query: Query, ranked: list[Ranked]) -> tuple[list[Ranked], tuple[dict[str, Any], ...]]:
    """Leave out prefill and decode pools that are not better than the best colocated deployment by the margin.

    Two pools have more that can fail, and more to tune, than one: a small saving is not worth it, and within the error.
    """
    best = next((one for one in ranked if len(one.draft.pools) == 1), None)
    if best is None or not query.margin:
        return ranked, ()
    most = best.value * (1 - query.margin) * (1 + 1e-9)
    left: list[Ranked] = []
    passed_over: list[dict[str, Any]] = []
    for one in ranked:
        if len(one.draft.pools) == 1 or one.value < most:
            left.append(one)
            continue
        saves = 1 - one.value / best.value
        passed_over.append(
            {
                "mode": "disaggregated", "hardware": one.draft.option.hardware.name, "precision": one.draft.option.precision,
                "devices": one.draft.devices, "cost_per_hour": cost_per_hour(query, one.draft),
                "pools": [
                    {"role": pool.role, "replicas": pool.replicas + one.draft.spare, "layout": pool.option.layout}
                    for pool in one.draft.pools
                ],
                "saves": saves, "margin": query.margin,
                "why": f"{_better(saves)} the best colocated deployment by {query.rank}; at least "
                f"{percent(query.margin, digits=3)} better is needed",
            }
        )  # fmt: skip
    return left, tuple(passed_over)


def _better(saves: float) -> str:
    if abs(saves) < 5e-4:
        return "no better than"
    return f"{percent(abs(saves), digits=3)} {'better' if saves > 0 else 'worse'} than"


def assemble(query: Query, candidates: tuple[Candidate, ...], first: ResolvedRequest | None, **others: Any) -> Plan:
    """Assemble a plan from candidates and their query.

    Args:
        query: the query.
        candidates: best first.
        first: the first one's deployment, whose assumptions are listed.
        **others: the other fields of the plan.
    """
    below = () if first is None else _provenance(first, query)
    return Plan(
        inputs=_inputs(query, () if first is None else (entry for entry in first.inputs if entry.role == "draft")),
        model={
            "name": query.model.name, "title": query.model.title,
            "source": [one.url or one.title for one in query.model.sources.values()],
        },
        traffic=_traffic(query),
        limits={
            "max_gpus": query.max_gpus, "max_cost": query.max_cost, "inventory": query.inventory,
            "spare": query.spare, "modes": list(query.modes),
            "allow_disaggregated": query.margin if len(query.modes) > 1 else None,
        },
        rank=query.rank,
        candidates=candidates,
        assumptions=(*_assumptions(query, candidates), *below),
        **others,
    )  # fmt: skip


def _within_limits(query: Query, draft: CandidateDraft) -> bool:
    if draft.devices > query.devices(draft.option.hardware):
        return False
    cost = cost_per_hour(query, draft)
    return query.max_cost is None or (cost is not None and cost <= query.max_cost)


def resolve(
    model: Any, hardware: Any, *, traffic: Any, price: Any, inventory: Any, max_gpus: Any, max_cost: Any, spare: Any, rank: Any,
    mode: Any, pue: Any, top: Any, skip_bad_rows: bool, options: dict[str, Any], tokens: Any = None, deadline: Any = None,
    margin: Any = None, simulate_top: int = 0,
) -> Query:  # fmt: skip
    """Resolve the options of `plan` into a query.

    The parameters are those of `plan`; `options` has those of the deployment and of one class of requests, by name.

    Raises:
        InputError: an option that plans do not have, a wrong value, requests longer than the model allows.
        SpecError: an invalid file.
    """
    options = dict(options)
    for name in PLAN["max_gpus"].aliases:  # devices of the plan, and not of one replica, as elsewhere
        if (number := options.pop(name, None)) is not None:
            if max_gpus is not None:
                raise InputError(f"{name} and max_gpus are the same option: give one of them")
            max_gpus = number
    fixed = {ALIASES.get(name, name): value for name, value in options.items() if value is not None and value is not False}
    for name in fixed.keys() & COUNTS.keys():
        fixed[name] = parse_count(fixed[name], name.replace("_", "-"), minimum=1)
    if clash := [name for name in _WORKLOAD if name in fixed]:
        raise InputError(f"--{clash[0].replace('_', '-')} is no option of plan: the traffic says what is run")
    inputs: list[Input] = []
    if not isinstance(model, Model):
        model, read = load_model(model, fixed.pop("assume", None))
        inputs.append(read)
    of_class = {name: fixed.pop(name, None) for name in TRAFFIC}
    modes, batch = _modes(mode), None
    if tokens is None and deadline is None:
        resolved = _traffic_of(traffic, of_class, skip_bad_rows)
    else:
        resolved, batch = _batch_work(tokens, deadline, traffic, of_class, modes, skip_bad_rows)
    prices = load_prices(price)
    stock = parse_inventory(inventory) if isinstance(inventory, str) else inventory
    devices, files, counts = _hardware(hardware, prices, stock)
    if counts:
        if stock is not None or len(counts) < len(devices):
            either = "--inventory" if stock is not None else "hardware without one"
            raise InputError(f"a number of devices in --hardware and {either} do not go together: say how many of each, once")
        stock = counts
    load = Load.of(resolved)
    modes = _modes_of(load, modes)
    _check_lengths(model, load, fixed)
    return Query(
        model=model,
        traffic=resolved,
        load=load,
        hardware=devices,
        fixed=fixed,
        prices=prices,
        inputs=(*inputs, *files, *resolved.inputs, *prices.inputs),
        rank=_named("rank", rank, RANKS, "cost" if load.concurrency is None else "token-cost"),
        modes=modes if batch is None else ("colocated",),
        spare=0 if spare is None else parse_count(spare, "spare", minimum=0),
        max_gpus=None if max_gpus is None else parse_count(max_gpus, "max-gpus", minimum=1),
        max_cost=None if max_cost is None else _positive("max-cost", max_cost, "an amount per hour in the prices' currency"),
        inventory=stock,
        pue=1.0 if pue is None else _positive("pue", pue, "1 or more", least=1.0),
        top=10 if top is None else parse_count(top, "top", minimum=1),
        batch=batch,
        margin=MARGIN if margin is None else _margin(margin, modes),
        simulate_top=simulate_top,
    )


_NOT_OF_BATCH = {
    "rate": "batch work is all there at once",
    "concurrency": "a replica runs as many sequences as memory holds; --max-num-seqs limits them",
    "ttft": "the first token of batch work waits for a slot, until the deadline at worst; --tpot is an objective",
    "peak_factor": "batch work has no peak",
    "profile": "batch work has no day",
    "burstiness": "batch work is all there at once",
}
"""Options of requests that come over time, and why offline batch work has none."""


def _batch_work(
    tokens: Any, deadline: Any, traffic: Any, options: dict[str, Any], modes: tuple[Mode, ...], skip_bad_rows: bool
) -> tuple[Traffic, BatchWork]:
    """Offline batch work, and its requests as traffic of as many clients."""
    if tokens is None or deadline is None:
        missing, given = ("tokens", "deadline") if tokens is None else ("deadline", "tokens")
        raise InputError(f"--{given} needs --{missing}: that many output tokens have to be done by then")
    if traffic is not None:
        raise InputError("--tokens is of one class of requests: give --input-len and --output-len, or a --trace, not --traffic")
    for name, why in _NOT_OF_BATCH.items():
        if options.get(name) is not None:
            raise InputError(f"--tokens and --{name.replace('_', '-')} do not go together: {why}")
    if "colocated" not in modes:
        raise InputError("--tokens and --mode disaggregated do not go together: batch work is planned on colocated replicas")
    number = parse_count(tokens, "tokens", minimum=1)
    try:
        seconds = parse_seconds(deadline)
    except InputError as error:
        raise InputError(f"--deadline: {error}") from None
    one = single(**{**options, "concurrency": 1}, skip_bad_rows=skip_bad_rows)
    requests = max(math.ceil(number / one.classes[0].output_len.mean - 1e-9), 1)
    classes = (replace(one.classes[0], concurrency=requests),)
    return replace(one, classes=classes), BatchWork(number, requests, seconds)


def _margin(value: Any, modes: tuple[Mode, ...]) -> float:
    if len(modes) == 1:
        raise InputError(f"--allow-disaggregated compares both modes, and --mode {modes[0]} has one: leave one of them out")
    try:
        return parse_share(value)
    except InputError as error:
        raise InputError(f"--allow-disaggregated: {error}") from None


def _simulated(simulate: bool, top: Any) -> int:
    """Number of candidates to simulate."""
    if top is None:
        return SIMULATED if simulate else 0
    number = parse_count(top, "simulate-top", minimum=1)
    if number > MAX_SIMULATED:
        raise InputError(f"--simulate-top must be at most {MAX_SIMULATED}, not {number:,}")
    return number


def _traffic_of(traffic: Any, options: dict[str, Any], skip_bad_rows: bool) -> Traffic:
    if traffic is None:
        return single(**options, skip_bad_rows=skip_bad_rows)
    if clash := [name for name, value in options.items() if value is not None]:
        raise InputError(f"--traffic says what comes: leave out --{clash[0].replace('_', '-')}")
    return traffic if isinstance(traffic, Traffic) else load_traffic(Path(traffic), skip_bad_rows=skip_bad_rows)


def _hardware(
    hardware: Any, prices: Prices, stock: dict[str, int] | None
) -> tuple[tuple[Hardware, ...], list[Input], dict[str, int]]:
    """The hardware to search, the files that it was read from, and the accelerators of what has a number (`8xh100-sxm`)."""
    listed: list[Any] = []
    if hardware is None:
        listed = list(stock) if stock else _default_hardware(prices)
    else:
        listed = [hardware] if isinstance(hardware, str | Hardware | PathLike) else list(hardware)
    names: list[Any] = []
    for name in listed:
        names += [part.strip() for part in name.split(",") if part.strip()] if isinstance(name, str) else [name]
    if not names:
        raise InputError("--hardware names nothing: give ids such as h100-sxm, separated by commas")
    by_name: dict[str, Hardware] = {}
    files: list[Input] = []
    counts: dict[str, int] = {}
    for name in names:
        count, single = split_count(name)
        one, read = (name, []) if isinstance(name, Hardware) else load_hardware(single)
        if one.name not in by_name:
            by_name[one.name] = one
            files += read
        if count is not None:
            counts[one.name] = counts.get(one.name, 0) + count * (one.node.count if one.node else 1)
    return tuple(by_name.values()), files, counts


def _default_hardware(prices: Prices) -> list[str]:
    """Accelerators with measured kernels and a known price."""
    measured = {folder.name for folder in (shipped("hardware") / "fits").iterdir() if is_folder(folder)}
    return [name for name in ids("hardware") if name in measured and name in prices.names]


def _check_lengths(model: Model, load: Load, fixed: dict[str, Any]) -> None:
    """Refuse requests that no deployment of the model could serve."""
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


def _modes_of(load: Load, modes: tuple[Mode, ...]) -> tuple[Mode, ...]:
    """The modes that a load is planned in."""
    if load.concurrency is not None and "colocated" not in modes:
        raise InputError(
            "--mode disaggregated: clients are planned on colocated replicas; give --mode colocated, or a rate instead of a "
            "concurrency"
        )
    if not load.retained:
        return modes
    if "colocated" not in modes:
        raise InputError(
            "--mode disaggregated: what pools retain of conversations and system prompts is simulated (roofline simulate "
            "--disaggregated), not planned; give --mode colocated"
        )
    return ("colocated",)


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


def _inputs(query: Query, more: Iterable[Input] = ()) -> dict[str, Any]:
    """Every file under its role; further files of a role under role and name."""
    inputs: dict[str, Any] = {}
    for entry in dict.fromkeys((*query.inputs, *more)):
        key = entry.role if entry.role not in inputs else f"{entry.role}.{entry.name}"
        inputs[key] = {"name": entry.name, "path": entry.path, "sha256": entry.sha256}
    return inputs


def _traffic(query: Query) -> dict[str, Any]:
    traffic, load = query.traffic, query.load
    return {
        "rate": load.rate,
        "mean_rate": load.mean_rate,
        "concurrency": load.concurrency if query.batch is None else None,
        "batch": None if query.batch is None else query.batch.to_dict(),
        "peak_factor": traffic.peak_factor,
        "profile": None if traffic.profile is None else list(traffic.profile.factors),
        "classes": [
            {
                "name": one.name, "rate": one.rate, "concurrency": one.concurrency if query.batch is None else None,
                "input_len": str(one.input_len),
                "output_len": str(one.output_len),
                "mean_input": one.input_len.mean if service.turns is None else service.turns.mean_prompt,
                "mean_output": one.output_len.mean,
                "conversation": None if one.conversation is None else one.conversation.to_dict(),
                "ttft_s": one.ttft, "tpot_s": one.tpot, "percentile": one.percentile, "prefix_hit": one.mean_hit,
                "cached_prefix": one.cached_prefix or None, "burstiness": one.burstiness,
            }
            for one, service in zip(traffic.classes, load.services, strict=True)
        ],
    }  # fmt: skip


def _assumptions(query: Query, candidates: Sequence[Any]) -> Iterable[Assumption]:
    yield from query.traffic.assumptions
    load = query.load
    if query.batch is not None:
        work = query.batch
        yield Assumption("tokens", work.output_tokens, "given",
                         f"output tokens: {work.requests:,} requests of mean length; their prompts come besides")  # fmt: skip
        yield Assumption("batch work", "all at once", "default",
                         "replicas start together, share the requests evenly and are paid until the last has ended; no cap on "
                         "utilization; times to load a model are not in it")  # fmt: skip
    elif load.concurrency is None:
        yield Assumption(
            "queueing", "processor sharing with prompt cycles", "default",
            "approximation, docs/capacity.md has its errors; no replica is planned beyond "
            f"{percent(UTILISATION, 0)} of its saturation rate",
        )  # fmt: skip
        if load.burstiness > _BURSTY:
            used = "" if load.burstiness <= BURSTIEST else f"; waits are computed with {BURSTIEST:g}"
            why = f"arrivals beyond {_BURSTY:g} are bursts that the approximation does not hold for{used}: simulate the traffic"
            yield Assumption("burstiness", load.burstiness, "given", why)
    else:
        yield Assumption("closed loop", load.concurrency, "given",
                         "TTFT depends on how the clients start and how equal their lengths are; TPOT does not")  # fmt: skip
    yield Assumption("memory", "mean lengths", "default",
                     "batch limits count requests of mean length, each at its last token")  # fmt: skip
    yield from _cache_assumptions(query)
    devices = {one.name: one for one in query.hardware}
    priced = {name: price for name in {one.hardware for one in candidates} if (price := query.prices.of(devices[name]))}
    for hardware, price in sorted(priced.items()):
        ends = f" ({price.low:g} to {price.high:g})" if price.low < price.high else ""
        if price.offers:
            ends = " for the first"
        value = f"{price.value:g} {price.currency}/h{ends}"
        yield Assumption(f"price.{hardware}", value, "given" if price.origin == "given" else "assumed", price.describe())
    if any(one.power.watts is not None for one in candidates):
        yield Assumption("power", "TDP", "default", "an upper bound: every device draws its TDP all the time, times the PUE "
                         f"of {query.pue:g}")  # fmt: skip


def _cache_assumptions(query: Query) -> Iterable[Assumption]:
    """What is assumed of prompts that the KV cache retains."""
    load = query.load
    held = "what retains it is not counted: --turns, --think and --system-prompt say what there is to retain"
    if load.retained:
        held = "the memory that this needs is in kv_cache"
    for name, what in (("prefix_hit", "share"), ("cached_prefix", "number of tokens")):
        if most := max(getattr(one, name) for one in query.traffic.classes):
            why = f"the same {what} of every prompt is cached; its memory is counted for each request; {held}"
            yield Assumption(name, most, "given", why)
    if any(turns.conversation.turns is not None for _, turns in load.retained):
        why = "turns of a conversation go to the replica, and data-parallel rank, of its first"
        yield Assumption("router", "session-sticky", "assumed", why)
    if load.retained and load.rate is None:
        why = "they stay cached: what is evicted is computed for requests at a rate"
        yield Assumption("prefix_caching", "system prompts", "assumed", why)
    elif load.retained:
        why = "blocks stay cached until they are taken; how many are is computed, by Che's approximation"
        yield Assumption("prefix_caching", "least recently used", "default", why)


def _provenance(request: ResolvedRequest, query: Query) -> Iterable[Assumption]:
    """The choices behind a deployment (formats, engine defaults), and the sources of its estimates."""
    yield from (note for note in request.assumptions if note.name not in _CHOSEN)
    yield from estimate_notes(request, typical_steps(request, query.load))
    if query.start_up is not None:
        why = "from the request for a replica until it serves"
        yield Assumption("start_up", f"{query.start_up:.3g} s", "given", why)
    elif query.traffic.profile is not None and query.load.mean_rate is not None:
        notes: list[Assumption] = []
        time_of_start(request, {}, notes)
        yield from notes
