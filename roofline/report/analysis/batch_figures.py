"""Figures of one deployment at other batches and lengths: throughput against TPOT, TTFT, a heat map of TPOT, batch limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from roofline import formatting
from roofline.graph.build import build
from roofline.predict.batch_limits import critical_batch_step
from roofline.predict.bounds import times
from roofline.predict.duration import Duration
from roofline.predict.limits import first_of
from roofline.predict.memory import UNLIMITED
from roofline.predict.request import ResolvedRequest
from roofline.predict.result import Analysis
from roofline.predict.slo import Slo, first_token, next_token, within
from roofline.predict.timing import pipeline, time_to_first_token
from roofline.report.axes import evenly_spaced
from roofline.report.cells import NOTHING, about_time, best, number_cell, seconds, table, text_cell, whole
from roofline.report.figure import Axis, Cell, Figure, Mark, Series, Zone
from roofline.specs.workload import Step, decode, prefill

_MOST = 2**16
_FEWEST = 128


def _batches(request: ResolvedRequest, result: Analysis) -> list[int]:
    """Batch sizes of the figures: powers of two up to twice what memory holds, the requested batch, the largest that fits."""
    most = largest_batch(result) if result.memory.max_batch < UNLIMITED else _MOST
    batch = request.workload.batch
    last = min(max(most * 2, batch * 2, 16), _MOST)
    sizes = {batch, max(most, 1)} if most <= last else {batch}
    step = request.deployment.data_parallel_size
    size = 1
    while size <= last:
        sizes.add(size)
        size *= 2
    return sorted(size for size in sizes if size >= min(step, batch))


def largest_batch(result: Analysis) -> int:
    """The largest batch that fits with the whole output, or at the context alone where there is no output length."""
    memory = result.memory
    return memory.max_batch if memory.max_batch_of_steps is None else memory.max_batch_of_steps


def _lengths(request: ResolvedRequest) -> list[int]:
    """Lengths in tokens: powers of two from 128 to the model's longest context, and the requested length."""
    longest = request.model.max_position_embeddings
    tried = {request.workload.input_len, longest}
    length = _FEWEST
    while length < longest:
        tried.add(length)
        length *= 2
    return sorted(tried)


_COLUMNS, _ROWS = 10, 8


def explorer(request: ResolvedRequest, result: Analysis, slo: float) -> Figure:
    """Line plot of tokens/s per GPU against TPOT in seconds, a point per batch size.

    `slo` is the TPOT objective in seconds, 0 for none.
    """
    sizes, context = _batches(request, result), request.workload.context
    devices = request.deployment.devices
    took = [pipeline(request, decode(size, context)) for size in sizes]
    fits = [request.memory.fits(decode(size, context)) for size in sizes]
    drawn = [index for index, fit in enumerate(fits) if fit or request.ignore_capacity]
    rates = [size / (best(time) or 1.0) / devices for size, time in zip(sizes, took, strict=True)]
    series = []
    estimated = bool(took) and took[0].estimate is not None
    series.append(_line("bound", "bare-bound", sizes, drawn, [time.bound for time in took], devices, named=not estimated))
    if estimated:
        spread = [index for index in drawn if took[index].low is not None and took[index].high is not None]
        series.append(_between(sizes, spread, took, devices))
        series.append(_line("estimate", "tpot", sizes, drawn, [time.estimate for time in took], devices))
    marks = []
    last = max([best(took[index]) or 0.0 for index in drawn], default=0.0)
    if slo and slo < 2 * last:  # an objective far off would press everything else together
        marks.append(Mark(text=f"objective {formatting.seconds(slo)}", x=slo, role="slo"))
    if largest_batch(result) in sizes:
        full = sizes.index(largest_batch(result))
        marks.append(Mark(text=f"memory full: {sizes[full]:,}", x=best(took[full])))
    critical = result.limits.critical_batch_step
    if critical is not None and critical <= sizes[-1]:
        marks.append(
            Mark(text=f"compute-bound from {critical:,}", x=best(pipeline(request, decode(critical, context))), role="compute")
        )
    rows = []
    for index, (size, time, fit) in enumerate(zip(sizes, took, fits, strict=True)):
        cells = [*_durations(time), number_cell(rates[index])]
        # no rate of what does not fit, unless capacity is ignored
        rows.append((whole(size), *(cells if index in drawn else [NOTHING] * len(cells)), text_cell("yes" if fit else "no")))
    names = ("batch", "TPOT bound", "TPOT estimate", "from", "to", "tokens/s per GPU", "fits")
    interval = ": estimate with its 80 % interval, and the roofline bound" if estimated else ""
    return Figure(
        key="explorer",
        title="Throughput against TPOT",
        note=f"Decode at {context:,} cached tokens along the batch, the number at a point{interval}.",
        x=Axis(title="TPOT", scale="linear", unit="s", low=0.0),
        y=Axis(title=f"tok/s{' per GPU' if devices > 1 else ''}", scale="linear", low=0.0),
        series=tuple(series),
        marks=tuple(marks),
        zones=() if drawn else (Zone(text="no batch fits in memory", role="memory"),),
        table=table("explorer-rows", "Batches", "", names, rows),
    )


def _line(
    name: str, role: str, sizes: list[int], drawn: list[int], times: list[float | None], devices: int, *, named: bool = True
) -> Series:
    xs = [times[index] or 0.0 for index in drawn]
    ys = [sizes[index] / (times[index] or 1.0) / devices for index in drawn]
    return Series(
        name=name,
        kind="line",
        role=role,
        x=tuple(xs),
        y=tuple(ys),
        labels=tuple(
            f"batch {sizes[index]:,}: TPOT {formatting.seconds(x)}, {y:,.4g} tokens/s per GPU"
            for index, x, y in zip(drawn, xs, ys, strict=True)
        ),
        short=tuple(f"{sizes[index]:,}" for index in drawn) if named else (),
    )


def _between(sizes: list[int], drawn: list[int], took: list[Duration], devices: int) -> Series:
    """The 80 % interval along the batches: of one batch tokens/s are as much less as TPOT is more."""
    low, high = [took[index].low or 0.0 for index in drawn], [took[index].high or 0.0 for index in drawn]
    batches = [sizes[index] for index in drawn]
    return Series(
        name="80 % interval",
        kind="band",
        role="tpot",
        x=tuple(high),
        y=tuple(took[index].estimate for index in drawn),
        low=tuple(batch / (time or 1.0) / devices for batch, time in zip(batches, high, strict=True)),
        high=tuple(batch / (time or 1.0) / devices for batch, time in zip(batches, low, strict=True)),
        x_high=tuple(low),
    )


def _durations(time: Duration) -> list[Cell]:
    return [seconds(time.bound), *(about_time(value) for value in (time.estimate, time.low, time.high))]


def ttft_by_prompt(requests: list[ResolvedRequest], slo: float) -> Figure:
    """Line plot of the TTFT in seconds of a batch of prompts against their length in tokens, a line per hardware.

    `slo` is the TTFT objective in seconds, 0 for none.
    """
    series, rows = [], []
    for variant, request in enumerate(requests):
        name, pictured = request.hardware.name, request.workload.image_tokens
        tried = [length for length in _lengths(request) if length > pictured]
        steps = [prefill(request.workload.batch, length) for length in tried]
        fits = [request.memory.fits(step) for step in steps]
        took = [time_to_first_token(request, step) for step in steps]
        drawn = [index for index, fit in enumerate(fits) if fit or request.ignore_capacity]
        xs, times_of = [tried[index] for index in drawn], [took[index] for index in drawn]
        series.append(_curve(f"{name} bound", "bound", variant, xs, [time.bound for time in times_of]))
        if took[0].estimate is not None:
            series.append(_curve(f"{name} estimate", "ttft", variant, xs, [time.estimate for time in times_of]))
            series.append(_interval(f"{name} 80 % interval", variant, xs, times_of))
        for index, (length, time, fit) in enumerate(zip(tried, took, fits, strict=True)):
            cells = _durations(time) if index in drawn else [NOTHING] * 4
            rows.append((text_cell(name), whole(length), *cells, text_cell("yes" if fit else "no")))
    batch = requests[0].workload.batch
    several = f"{batch:,} prompts at once" if batch > 1 else "one prompt alone"
    return Figure(
        key="ttft",
        title="TTFT against the prompt",
        note=f"Prefill of {several}, with nothing cached and no queue, which would add to it.",
        x=Axis(title="prompt", scale="log", unit="tokens"),
        y=Axis(title="TTFT", scale="log", unit="s"),
        series=tuple(series),
        marks=(Mark(text=f"TTFT {formatting.seconds(slo)}", y=slo, role="slo"),) if slo else (),
        zones=() if any(len(one.x) > 0 for one in series) else (Zone(text="no prompt fits in memory", role="memory"),),
        table=table("ttft-rows", "TTFT", "", ("hardware", "prompt", "bound", "estimate", "from", "to", "fits"), rows),
    )


def _curve(name: str, role: str, variant: int, xs: list[int], ys: list[float | None]) -> Series:
    labels = tuple(f"{name}: {x:,} tokens, {formatting.seconds(y or 0.0)}" for x, y in zip(xs, ys, strict=True))
    return Series(name=name, kind="line", role=role, x=tuple(xs), y=tuple(ys), labels=labels, variant=variant)


def _interval(name: str, variant: int, xs: list[int], took: list[Duration]) -> Series:
    return Series(
        name=name,
        kind="band",
        role="ttft",
        x=tuple(xs),
        y=tuple(time.estimate for time in took),
        low=tuple(time.low or 0.0 for time in took),
        high=tuple(time.high or 0.0 for time in took),
        variant=variant,
    )


def heatmap(request: ResolvedRequest, result: Analysis) -> Figure:
    """Heat map of TPOT by batch and context, which double from cell to cell; hatched if it does not fit."""
    sizes, lengths = _batches(request, result), _lengths(request)
    columns = _doubled(request.deployment.data_parallel_size, max(sizes), _COLUMNS)
    rows = _doubled(_FEWEST, max(lengths), _ROWS)
    z: list[tuple[float | None, ...]] = []
    hatched: list[tuple[bool, ...]] = []
    labels: list[str] = []
    cells: list[tuple[Cell, ...]] = []
    for context in rows:
        line: list[float | None] = []
        odd: list[bool] = []
        for size in columns:
            step = decode(size, context)
            value, fits, binds = best(pipeline(request, step)), request.memory.fits(step), _binds(request, step)
            line.append(value)
            odd.append(not fits)
            text = f"batch {size:,} at {context:,} cached tokens: TPOT {formatting.about(value or 0.0)}, bound by {binds}"
            labels.append(text if fits else f"{text}; does not fit")
            cells.append((whole(context), whole(size), seconds(value), text_cell(binds), text_cell("yes" if fits else "no")))
        z.append(tuple(line))
        hatched.append(tuple(odd))
    unit, scale = ("s", 1.0) if min([value or 1.0 for line in z for value in line]) >= 1 else ("ms", 1e3)
    texts = [
        tuple("" if odd else formatting.in_cell(scale * (value or 0.0)) for value, odd in zip(line, row, strict=True))
        for line, row in zip(z, hatched, strict=True)
    ]
    map_of = Series(
        name=f"TPOT, {unit}:",
        kind="heat",
        role="estimate",
        x=tuple(f"{size:,}" for size in columns),
        y=tuple(f"{context:,}" for context in rows),
        z=tuple(z),
        texts=tuple(texts),
        labels=tuple(labels),
        hatched=tuple(hatched),
        hatched_name="does not fit",
    )
    return Figure(
        key="heatmap",
        title="TPOT by batch and context",
        note=f"In {unit}. Hatched: does not fit in memory.",
        x=Axis(title="sequences", scale="category"),
        y=Axis(title="cached tokens", scale="category"),
        series=(map_of,),
        table=table("heatmap-rows", "Map", "", ("cached tokens", "batch", "TPOT", "binds", "fits"), cells),
    )


def _doubled(first: int, last: int, most: int) -> list[int]:
    """At most `most` values from the first up to the last, each the same power of two times the one before.

    >>> _doubled(1, 700, 10), _doubled(128, 131072, 8)
    ([1, 2, 4, 8, 16, 32, 64, 128, 256, 512], [128, 512, 2048, 8192, 32768, 131072])
    """
    factor = 1
    values: list[int] = []
    while len(values) == 0 or len(values) > most:
        factor *= 2
        values = []
        value = first
        while value <= max(last, first):
            values.append(value)
            value *= factor
    return values


def _binds(request: ResolvedRequest, step: Step) -> str:
    """The resource with the largest share of the bound, in the fullest stage."""
    shares = {"compute": 0.0, "memory": 0.0, "link": 0.0}
    graph = build(request.model, request.deployment, request.precision, step, request.memory.stage)
    for operator, repeat in graph.values():
        bound_times = times(operator, operator.cost() * repeat, request.hardware)
        shares[bound_times.bound_by] += bound_times.bound
    return max(shares, key=lambda kind: shares[kind])


# Batch limits

_CONTEXTS = 9
"""Contexts of the figure, at most: with objectives each takes some ten decode steps."""
_BOTTOM = 0.7
"""The low end of the batch axis where a line goes down to no sequence at all."""


def batch_limits(request: ResolvedRequest, result: Analysis, slo: Slo) -> Figure:
    """Line plot against context of the batch sizes at which memory is full, compute limits, or the objectives `slo` fail."""
    contexts = evenly_spaced([context for context, _ in result.limits.max_batch_by_context if context], _CONTEXTS)
    memory = [_finite(request.memory.max_batch(context)) for context in contexts]
    compute = [critical_batch_step(request.memory, request.hardware, context) for context in contexts]
    allowed: list[int | None] = []
    for context in contexts:  # more tokens never allow more
        none_before = len(allowed) > 0 and allowed[len(allowed) - 1] == 0
        allowed.append(0 if none_before else _allowed(request, context, slo))
    held = _end(contexts, memory, lambda context: _finite(request.memory.max_batch(context)))
    met = _end(contexts, allowed, lambda context: _allowed(request, context, slo))
    drawn = [
        _ending(limit_line("memory", "memory holds", contexts, memory), held),
        limit_line("compute", "compute-bound from", contexts, compute),
        _ending(limit_line("slo", f"{_objectives(slo)} allow", contexts, allowed), met),
    ]
    zones: list[Zone] = []
    if met is not None:
        zones.append(Zone(text=f"no batch meets {_failing(request, slo, met.context)}", role="slo", x0=_beyond(met)))
    if held is not None:
        zones.append(Zone(text="not one sequence fits", role="missing", x0=_beyond(held)))
    rows: list[tuple[Cell, ...]] = []
    for context, most_held, critical, most in zip(contexts, memory, compute, allowed, strict=True):
        first = first_of(most_held, critical, most)
        name = "none" if first is None else {"memory": "memory", "compute": "compute", "slo": "objectives"}[first[0]]
        rows.append((whole(context), whole(most_held), whole(critical), whole(most), text_cell(name)))
    names = ("cached tokens", "memory", "compute", "objectives", "reached first")
    return Figure(
        key="batch-limits",
        title="Batch limits",
        note=_note(slo, estimated=request.estimator.applies, computes=any(compute)),
        x=Axis(title="cached tokens", scale="log", unit="tokens"),
        y=Axis(title="largest batch, sequences", scale="log", unit="sequences", low=_BOTTOM if len(zones) > 0 else None),
        series=tuple(series for series in drawn if len(series.x) > 0),
        zones=tuple(zones),
        table=table("batch-limits-rows", "Batch limits", "in sequences of the whole deployment", names, rows),
    )


@dataclass(frozen=True, slots=True)
class _End:
    """Where a limit leaves no batch: beyond a context, to some percent, and the largest batch there, 0 for none at all."""

    context: int
    batch: int


def _end(contexts: list[int], batches: list[int | None], largest: Callable[[int], int | None]) -> _End | None:
    """The end of a limit; None where each context has a batch."""
    none = [index for index, batch in enumerate(batches) if batch == 0]
    if len(none) == 0:
        return None
    if none[0] == 0:
        return _End(contexts[0], 0)
    low, high = contexts[none[0] - 1], contexts[none[0]]
    there = batches[none[0] - 1] or 0
    while high - low > max(low // 32, 1):
        middle = (low + high) // 2
        batch = largest(middle)
        if batch == 0:
            high = middle
        else:
            low, there = middle, batch or 0
    return _End(low, there)


def _ending(series: Series, end: _End | None) -> Series:
    """The line with its end: from the last context at which there is a batch down to none."""
    if end is None or end.batch == 0:
        return series
    text = f"{series.name}: none beyond {end.context:,} cached tokens"
    return replace(
        series,
        x=(*series.x, end.context, end.context),
        y=(*series.y, end.batch, _BOTTOM),
        labels=(*series.labels, text, text),
        short=(*series.short, "", ""),
    )


def _beyond(end: _End) -> float | None:
    """Where a zone without a batch begins; None: at the edge."""
    return end.context if end.batch > 0 else None


def _failing(request: ResolvedRequest, slo: Slo, last: int) -> str:
    """The objective that fails beyond a context."""
    time = None if slo.ttft is None else first_token(request, int(1.05 * last) + 1)
    late = time is not None and slo.ttft is not None and (best(time) or 0.0) > slo.ttft
    return _objectives(Slo(ttft=slo.ttft) if late else Slo(tpot=slo.tpot))


def _objectives(slo: Slo) -> str:
    """The objectives, such as "TTFT 1 s and TPOT 50 ms"."""
    named = [("TTFT", slo.ttft), ("TPOT", slo.tpot)]
    return " and ".join([f"{name} {formatting.seconds(limit)}" for name, limit in named if limit is not None])


def _finite(batch: int) -> int | None:
    return None if batch >= UNLIMITED else batch


def _allowed(request: ResolvedRequest, context: int, slo: Slo) -> int | None:
    """What the objectives allow by the estimate, or by the bound where there is none; None: no limit."""
    name = "estimate" if request.estimator.applies else "bound"
    ttft = None if slo.ttft is None else first_token(request, context)
    return within(slo, ttft, next_token(request, context), name, request.deployment.data_parallel_size)


def limit_line(role: str, name: str, contexts: list[int], batches: list[int | None]) -> Series:
    """Return the line of a limit; none of it where there is no limit, or where not one sequence is within it."""
    finite = [(context, batch) for context, batch in zip(contexts, batches, strict=True) if batch]
    return Series(
        name=name,
        kind="line",
        role=role,
        x=tuple(context for context, _ in finite),
        y=tuple(batch for _, batch in finite),
        labels=tuple(f"{context:,} cached tokens, {name}: {batch:,} sequences" for context, batch in finite),
        short=tuple(f"{batch:,}" for _, batch in finite),
    )


def _note(slo: Slo, *, estimated: bool, computes: bool) -> str:
    """What is drawn, and what it goes by."""
    text = "The lowest line is reached first as the batch grows."
    if slo.given:
        text += f" Objectives hold of a decode step and of a prompt alone, by the {'estimate' if estimated else 'bound'}."
    return text if computes else f"{text} Memory-bound at every batch size."
