"""Figures of one deployment at other batches and lengths: throughput against TPOT, TTFT, a heat map of TPOT, batch limits."""

from __future__ import annotations

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
from roofline.predict.timing import pipeline
from roofline.report.axes import evenly_spaced
from roofline.report.cells import NOTHING, best, number_cell, seconds, table, text_cell, whole
from roofline.report.figure import Axis, Cell, Figure, Mark, Series, Zone
from roofline.specs.workload import Step, decode, prefill

_MOST = 2**16
_FEWEST = 128


def _batches(request: ResolvedRequest, result: Analysis) -> list[int]:
    """Batch sizes of the figures: powers of two up to twice what memory holds, the requested batch, the largest that fits."""
    most = result.memory.max_batch if result.memory.max_batch < UNLIMITED else _MOST
    batch = request.workload.batch
    last = min(max(most * 2, batch * 2, 16), _MOST)
    sizes = {batch, max(most, 1)} if most <= last else {batch}
    step = request.deployment.data_parallel_size
    size = 1
    while size <= last:
        sizes.add(size)
        size *= 2
    return sorted(size for size in sizes if size >= min(step, batch))


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
_LETTERS = {"compute": "C", "memory": "M", "link": "L", "overhead": "O"}


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
    series.append(_line("bound", "bound", sizes, drawn, [time.bound for time in took], devices))
    if estimated:
        series.append(_line("estimate", "estimate", sizes, drawn, [time.estimate for time in took], devices))
    marks = []
    if slo:
        marks.append(Mark(text=f"TPOT {formatting.seconds(slo)}", x=slo, role="slo"))
    if result.memory.max_batch in sizes:
        last = sizes.index(result.memory.max_batch)
        marks.append(Mark(text=f"KV limit: batch {sizes[last]:,}", x=best(took[last])))
    critical = result.limits.critical_batch_step
    if critical is not None and critical <= sizes[-1]:
        marks.append(
            Mark(text=f"compute-bound from {critical:,}", x=best(pipeline(request, decode(critical, context))), role="compute")
        )
    zones = (Zone(text="within the TPOT", role="slo", x0=None, x1=slo),) if slo else ()
    rows = []
    for index, (size, time, fit) in enumerate(zip(sizes, took, fits, strict=True)):
        cells = [*_durations(time), number_cell(rates[index])]
        # no rate of what does not fit, unless capacity is ignored
        rows.append((whole(size), *(cells if index in drawn else [NOTHING] * len(cells)), text_cell("yes" if fit else "no")))
    names = ("batch", "TPOT bound", "TPOT estimate", "from", "to", "tokens/s per GPU", "fits")
    return Figure(
        key="explorer",
        title="Throughput against TPOT",
        note=f"Decode at {context:,} cached tokens, along the batch: each point is a batch. Up is more tokens/s per "
        "GPU, left is a faster stream for each user.",
        x=Axis(title="TPOT", scale="log", unit="s"),
        y=Axis(title="throughput of a GPU", scale="log", unit="tokens/s"),
        series=tuple(series),
        marks=tuple(marks),
        zones=zones,
        table=table("explorer-rows", "Batches", "", names, rows),
    )


def _line(name: str, role: str, sizes: list[int], drawn: list[int], times: list[float | None], devices: int) -> Series:
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
        short=tuple(f"{sizes[index]:,}" for index in drawn),
    )


def _durations(time: Duration) -> list[Cell]:
    return [seconds(value) for value in (time.bound, time.estimate, time.low, time.high)]


def ttft_by_prompt(requests: list[ResolvedRequest], slo: float) -> Figure:
    """Line plot of the TTFT in seconds of a batch of prompts against their length in tokens, a line per hardware.

    `slo` is the TTFT objective in seconds, 0 for none.
    """
    series, rows = [], []
    for variant, request in enumerate(requests):
        name, tried = request.hardware.name, _lengths(request)
        steps = [prefill(request.workload.batch, length) for length in tried]
        fits = [request.memory.fits(step) for step in steps]
        took = [pipeline(request, step) for step in steps]
        drawn = [index for index, fit in enumerate(fits) if fit or request.ignore_capacity]
        xs, times_of = [tried[index] for index in drawn], [took[index] for index in drawn]
        series.append(_curve(f"{name} bound", "bound", variant, xs, [time.bound for time in times_of]))
        if took[0].estimate is not None:
            series.append(_curve(f"{name} estimate", "estimate", variant, xs, [time.estimate for time in times_of]))
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
        table=table("ttft-rows", "TTFT", "", ("hardware", "prompt", "bound", "estimate", "from", "to", "fits"), rows),
    )


def _curve(name: str, role: str, variant: int, xs: list[int], ys: list[float | None]) -> Series:
    labels = tuple(f"{name}: {x:,} tokens, {formatting.seconds(y or 0.0)}" for x, y in zip(xs, ys, strict=True))
    return Series(name=name, kind="line", role=role, x=tuple(xs), y=tuple(ys), labels=labels, variant=variant)


def _interval(name: str, variant: int, xs: list[int], took: list[Duration]) -> Series:
    return Series(
        name=name,
        kind="band",
        role="estimate",
        x=tuple(xs),
        y=tuple(time.estimate for time in took),
        low=tuple(time.low or 0.0 for time in took),
        high=tuple(time.high or 0.0 for time in took),
        variant=variant,
    )


def heatmap(request: ResolvedRequest, result: Analysis) -> Figure:
    """Heat map of TPOT by batch and context: seconds and limiting resource of each cell; hatched if it does not fit."""
    columns = evenly_spaced(_batches(request, result), _COLUMNS)
    rows = evenly_spaced(_lengths(request), _ROWS)
    z, texts, hatched, cells = [], [], [], []
    for context in rows:
        line, written, odd = [], [], []
        for size in columns:
            step = decode(size, context)
            time, fits = pipeline(request, step), request.memory.fits(step)
            value, letter = best(time), _LETTERS[_binds(request, step)]
            line.append(value)
            written.append(f"{formatting.quantity(value or 0.0, 's', 2)} {letter}")
            odd.append(not fits)
            cells.append((whole(context), whole(size), seconds(value), text_cell(letter), text_cell("yes" if fits else "no")))
        z.append(tuple(line))
        texts.append(tuple(written))
        hatched.append(tuple(odd))
    map_of = Series(
        name="TPOT",
        kind="heat",
        role="estimate",
        x=tuple(f"{size:,}" for size in columns),
        y=tuple(f"{context:,}" for context in rows),
        z=tuple(z),
        texts=tuple(texts),
        hatched=tuple(hatched),
        hatched_name="does not fit",
    )
    return Figure(
        key="heatmap",
        title="TPOT by batch and context",
        note="C: compute takes the larger share of the bound, M: memory, L: the link. Hatched: does not fit in memory.",
        x=Axis(title="sequences", scale="category"),
        y=Axis(title="cached tokens", scale="category"),
        series=(map_of,),
        table=table("heatmap-rows", "Map", "", ("cached tokens", "batch", "TPOT", "binds", "fits"), cells),
    )


def _binds(request: ResolvedRequest, step: Step) -> str:
    """The resource with the largest share of the bound, in the fullest stage."""
    shares = {"compute": 0.0, "memory": 0.0, "link": 0.0}
    graph = build(request.model, request.deployment, request.precision, step, request.memory.stage)
    for operator, repeat in graph.values():
        bound_times = times(operator, operator.cost() * repeat, request.hardware)
        shares[bound_times.bound_by] += bound_times.bound
    return max(shares, key=lambda kind: shares[kind])


# Batch limits

_CONTEXTS = 5
"""Contexts of the figure, at most: each takes some ten decode steps to find what the objectives allow."""


def batch_limits(request: ResolvedRequest, result: Analysis, slo: Slo) -> Figure:
    """Line plot against context of the batch sizes at which memory is full, compute limits, or the objectives `slo` fail."""
    contexts = evenly_spaced([context for context, _ in result.limits.max_batch_by_context if context], _CONTEXTS)
    memory = [_finite(request.memory.max_batch(context)) for context in contexts]
    compute = [critical_batch_step(request.memory, request.hardware, context) for context in contexts]
    allowed = [_allowed(request, context, slo) for context in contexts]
    drawn = [
        _limit_line("memory", "memory holds", contexts, memory),
        _limit_line("compute", "compute-bound from", contexts, compute),
        _limit_line("slo", "objectives allow", contexts, allowed),
    ]
    rows: list[tuple[Cell, ...]] = []
    for context, held, critical, most in zip(contexts, memory, compute, allowed, strict=True):
        first = first_of(held, critical, most)
        name = "none" if first is None else {"memory": "memory", "compute": "compute", "slo": "objectives"}[first[0]]
        rows.append((whole(context), whole(held), whole(critical), whole(most), text_cell(name)))
    names = ("cached tokens", "memory", "compute", "objectives", "reached first")
    return Figure(
        key="batch-limits",
        title="Batch limits",
        note=_note(slo, estimated=request.estimator.applies),
        x=Axis(title="cached tokens", scale="log", unit="tokens"),
        y=Axis(title="largest batch, sequences", scale="log", unit="sequences"),
        series=tuple(series for series in drawn if len(series.x) > 0),
        table=table("batch-limits-rows", "Batch limits", "in sequences of the whole deployment", names, rows),
    )


def _finite(batch: int) -> int | None:
    return None if batch >= UNLIMITED else batch


def _allowed(request: ResolvedRequest, context: int, slo: Slo) -> int | None:
    """What the objectives allow by the estimate, or by the bound where there is none; None: no limit."""
    name = "estimate" if request.estimator.applies else "bound"
    ttft = None if slo.ttft is None else first_token(request, context)
    return within(slo, ttft, next_token(request, context), name, request.deployment.data_parallel_size)


def _limit_line(role: str, name: str, contexts: list[int], batches: list[int | None]) -> Series:
    """A limit; none of it where there is no limit, or where not one sequence is within it."""
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


def _note(slo: Slo, estimated: bool) -> str:
    """What is drawn, and what it goes by."""
    objectives = []
    if slo.tpot is not None:
        objectives.append(f"a decode step within {formatting.seconds(slo.tpot)}")
    if slo.ttft is not None:
        objectives.append(f"a prompt alone within {formatting.seconds(slo.ttft)}")
    text = "The lowest line is reached first as the batch grows. "
    if objectives:
        text += f"Objectives: {' and '.join(objectives)}, by the {'estimate' if estimated else 'bound'}. "
    nearly_free = "From the compute line on, a larger batch is no longer nearly free; "
    return f"{text}{nearly_free}without one the step is memory-bound at every batch size."
