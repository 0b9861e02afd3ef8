"""What claims about steps (decode and prefill) have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from roofline import formatting
from roofline.audit.claims.floor import Floor, floors
from roofline.audit.claims.memory import Need, engine_holds, need
from roofline.audit.claims.roof import Reach, Roof
from roofline.audit.claims.splits import Split, described
from roofline.predict.request import Request
from roofline.predict.timing import pipeline
from roofline.specs.assumption import Assumption
from roofline.specs.workload import Step, sequences

if TYPE_CHECKING:
    from roofline.audit.claims.case import Case

_TOLD = (
    "dtype",
    "activation_dtype",
    "kv_cache_dtype",
    "quantization",
    "matrix_dtype",
    "mask",
    "mla",
    "routing_skew",
    "memory",
    "recalled",
)


def through(parts: Iterable[Floor]) -> float:
    """Seconds in which one token passes all pipeline stages."""
    return sum(part.seconds for part in parts)


def a_round(parts: Iterable[Floor]) -> float:
    """Seconds in which every pipeline stage has done its part for the whole batch, all of them at the same time."""
    return max(part.seconds for part in parts)


def boldest(case: Case, found: Iterator[Roof]) -> Roof:
    """Of ways to divide a model: the one with the boldest ceiling; where none fits, the one that lacks least."""
    best: Roof | None = None
    for roof in found:
        if best is None or _better(case, roof, best):
            best = roof
    assert best is not None  # noqa: S101 - narrows the type: requests() raises where there is none
    return best


def _better(case: Case, one: Roof, other: Roof) -> bool:
    if one.value is None or other.value is None:
        if one.value is None and other.value is None and one.need and other.need:
            return one.need.bytes / one.need.capacity < other.need.bytes / other.need.capacity
        return other.value is None
    return case.bolder(one.value, other.value)


def roof(
    case: Case, split: Split, request: Request, step: Step, length: int, *, value: float | None, seconds: float | None = None
) -> Roof:
    """The roof of a step; without a value where memory cannot hold it."""
    batch = int(sequences(step))
    held = needed(case, request, step)
    fits = held.fits or case.ignore_memory
    return Roof(
        value=value if fits else None,
        devices=case.devices,
        split=split,
        request=request,
        step=step,
        floors=tuple(floors(request, step, case.twist)),
        seconds=seconds,
        batch=batch,
        length=length,
        need=held,
        engine_fits=engine_holds(request, step, case.twist.cache),
    )


def needed(case: Case, request: Request, step: Step) -> Need:
    """What a step has to hold."""
    (segment,) = step
    return need(request, int(segment.count), int(segment.cached + segment.new), scale=case.twist.cache)


def reach(case: Case, points: Iterable[tuple[Request, Step]], figure: Callable[[float, Step], float]) -> Reach:
    """The boldest figures over steps: at the bound of operators one after another, at the estimate, at its better end.

    The better end is never taken beyond the bound: the interval's width says how little is known, not that more is possible.

    `figure` makes the seconds of a step a figure in the claim's unit.
    """
    best: dict[str, float | None] = {"bound": None, "estimate": None, "low": None}
    for request, step in points:
        if request.deployment.pipeline_parallel_size > 1 and not case.claim.is_time and case.claim.scope != "user":
            continue  # several batches in flight are not modelled
        time = pipeline(request, step)
        for name, known in best.items():
            if seconds := getattr(time, name):
                found = figure(max(seconds, time.bound) if name == "low" else seconds, step)
                best[name] = found if known is None or case.bolder(found, known) else known
    return Reach(best["bound"], best["estimate"], best["low"])


def derivation(found: Roof, what: str) -> list[str]:
    """Where the time of a step comes from, in lines."""
    request = found.request
    if request is None or not found.floors:
        return []
    part = max(found.floors, key=lambda floor: floor.seconds)
    lines = []
    if found.devices > 1:
        each = f"each of {found.devices} devices ({described(found.split)})"
        several = f", the slowest of {len(found.floors)} stages" if len(found.floors) > 1 else ""
        lines.append(f"on {each}{several}:")
    bandwidth = f"{formatting.quantity(part.bandwidth, 'B/s')}"
    for name, held in (
        (f"weights read {what}", part.weight_bytes),
        ("KV cache, read and written", part.cache_bytes),
        ("recurrent state read and written", part.state_bytes),
        ("less what the last-level cache could keep", -part.kept_bytes),
    ):
        if held:
            sign, size = "-" if held < 0 else "", abs(held)
            lines.append(
                f"{name}: {formatting.quantity(size, 'B')} / {bandwidth} = "
                f"{sign}{formatting.quantity(size / part.bandwidth, 's')}"
            )
    for dtype, (flops, peak) in part.products.items():
        rate, took = formatting.quantity(peak, "FLOP/s"), formatting.quantity(flops / peak, "s")
        lines.append(f"products: {formatting.quantity(flops, 'FLOP')} / {rate} ({dtype}, dense) = {took}")
    longer = f"{'memory' if part.bound_by == 'memory' else 'compute'} takes longer"
    lines.append(f"all at the same time, {longer}: at least {formatting.quantity(part.seconds, 's')} {what}")
    return lines


def memory_lines(held: Need, devices: int) -> list[str]:
    """What has to be held, and where."""
    each = "each device" if devices > 1 else "the device"
    lines = [f"weights: {formatting.binary(held.weights)} on {each}"]
    if held.a_sequence:
        several = f"{held.sequences:,} x " if held.sequences > 1 else ""
        lines.append(f"cache and state: {several}{formatting.binary(held.a_sequence)} a sequence")
    sign = "<=" if held.fits else ">"
    room = held.capacity - held.weights
    lines.append(f"together {formatting.binary(held.bytes)} {sign} {formatting.binary(held.capacity)} of memory")
    if not held.fits and held.sequences > 1 and room >= held.a_sequence > 0:
        lines.append(f"at most {int(room // held.a_sequence):,} such sequences fit beside the weights")
    return lines


def _widened(found: Roof) -> str | None:
    """The eight-bit dtype at whose peak four-bit weights were taken to be multiplied."""
    request = found.request
    if request is None or request.precision.dtypes("linear").weight.bytes >= 1:
        return None
    native = {request.precision.activation.name, request.precision.dtypes("linear").matrix}
    return next((dtype for floor in found.floors for dtype in floor.products if dtype not in native), None)


def setting(case: Case, found: Roof) -> list[Assumption]:
    """What the request assumed, as far as it shapes the ceiling, and how the model is divided."""
    notes: list[Assumption] = []
    if found.devices > 1 and found.split:
        said = any(size is not None for size in (case.statement.tp, case.statement.pp, case.statement.dp))
        why = "as stated" if said else f"the kindest way to divide the model over {found.devices} devices"
        notes.append(Assumption("parallelism", described(found.split), "given" if said else "assumed", why))
    if found.request is not None:
        told = [note for note in found.request.assumptions if note.name in _TOLD or note.name.startswith("model.")]
        if widened := _widened(found):
            why = f"four-bit weights may be multiplied as {widened}, which is faster than as the activations"
            told = [note for note in told if note.name != "matrix_dtype"] + [
                Assumption("matrix_dtype", widened, "assumed", why)
            ]
        notes += told
    if case.model is not None and found.length > (longest := case.model.max_position_embeddings):
        why = f"beyond the {longest:,} tokens that {case.model.name} was made for: the bound holds, its answers may not"
        notes.append(Assumption("context_length", found.length, "assumed", why))
    why = "all operators overlap, intermediate results stay on chip, links and vector units take no time"
    return [*notes, Assumption("overlap", "perfect", "default", why)]
