"""The pictures that a lesson shows of a run. Pages run a translation of this module."""

from __future__ import annotations

from dataclasses import replace

from roofline import formatting
from roofline.errors import UnknownNameError
from roofline.graph import caches
from roofline.predict.timing import pipeline
from roofline.report.analysis.step_figures import memory_budget, roofline_figure, time_budget
from roofline.report.cells import seconds, table, whole
from roofline.report.figure import Axis, Cell, Figure, Mark, Series
from roofline.specs.workload import decode
from roofline.teach.lessons.live.evicted import recompute_seconds, swap_seconds
from roofline.teach.lessons.live.run import Run, kept_bytes, ran
from roofline.teach.lessons.live.service import service

NAMES = ("roofline", "cache", "memory", "time", "evicted", "batches")
_LONGEST = 131072


def picture(name: str, run: Run) -> Figure:
    """A picture by its name. Its key is one that no other figure of a page has.

    Raises:
        UnknownNameError: there is none.
    """
    return replace(_made(name, run), key=f"play-{name}")


def _made(name: str, run: Run) -> Figure:
    if name == "roofline":
        return roofline_figure(run.request, run.result)
    if name == "cache":
        return cache(run)
    if name == "memory":
        return memory_budget([run.result])
    if name == "time":
        return time_budget(run.decode)
    if name == "evicted":
        return evicted(run)
    if name == "batches":
        return batches(run)
    if name == "service":
        return throughput(run)
    raise UnknownNameError("picture", name, NAMES, list_all=True)


def cache(run: Run) -> Figure:
    """The cache of the batch by context: as it is set, and with a key and a value for every query head and every token."""
    shown = (("as set", "kv", run), ("multi-head, no window", "estimate", _multi_head(run)))
    lengths = [float(2**power) for power in range(9, 18)]
    batch = run.request.workload.batch
    series = []
    for name, role, one in shown:
        found = caches(one.request.model, one.request.deployment, one.request.memory.stage)
        sizes = [kept_bytes(found, one.request.precision.kv.bytes, length) * batch for length in lengths]
        series.append(
            Series(
                name=name,
                kind="line",
                role=role,
                x=tuple(lengths),
                y=tuple(sizes),
                labels=tuple(
                    f"{name}, {length:,.0f} tokens: {formatting.binary(size)}"
                    for length, size in zip(lengths, sizes, strict=True)
                ),
            )
        )
    weights = run.result.memory.weights_bytes
    here = run.request.workload.context + 1
    rows = [(whole(length), *(_size(one.y[index]) for one in series)) for index, length in enumerate(lengths)]
    return Figure(
        key="cache",
        title="KV cache of the batch, by context",
        note="All sequences of the batch together. A window bends the line; heads and latent move it.",
        x=Axis(title="tokens of each sequence", scale="log", unit="tokens", low=lengths[0], high=float(_LONGEST)),
        y=Axis(title="cache", scale="log", unit="B"),
        series=tuple(series),
        marks=(
            Mark(text=f"weights: {formatting.binary(weights)}", y=weights, role="critical"),
            Mark(text=f"{here:,.0f} tokens", x=float(here), role="limit"),
        ),
        table=table("cache-rows", "KV cache of the batch, by context", "", ("tokens", *(one.name for one in series)), rows),
    )


def evicted(run: Run) -> Figure:
    """What it takes to bring the sequences of the batch back, by their length: computed again, or copied out and in."""
    lengths = [float(2**power) for power in range(6, 17)]
    shown = (
        ("compute again", "compute", [recompute_seconds(run, length) for length in lengths]),
        ("swap", "memory", [swap_seconds(run, length) for length in lengths]),
    )
    series = tuple(
        Series(
            name=name,
            kind="line",
            role=role,
            x=tuple(lengths),
            y=tuple(took),
            labels=tuple(
                f"{name}, {length:,.0f} tokens: {seconds(one).text}" for length, one in zip(lengths, took, strict=True)
            ),
        )
        for name, role, took in shown
    )
    here = run.request.workload.input_len
    rows = [(whole(length), *(seconds(took[index]) for _, _, took in shown)) for index, length in enumerate(lengths)]
    return Figure(
        key="evicted",
        title="Evicted sequences, by their length",
        note="All sequences of the batch together. Where the lines cross, the other way is the cheaper.",
        x=Axis(title="tokens of each sequence", scale="log", unit="tokens", low=lengths[0], high=lengths[-1]),
        y=Axis(title="time", scale="log", unit="s"),
        series=series,
        marks=(Mark(text=f"{here:,.0f} tokens", x=float(here), role="limit"),),
        table=table("evicted-rows", "Evicted sequences, by their length", "", ("tokens", *(one.name for one in series)), rows),
    )


def batches(run: Run) -> Figure:
    """Tokens/s of decode steps by batch: after the context that is set, and with nothing cached."""
    request = run.request
    sizes = [2**power for power in range(11)]
    shown = (
        (f"{request.workload.context:,} tokens cached", "decode", request.workload.context),
        ("nothing cached", "bound", 0),
    )
    series = []
    for name, role, cached in shown:
        rates = [_decode_rate(run, size, cached) for size in sizes]
        series.append(
            Series(
                name=name,
                kind="line",
                role=role,
                x=tuple(float(size) for size in sizes),
                y=tuple(rates),
                labels=tuple(
                    f"{name}, {size:,} sequences: {rate:,.0f} tokens/s" for size, rate in zip(sizes, rates, strict=True)
                ),
            )
        )
    rows = [(whole(size), *(whole(float(one.y[index] or 0)) for one in series)) for index, size in enumerate(sizes)]
    batch, critical, fits = request.workload.batch, run.result.limits.critical_batch_linear, run.result.memory.max_batch
    marks = [Mark(text=f"{batch:,} sequences", x=float(batch), role="pinned")]
    if critical is not None:
        marks.append(Mark(text=f"critical: {critical:,.0f}", x=critical, role="critical"))
    if fits is not None and fits > 0:
        marks.append(Mark(text=f"fits: {fits:,}", x=float(fits), role="limit"))
    return Figure(
        key="batches",
        title="Tokens/s of the whole batch",
        note="Bounds. Left of the critical batch linear layers wait for weights; right of what fits nothing runs.",
        x=Axis(title="batch", scale="log", unit="sequences", low=1.0, high=float(sizes[-1])),
        y=Axis(title="tokens/s", scale="log"),
        series=tuple(series),
        marks=tuple(marks),
        table=table("batches-rows", "Tokens/s of the whole batch", "", ("batch", *(one.name for one in series)), rows),
    )


def _decode_rate(run: Run, batch: int, cached: int) -> float:
    """Tokens/s of a decode step: the estimate where it is asked for, else the bound."""
    found = pipeline(run.request, decode(batch, cached))
    took = found.bound if found.estimate is None else found.estimate
    return batch / took if took else 0.0


def throughput(run: Run) -> Figure:
    """Tokens a second of all clients against the time between tokens of each, from one client to 512."""
    clients = [2**power for power in range(10)]
    found = [service(run, count) for count in clients]
    here = service(run, run.request.workload.batch)
    points = Series(
        name="clients",
        kind="line",
        role="decode",
        x=tuple(one.tokens for one in found),
        y=tuple(one.tpot for one in found),
        labels=tuple(
            f"{count} clients: {one.tokens:,.0f} tokens/s, {seconds(one.tpot).text} a token"
            for count, one in zip(clients, found, strict=True)
        ),
    )
    rows = [
        (whole(count), whole(one.tokens), seconds(one.tpot), seconds(one.ttft))
        for count, one in zip(clients, found, strict=True)
    ]
    title = "What all get, and what each waits"
    return Figure(
        key="service",
        title=title,
        note="Points are 1, 2, 4, ... 512 clients, whether memory holds them or not. The mark is the batch that is set.",
        x=Axis(title="tokens a second, all clients", scale="log", unit="tokens/s"),
        y=Axis(title="TPOT", scale="log", unit="s"),
        series=(points,),
        marks=(Mark(text=f"{run.request.workload.batch:,.0f} clients", x=here.tokens, role="limit"),),
        table=table("service-rows", title, "", ("clients", "tokens/s", "TPOT", "a prompt alone"), rows),
    )


def _multi_head(run: Run) -> Run:
    """The same model with a key and a value for every query head, and no window."""
    first = next(iter(run.request.model.layer_types.values())).mixer
    heads = getattr(first, "num_attention_heads", 0)
    return ran({**run.values, "attention": "", "kv_heads": heads, "window": -1})


def _size(value: float | str | None) -> Cell:
    size = float(value or 0)
    return Cell(text=formatting.binary(size), value=size)
