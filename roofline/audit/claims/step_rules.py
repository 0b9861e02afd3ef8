"""Claims about steps: rates of generated tokens and the times between them, rates of prompt tokens and TTFT."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from roofline import formatting
from roofline.audit.claims.deployments import (
    MAX_SEQUENCES,
    MemoryNeed,
    Split,
    described,
    engine_holds,
    largest_batch,
    memory_need,
)
from roofline.audit.claims.floor import Floor, floors
from roofline.audit.claims.resolved_claim import Achievable, Ceiling, ResolvedClaim, Rules
from roofline.errors import InputError
from roofline.numeric import ceil_div
from roofline.predict.request import ResolvedRequest
from roofline.predict.timing import pipeline
from roofline.specs.source import Assumption
from roofline.specs.workload import Segment, Step, decode, prefill, sequences, tokens

SHORTEST_CONTEXT = 1
"""Where nothing is stated: the shortest that a decode step can follow."""
_MAX_ESTIMATED_BATCH = 2**14
"""Larger batches are not estimated: nothing like them was measured."""
_PROMPT_LENGTHS = tuple(2**power for power in range(4, 14))
"""Where none is stated: the best rate is that of one of them."""
_MAX_STEP_TOKENS = 2**20
"""Beyond which a larger batch of prompts gains nothing."""
_SHARED_NOTES = (
    "dtype", "activation_dtype", "kv_cache_dtype", "quantization", "matrix_dtype", "mask", "mla", "routing_skew", "memory",
    "recalled",
)  # fmt: skip
"""Assumptions of the request that shape a ceiling."""


def _latency(stages: Iterable[Floor]) -> float:
    """Seconds in which one token passes all pipeline stages."""
    return sum(stage.seconds for stage in stages)


def _interval(stages: Iterable[Floor]) -> float:
    """Seconds in which every pipeline stage has done its part for the whole batch, all of them at the same time."""
    return max(stage.seconds for stage in stages)


def _best(resolved: ResolvedClaim, ceilings: Iterator[Ceiling]) -> Ceiling:
    """Of ways to divide a model: the one with the best ceiling; where none fits, the one that lacks least."""
    best: Ceiling | None = None
    for ceiling in ceilings:
        if best is None or _is_better(resolved, ceiling, best):
            best = ceiling
    assert best is not None  # noqa: S101 - narrows the type: requests() raises where there is none
    return best


def _is_better(resolved: ResolvedClaim, one: Ceiling, other: Ceiling) -> bool:
    if one.value is None or other.value is None:
        if one.value is None and other.value is None and one.need and other.need:
            return one.need.bytes / one.need.capacity < other.need.bytes / other.need.capacity
        return other.value is None
    return resolved.better(one.value, other.value)


def _ceiling(
    resolved: ResolvedClaim, split: Split, request: ResolvedRequest, step: Step, length: int, *, value: float, seconds: float
) -> Ceiling:
    """The ceiling of a step; without a value where memory cannot hold it."""
    (segment,) = step
    need = memory_need(request, int(segment.count), int(segment.cached + segment.new), resolved.overrides.cache)
    return Ceiling(
        value=value if need.fits or resolved.ignore_memory else None,
        devices=resolved.devices,
        split=split,
        request=request,
        step=step,
        floors=tuple(floors(request, step, resolved.overrides)),
        seconds=seconds,
        batch=int(sequences(step)),
        length=length,
        need=need,
        engine_fits=engine_holds(request, step, resolved.overrides.cache),
    )


def _achievable(
    resolved: ResolvedClaim, points: Iterable[tuple[ResolvedRequest, Step]], figure: Callable[[float, Step], float]
) -> Achievable:
    """The best figures over steps: at the bound of operators one after another, at the estimate, at its better end.

    The better end is never taken beyond the bound: the interval's width says how little is known, not that more is possible.

    `figure` makes the seconds of a step a figure in the claim's unit.
    """
    best: dict[str, float | None] = {"bound": None, "estimate": None, "low": None}
    for request, step in points:
        if request.deployment.pipeline_parallel_size > 1 and not resolved.claim.is_time and resolved.claim.scope != "user":
            continue  # several batches in flight are not modelled
        time = pipeline(request, step)
        for name, known in best.items():
            if seconds := getattr(time, name):
                value = figure(max(seconds, time.bound) if name == "low" else seconds, step)
                best[name] = value if known is None or resolved.better(value, known) else known
    return Achievable(best["bound"], best["estimate"], best["low"])


def _derivation(ceiling: Ceiling, what: str) -> list[str]:
    """Where the time of a step comes from, in lines."""
    request = ceiling.request
    if request is None or not ceiling.floors:
        return []
    slowest = max(ceiling.floors, key=lambda floor: floor.seconds)
    lines = []
    if ceiling.devices > 1:
        each = f"each of {ceiling.devices} devices ({described(ceiling.split)})"
        several = f", the slowest of {len(ceiling.floors)} stages" if len(ceiling.floors) > 1 else ""
        lines.append(f"on {each}{several}:")
    bandwidth = f"{formatting.quantity(slowest.bandwidth, 'B/s')}"
    for name, size in (
        (f"weights read {what}", slowest.weight_bytes),
        ("KV cache, read and written", slowest.cache_bytes),
        ("recurrent state read and written", slowest.state_bytes),
        ("less what the last-level cache could keep", -slowest.retained_bytes),
    ):
        if size:
            sign, size_b = "-" if size < 0 else "", abs(size)
            lines.append(
                f"{name}: {formatting.quantity(size_b, 'B')} / {bandwidth} = "
                f"{sign}{formatting.quantity(size_b / slowest.bandwidth, 's')}"
            )
    for dtype, (flops, peak) in slowest.products.items():
        rate, took = formatting.quantity(peak, "FLOP/s"), formatting.quantity(flops / peak, "s")
        lines.append(f"products: {formatting.quantity(flops, 'FLOP')} / {rate} ({dtype}, dense) = {took}")
    least = formatting.quantity(slowest.seconds, "s")
    lines.append(f"all at the same time, {slowest.bound_by} takes longer: at least {least} {what}")
    return lines


def memory_lines(need: MemoryNeed, devices: int) -> list[str]:
    """What has to be held, and where."""
    each = "each device" if devices > 1 else "the device"
    lines = [f"weights: {formatting.binary(need.weights)} on {each}"]
    if need.per_sequence:
        several = f"{need.sequences:,} x " if need.sequences > 1 else ""
        lines.append(f"cache and state: {several}{formatting.binary(need.per_sequence)} per sequence")
    sign = "<=" if need.fits else ">"
    free = need.capacity - need.weights
    lines.append(f"together {formatting.binary(need.bytes)} {sign} {formatting.binary(need.capacity)} of memory")
    if not need.fits and need.sequences > 1 and free >= need.per_sequence > 0:
        lines.append(f"at most {int(free // need.per_sequence):,} such sequences fit beside the weights")
    return lines


def _widened(ceiling: Ceiling) -> str | None:
    """The eight-bit dtype at whose peak four-bit weights were taken to be multiplied."""
    request = ceiling.request
    if request is None or request.precision.dtypes("linear").weight.bytes >= 1:
        return None
    native = {request.precision.activation.name, request.precision.dtypes("linear").matrix}
    return next((dtype for floor in ceiling.floors for dtype in floor.products if dtype not in native), None)


def setting(resolved: ResolvedClaim, ceiling: Ceiling) -> list[Assumption]:
    """What the request assumed, as far as it shapes the ceiling, and how the model is divided."""
    notes: list[Assumption] = []
    if ceiling.devices > 1 and ceiling.split:
        stated = any(size is not None for size in (resolved.statement.tp, resolved.statement.pp, resolved.statement.dp))
        why = "as stated" if stated else f"the most favourable way to divide the model over {ceiling.devices} devices"
        notes.append(Assumption("parallelism", described(ceiling.split), "given" if stated else "assumed", why))
    if ceiling.request is not None:
        shared = [note for note in ceiling.request.assumptions if note.name in _SHARED_NOTES or note.name.startswith("model.")]
        if widened := _widened(ceiling):
            why = f"four-bit weights may be multiplied as {widened}, which is faster than as the activations"
            shared = [note for note in shared if note.name != "matrix_dtype"]
            shared.append(Assumption("matrix_dtype", widened, "assumed", why))
        notes += shared
    if resolved.model is not None and ceiling.length > (longest := resolved.model.max_position_embeddings):
        why = f"beyond the {longest:,} tokens that {resolved.model.name} was made for: the bound holds, its outputs may not"
        notes.append(Assumption("context_length", ceiling.length, "assumed", why))
    why = "all operators overlap, intermediate results stay on chip, links and vector units take no time"
    return [*notes, Assumption("overlap", "perfect", "default", why)]


# Decode: rates of generated tokens, and TPOT.


def _context(resolved: ResolvedClaim) -> int:
    cached = resolved.statement.cached
    return SHORTEST_CONTEXT if cached is None else cached


def _per_sequence(resolved: ResolvedClaim) -> bool:
    """Whether the claim is about what one sequence sees."""
    return resolved.claim.is_time or resolved.claim.scope == "user"


def _decode_ceiling(resolved: ResolvedClaim) -> Ceiling:
    return _best(resolved, (_decode_of_split(resolved, split, request) for split, request in resolved.requests()))


def _decode_of_split(resolved: ResolvedClaim, split: Split, request: ResolvedRequest) -> Ceiling:
    context, batch = _context(resolved), resolved.statement.batch
    if batch is None:
        # a total is largest with the largest batch, what one sequence sees with the smallest
        batch = 1 if _per_sequence(resolved) else largest_batch(request, context + 1)
        if resolved.ignore_memory and not _per_sequence(resolved):
            batch = MAX_SEQUENCES
        batch = max(batch, 1)
    new = resolved.overrides.tokens_per_step
    step = (Segment(batch, new, context, decode=True),)
    if _per_sequence(resolved):
        # of a batch in several stages, a stage sees a part at a time
        of_stage = (Segment(ceil_div(batch, split["pp"]), new, context, decode=True),)
        seconds = _latency(floors(request, of_stage, resolved.overrides)) / new
        value = seconds if resolved.claim.is_time else 1 / seconds
    else:
        seconds = _interval(floors(request, step, resolved.overrides)) / new
        value = batch / seconds / (resolved.devices if resolved.claim.scope == "gpu" else 1)
    return _ceiling(resolved, split, request, step, context, value=value, seconds=seconds)


def _decode_achievable(resolved: ResolvedClaim) -> Achievable:
    def points() -> Iterator[tuple[ResolvedRequest, Step]]:
        context, stated = _context(resolved), resolved.statement.batch
        for _, request in resolved.requests():
            if stated is not None or _per_sequence(resolved):
                yield request, decode(stated or 1, context)
                continue
            largest, batch = min(largest_batch(request, context + 1), _MAX_ESTIMATED_BATCH), 1
            while batch <= largest:
                yield request, decode(batch, context)
                batch *= 2

    def figure(seconds: float, step: Step) -> float:
        if resolved.claim.is_time:
            return seconds
        if resolved.claim.scope == "user":
            return 1 / seconds
        return float(sequences(step)) / seconds / (resolved.devices if resolved.claim.scope == "gpu" else 1)

    return _achievable(resolved, points(), figure)


def _derive_decode(resolved: ResolvedClaim, ceiling: Ceiling) -> list[str]:
    lines = _derivation(ceiling, "each step")
    if ceiling.value is None or ceiling.seconds is None:
        return lines
    end = f"so {'at least' if resolved.claim.is_time else 'at most'} {resolved.claim.written(ceiling.value)}"
    if _per_sequence(resolved):
        return [*lines, f"{end} at batch {ceiling.batch:,}"]
    shared = f" of all {ceiling.devices} devices together" if resolved.claim.scope == "gpu" and ceiling.devices > 1 else ""
    return [*lines, f"{end} with {ceiling.batch:,} token{'s' * (ceiling.batch > 1)} per step{shared}"]


def _assume_decode(resolved: ResolvedClaim, ceiling: Ceiling) -> list[Assumption]:
    statement, notes = resolved.statement, []
    if statement.batch is not None:
        notes.append(Assumption("batch", statement.batch, "given", "sequences in the whole deployment"))
    else:
        best = "what one user sees is best alone" if _per_sequence(resolved) else "the largest that memory holds"
        notes.append(Assumption("batch", ceiling.batch, "assumed", f"not stated: {best}"))
    if statement.context is not None:
        notes.append(Assumption("context", statement.context, "given", "tokens cached before the step"))
    elif statement.input_len is not None:
        notes.append(Assumption("context", statement.input_len, "given", "the prompt: the first decode step, the fastest"))
    else:
        notes.append(Assumption("context", SHORTEST_CONTEXT, "assumed", "not stated: the shortest is the fastest"))
    notes.append(Assumption("tokens_per_step", 1, "default", "one token per sequence and step: no speculative decoding"))
    return [*notes, *setting(resolved, ceiling)]


# Prefill: TTFT, and rates of prompt tokens.


def _prompt_lengths(resolved: ResolvedClaim) -> tuple[int, ...]:
    if resolved.statement.input_len is not None:
        return (resolved.statement.input_len,)
    if resolved.claim.is_time:
        raise InputError('TTFT depends on the length of the prompt: state it, such as "for a 4k prompt" or --input-len 4k')
    return _PROMPT_LENGTHS


def _prefill_ceiling(resolved: ResolvedClaim) -> Ceiling:
    lengths = _prompt_lengths(resolved)
    ceilings = (
        _prefill_of_split(resolved, split, request, length) for length in lengths for split, request in resolved.requests()
    )
    return _best(resolved, ceilings)


def _prompt_batch(resolved: ResolvedClaim, request: ResolvedRequest, length: int) -> int:
    if resolved.claim.is_time:
        return 1  # a prompt is done soonest alone, and of a batch one may be first
    if resolved.statement.batch is not None:
        return resolved.statement.batch
    return max(min(largest_batch(request, length), _MAX_STEP_TOKENS // length), 1)


def _prefill_of_split(resolved: ResolvedClaim, split: Split, request: ResolvedRequest, length: int) -> Ceiling:
    batch = _prompt_batch(resolved, request, length)
    step = (Segment(batch, 1, length - 1),) if resolved.overrides.reuse else prefill(batch, length)
    stages = floors(request, step, resolved.overrides)
    if resolved.claim.is_time:
        seconds = value = _latency(stages)
    else:
        seconds = _interval(stages)
        share = {"total": 1, "gpu": resolved.devices, "user": step[0].count}[resolved.claim.scope]
        value = step[0].count * length / seconds / share
    return _ceiling(resolved, split, request, step, length, value=value, seconds=seconds)


def _prefill_achievable(resolved: ResolvedClaim) -> Achievable:
    def points() -> Iterator[tuple[ResolvedRequest, Step]]:
        for length in _prompt_lengths(resolved):
            for _, request in resolved.requests():
                # of a stated batch all prompts are expected at once, as `analyze` takes it
                batch = resolved.statement.batch if resolved.claim.is_time else None
                yield request, prefill(batch or _prompt_batch(resolved, request, length), length)

    def figure(seconds: float, step: Step) -> float:
        if resolved.claim.is_time:
            return seconds
        share = {"total": 1, "gpu": resolved.devices, "user": step[0].count}[resolved.claim.scope]
        return float(tokens(step) / share) / seconds

    return _achievable(resolved, points(), figure)


def _derive_prefill(resolved: ResolvedClaim, ceiling: Ceiling) -> list[str]:
    lines = _derivation(ceiling, "for the prompt" if ceiling.batch == 1 else "for the prompts")
    if ceiling.value is None:
        return lines
    best = resolved.claim.written(ceiling.value)
    if not resolved.claim.is_time:
        return [*lines, f"so at most {best} with {ceiling.batch:,} x {ceiling.length:,} tokens"]
    lines.append(f"so the first token after {ceiling.length:,} comes in {best} at the soonest")
    if (batch := resolved.statement.batch or 1) > 1:
        last = resolved.claim.written(_last_of_batch(resolved, ceiling, batch))
        lines.append(f"all {batch:,} prompts at once: at least {last} for the last")
    return lines


def _last_of_batch(resolved: ResolvedClaim, ceiling: Ceiling, batch: int) -> float:
    """The least seconds until the last of several prompts has its token: each stage does all, and one prompt passes all."""
    step = prefill(batch, ceiling.length)
    intervals = (_interval(floors(request, step, resolved.overrides)) for _, request in resolved.requests())
    return max(ceiling.value or 0.0, min(intervals))


def _assume_prefill(resolved: ResolvedClaim, ceiling: Ceiling) -> list[Assumption]:
    statement, notes = resolved.statement, []
    stated = statement.input_len is not None
    why = "prompt tokens, nothing cached" if stated else "not stated: the length with the best rate"
    notes.append(Assumption("input_len", ceiling.length, "given" if stated else "assumed", why))
    if resolved.claim.is_time and statement.batch is not None:
        why = "the least is that of one of these prompts, the first; expected is that of all at once, the last of them"
        notes.append(Assumption("batch", statement.batch, "given", why if statement.batch > 1 else "one prompt; no queue"))
    elif resolved.claim.is_time:
        notes.append(Assumption("batch", 1, "assumed", "a prompt is done soonest when nothing else is; no queue"))
    elif statement.batch is not None:
        notes.append(Assumption("batch", ceiling.batch, "given", "prompts at once"))
    else:
        notes.append(Assumption("batch", ceiling.batch, "assumed", "not stated: as many as help"))
    return [*notes, *setting(resolved, ceiling)]


DECODE = Rules(ceiling=_decode_ceiling, derive=_derive_decode, assume=_assume_decode, achievable=_decode_achievable)
PREFILL = Rules(ceiling=_prefill_ceiling, derive=_derive_prefill, assume=_assume_prefill, achievable=_prefill_achievable)
