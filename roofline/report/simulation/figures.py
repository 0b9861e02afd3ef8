"""Figures of a simulation: the server's state over time, and the distributions of latencies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roofline import formatting
from roofline.formatting import percent
from roofline.report.cells import about_time, number_cell, seconds, share, table, text_cell
from roofline.report.figure import Axis, Cell, Figure, Mark, Section, Series, Table, View
from roofline.serving.simulation.result import Simulation

_ROWS = 24
"""Of the table beside a figure, at most."""
_LEVELS, _RATES = 256, 128
"""Intervals of a line, at most."""
_WINDOWS, _WHOLE = 24, 1e-6
"""Means along a line; intervals by which the last one may be short and still count as whole."""
_EVENTS, _LEAST = 10, 24
"""Events that an interval should have for its rate to say something, and intervals that a figure keeps all the same."""


def history_sections(result: Simulation) -> list[Section]:
    """Sections with a figure each of the server's state over time; none if the run has fewer than two intervals."""
    if not result.fits or len(result.series["running"]) < 2:
        return []
    figures = [
        _requests(result), _replicas(result), _blocks(result), _tokens(result, "output"), _tokens(result, "prompt"),
        _rates(result), _preemptions(result), _again(result),
    ]  # fmt: skip
    return [
        Section(key=one.key, title=one.title, note="", figure=one, tables=(), half=True) for one in figures if one is not None
    ]


def _requests(result: Simulation) -> Figure:
    series, fleet = result.series, result.fleet or {}
    slots = sum(part["max_num_seqs"] * int(fleet.get("peak_replicas") or part["replicas"]) for part in _servers(result))
    near = max(series["running"]) >= slots / 2
    count = _few(result, _LEVELS)
    lines = {name: _means(series[name], count) for name in ("running", "waiting")}
    return _drawn(
        result, "requests", "Running and waiting requests", "Running: in the batch. Waiting: queued or preempted.",
        Axis(title="requests", scale="linear", low=0.0), lines, number_cell, count,
        marks=(Mark(text=f"max_num_seqs {slots:,}", y=float(slots), role="limit"),) if near else (),
        roles={"running": "requests", "waiting": "waiting"},
    )  # fmt: skip


def _servers(result: Simulation) -> list[dict[str, Any]]:
    """The servers of all pools, or the one server."""
    return [one["server"] for one in result.pools] or [result.server]


def _blocks(result: Simulation) -> Figure:
    there = sum(part["blocks"] * part["replicas"] for part in _servers(result))
    sizes = " and ".join(f"{size:,}" for size in sorted({part["block_size"] for part in _servers(result)}))
    note = f"Of {there:,} blocks of {sizes} tokens; at 100 % a request is preempted, or waits."
    count = _few(result, _LEVELS)
    taken = [value / there for value in _means(result.series["blocks"], count)]
    if result.fleet is not None:
        server = result.server
        note = f"Of {server['blocks']:,} blocks of {server['block_size']:,} tokens in each replica that serves."
        serving = _means(result.series["serving"], count)
        blocks = _means(result.series["blocks"], count)
        taken = [
            value / (server["blocks"] * max(number, 1e-9)) if value else 0.0
            for value, number in zip(blocks, serving, strict=True)
        ]
    up = Axis(title="KV blocks in use", scale="linear", unit="%", low=0.0, high=1.02)
    return _drawn(result, "kv", "KV cache", note, up, {"in use": taken}, share, count, roles={"in use": "blocks"})


def _tokens(result: Simulation, what: str) -> Figure | None:
    rates = result.series.get(f"{what}_tokens_per_s", ())
    if not any(rates):
        return None
    count = _few(result, _RATES)
    over = f"Of all replicas, over intervals of {_text(count * result.series['interval_s'])}."
    note = over if what == "output" else f"{over} With recomputed tokens."
    up = Axis(title="tokens/s", scale="linear", low=0.0)
    lines = {f"{what} tokens/s": _means(rates, count)}
    roles = {f"{what} tokens/s": f"{what}s"}
    return _drawn(result, f"{what}-tokens", f"{what.capitalize()} tokens/s", note, up, lines, number_cell, count, roles=roles)


def _rates(result: Simulation) -> Figure | None:
    series = result.series
    arrived, ended = series["arrived_per_s"], series["ended_per_s"]
    if sum(arrived) * series["interval_s"] < _EVENTS:  # they have no rate
        return None
    count = _merging(sum(arrived) * series["interval_s"], len(arrived))
    lines = {"arrivals": _means(arrived, count), "completions": _means(ended, count)}
    note = f"Over intervals of {_text(count * series['interval_s'])}."
    up = Axis(title="requests/s", scale="linear", low=0.0)
    roles = {"arrivals": "waiting", "completions": "requests"}
    return _drawn(result, "rates", "Arrivals and completions", note, up, lines, number_cell, count, roles=roles)


def _replicas(result: Simulation) -> Figure | None:
    """Replicas over time, beside the load in requests/s; None where their number does not change."""
    series = result.series
    if result.fleet is None or "replicas" not in series:
        return None
    count = max(_few(result, _LEVELS), _merging(sum(series["arrived_per_s"]) * series["interval_s"], len(series["replicas"])))
    lines = {"held": _means(series["replicas"], count), "serving": _means(series["serving"], count)}
    arrived = _means(series["arrived_per_s"], count)
    note = "Held: from when it is requested until it is gone."
    if (busiest := max(arrived)) > 0:
        lines["load"] = [rate / busiest * max(lines["held"]) for rate in arrived]
        note += f" Load: arrivals of requests that completed; its highest point is {busiest:.3g} requests/s."
    up = Axis(title="replicas", scale="linear", low=0.0)
    roles = {"held": "blocks", "serving": "requests", "load": "waiting"}
    return _drawn(result, "replicas", "Replicas", note, up, lines, number_cell, count, roles=roles)


def _preemptions(result: Simulation) -> Figure | None:
    rates = result.series["preemptions_per_s"]
    if not any(rates):
        return None
    count = _merging(sum(rates) * result.series["interval_s"], len(rates))
    note = f"Over intervals of {_text(count * result.series['interval_s'])}, by {result.server['preemption']}."
    up = Axis(title="preemptions/s", scale="linear", low=0.0)
    return _drawn(result, "preemptions", "Preemptions", note, up, {"preemptions/s": _means(rates, count)}, number_cell, count)


def _again(result: Simulation) -> Figure | None:
    """Tokens that were lost and came back."""
    series = result.series
    names = (("recomputed", "recomputed_tokens_per_s"), ("swapped to the host", "swapped_tokens_per_s"))
    levels = {name: series[key] for name, key in names if any(series.get(key, ()))}
    if not levels:
        return None
    count = _merging(sum(series["preemptions_per_s"]) * series["interval_s"], len(series["preemptions_per_s"]))
    lines = {name: _means(values, count) for name, values in levels.items()}
    note = f"Over intervals of {_text(count * series['interval_s'])}."
    up = Axis(title="tokens/s", scale="linear", low=0.0)
    return _drawn(result, "preempted-tokens", "Tokens of preempted requests", note, up, lines, number_cell, count)


_FIGURES = ("mean", "p50", "p95", "p99")


def confidence_section(result: Simulation) -> Section | None:
    """The section with the confidence intervals of means and percentiles as whiskers, relative to the value; None where there
    are none."""
    series: list[Series] = []
    rows: list[tuple[Cell, ...]] = []
    for name in ("TTFT", "TPOT", "ITL", "E2E"):
        one = getattr(result, f"{name.lower()}_s")
        places: list[str] = []
        labels: list[str] = []
        whiskers: list[tuple[float, str | None]] = []
        for figure in _FIGURES:
            between = one.interval(figure)
            if between is None or between[0] <= 0:
                continue
            place, value = f"{name} {figure}", getattr(one, figure)
            places.append(place)
            labels.append(f"{place}: {_text(value)}, {_text(between[0])} to {_text(between[1])}")
            whiskers += [(between[0] / value - 1, place), (between[1] / value - 1, place), (0.0, None)]
            rows.append((text_cell(place), about_time(value), about_time(between[0]), about_time(between[1])))
        if not places:
            continue
        series += [
            Series(
                name=name, kind="line", role=name, x=tuple(at for at, _ in whiskers), y=tuple(place for _, place in whiskers),
                variant=0,
            ),
            Series(
                name=name, kind="points", role=name, x=(0.0,) * len(places), y=tuple(places), labels=tuple(labels), variant=0
            ),
        ]  # fmt: skip
    if not rows:
        return None
    certainty = result.ttft_s.confidence or {}
    how = "runs with other seeds" if certainty["method"] == "replications" else "batches of consecutive requests"
    note = f"Ends of the {percent(certainty['level'], 0)} intervals as shares of the value, from {certainty['batches']} {how}."
    title = "Confidence intervals"
    drawn = Figure(
        key="confidence", title=title, note=note, x=Axis(title="less or more than the value", scale="linear", unit="%"),
        y=Axis(title="", scale="category"), series=tuple(series),
        table=table("confidence-rows", title, note, ("figure", "value", "from", "to"), rows),
    )  # fmt: skip
    return Section(key="confidence", title=title, note="", figure=drawn, tables=(), half=True)


def rates_section(result: Simulation) -> Section | None:
    """The section with the share of the requests within the SLO at each rate that was tried; None without a search."""
    search = result.find_rate
    if search is None or not search["points"]:
        return None
    series = []
    for number, seed in enumerate(search["seeds"]):
        points = [point for point in search["points"] if point["seed"] == seed]
        name = f"seed {seed}"
        series.append(Series(
            name=name, kind="line", role="estimate", x=tuple(point["rate"] for point in points),
            y=tuple(point["within_slo"] for point in points), variant=number,
            labels=tuple(f"{name}, {point['rate']:.4g} req/s: {percent(point['within_slo'])}" for point in points),
        ))  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        (
            number_cell(point["rate"]), number_cell(point["seed"]), share(point["within_slo"]),
            text_cell("yes" if point["holds"] else "no"),
        )
        for point in search["points"]
    ]  # fmt: skip
    marks = []
    if search["percentile"] is not None:
        marks.append(Mark(text=f"{percent(search['percentile'])} of the requests", y=search["percentile"], role="slo"))
    if search["rate"] is not None:
        marks.append(Mark(text=f"{search['rate']:.3g} req/s", x=search["rate"], role="critical"))
    title = "Rates tried"
    drawn = Figure(
        key="find-rate", title=title, note="Share of the requests within the SLO at each rate, by seed.",
        x=Axis(title="offered load, requests/s", scale="linear"), y=Axis(title="within the SLO", scale="linear", unit="%"),
        series=tuple(series), marks=tuple(marks),
        table=table("find-rate-rows", title, "", ("requests/s", "seed", "within the SLO", "holds"), rows),
    )  # fmt: skip
    return Section(key="find-rate", title=title, note="", figure=drawn, tables=(), half=True)


def _few(result: Simulation, most: int) -> int:
    """Intervals that are taken together, so that at most `most` are left."""
    return math.ceil(len(result.series["running"]) / most)


def _merging(events: float, intervals: int) -> int:
    """Intervals that are taken together."""
    wanted = math.ceil(_EVENTS * intervals / events) if events else 1
    return max(1, math.ceil(intervals / _RATES), min(wanted, intervals // _LEAST))


def _means(values: Sequence[float], count: int) -> list[float]:
    """Means of `count` values at a time; the last of those that are left."""
    parts = [values[start : start + count] for start in range(0, len(values), count)]
    return [math.fsum(part) / len(part) for part in parts]


def _drawn(
    result: Simulation, key: str, title: str, note: str, up: Axis, lines: dict[str, list[float]], cell: Any, merged: int = 1,
    *, marks: tuple[Mark, ...] = (), roles: Mapping[str, str] | None = None,
) -> Figure:  # fmt: skip
    """A smooth line each, over intervals of the run, `merged` of the series' in one; the difference to single ones is shaded.

    The last interval is left out where the run ends within it: its mean is of a part.
    """
    width = result.series["interval_s"] * merged
    count = len(next(iter(lines.values())))
    if result.duration_s < (count - _WHOLE) * width and count > 2:
        count -= 1
    lines = {name: values[:count] for name, values in lines.items()}
    x = tuple((index + 0.5) * width for index in range(count))
    reach = max(1, round(count / _WINDOWS / 2)) if count >= _WINDOWS else 0
    series: list[Series] = []
    for name, values in lines.items():
        role = (roles or {}).get(name, "roof")
        windows = [values[max(0, index - reach) : index + reach + 1] for index in range(count)]
        smooth = tuple(math.fsum(window) / len(window) for window in windows)
        if reach:
            low, high = (tuple(map(edge, values, smooth)) for edge in (min, max))
            series.append(
                Series(name=name, kind="band", role=role, x=x, y=(), low=low, high=high, variant=_variant(role, series))
            )
        labels = tuple(f"{name}, {_text(at)}: {cell(value).text}" for at, value in zip(x, smooth, strict=True))
        series.append(Series(
            name=name, kind="line", role=role, x=x, y=smooth, labels=labels, variant=_variant(role, series),
        ))  # fmt: skip
    if reach:
        note += f" Lines: means over {_text((2 * reach + 1) * width)}; shaded: each interval by itself."
    rows = math.ceil(count / _ROWS)
    columns = [_means(values, rows) for values in lines.values()]
    cells: list[tuple[Cell, ...]] = [
        (seconds(index * rows * width), *(cell(value) for value in values))
        for index, values in enumerate(zip(*columns, strict=True))
    ]
    several = " Of the first run." if result.replications is not None else ""
    return Figure(
        key=key,
        title=title,
        note=note + several,
        x=Axis(title="time", scale="linear", unit="s", low=0.0, high=count * width),
        y=up,
        series=tuple(series),
        marks=marks,
        table=table(f"{key}-rows", title, f"Means over {_text(rows * width)}.", ("from", *lines), cells),
    )


def _variant(role: str, series: Sequence[Series]) -> int:
    """Which of the lines of one role comes next."""
    return sum(1 for one in series if one.role == role and one.kind == "line")


def _text(value: float) -> str:
    return formatting.seconds(value)


# Latencies, and the share of requests within what is set on the page: these functions are translated

Values = dict[str, Any]
"""What the controls hold, in milliseconds: `ttft`, `tpot`, as far as there are such."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The distribution of a latency: seconds in ascending order, and the fraction that takes at most that long."""

    key: str
    name: str
    of: str
    """What is counted: requests, or tokens."""
    seconds: tuple[float, ...]
    share: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageData:
    """The view without its latencies, their table, their distributions, and the objectives that were given, as marks."""

    base: View
    latencies: tuple[Table, ...]
    curves: tuple[Curve, ...]
    objectives: tuple[Mark, ...]
    tail: bool
    """Whether there are requests enough to speak of the slowest."""


_SHARES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)


def view(page: PageData, values: Values) -> View:
    """Everything that the page shows, with the lines that the controls set."""
    base = page.base
    return View(
        title=base.title,
        subtitle=base.subtitle,
        answer=base.answer,
        fits=base.fits,
        error="",
        tiles=base.tiles,
        commands=base.commands,
        sections=tuple(_sections(page, values)),
        assumptions=base.assumptions,
        not_modelled=base.not_modelled,
        verdict=base.verdict,
    )


def _sections(page: PageData, values: Values) -> list[Section]:
    """The distribution beside the first section of the run, their tables, the others."""
    first, listed, *tail = _latency_sections(page, values)
    return [first, *page.base.sections[:1], listed, *page.base.sections[1:2], *tail, *page.base.sections[2:]]


def within(curve: Curve, most: float) -> float:
    """The fraction that takes at most `most` seconds, interpolated linearly.

    >>> curve = Curve(key="ttft", name="TTFT", of="requests", seconds=(1.0, 2.0, 4.0), share=(0.0, 0.5, 1.0))
    >>> [within(curve, at) for at in (0.5, 1.5, 2.0, 3.0, 9.0)]
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    share = 0.0
    for index, at in enumerate(curve.seconds):
        if at > most:
            before = curve.seconds[index - 1] if index > 0 else at
            if index > 0 and at > before:
                share = curve.share[index - 1] + (curve.share[index] - curve.share[index - 1]) * (most - before) / (at - before)
            return share
        share = curve.share[index]
    return share


def at_share(curve: Curve, part: float) -> float:
    """Seconds within which the fraction `part` is, interpolated linearly.

    >>> at_share(Curve(key="ttft", name="TTFT", of="requests", seconds=(1.0, 2.0, 4.0), share=(0.0, 0.5, 1.0)), 0.75)
    3.0
    """
    for index, reached in enumerate(curve.share):
        if reached >= part:
            if index == 0:
                return curve.seconds[0]
            low, high = curve.seconds[index - 1], curve.seconds[index]
            before = curve.share[index - 1]
            return low + (high - low) * (part - before) / (reached - before) if reached > before else high
    return curve.seconds[len(curve.seconds) - 1]


def _latency_sections(page: PageData, values: Values) -> list[Section]:
    marks = _marks(page, values)
    whole = Figure(
        key="distribution",
        title="CDF of latency over requests",
        note="ITL: share of the tokens." if any(curve.of == "tokens" for curve in page.curves) else "",
        x=Axis(title="latency", scale="log", unit="s"),
        y=Axis(title="share", scale="linear", low=0.0, high=1.02, unit="%"),
        series=tuple([_line(curve, curve.share, "take at most") for curve in page.curves]),
        marks=marks,
        table=_rows(page),
    )
    tail = Figure(
        key="tail",
        title="Tail: share of the requests that take longer",
        note="One minus the CDF, logarithmic.",
        x=Axis(title="latency", scale="log", unit="s"),
        y=Axis(title="share that takes longer", scale="log", unit="%"),
        series=tuple([_line(curve, tuple([1 - part for part in curve.share]), "take longer than") for curve in page.curves]),
        marks=marks,
    )
    listed = (*page.latencies, *_read(page, values))
    sections = [
        Section(key="latency", title=whole.title, note="", figure=whole, tables=(), half=True),
        Section(key="latencies", title="Latencies", note="", figure=None, tables=listed, half=True),
    ]
    if page.tail:
        sections.append(Section(key="tail", title=tail.title, note="", figure=tail, tables=(), half=True))
    return sections


def _role(name: str) -> str:
    """The role of a line: that of its latency where it is one of those that have a hue."""
    return name if name in ("TTFT", "TPOT", "ITL", "E2E") else "roof"


def _line(curve: Curve, shares: tuple[float, ...], how: str) -> Series:
    return Series(
        name=curve.name,
        kind="line",
        role=_role(curve.name),
        x=curve.seconds,
        y=shares,
        labels=tuple([
            f"{curve.name}: {percent(part)} of the {curve.of} {how} {formatting.seconds(at)}"
            for at, part in zip(curve.seconds, shares, strict=True)
        ]),
    )  # fmt: skip


def _part(part: float, digits: int) -> Cell:
    return Cell(text=f"{part * 100:.{digits}g} %", value=part)


def _set(page: PageData, values: Values) -> list[tuple[Curve, float]]:
    """Where lines are set, in seconds."""
    return [(curve, values[curve.key] / 1000) for curve in page.curves if curve.key in values]


def _marks(page: PageData, values: Values) -> tuple[Mark, ...]:
    """What was given as objectives, and what is set on the page where it is something else."""
    moved = []
    for curve, at in _set(page, values):
        given = [mark.x or 0.0 for mark in page.objectives if mark.text.startswith(f"{curve.name} ")]
        if not any(abs(each - at) <= 1e-9 * at for each in given):
            moved.append(Mark(text=f"{curve.name} {formatting.seconds(at)}", x=at, role=_role(curve.name)))
    return (*page.objectives, *moved)


def _read(page: PageData, values: Values) -> tuple[Table, ...]:
    """The shares at the lines."""
    rows = [
        (text_cell(curve.name), seconds(at), _part(within(curve, at), 4), _part(1 - within(curve, at), 2))
        for curve, at in _set(page, values)
    ]
    if len(rows) == 0:
        return ()
    note = "Each by itself: fewer requests meet both. The objectives can be moved on the page."
    if len(rows) == 1:
        note = "The objective can be moved on the page."
    return (table("within", "Share within an objective", note, ("latency", "objective", "within", "longer"), rows),)


def _rows(page: PageData) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (share(part), *[about_time(at_share(curve, part)) for curve in page.curves]) for part in _SHARES
    ]
    names = ("share", *[curve.name for curve in page.curves])
    return table("distribution-rows", "Percentiles", "", names, rows)
