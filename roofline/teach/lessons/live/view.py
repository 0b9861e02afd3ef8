"""The live view of a lesson: tiles, formulas and figures of a run, as plain data. Pages run a translation of this module."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from roofline import formatting
from roofline.errors import UnknownNameError
from roofline.formulas.mathml import written
from roofline.graph.sharding import caches
from roofline.report.analysis.step_figures import memory_budget, roofline_figure, time_budget
from roofline.report.cells import number_cell, seconds, table, whole
from roofline.report.figure import Axis, Cell, Figure, Mark, Series, Table, Tile
from roofline.report.svg import HAND, svg
from roofline.specs.workload import decode
from roofline.teach.lessons.live.quantities import operator_value, quantity, tile
from roofline.teach.lessons.live.run import (
    Run,
    Values,
    cache_bytes,
    evaluate,
    recompute_seconds,
    rounds,
    seconds_of,
    service,
    shape,
    swap_seconds,
    symbols,
)
from roofline.teach.quantities import amount

NAMES = ("roofline", "cache", "memory", "time", "evicted", "batches", "service", "rounds")
_LONGEST = 131072


def picture_figure(name: str, run: Run) -> Figure:
    """Return the figure of a picture of `NAMES`.

    Raises:
        UnknownNameError: there is no such picture.
    """
    if name == "roofline":
        return roofline_figure(run.request, run.result)
    if name == "cache":
        return _cache(run)
    if name == "memory":
        return memory_budget([run.result])
    if name == "time":
        return time_budget(run.decode)
    if name == "evicted":
        return _evicted(run)
    if name == "batches":
        return _batches(run)
    if name == "service":
        return _throughput(run)
    if name == "rounds":
        return _rounds(run)
    raise UnknownNameError("picture", name, NAMES, list_all=True)


def _cache(run: Run) -> Figure:
    """Return the cache of the batch by context: as set, and with a key and a value for every query head and every token."""
    variants = (("as set", "kv", run), ("multi-head, no window", "estimate", _multi_head(run)))
    lengths = [float(2**power) for power in range(9, 18)]
    batch = run.request.workload.batch
    series = []
    for name, role, one in variants:
        layers = caches(one.request.model, one.request.deployment, one.request.memory.stage)
        sizes = [cache_bytes(layers, one.request.precision.kv.bytes, length) * batch for length in lengths]
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


def _evicted(run: Run) -> Figure:
    """Return the time to resume the sequences of the batch after preemption, by their length: recompute or swap."""
    lengths = [float(2**power) for power in range(6, 17)]
    variants = (
        ("recompute", "compute", [recompute_seconds(run, length) for length in lengths]),
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
        for name, role, took in variants
    )
    here = run.request.workload.input_len
    rows = [(whole(length), *(seconds(took[index]) for _, _, took in variants)) for index, length in enumerate(lengths)]
    title = "Preempted sequences, by their length"
    return Figure(
        key="evicted",
        title=title,
        note="All sequences of the batch together. Where the lines cross, the other way becomes cheaper.",
        x=Axis(title="tokens of each sequence", scale="log", unit="tokens", low=lengths[0], high=lengths[-1]),
        y=Axis(title="time", scale="log", unit="s"),
        series=series,
        marks=(Mark(text=f"{here:,.0f} tokens", x=float(here), role="limit"),),
        table=table(
            "evicted-rows", "Preempted sequences, by their length", "", ("tokens", *(one.name for one in series)), rows
        ),
    )


def _batches(run: Run) -> Figure:
    """Return the tokens/s of decode steps by batch: at the context that is set, and with nothing cached."""
    request = run.request
    sizes = [2**power for power in range(11)]
    variants = (
        (f"{request.workload.context:,} tokens cached", "decode", request.workload.context),
        ("nothing cached", "bound", 0),
    )
    series = []
    for name, role, cached in variants:
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
        note="Bounds. Left of the critical batch linear layers wait for weights; batches right of the limit do not fit.",
        x=Axis(title="batch", scale="log", unit="sequences", low=1.0, high=float(sizes[-1])),
        y=Axis(title="tokens/s", scale="log"),
        series=tuple(series),
        marks=tuple(marks),
        table=table("batches-rows", "Tokens/s of the whole batch", "", ("batch", *(one.name for one in series)), rows),
    )


def _decode_rate(run: Run, batch: int, cached: int) -> float:
    """Tokens/s of a decode step."""
    took = seconds_of(run, decode(batch, cached))
    return batch / took if took else 0.0


def _throughput(run: Run) -> Figure:
    """Return the tokens/s of all clients against the TPOT of each, from one client to 512."""
    clients = [2**power for power in range(10)]
    served = [service(run, count) for count in clients]
    here = service(run, run.request.workload.batch)
    points = Series(
        name="clients",
        kind="line",
        role="decode",
        x=tuple(one.tokens for one in served),
        y=tuple(one.tpot for one in served),
        labels=tuple(
            f"{count} clients: {one.tokens:,.0f} tokens/s, {seconds(one.tpot).text} per token"
            for count, one in zip(clients, served, strict=True)
        ),
    )
    rows = [
        (whole(count), whole(one.tokens), seconds(one.tpot), seconds(one.ttft))
        for count, one in zip(clients, served, strict=True)
    ]
    title = "Throughput against TPOT"
    return Figure(
        key="service",
        title=title,
        note="Points are 1, 2, 4, ... 512 clients, whether or not they fit in memory. The mark is the batch that is set.",
        x=Axis(title="tokens/s, all clients", scale="log", unit="tokens/s"),
        y=Axis(title="TPOT", scale="log", unit="s"),
        series=(points,),
        marks=(Mark(text=f"{run.request.workload.batch:,.0f} clients", x=here.tokens, role="limit"),),
        table=table("service-rows", title, "", ("clients", "tokens/s", "TPOT", "a prompt alone"), rows),
    )


def _rounds(run: Run) -> Figure:
    """Return TPOT by batch, with and without a draft."""
    sizes = [2**power for power in range(10)]
    each = [rounds(run, size) for size in sizes]
    variants = (
        ("without a draft", "bound", [one.plain for one in each]),
        ("with a draft", "decode", [one.tpot for one in each]),
    )
    series = tuple(
        Series(
            name=name,
            kind="line",
            role=role,
            x=tuple(float(size) for size in sizes),
            y=tuple(times),
            labels=tuple(f"{name}, {size:,} sequences: {seconds(took).text}" for size, took in zip(sizes, times, strict=True)),
        )
        for name, role, times in variants
    )
    title = "TPOT by batch"
    rows = [
        (whole(size), seconds(one.plain), seconds(one.tpot), number_cell(one.speed_up))
        for size, one in zip(sizes, each, strict=True)
    ]
    batch = float(run.request.workload.batch)
    return Figure(
        key="rounds",
        title=title,
        note="Where the lines cross, drafts begin to cost time. Batches are drawn whether or not they fit in memory.",
        x=Axis(title="batch", scale="log", unit="sequences", low=1.0, high=float(sizes[-1])),
        y=Axis(title="TPOT", scale="log", unit="s"),
        series=series,
        marks=(Mark(text=f"{batch:,.0f} sequences", x=batch, role="pinned"),),
        table=table("rounds-rows", title, "", ("batch", "without a draft", "with a draft", "times faster"), rows),
    )


def _multi_head(run: Run) -> Run:
    """The same run with a key and a value for every query head, and no window."""
    first = next(iter(run.request.model.layer_types.values())).mixer
    heads = getattr(first, "num_attention_heads", 0)
    return evaluate({**run.values, "attention": "", "kv_heads": heads, "window": -1})


def _size(value: float | str | None) -> Cell:
    size = float(value or 0)
    return Cell(text=formatting.binary(size), value=size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A formula: its key, the texts of its symbols, and its value as text and in base units (None: no limit)."""

    key: str
    symbols: tuple[tuple[str, str], ...]
    text: str
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure as SVG, for wide columns and for phones, and its table."""

    key: str
    title: str
    note: str
    svg: str
    hand: str
    table: Table | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveView:
    """What a page shows for a state of the controls. `shape` selects the form of each formula."""

    shape: str
    note: str
    tiles: tuple[Tile, ...]
    formulas: tuple[Filled, ...]
    pictures: tuple[Picture, ...]


def live_view(values: Values, block: dict[str, Any]) -> LiveView:
    """Return what follows from the values of the controls.

    Args:
        values: the value of each control by key.
        block: lists of the names of `tiles`, `formulas` and `pictures`.

    Raises:
        InputError: dimensions that contradict each other.
        UnknownNameError: there is no such tile, formula or picture.
    """
    run = evaluate(values)
    memory = run.result.memory
    note = "" if memory.fits else "Does not fit in the memory of the device; the numbers ignore that."
    return LiveView(
        shape=shape(run),
        note=note,
        tiles=tuple(tile(name, run) for name in block["tiles"]),
        formulas=tuple(filled(key, run) for key in block["formulas"]),
        pictures=tuple(_picture(name, run) for name in block["pictures"]),
    )


_UNITS = {
    "P": "FLOP/s", "β": "bytes/s", "W_streamed": "bytes", "M_free": "bytes", "A": "bytes", "F_matrix": "FLOP",
    "F_vector": "FLOP", "D_weights": "bytes", "D_activations": "bytes", "D_kv_read": "bytes", "D_kv_write": "bytes",
    "D": "bytes",
}  # fmt: skip
"""Units of the symbols that are written with one."""


def filled(key: str, run: Run) -> Filled:
    """Return a formula with its numbers, by its key: a quantity, or `path:part` of an operator of the decode step.

    Raises:
        UnknownNameError: there is no such quantity.
    """
    values = symbols(run)
    path, _, part = key.partition(":")
    if part != "":
        cost = run.operator(path).cost
        values = {
            **values,
            "F_matrix": cost.matrix_flops,
            "F_vector": cost.vector_flops,
            "D_weights": cost.weight_bytes,
            "D_activations": cost.activation_bytes,
            "D_kv_read": cost.kv_read_bytes,
            "D_kv_write": cost.kv_write_bytes,
            "D": cost.bytes,
        }
        value: float | None = operator_value(part, path, run)
        unit = "FLOP/byte" if part == "arithmetic_intensity" else "FLOP" if part.endswith("flops") else "bytes"
    else:
        known = quantity(key)
        value, unit = known.value(run), known.unit
    text = "no limit" if value is None else amount(value, unit)
    return Filled(
        key=key,
        symbols=tuple((name, written(number, _UNITS.get(name, ""))) for name, number in values.items()),
        text=text,
        value=value,
    )


def _picture(name: str, run: Run) -> Picture:
    figure = replace(picture_figure(name, run), key=f"play-{name}")  # a key that no other figure of a page has
    hand = svg(replace(figure, key=f"{figure.key}-hand"), HAND)
    return Picture(key=figure.key, title=figure.title, note=figure.note, svg=svg(figure), hand=hand, table=figure.table)
