"""Sensitivity of TPOT to 20 % more or less of one thing, and hardware side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.formatting import about_percent
from roofline.predict.duration import Duration
from roofline.predict.request import ResolvedRequest
from roofline.predict.result import Analysis
from roofline.predict.timing import pipeline
from roofline.report.cells import amount, best, gibibytes, number_cell, seconds, share, table, text_cell, whole
from roofline.report.figure import Axis, Cell, Figure, Series, Table
from roofline.specs.hardware import Hardware
from roofline.specs.workload import decode

_FACTORS = (0.8, 1.2)


@dataclass(frozen=True, slots=True)
class _Change:
    """TPOT with less and with more of something."""

    name: str
    less: float
    more: float


def sensitivity(request: ResolvedRequest) -> Figure:
    """Bar plot of the relative change of TPOT with 20 % less and 20 % more of bandwidth, FLOP/s, context, batch, efficiency."""
    context, batch = request.workload.context, request.workload.batch
    now = pipeline(request, decode(batch, context))
    base = best(now) or 1.0
    scaled = [
        ("memory bandwidth", [_on(request, _bandwidth(request, factor)) for factor in _FACTORS]),
        ("FLOP/s", [_on(request, _peaks(request, factor)) for factor in _FACTORS]),
        ("context", [pipeline(request, decode(batch, round(context * factor))) for factor in _FACTORS]),
        ("batch", [pipeline(request, decode(max(round(batch * factor), 1), context)) for factor in _FACTORS]),
    ]
    changes = [_Change(name, best(times[0]) or base, best(times[1]) or base) for name, times in scaled]
    if now.estimate is not None and now.bound is not None:
        less, more = (_efficient(now, factor) for factor in _FACTORS)
        changes.append(_Change("efficiency of kernels", less, more))
    changes = sorted(changes, key=lambda change: -max(abs(change.less - base), abs(change.more - base)))
    names = tuple(change.name for change in changes)
    rows: list[tuple[Cell, ...]] = [
        (text_cell(change.name), share(change.less / base - 1, sign=True), share(change.more / base - 1, sign=True))
        for change in changes
    ]
    return Figure(
        key="sensitivity",
        title="What moves TPOT",
        note=f"From {seconds(base).text}: a fifth less and a fifth more of each, everything else as it is. Efficiency: "
        "the share of the bound's speed that kernels reach, never more than all of it.",
        x=Axis(title="change of TPOT", scale="linear", unit="%"),
        y=Axis(title="", scale="category"),
        series=(
            _bars("a fifth less", "less", names, [change.less / base - 1 for change in changes]),
            _bars("a fifth more", "more", names, [change.more / base - 1 for change in changes]),
        ),
        table=table("sensitivity-rows", "Changes of TPOT", "", ("of", "20 % less", "20 % more"), rows),
    )


def _bars(name: str, role: str, names: tuple[str, ...], values: list[float]) -> Series:
    texts = [about_percent(value, sign=True) for value in values]
    labels = tuple(f"{entry}, {name}: TPOT {text}" for entry, text in zip(names, texts, strict=True))
    # a bar of no length has no side on which its text would keep clear of the other's
    short = tuple(text if value != 0 or role == "more" else "" for value, text in zip(values, texts, strict=True))
    return Series(name=name, kind="bars", role=role, x=tuple(values), y=names, labels=labels, short=short)


def _on(request: ResolvedRequest, hardware: Hardware) -> Duration:
    """The decode step on hardware with other figures."""
    fits = replace(request.estimator.fits, hardware=hardware)
    changed = replace(request, hardware=hardware, estimator=replace(request.estimator, fits=fits))
    return pipeline(changed, decode(request.workload.batch, request.workload.context))


def _bandwidth(request: ResolvedRequest, factor: float) -> Hardware:
    hardware = request.hardware
    return replace(hardware, overrides={**hardware.overrides, "bandwidth": hardware.bandwidth * factor})


def _peaks(request: ResolvedRequest, factor: float) -> Hardware:
    return replace(request.hardware, overrides={**request.hardware.overrides, "peak_scale": factor})


def _efficient(now: Duration, factor: float) -> float:
    """The estimate if kernels reached `factor` times the share of the bound's speed."""
    bound, estimate = now.bound or 0.0, now.estimate or 0.0
    return max(estimate / factor, bound)


def comparison(requests: list[ResolvedRequest], results: list[Analysis]) -> Table:
    """Table of hardware side by side; the lowest time and the highest rate of a row are marked."""
    rows: list[tuple[Cell, ...]] = []
    decodes = [result.decode for result in results]
    tpot = [None if phase is None else best(phase.pipeline) for phase in decodes]
    first = [result.first_token for result in results]
    ttft = [None if span is None else best(span) for span in first]
    fits = [result.memory.fits for result in results]
    batches = [float(result.memory.max_batch) for result in results]
    rates = [
        None if time is None else request.workload.batch / time / request.deployment.devices
        for request, time in zip(requests, tpot, strict=True)
    ]
    rows.append((text_cell("fits"), *(text_cell("yes" if fit else "no") for fit in fits)))
    rows.append(_marked("TPOT", [seconds(value) for value in tpot], lowest=True))
    rows.append(_marked("TTFT", [seconds(value) for value in ttft], lowest=True))
    rows.append(_marked("tokens/s per GPU", [number_cell(value) for value in rates], lowest=False))
    rows.append(_marked("max batch", [whole(value) for value in batches], lowest=False))
    rows.append((text_cell("memory"), *(gibibytes(result.memory.capacity_bytes) for result in results)))
    rows.append((text_cell("bandwidth"), *(amount(request.hardware.bandwidth, "B/s") for request in requests)))
    rows.append((text_cell("16-bit peak"), *(amount(_peak(request), "FLOP/s") for request in requests)))
    names = ("what", *(str(result.hardware["title"]) for result in results))
    note = "★: the lowest time, or the highest rate, of those that have one. Memory in GiB. Times are estimates where known."
    return table("compare", "Times, rates and memory", note, names, rows)


def _marked(name: str, cells: list[Cell], *, lowest: bool) -> tuple[Cell, ...]:
    known = [cell.value for cell in cells if cell.value is not None]
    if len(known) < 2 or min(known) == max(known):
        return (text_cell(name), *cells)
    chosen = min(known) if lowest else max(known)
    return (
        text_cell(name),
        *(Cell(text=f"★ {cell.text}", value=cell.value) if cell.value == chosen else cell for cell in cells),
    )


def _peak(request: ResolvedRequest) -> float | None:
    peaks = request.hardware.peaks
    return peaks.get("bf16", peaks.get("fp16"))
