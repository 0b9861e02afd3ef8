"""How a server's state went over time, drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from roofline import formatting
from roofline.report.figure import Axis, Cell, Figure, Mark, Section, Series
from roofline.report.view.cells import figure, seconds, share, table
from roofline.serving.simulation.result import Simulation

_ROWS = 24
"""Of the table beside a figure, at most."""
_LEVELS, _RATES = 256, 128
"""Intervals of a line, at most."""
_EVENTS, _LEAST = 10, 24
"""Events that an interval should have for its rate to say something, and intervals that a figure keeps all the same."""


def sections(result: Simulation) -> list[Section]:
    """What there is to show, a section a figure; nothing of a run that is over within an interval."""
    if not result.fits or len(result.series["running"]) < 2:
        return []
    found = [
        _requests(result), _blocks(result), _tokens(result, "output"), _tokens(result, "prompt"), _rates(result),
        _preemptions(result), _again(result),
    ]  # fmt: skip
    return [Section(key=one.key, title=one.title, note="", figure=one, tables=()) for one in found if one is not None]


def _requests(result: Simulation) -> Figure:
    series, server = result.series, result.server
    seats = server["max_num_seqs"] * server["replicas"]
    near = max(series["running"]) >= seats / 2
    many = _few(result, _LEVELS)
    lines = {name: _means(series[name], many) for name in ("running", "waiting")}
    return _drawn(
        result, "requests", "Requests that run and that wait", "Running: holding a seat. Waiting: queued or preempted.",
        Axis(title="requests", scale="linear", low=0.0), lines, figure, many,
        marks=(Mark(text=f"{seats:,} seats", y=float(seats), role="limit"),) if near else (),
    )  # fmt: skip


def _blocks(result: Simulation) -> Figure:
    server = result.server
    there = server["blocks"] * server["replicas"]
    note = f"Of {there:,} blocks of {server['block_size']:,} tokens; at 100 % a request has to go, or to wait."
    many = _few(result, _LEVELS)
    taken = [value / there for value in _means(result.series["blocks"], many)]
    up = Axis(title="KV blocks taken", scale="linear", unit="%", low=0.0, high=1.02)
    return _drawn(result, "kv", "KV blocks", note, up, {"taken": taken}, share, many)


def _tokens(result: Simulation, what: str) -> Figure | None:
    rates = result.series.get(f"{what}_tokens_per_s", ())
    if not any(rates):
        return None
    many = _few(result, _RATES)
    over = f"Of all replicas, over intervals of {_text(many * result.series['interval_s'])}."
    note = over if what == "output" else f"{over} With what is computed again."
    up = Axis(title="tokens/s", scale="linear", low=0.0)
    lines = {f"{what} tokens/s": _means(rates, many)}
    return _drawn(result, f"{what}-tokens", f"{what.capitalize()} tokens a second", note, up, lines, figure, many)


def _rates(result: Simulation) -> Figure | None:
    series = result.series
    arrived, ended = series["arrived_per_s"], series["ended_per_s"]
    if sum(arrived) * series["interval_s"] < _EVENTS:  # they have no rate
        return None
    many = _merging(sum(arrived) * series["interval_s"], len(arrived))
    lines = {"arrive": _means(arrived, many), "are answered": _means(ended, many)}
    note = f"Over intervals of {_text(many * series['interval_s'])}, by when they come and when they end."
    up = Axis(title="requests/s", scale="linear", low=0.0)
    return _drawn(result, "rates", "Requests that arrive and that are answered", note, up, lines, figure, many)


def _preemptions(result: Simulation) -> Figure | None:
    rates = result.series["preemptions_per_s"]
    if not any(rates):
        return None
    many = _merging(sum(rates) * result.series["interval_s"], len(rates))
    note = f"Over intervals of {_text(many * result.series['interval_s'])}, by {result.server['preemption']}."
    up = Axis(title="preemptions/s", scale="linear", low=0.0)
    return _drawn(result, "preemptions", "Preemptions", note, up, {"preemptions/s": _means(rates, many)}, figure, many)


def _again(result: Simulation) -> Figure | None:
    """Tokens that were lost and came back."""
    series = result.series
    names = (("computed again", "recomputed_tokens_per_s"), ("moved to the host", "swapped_tokens_per_s"))
    found = {name: series[key] for name, key in names if any(series.get(key, ()))}
    if not found:
        return None
    many = _merging(sum(series["preemptions_per_s"]) * series["interval_s"], len(series["preemptions_per_s"]))
    lines = {name: _means(values, many) for name, values in found.items()}
    note = f"Over intervals of {_text(many * series['interval_s'])}."
    up = Axis(title="tokens/s", scale="linear", low=0.0)
    return _drawn(result, "preempted-tokens", "Tokens of preempted requests", note, up, lines, figure, many)


def _few(result: Simulation, most: int) -> int:
    """Intervals that are taken together, so that there are no more than so many."""
    return math.ceil(len(result.series["running"]) / most)


def _merging(events: float, intervals: int) -> int:
    """Intervals that are taken together."""
    wanted = math.ceil(_EVENTS * intervals / events) if events else 1
    return max(1, math.ceil(intervals / _RATES), min(wanted, intervals // _LEAST))


def _means(values: Sequence[float], many: int) -> list[float]:
    """Means of so many at a time; the last of as many as there are."""
    parts = [values[start : start + many] for start in range(0, len(values), many)]
    return [math.fsum(part) / len(part) for part in parts]


def _drawn(
    result: Simulation, key: str, title: str, note: str, up: Axis, lines: dict[str, list[float]], cell: Any, many: int = 1,
    *, marks: tuple[Mark, ...] = (),
) -> Figure:  # fmt: skip
    """A line each, over intervals of the run; `many` of the series' are taken together already."""
    width = result.series["interval_s"] * many
    count = len(next(iter(lines.values())))
    x = tuple((index + 0.5) * width for index in range(count))
    series = tuple(
        Series(
            name=name, kind="line", role="roof", x=x, y=tuple(values),
            labels=tuple(f"{name}, {_text(at)}: {cell(value).text}" for at, value in zip(x, values, strict=True)),
        )
        for name, values in lines.items()
    )  # fmt: skip
    rows = math.ceil(count / _ROWS)
    shown = [_means(values, rows) for values in lines.values()]
    cells: list[tuple[Cell, ...]] = [
        (seconds(index * rows * width), *(cell(value) for value in values))
        for index, values in enumerate(zip(*shown, strict=True))
    ]
    several = " Of the first run." if result.replications is not None else ""
    return Figure(
        key=key,
        title=title,
        note=note + several,
        x=Axis(title="time", scale="linear", unit="s", low=0.0, high=count * width),
        y=up,
        series=series,
        marks=marks,
        table=table(f"{key}-rows", title, f"Means over {_text(rows * width)}.", ("from", *lines), cells),
    )


def _text(value: float) -> str:
    return formatting.seconds(value)
