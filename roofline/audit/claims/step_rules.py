"""Claims about steps: rates of generated tokens and the times between them, rates of prompt tokens and TTFT."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from roofline import formatting
from roofline.audit.claims.deployments import (
    MAX_SEQUENCES,
    UNKNOWN_NETWORK,
    MemoryNeed,
    Split,
    fits_engine_limits,
    format_split,
    largest_batch,
    memory_need,
)
from roofline.audit.claims.resolved_claim import Achievable, Ceiling, ResolvedClaim, Rules
from roofline.errors import InputError
from roofline.formatting import plural
from roofline.graph.sharding import communication_groups
from roofline.numeric import Expr, ceil_div
from roofline.predict.drafts import NAMES
from roofline.predict.duration import ZERO_TIME, Duration, total, weighted_sum
from roofline.predict.efficiency.fits import Fits
from roofline.predict.floor import Floor, floors, graph_floor, interval, latency, together
from roofline.predict.request import ResolvedRequest
from roofline.predict.speculation import Speculation
from roofline.predict.timing import decode_contexts, encoder, pipeline, time_to_first_token, timed
from roofline.specs.library import measured_engines
from roofline.specs.source import Assumption
from roofline.specs.workload import Segment, Step, decode, sequences

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
    "recalled", "draft", "images", *NAMES,
)  # fmt: skip
"""Assumptions of the request that shape a ceiling."""


_FARTHER = 3 / 1.2816
"""An interval of 80 % is 1.28 standard deviations to a side, in ratios; three are this many times as far."""


_REACHED = 0.96
"""The largest share of a datasheet's peak or bandwidth that kernels were measured at: 0.96 of the bf16 peak (products on A100),
0.95 of the bandwidth (attention over caches on H100 and H200), of 729,366 kernels that AIConfigurator and others timed."""


_EXPERTS_MEASURED = 8
"""Expert-parallel devices up to which kernels and links were measured."""
_MISSED = 4.0
"""By how much estimates with experts over more devices were seen to be too slow: DeepSeek's decode on 144 H800 was estimated at
190 ms, and takes about 48 (open-infra-index, day 6); SGLang's on 72 H100 at 329, and takes about 92."""


@dataclass(frozen=True, slots=True)
class _Point:
    """A deployment, a step of it, and the time to look at: a function, for the kernels may be those of several engines."""

    request: ResolvedRequest
    step: Step
    time: Callable[[ResolvedRequest], Duration]


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
        engine_fits=fits_engine_limits(request, step, resolved.overrides.cache),
    )


def _achievable(resolved: ResolvedClaim, points: Iterable[_Point], figure: Callable[[float, Step], float]) -> Achievable:
    """The best figures over points: at the bound of operators one after another, at the estimate, at the best that is known.

    The estimate and its interval are those of `analyze`. The best that is known is farther out: of a claim that names no
    engine, the kernels of whichever engine has the fastest, with nothing added between them, and faster than estimated by as
    much as one measurement in 700 is (three standard deviations where the interval, of 80 %, is 1.28). Without links it is
    not taken beyond the bound: the interval's width says how little is known, not that more is possible. Links overlap with
    other work in many engines: with them only the floor limits it.

    `figure` makes the seconds of a point a figure in the claim's unit.
    """
    bound: float | None = None
    nearest: tuple[float, _Point, float] | None = None

    def better(one: float, other: float | None) -> bool:
        return other is None or resolved.better(one, other)

    for point in points:
        time = point.time(point.request)
        if time.bound and better(value := figure(time.bound, point.step), bound):
            bound = value
        if time.estimate and better(value := figure(time.estimate, point.step), nearest and nearest[0]):
            nearest = value, point, _at_best(time, point.request)
    if nearest is None:
        return Achievable(bound)
    estimate, point, best = nearest
    for request in _other_engines(resolved, point.request):
        best = min(best, _at_best(point.time(request), request))
    return Achievable(bound, estimate, figure(best, point.step))


def _at_best(time: Duration, request: ResolvedRequest) -> float:
    """The least seconds that estimates of this kind were seen to miss, at the floor or above."""
    if time.estimate is None or time.low is None:
        return math.inf
    linked = any(communication_groups(request.deployment))
    least = time.floor if linked else time.bound
    farther: float = time.estimate * (time.low / time.estimate) ** _FARTHER
    if request.deployment.expert_parallel_size > _EXPERTS_MEASURED:
        farther = min(farther, time.estimate / _MISSED)
    return max(farther, (least or 0.0) / _REACHED)


def _other_engines(resolved: ResolvedClaim, request: ResolvedRequest) -> Iterator[ResolvedRequest]:
    """The same with the kernels of each engine that was measured, and nothing between them; none where an engine is named."""
    if {"engine", "backend"} & set(resolved.options) or resolved.speculation(request) is not None:
        return
    for backend in measured_engines():
        yield replace(
            request, steps=None, estimator=replace(request.estimator, fits=Fits(request.hardware, backend), hidden=1.0)
        )


def _estimated(resolved: ResolvedClaim) -> Iterator[ResolvedRequest]:
    """The deployments whose steps are estimated: of a total, several batches in flight in a pipeline are not modelled."""
    for _, request in resolved.requests():
        if request.deployment.pipeline_parallel_size == 1 or resolved.claim.is_time or resolved.claim.scope == "user":
            yield request


def _of_step(resolved: ResolvedClaim, request: ResolvedRequest, step: Step) -> _Point:
    return _Point(request, step, lambda of: _expected(resolved, of, step))


def _expected(resolved: ResolvedClaim, request: ResolvedRequest, step: Step) -> Duration:
    """Seconds of a step; of rounds of speculative decoding, seconds per token of each sequence."""
    (segment,) = step
    if (speculation := resolved.speculation(request)) is None:
        return pipeline(request, step) if segment.decode else time_to_first_token(request, step)
    return speculation.tpot(segment.count, segment.cached) if segment.decode else speculation.prefill(step)


def _derivation(ceiling: Ceiling, what: str) -> list[str]:
    """Where the time of a step comes from, in lines."""
    request = ceiling.request
    if request is None or not ceiling.floors:
        return []
    slowest = max(ceiling.floors, key=lambda floor: floor.seconds)
    lines = []
    if ceiling.devices > 1:
        each = f"each of {ceiling.devices} devices ({format_split(ceiling.split)})"
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
        lines.append(f"matrix products: {formatting.quantity(flops, 'FLOP')} / {rate} ({dtype}, dense) = {took}")
    for name, link_s in slowest.link_s.items():
        if link_s and not (name == "network" and _network_unknown(request)):
            where = {"node": "links inside the node", "network": "network between nodes", "host": "link to the host"}[name]
            lines.append(f"{where}: {formatting.quantity(float(link_s), 's')}")
    least = formatting.quantity(slowest.seconds, "s")
    lines.append(f"with perfect overlap, {slowest.bound_by} dominates: at least {least} {what}")
    return lines


def memory_lines(need: MemoryNeed, devices: int) -> list[str]:
    """Lines of the derivation that show the memory needed per device and whether it fits."""
    each = "each device" if devices > 1 else "the device"
    lines = [f"weights: {formatting.binary(need.weights)} on {each}"]
    if need.per_sequence:
        several = f"{need.sequences:,} x " if need.sequences > 1 else ""
        lines.append(f"KV cache and state: {several}{formatting.binary(need.per_sequence)} per sequence")
    sign = "<=" if need.fits else ">"
    free = need.capacity - need.weights
    lines.append(f"together {formatting.binary(need.bytes)} {sign} {formatting.binary(need.capacity)} of memory")
    if not need.fits and need.sequences > 1 and free >= need.per_sequence > 0:
        lines.append(f"at most {int(free // need.per_sequence):,} such sequences fit with the weights")
    return lines


def _widened(ceiling: Ceiling) -> str | None:
    """The eight-bit dtype at whose peak four-bit weights were taken to be multiplied."""
    request = ceiling.request
    if request is None or request.precision.dtypes("linear").weight.bytes >= 1:
        return None
    native = {request.precision.activation.name, request.precision.dtypes("linear").matrix}
    return next((dtype for floor in ceiling.floors for dtype in floor.products if dtype not in native), None)


def _network_unknown(request: ResolvedRequest) -> bool:
    """Whether servers are joined by a network of which nothing is known."""
    node = request.hardware.node
    return node is not None and node.network is not None and node.network.name == UNKNOWN_NETWORK


def setting_assumptions(resolved: ResolvedClaim, ceiling: Ceiling) -> list[Assumption]:
    """Assumptions that shape a ceiling: parallelism, formats, a context beyond the model's, perfect overlap."""
    notes: list[Assumption] = []
    if ceiling.devices > 1 and ceiling.split:
        stated = any(size is not None for size in (resolved.statement.tp, resolved.statement.pp, resolved.statement.dp))
        why = "as stated" if stated else f"the most favourable way to divide the model over {ceiling.devices} devices"
        notes.append(Assumption("parallelism", format_split(ceiling.split), "given" if stated else "assumed", why))
    if (request := ceiling.request) is not None:
        if _network_unknown(request):
            why = "no known one joins all of these devices: messages between servers take no time"
            notes.append(Assumption("network", None, "assumed", why))
        shared = [note for note in request.assumptions if note.name in _SHARED_NOTES or note.name.startswith("model.")]
        if widened := _widened(ceiling):
            why = f"four-bit weights may be multiplied as {widened}, which is faster than as the activations"
            shared = [note for note in shared if note.name != "matrix_dtype"]
            shared.append(Assumption("matrix_dtype", widened, "assumed", why))
        notes += shared
    if resolved.model is not None and ceiling.length > (longest := resolved.model.max_position_embeddings):
        why = f"beyond the {longest:,} tokens that {resolved.model.name} was made for: the bound holds, its outputs may not"
        notes.append(Assumption("context_length", ceiling.length, "assumed", why))
    why = "all operators and links overlap, intermediate results stay on chip, vector units take no time"
    return [*notes, Assumption("overlap", "perfect", "default", why)]


# Decode: rates of generated tokens, and TPOT.


def _context(resolved: ResolvedClaim) -> int:
    cached = resolved.statement.cached
    return SHORTEST_CONTEXT if cached is None else cached


def _per_sequence(resolved: ResolvedClaim) -> bool:
    """Whether the claim is about what one sequence sees."""
    return resolved.claim.is_time or resolved.claim.scope == "user"


def _batches(largest: int, factor: int = 2) -> list[int]:
    """Batches to estimate: powers up to the largest, and that.

    >>> _batches(100), _batches(100, 4), _batches(0)
    ([1, 2, 4, 8, 16, 32, 64, 100], [1, 4, 16, 64, 100], [])
    """
    largest = min(largest, _MAX_ESTIMATED_BATCH)
    return sorted({largest, *(factor**power for power in range(15) if factor**power <= largest)} - {0})


def _decode_ceiling(resolved: ResolvedClaim) -> Ceiling:
    of_split = ceiling_of_requests if resolved.whole_requests else _decode_of_split
    return _best(resolved, (of_split(resolved, split, request) for split, request in resolved.requests()))


def _decode_of_split(resolved: ResolvedClaim, split: Split, request: ResolvedRequest) -> Ceiling:
    context, batch = _context(resolved), resolved.statement.batch
    if batch is None:
        # a total is largest with the largest batch, what one sequence sees with the smallest
        batch = 1 if _per_sequence(resolved) else largest_batch(request, context + 1)
        if resolved.ignore_memory and not _per_sequence(resolved):
            batch = MAX_SEQUENCES
        batch = max(batch, 1)
    if (speculation := resolved.speculation(request)) is not None:
        return round_ceiling(resolved, split, speculation, batch, context)
    new = resolved.overrides.tokens_per_step
    step = (Segment(batch, new, context, decode=True),)
    if _per_sequence(resolved):
        # of a batch in several stages, a stage sees a part at a time
        of_stage = (Segment(ceil_div(batch, split["pp"]), new, context, decode=True),)
        seconds = latency(floors(request, of_stage, resolved.overrides)) / new
        value = seconds if resolved.claim.is_time else 1 / seconds
    else:
        seconds = interval(floors(request, step, resolved.overrides)) / new
        value = batch / seconds / (resolved.devices if resolved.claim.scope == "gpu" else 1)
    return _ceiling(resolved, split, request, step, context, value=value, seconds=seconds)


def ceiling_of_requests(resolved: ResolvedClaim, split: Split, request: ResolvedRequest) -> Ceiling:
    """The ceiling of whole requests, of which a batch is always in flight.

    For each batch of requests the devices compute its prompts, which give the first tokens, and decode the rest. The prompts
    of some may overlap with the steps of others, but one request cannot overlap with itself: at small batches that decides.
    """
    prompt, output = resolved.lengths
    speculation = resolved.speculation(request)
    model = request if speculation is None else speculation.verifier
    mean = prompt + ceil_div(output, 2)  # requests that take turns are at all lengths
    fits = resolved.ignore_memory or largest_batch(request, prompt + output) > 0
    batch = resolved.statement.batch or (largest_batch(request, mean) if fits and not resolved.ignore_memory else MAX_SEQUENCES)
    batch = max(batch, 1) if fits else 1

    def prompts(count: int) -> list[Floor]:
        return floors(model, resolved.prompts(count, prompt), resolved.overrides)

    alone = latency(prompts(1)) + _encoder_seconds(resolved, model, resolved.prompts(1, prompt))
    by_stage = [[(1.0, stage)] for stage in prompts(batch)]
    if output > 1:
        import numpy as np  # late: other claims need none

        points = decode_contexts(prompt, output - 1)
        contexts, weights = np.array([float(point) for point, _ in points]), np.array([weight for _, weight in points])
        for stage, parts in zip(by_stage, _per_token(resolved, request, batch, contexts), strict=False):
            stage += [(1.0, _summed(floor, times * weights * (output - 1))) for times, floor in parts]
        for parts in _per_token(resolved, request, 1, contexts):
            alone += sum(float(np.sum(times * weights * (output - 1) * floor.seconds)) for times, floor in parts)
    seen = encoder_floor(resolved, model, resolved.prompts(batch, prompt))
    whole = _with_encoder([together(parts) for parts in by_stage], seen)
    seconds = max(_interval(whole, seen), alone)
    value = batch * output / seconds / (resolved.devices if resolved.claim.scope == "gpu" else 1)
    step = decode(batch, (mean if fits else prompt + output) - 1)
    ceiling = _ceiling(resolved, split, request, step, prompt + output, value=value, seconds=seconds)
    return replace(ceiling, floors=whole, alone=alone)


def encoder_floor(resolved: ResolvedClaim, request: ResolvedRequest, prompts: Step) -> Floor | None:
    """The floor of the encoder of the images of some prompts, for a device; None without images, and of cached prompts."""
    graph = {} if resolved.overrides.reuse else encoder(request, prompts)
    return graph_floor(graph, prompts, request.hardware, resolved.overrides) if graph else None


def _encoder_seconds(resolved: ResolvedClaim, request: ResolvedRequest, prompts: Step) -> float:
    """The least seconds of the encoder before the prefill of some prompts; 0 without images."""
    seen = encoder_floor(resolved, request, prompts)
    return 0.0 if seen is None else float(seen.seconds)


def _with_encoder(stages: Sequence[Floor], seen: Floor | None) -> tuple[Floor, ...]:
    """The floors of pipeline stages with the encoder's work, which overlaps with that of other prompts, if there is one stage:
    which of several has it is up to the engine."""
    return tuple(stages) if seen is None or len(stages) > 1 else (together([(1.0, stages[0]), (1.0, seen)]),)


def _interval(stages: Sequence[Floor], seen: Floor | None) -> float:
    """The least seconds in which every stage has done its part, and all of them together the encoder's."""
    return interval(stages) if seen is None else max(interval(stages), float(seen.seconds) / len(stages))


def _summed(floor: Floor, times: Any) -> Floor:
    """The floor of several steps, each done a number of times: the fields of `floor`, and `times`, are arrays over them."""

    def total(values: Any) -> float:
        return float((values * times).sum())

    return Floor(
        weight_bytes=total(floor.weight_bytes),
        cache_bytes=total(floor.cache_bytes),
        state_bytes=total(floor.state_bytes),
        retained_bytes=total(floor.retained_bytes),
        bandwidth=floor.bandwidth,
        compute_s=total(floor.compute_s),
        link_s={name: total(seconds) for name, seconds in floor.link_s.items()},
        products={dtype: (total(flops), peak) for dtype, (flops, peak) in floor.products.items()},
    )


def _per_token(resolved: ResolvedClaim, request: ResolvedRequest, batch: int, context: Expr) -> list[list[tuple[float, Floor]]]:
    """What each pipeline stage has to do for one token of each sequence: floors, and how often each is done."""
    if (speculation := resolved.speculation(request)) is not None:
        return [[(times / speculation.tokens, floor) for times, floor in _round_parts(resolved, speculation, batch, context)]]
    new = resolved.overrides.tokens_per_step
    step = (Segment(batch, new, context, decode=True),)
    return [[(1 / new, stage)] for stage in floors(request, step, resolved.overrides)]


def _round_parts(resolved: ResolvedClaim, speculation: Speculation, batch: int, context: Expr) -> list[tuple[float, Floor]]:
    """A round of speculative decoding: the step that verifies, and those of the draft."""
    drafted = speculation.options.tokens
    verified = (Segment(batch, 1 + drafted, context, decode=True),)
    parts: list[tuple[float, Floor]] = [(1, one) for one in floors(speculation.verifier, verified, resolved.overrides)]
    if drafted and speculation.draft.request is not None:
        draft = floors(speculation.draft.request, decode(batch, context), resolved.overrides)
        parts += [(drafted, one) for one in draft]
    return parts


def round_ceiling(resolved: ResolvedClaim, split: Split, speculation: Speculation, batch: int, context: int) -> Ceiling:
    """The ceiling of a round of speculative decoding: K steps of the draft, and one of the model with K + 1 tokens.

    For one sequence they follow one another; of a batch, those of some sequences overlap with the other's of others.
    NB: the draft's context is that at the start of the round.
    """
    plain, parts = decode(batch, context), _round_parts(resolved, speculation, batch, context)
    whole = together(parts)
    in_turn = sum(times * one.seconds for times, one in parts)
    seconds = (in_turn if _per_sequence(resolved) else whole.seconds) / speculation.tokens
    if _per_sequence(resolved):
        value = seconds if resolved.claim.is_time else 1 / seconds
    else:
        value = batch / seconds / (resolved.devices if resolved.claim.scope == "gpu" else 1)
    ceiling = _ceiling(resolved, split, speculation.request, plain, context, value=value, seconds=seconds)
    return replace(ceiling, floors=(whole,))


def _decode_achievable(resolved: ResolvedClaim) -> Achievable:
    if resolved.whole_requests:
        return requests_achievable(resolved)

    def points() -> Iterator[_Point]:
        context, stated = _context(resolved), resolved.statement.batch
        for request in _estimated(resolved):
            batches = [stated or 1]
            if stated is None and not _per_sequence(resolved):
                batches = _batches(largest_batch(request, context + 1))
            for batch in batches:
                yield _of_step(resolved, request, decode(batch, context))

    def figure(seconds: float, step: Step) -> float:
        if resolved.claim.is_time:
            return seconds
        if resolved.claim.scope == "user":
            return 1 / seconds
        return float(sequences(step)) / seconds / (resolved.devices if resolved.claim.scope == "gpu" else 1)

    return _achievable(resolved, points(), figure)


def requests_achievable(resolved: ResolvedClaim) -> Achievable:
    """What is known to be reached with prompts: computed in steps of their own, or together with decode steps of others."""
    prompt, output = resolved.lengths
    steps, context, cached = output - 1, prompt + output // 2, resolved.cached_prefix(prompt)

    def points() -> Iterator[_Point]:
        for request in _estimated(resolved):
            stated, plain = resolved.statement.batch, resolved.speculation(request) is None
            at_once = max(request.memory.max_num_batched_tokens // (prompt - cached), 1) * request.deployment.data_parallel_size
            for batch in [stated] if stated else _batches(largest_batch(request, prompt + ceil_div(output, 2)), 4):
                step, several, joined = decode(batch, context), min(at_once, batch), ceil_div(batch, max(steps, 1))
                # prompts first, then all steps; or some prompts in every step, where there are more steps than that takes
                yield _Point(request, step, partial(in_turn, step, several, 0))
                if plain and joined <= at_once and joined < batch:
                    yield _Point(request, step, partial(in_turn, step, 0, joined))

    def in_turn(step: Step, several: int, joined: int, request: ResolvedRequest) -> Duration:
        batch = int(sequences(step))
        decoded = _expected(resolved, request, step) if steps else ZERO_TIME
        if joined:
            prompts = resolved.prompts(joined, prompt)
            mixed, graph = pipeline(request, (*step, *prompts)), encoder(request, prompts)
            if graph:
                mixed = total(timed(request, graph, prompts), mixed)
            return weighted_sum([(batch / joined, mixed), (steps - batch / joined, decoded)])
        return weighted_sum(
            [(batch / several, _expected(resolved, request, resolved.prompts(several, prompt))), (steps, decoded)]
        )

    def figure(seconds: float, step: Step) -> float:
        return float(sequences(step)) * output / seconds / (resolved.devices if resolved.claim.scope == "gpu" else 1)

    return _achievable(resolved, points(), figure)


def _derive_requests(resolved: ResolvedClaim, ceiling: Ceiling) -> list[str]:
    prompt, output = resolved.lengths
    requests = f"{plural(ceiling.batch, 'request')} of {prompt:,} + {output:,} tokens"
    lines = _derivation(ceiling, f"for {requests}")
    if ceiling.value is None or ceiling.seconds is None or ceiling.alone is None:
        return lines
    if ceiling.alone >= ceiling.seconds:
        took = formatting.quantity(ceiling.alone, "s")
        lines.append(f"one request, its prompt and {plural(output - 1, 'step')} one after another: at least {took}")
    shared = f" of all {ceiling.devices} devices together" if resolved.claim.scope == "gpu" and ceiling.devices > 1 else ""
    best = resolved.claim.format_value(ceiling.value)
    return [*lines, f"so at most {best} with {requests} at a time{shared}"]


def _derive_decode(resolved: ResolvedClaim, ceiling: Ceiling) -> list[str]:
    if resolved.whole_requests:
        return _derive_requests(resolved, ceiling)
    speculation = None if ceiling.request is None else resolved.speculation(ceiling.request)
    lines = _derivation(ceiling, "each step" if speculation is None else "each round")
    if ceiling.value is None or ceiling.seconds is None:
        return lines
    if speculation is not None:
        drafted, accepted = speculation.options.tokens, speculation.options.acceptance
        lines.append(f"a round gives {speculation.tokens:.4g} tokens: {drafted} drafted, each accepted with {accepted:g}")
    end = f"so {'at least' if resolved.claim.is_time else 'at most'} {resolved.claim.format_value(ceiling.value)}"
    if _per_sequence(resolved):
        return [*lines, f"{end} at batch {ceiling.batch:,}"]
    shared = f" of all {ceiling.devices} devices together" if resolved.claim.scope == "gpu" and ceiling.devices > 1 else ""
    what = f"{ceiling.batch:,} token{'s' * (ceiling.batch > 1)} per step"
    if speculation is not None:
        what = f"{plural(ceiling.batch, 'sequence')} per round"
    return [*lines, f"{end} with {what}{shared}"]


def _assume_decode(resolved: ResolvedClaim, ceiling: Ceiling) -> list[Assumption]:
    statement, notes = resolved.statement, []
    if statement.batch is not None:
        notes.append(Assumption("batch", statement.batch, "given", "sequences in the whole deployment"))
    else:
        best = "one user alone is fastest" if _per_sequence(resolved) else "the largest that memory holds"
        notes.append(Assumption("batch", ceiling.batch, "assumed", f"not stated: {best}"))
    if resolved.whole_requests:
        prompt, output = resolved.lengths
        cached = resolved.cached_prefix(prompt)
        computed = f"prompts but their {cached:,} cached tokens" if cached else "prompts"
        why = f"{computed} are computed in the same time; --context instead of lengths is for decode steps alone"
        notes.append(Assumption("requests", f"{prompt:,} + {output:,} tokens", "given", why))
    elif statement.context is not None:
        notes.append(Assumption("context", statement.context, "given", "tokens cached before the step"))
    elif statement.input_len is not None:
        notes.append(Assumption("context", statement.input_len, "given", "the prompt: the first decode step, the fastest"))
    else:
        notes.append(Assumption("context", SHORTEST_CONTEXT, "assumed", "not stated: the shortest is the fastest"))
    speculation = None if ceiling.request is None else resolved.speculation(ceiling.request)
    if speculation is None:
        notes.append(Assumption("tokens_per_step", 1, "default", "one token per sequence and step: no speculative decoding"))
    else:
        notes.append(Assumption("tokens_per_step", round(speculation.tokens, 4), "given", "of a round, by --acceptance"))
    return [*notes, *setting_assumptions(resolved, ceiling)]


# Prefill: TTFT, and rates of prompt tokens.


def _prompt_lengths(resolved: ResolvedClaim) -> tuple[int, ...]:
    if resolved.statement.input_len is not None:
        return (resolved.statement.input_len,)
    if resolved.claim.is_time:
        raise InputError('TTFT depends on the length of the prompt: state it, such as "for a 4k prompt" or --input-len 4k')
    longer = tuple(length for length in _PROMPT_LENGTHS if length > (resolved.statement.cached_prefix or 0))
    return longer or _PROMPT_LENGTHS[-1:]


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
    step = resolved.prompts(batch, length)
    stages, seen = floors(request, step, resolved.overrides), encoder_floor(resolved, request, step)
    if resolved.claim.is_time:
        seconds = value = latency(stages) + _encoder_seconds(resolved, request, step)
    else:
        stages = [*_with_encoder(stages, seen)]
        seconds = _interval(stages, seen)
        share = {"total": 1, "gpu": resolved.devices, "user": step[0].count}[resolved.claim.scope]
        value = step[0].count * length / seconds / share
    ceiling = _ceiling(resolved, split, request, step, length, value=value, seconds=seconds)
    return replace(ceiling, floors=tuple(stages), encoder=seen)


def _prefill_achievable(resolved: ResolvedClaim) -> Achievable:
    def points() -> Iterator[_Point]:
        for length in _prompt_lengths(resolved):
            for request in _estimated(resolved):
                # of a stated batch all prompts are expected at once, as `analyze` takes it
                batch = resolved.statement.batch if resolved.claim.is_time else None
                step = resolved.prompts(batch or _prompt_batch(resolved, request, length), length)
                yield _of_step(resolved, request, step)

    def figure(seconds: float, step: Step) -> float:
        if resolved.claim.is_time:
            return seconds
        share = {"total": 1, "gpu": resolved.devices, "user": step[0].count}[resolved.claim.scope]
        return float(sum(part.count * (part.cached + part.new) for part in step) / share) / seconds

    return _achievable(resolved, points(), figure)


def _derive_prefill(resolved: ResolvedClaim, ceiling: Ceiling) -> list[str]:
    lines = _derivation(ceiling, "for the prompt" if ceiling.batch == 1 else "for the prompts")
    if ceiling.value is None:
        return lines
    best = resolved.claim.format_value(ceiling.value)
    if not resolved.claim.is_time:
        seen = "" if ceiling.encoder is None else " and the encoder of their images"
        return [*lines, f"so at most {best} with {ceiling.batch:,} x {ceiling.length:,} tokens{seen}"]
    if ceiling.encoder is not None:
        lines.append(_encoder_line(resolved, ceiling.encoder))
    cached = resolved.cached_prefix(ceiling.length)
    held = f", {cached:,} of them cached," if cached else ""
    lines.append(f"so the first token after {ceiling.length:,}{held} comes in {best} at the soonest")
    if (batch := resolved.statement.batch or 1) > 1:
        last = resolved.claim.format_value(_last_of_batch(resolved, ceiling, batch))
        lines.append(f"all {batch:,} prompts at once: at least {last} for the last")
    return lines


def _encoder_line(resolved: ResolvedClaim, seen: Floor) -> str:
    """What the encoder of the images of a prompt has to do before its prefill, and how long that takes."""
    images = plural(int(resolved.options["images"]), "image")
    work = formatting.quantity(sum(flops for flops, _ in seen.products.values()), "FLOP")
    read, least = formatting.quantity(seen.weight_bytes, "B"), formatting.quantity(float(seen.seconds), "s")
    return f"encoder of {images} before it: {work} of matrix products, {read} of weights: at least {least}"


def _last_of_batch(resolved: ResolvedClaim, ceiling: Ceiling, batch: int) -> float:
    """The least seconds until the last of several prompts has its token: each stage does all, and one prompt passes all."""
    step = resolved.prompts(batch, ceiling.length)

    def least(request: ResolvedRequest) -> float:
        seen = encoder_floor(resolved, request, step)
        return _interval(_with_encoder(floors(request, step, resolved.overrides), seen), seen)

    return max(ceiling.value or 0.0, min(least(request) for _, request in resolved.requests()))


def _assume_prefill(resolved: ResolvedClaim, ceiling: Ceiling) -> list[Assumption]:
    statement, notes = resolved.statement, []
    stated = statement.input_len is not None
    cached = resolved.cached_prefix(ceiling.length)
    held = f"{cached:,} of them" if cached else "nothing"
    why = f"prompt tokens, {held} cached" if stated else "not stated: the length with the best rate"
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
    return [*notes, *setting_assumptions(resolved, ceiling)]


DECODE = Rules(ceiling=_decode_ceiling, derive=_derive_decode, assume=_assume_decode, achievable=_decode_achievable)
PREFILL = Rules(ceiling=_prefill_ceiling, derive=_derive_prefill, assume=_assume_prefill, achievable=_prefill_achievable)
