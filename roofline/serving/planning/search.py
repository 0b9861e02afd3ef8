"""Every deployment that is looked at, each with the rate that one replica of it serves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from roofline.errors import RooflineError
from roofline.predict.efficiency.estimate import Estimator
from roofline.predict.request import Request, prepare
from roofline.serving.planning.layouts import Layout, layouts
from roofline.serving.planning.load import Load
from roofline.serving.planning.memory import longest_held, slots_in_memory
from roofline.serving.planning.pools import transfer_s, way
from roofline.serving.planning.question import MOST_DEVICES, Question
from roofline.serving.planning.sizing import Role, Sized, sized
from roofline.serving.queueing.replica import Replica
from roofline.specs.hardware import Hardware

BUDGETS = (2048, 8192, 512)
"""Tokens of a step: what engines take by default on smaller and larger devices, and less, for steps that are always short."""
SLOTS = (128, 32)
"""Batch limits that are tried below what memory holds."""


@dataclass(frozen=True)
class Option:
    """A deployment that fits, with its replica in each role that was asked for."""

    hardware: Hardware
    precision: str
    layout: Layout
    sized: dict[Role, Sized]
    after_s: tuple[Any, ...]
    longest: int

    @property
    def devices(self) -> int:
        """Of one replica."""
        return next(iter(self.sized.values())).replica.request.deployment.devices


@dataclass(frozen=True)
class Unfit:
    """A deployment that holds not one request, or that was refused."""

    hardware: Hardware
    precision: str
    layout: Layout
    why: str
    weights_bytes: float | None = None
    budget_bytes: float | None = None
    error: RooflineError | None = None
    """Of what was given: a size, a dtype that is none."""


def options(question: Question) -> Iterator[Option | Unfit]:
    """Hardware by precision by layout."""
    for hardware in question.hardware:
        known: dict[str, Estimator] = {}  # what was fitted is looked up once for each kind of hardware
        most = min(question.devices(hardware), MOST_DEVICES)
        for precision, formats in _precisions(question, hardware):
            tried = list(layouts(question.model, hardware, question.fixed, most))
            for layout in tried:
                given = {**question.fixed, **formats, **_named(layout)}
                yield _option(question, hardware, precision, given, layout, known)
            if not tried:
                yield _no_layout(question, hardware, precision, most)


def _no_layout(question: Question, hardware: Hardware, precision: str, most: int) -> Unfit:
    """Why nothing is left to try."""
    if most < 1:
        return Unfit(hardware, precision, {}, f"there are none of {hardware.name}")
    try:
        found = prepare(question.model, hardware, **question.fixed, input_len=1, phase="decode").deployment.devices
    except RooflineError as error:
        return Unfit(hardware, precision, {}, str(error), error=error)
    return Unfit(hardware, precision, {}, f"a replica as given takes {found} devices, and {most} are allowed")


_NAMES = {
    "tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "dp": "data_parallel_size",
    "ep": "expert_parallel_size", "cp": "context_parallel_size",
}  # fmt: skip


def _named(layout: Layout) -> dict[str, int]:
    return {_NAMES[name]: size for name, size in layout.items()}


def _precisions(question: Question, hardware: Hardware) -> Iterator[tuple[str, dict[str, Any]]]:
    """As the model's file says, and with fp8 weights where the file is not quantised and the hardware multiplies fp8."""
    fixed = question.fixed
    given = [str(fixed[name]) for name in ("dtype", "quantization") if fixed.get(name) is not None]
    if given:
        named = [name for name in given if name != "none"]
        yield "/".join(named) or question.model.dtype, {}
        return
    published = question.model.quantization
    yield (published[0].name if published else question.model.dtype), {}
    if not published and "fp8" in hardware.accelerator.peak_flops:
        yield "fp8", {"quantization": "fp8"}


def _option(
    question: Question, hardware: Hardware, precision: str, given: dict[str, Any], layout: Layout, known: dict[str, Estimator]
) -> Option | Unfit:
    load = question.load
    ranks = int(given.get("data_parallel_size") or 1)
    try:
        request = prepare(question.model, hardware, **{**given, "batch": ranks, "input_len": 1, "phase": "decode"})
    except RooflineError as error:
        return Unfit(hardware, precision, layout, str(error), error=error)
    request = replace(request, estimator=known.setdefault(hardware.name, request.estimator))
    wanted = int(given.get("max_model_len") or min(load.longest, question.model.max_position_embeddings))
    budgets = [request.memory.max_num_batched_tokens] if given.get("max_num_batched_tokens") else list(BUDGETS)
    held = [(budget, slots) for budget in budgets if (slots := slots_in_memory(with_settings(request, None, budget), load))]
    if not held or longest_held(with_settings(request, None, held[0][0]), wanted) < wanted:
        return _unfit(request, hardware, precision, layout, load, wanted, fits=bool(held))
    limit = given.get("max_num_seqs")
    settings = [(min(slots, int(limit)) if limit else slots, budget) for budget, slots in held]
    first, budget = settings[0]
    if not limit and load.concurrency is None:
        settings += [(slots, budget) for slots in SLOTS if slots < first]
    replica = Replica(request, max(slots for slots, _ in settings), tuple(dict.fromkeys(budget for _, budget in settings)))
    memory_slots = max(slots for _, slots in held)
    found: dict[Role, Sized] = {}
    after: tuple[Any, ...] = ()
    if "colocated" in question.modes:
        found["both"] = settled(sized(replica, load, settings[:1] if load.concurrency is not None else settings, memory_slots))
    road = way(hardware) if "disaggregated" in question.modes and load.concurrency is None else None
    if road is not None and load.mean_output > 1:
        after = transfer_s(request, load, road[1])
        largest = max(settings[: len(held)], key=lambda setting: setting[1])
        found["prefill"] = settled(sized(replica, load, [largest], memory_slots, "prefill", after))
        found["decode"] = settled(sized(replica, load, settings[:1], memory_slots, "decode"))
    if not found:
        return Unfit(hardware, precision, layout, "its pools have no link between them that is known")
    return Option(hardware, precision, layout, found, after, wanted)


def settled(found: Sized) -> Sized:
    """With the request that has these settings, for the engine's flags and for what `analyze` says."""
    replica = replace(found.replica, request=with_settings(found.replica.request, found.slots, found.budget))
    return replace(found, replica=replica)


def with_settings(request: Request, slots: int | None, budget: int) -> Request:
    """The same with so many slots a rank (None: no limit) and tokens a step."""
    deployment = request.deployment.model_copy(update={"max_num_batched_tokens": budget, "max_num_seqs": slots})
    memory = replace(request.memory, deployment=deployment, max_num_batched_tokens=budget)
    return replace(request, deployment=deployment, memory=memory)


def _unfit(
    request: Request, hardware: Hardware, precision: str, layout: Layout, load: Load, wanted: int, *, fits: bool
) -> Unfit:
    part = request.memory.fullest
    gib = 2**30
    why = f"weights take {part.weights_bytes / gib:.1f} GiB of the {part.budget_bytes / gib:.1f} GiB that a device has for it"
    if fits:
        why = f"one request of {wanted:,} tokens does not fit beside the weights"
    elif part.weights_bytes < part.budget_bytes:
        why += f", and no request of {load.mean_input + load.mean_output:,.0f} tokens fits beside them"
    return Unfit(hardware, precision, layout, why, part.weights_bytes, part.budget_bytes)
