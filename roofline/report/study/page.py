"""The page of a study: goodput against the rate, tails, fairness and cost of each policy, with their intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby

from roofline.documents import DATA_VERSION, __version__
from roofline.formatting import number, percent
from roofline.formatting import seconds as time_text
from roofline.report.cells import number_cell, seconds, share, table, text_cell, text_table, whole
from roofline.report.figure import Axis, Cell, Command, Figure, Section, Series, Tile, View
from roofline.report.page import static_page
from roofline.report.study.summary import (
    comparison_table,
    has_slo,
    headline,
    interval_table,
    label,
    options_table,
    settings,
    verdict,
)
from roofline.serving.study.result import Row, StudyResult
from roofline.text import Table as TextTable

_NOT_MODELLED = (
    "What single simulations leave out: see the page of a simulation.",
    "Intervals are of chance alone, between seeds or batches of a run: that step times are estimates is not in them.",
)


def study_page(result: StudyResult, line: str) -> str:
    """The page of a study as a complete HTML document; `line` is the command that writes it again."""
    return static_page(view(result, line), line)


def view(result: StudyResult, line: str = "") -> View:
    """What the page shows."""
    sections = [section for section in _figures(result) if section is not None]
    listed = [comparison_table(result), interval_table(result)]
    tables = tuple(text_table(f"study-{index}", one) for index, one in enumerate(listed) if one is not None)
    return View(
        title=headline(result),
        subtitle=settings(result),
        answer=(),
        fits=any(not row["failed"] for row in result.table),
        error="",
        tiles=_tiles(result),
        commands=(Command(label="Write this page again", text=line),) if line else (),
        sections=(
            *sections,
            Section(key="comparison", title="Comparison", note="", figure=None, tables=tables),
            Section(key="inputs", title="Inputs", note="", figure=None, folded=True,
                    tables=(text_table("inputs", _inputs(result)),)),
        ),
        assumptions=text_table("assumptions", replace(options_table(result), title="Options of the runs")),
        not_modelled=_NOT_MODELLED,
        verdict=verdict(result),
    )  # fmt: skip


def _tiles(result: StudyResult) -> tuple[Tile, ...]:
    tiles = []
    for row in result.best[:6]:
        if row["mean"] is not None:
            unit = "goodput, req/s" if row["figure"] == "goodput" else "output tokens/s"
            at = "" if row["rate"] is None else f" at {number(row['rate'], 3)} req/s"
            tiles.append(Tile(label=label(row, result), cell=number_cell(row["mean"]), note=f"{unit}{at}"))
    return (*tiles, Tile(label="Runs", cell=whole(float(result.runs)), note=settings(result).partition(" · ")[0]))


def _figures(result: StudyResult) -> list[Section | None]:
    slo = has_slo(result)
    tails = [
        _section(result, f"{name[:-2]}-{figure}", f"{title} {figure}", f"{name}.{figure}", "s", seconds, time_text, log=True)
        for name, title in (("ttft_s", "TTFT"), ("tpot_s", "TPOT"), ("e2e_s", "E2E"))
        for figure in (("p99",) if name != "e2e_s" else ("mean", "p99"))
    ]
    return [
        _section(result, "goodput", "Goodput", "goodput", "requests/s", number_cell, _rate) if slo else None,
        _section(result, "within-slo", "Share of the requests within the SLO", "within_slo", "%", share, percent, high=1.02)
        if slo else None,
        *tails,
        _section(result, "throughput", "Output tokens/s", "output_tokens_per_s", "tokens/s", number_cell, _rate),
        _section(result, "fairness", "Fairness over the classes (Jain's index)", "fairness", "", number_cell, _rate, high=1.02),
        _section(result, "cost", "Cost per million output tokens", "cost_per_million_tokens", "", number_cell, _rate, log=True),
    ]  # fmt: skip


def _rate(value: float | None) -> str:
    return number(value or 0.0, 3)


def _section(
    result: StudyResult, key: str, title: str, name: str, unit: str, cell: Callable[[float | None], Cell],
    text: Callable[[float | None], str], *, log: bool = False, high: float | None = None,
) -> Section | None:  # fmt: skip
    """A section with a figure against the rate, a line per policy and deployment with its interval as a band; of one rate a
    point per policy. None where no row has it."""
    rows = [row for row in result.comparison if row[name] is not None and (not log or row[name]["mean"] > 0)]
    if not rows:
        return None
    one_rate = len(result.study["rates"]) == 1
    several = len(result.study["seeds"])
    level = percent(result.comparison[0]["level"], 0)
    note = f"Bands: {level} intervals over {several} seeds." if several > 1 else f"Bands: {level} intervals of each run."
    made = _bars(result, rows, name, text) if one_rate else _lines(result, rows, name, text, log=log)
    prefixed = unit in ("s", "%")
    up = Axis(
        title=title if prefixed or not unit else unit, scale="log" if log else "linear", unit=unit if prefixed else "",
        low=None if log else 0.0, high=high,
    )  # fmt: skip
    values = [
        (
            text_cell(label(row, result)), number_cell(row["rate"]), cell(row[name]["mean"]), cell(row[name]["low"]),
            cell(row[name]["high"]),
        )
        for row in rows
    ]  # fmt: skip
    drawn = Figure(
        key=key, title=title, note="" if one_rate else note,
        x=up if one_rate else Axis(title="offered load, requests/s", scale="linear", low=0.0),
        y=Axis(title="", scale="category") if one_rate else up,
        series=tuple(made),
        table=table(f"{key}-rows", title, note, ("policy", "requests/s", "mean", "from", "to"), values),
    )  # fmt: skip
    return Section(key=key, title=title, note="", figure=drawn, tables=(), half=True)


def _lines(result: StudyResult, rows: list[Row], name: str, text: Callable[[float | None], str], *, log: bool) -> list[Series]:
    series: list[Series] = []
    names: list[str] = []
    for (deployment, policy), each in groupby(result.comparison, key=lambda row: (row["deployment"], row["policy"])):
        del deployment, policy
        points = [row for row in each if row in rows and row["rate"] is not None]
        if not points:
            continue
        points.sort(key=lambda row: float(row["rate"]))
        title = label(points[0], result)
        names.append(title)
        variant = len(names) - 1
        banded = [row for row in points if row[name]["low"] is not None and (not log or row[name]["low"] > 0)]
        if len(banded) > 1:
            series.append(Series(
                name=title, kind="band", role="estimate", x=tuple(row["rate"] for row in banded), y=(),
                low=tuple(row[name]["low"] for row in banded), high=tuple(row[name]["high"] for row in banded), variant=variant,
            ))  # fmt: skip
        series.append(Series(
            name=title, kind="line", role="estimate", x=tuple(row["rate"] for row in points),
            y=tuple(row[name]["mean"] for row in points), variant=variant,
            labels=tuple(f"{title}, {number(row['rate'], 3)} req/s: {text(row[name]['mean'])}" for row in points),
        ))  # fmt: skip
    return series


def _bars(result: StudyResult, rows: list[Row], name: str, text: Callable[[float | None], str]) -> list[Series]:
    """Points of each policy with whiskers, where there is one rate."""
    places = [label(row, result) for row in rows]
    whiskers: list[tuple[float, str | None]] = []
    for row, place in zip(rows, places, strict=True):
        if row[name]["low"] is not None and row[name]["high"] is not None:
            whiskers += [(row[name]["low"], place), (row[name]["high"], place), (row[name]["high"], None)]
    series = []
    if whiskers:
        series.append(Series(
            name="", kind="line", role="TTFT", x=tuple(at for at, _ in whiskers), y=tuple(place for _, place in whiskers),
        ))  # fmt: skip
    series.append(Series(
        name="", kind="points", role="estimate", x=tuple(row[name]["mean"] for row in rows), y=tuple(places),
        labels=tuple(f"{place}: {text(row[name]['mean'])}" for row, place in zip(rows, places, strict=True)),
    ))  # fmt: skip
    return series


def _inputs(result: StudyResult) -> TextTable:
    rows = tuple((role, str(entry["name"]), str(entry["sha256"])) for role, entry in result.inputs.items())
    note = f"roofline {__version__}, data {DATA_VERSION}"
    return TextTable("Inputs", note, ("what", "name", "SHA-256"), (False, False, False), rows)
