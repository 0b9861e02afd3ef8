"""Prediction and measurement of an engine's log and benchmark: the answer on one screen, a figure, and a page."""

from __future__ import annotations

import math
from dataclasses import replace

from roofline import formatting
from roofline.audit.engine_logs.compare import Comparison
from roofline.audit.engine_logs.names import NEAR, Row
from roofline.formatting import plural
from roofline.report import summary
from roofline.report.cells import NOTHING, table, text_cell, text_table
from roofline.report.figure import Axis, Cell, Command, Figure, Mark, Section, Series, Tile, View, Zone
from roofline.report.page import static_page
from roofline.specs.source import Assumption
from roofline.text import Answer, Table, clean


def notes(result: Comparison) -> list[str]:
    """What was passed over in the files, and a model that is not theirs."""
    files = [file for file in (result.log, result.bench) if file is not None]
    notes = [f"{file.path}: {note}" for file in files for note in file.notes]
    notes += [
        f"{note.value} is compared {note.why}" for note in result.deployment.notes if note.name == "model" and _instead(note)
    ]
    return [clean(text) for text in notes]


def _instead(note: Assumption) -> bool:
    """Whether something was given that contradicts a file."""
    return note.why.startswith("in place of")


def _headline(result: Comparison) -> str:
    request = result.request
    several = f"{request.deployment.devices} x " if request.deployment.devices > 1 else ""
    return f"{request.model.title} on {several}{request.hardware.accelerator.title}"


def _files(result: Comparison) -> list[tuple[str, str]]:
    """What was read."""
    lines = []
    if (log := result.log) is not None:
        version = f" {log.version}" if log.version else ""
        lines.append(("Log", f"{log.path}: {log.engine}{version}, read as {log.format.title}"))
    if (bench := result.bench) is not None:
        lines += [("Benchmark", f"{bench.path}: {bench.format.title}"), ("Load", bench.load.description)]
    if result.load is not None:
        lines.append(("Taken as", result.load.description))
    return lines


def answer(result: Comparison) -> Answer:
    """Return the answer of `roofline compare`."""
    read, reasons = _read(result), _reasons(result)
    noted = [("Note", note) for note in notes(result)]
    more = [("", f"{plural(len(reasons) - _BRIEF, 'more reason')}: -v")] if len(reasons) > _BRIEF else []
    legend = ("Ratio", _LEGEND)
    outside = any(row.within is False for row in result.rows)
    return Answer(
        title=_headline(result),
        settings=" · ".join(_settings(result)),
        verdict=_verdict(result),
        passed=False if outside else None,
        parts=(replace(_compared(result), title="", note=""),),
        brief=((*reasons[:_BRIEF], *more, legend, *noted[:_BRIEF], *_assumed_line(result)),),
        details=(tuple(reasons), (*_files(result), *noted, legend), *([read] if read is not None else [])),
        assumptions=summary.assumptions_table(result),
        hint="Files, what was read from the log, assumptions: -v",
    )


_BRIEF = 2
"""Reasons, notes and assumptions on one screen, each."""


def _settings(result: Comparison) -> list[str]:
    """Engine and load."""
    parts = []
    if (log := result.log) is not None:
        parts.append(f"log of {log.engine}{f' {log.version}' if log.version else ''}")
    if (bench := result.bench) is not None:
        parts.append(bench.load.description)
    return parts


def _verdict(result: Comparison) -> str:
    """How many quantities agree, and which are furthest off."""
    judged = [row for row in result.rows if row.within is not None]
    outside = [row for row in judged if not row.within]
    if not judged:
        return "None of the measured quantities is predicted."
    if not outside:
        return f"Prediction and measurement agree in all {len(judged)} quantities."
    furthest = sorted(outside, key=lambda row: abs(math.log(max(row.ratio or 0.0, _LEAST))), reverse=True)[:_FURTHEST]
    ratios = ", ".join(f"{_name(row)} {_ratio(row)}" for row in furthest)
    agree = f"{len(judged) - len(outside)} of {len(judged)} quantities agree."
    return f"{agree} Furthest off, predicted over measured: {ratios}."


_FURTHEST, _LEAST = 2, 1e-9


def _ratio(row: Row) -> str:
    return "" if row.ratio is None else f"{row.ratio:.3f}" if row.ratio < 10 else f"{row.ratio:,.1f}"


def _explained(result: Comparison) -> list[tuple[str, list[str]]]:
    """Likely reasons of gaps, each with the quantities that it explains, those of most quantities first."""
    explained: dict[str, list[str]] = {}
    for row in result.rows:
        for reason in filter(None, row.why.split("; ")):
            explained.setdefault(reason, []).append(_name(row))
    return sorted(explained.items(), key=lambda entry: -len(entry[1]))


def _reasons(result: Comparison) -> list[tuple[str, str]]:
    """Labels and likely reasons of gaps, with the quantities that they explain."""
    return [("Likely because" if at == 0 else "", f"{why} ({_of(of)})") for at, (why, of) in enumerate(_explained(result))]


def _of(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= _BRIEF + 1 else f"{', '.join(names[:_BRIEF])} and {len(names) - _BRIEF} more"


def _assumed_line(result: Comparison) -> list[tuple[str, str]]:
    """What the files do not say, in a line; nothing if they say all."""
    notes = [note for note in result.deployment.notes if note.origin != "default" and not _instead(note)]
    notes = [note for note in notes if note.origin != "given" or note.name in ("model", "hardware")]
    if not notes:
        return []
    texts = [f"{note.name} {note.value} ({note.why})" for note in notes[:_BRIEF]]
    return [("Assumed", "; ".join([*texts, *([f"{len(notes) - _BRIEF} more: -v"] if len(notes) > _BRIEF else [])]))]


_NAMES = {
    "device_bytes": "device memory", "weights_bytes": "weights", "activations_bytes": "activations",
    "graphs_bytes": "CUDA graphs", "kv_cache_bytes": "KV cache memory", "kv_capacity_tokens": "KV cache tokens",
    "kv_capacity_tokens (from the log's memory)": "  from the log's memory", "max_concurrency": "maximum concurrency",
    "ttft_s": "TTFT",
    "tpot_s": "TPOT", "itl_s": "ITL", "e2e_s": "E2E", "requests_per_s": "requests/s", "output_tokens_per_s": "output tokens/s",
    "total_tokens_per_s": "total tokens/s",
}  # fmt: skip


def _name(row: Row) -> str:
    return _NAMES.get(row.quantity, row.quantity).strip()


def _figure(value: float | None, unit: str) -> str:
    """A figure as logs and benchmarks print it; nothing for None."""
    if value is None:
        return ""
    if unit == "byte":
        return f"{value / 2**30:,.2f} GiB"
    if unit == "token":
        return f"{value:,.0f}"
    if unit == "s":
        return formatting.seconds(value)
    return f"{value:,.2f}x" if unit == "x" else formatting.number(value, 3)


def _band(row: Row) -> str:
    """From the least to the most, with the unit once where it is the same."""
    if row.unit == "s" and row.low and row.high:
        return formatting.about_range(row.low, row.high)
    low, high = _figure(row.low, row.unit), _figure(row.high, row.unit)
    number, _, unit = low.partition(" ")
    return f"{number if unit and high.endswith(f' {unit}') else low} to {high}" if low else ""


_LEGEND = "predicted over measured; !: outside the 80 % interval, or 5 % off without one"


def _compared(result: Comparison) -> Table:
    cells = tuple(
        (
            _NAMES.get(row.quantity, row.quantity),
            _figure(row.measured, row.unit),
            formatting.about(row.predicted) if row.unit == "s" and row.predicted else _figure(row.predicted, row.unit),
            _ratio(row),
            _band(row),
            "!" if row.within is False else "",
        )
        for row in result.rows
    )
    columns = ("", "measured", "predicted", "ratio", "80 % interval", "")
    return Table("Prediction and measurement", f"ratio: {_LEGEND}", columns, (False, True, True, True, True, False), cells)


def _read(result: Comparison) -> Table | None:
    """The arguments that the log prints and that shape the prediction."""
    log = result.log
    if log is None or not log.arguments:
        return None
    arguments = sorted(log.arguments.items(), key=lambda entry: entry[1].line)
    cells = tuple((name, str(fact.value)[:60], f"{fact.line:,}") for name, fact in arguments)
    return Table("Read from the log", "", ("argument", "value", "line"), (False, False, True), cells)


def _assumed(result: Comparison) -> Table | None:
    """What the files do not say, and what was given instead of what they say."""
    notes = [note for note in result.deployment.notes if note.origin != "given" or _instead(note)]
    notes += [note for note in result.deployment.notes if note.name in ("model", "hardware") and not _instead(note)]
    cells = tuple((note.name, str(note.value), note.origin, note.why) for note in notes)
    return Table("Assumptions", "", ("name", "value", "origin", "why"), (False,) * 4, cells) if cells else None


# The page


def comparison_page(result: Comparison, line: str) -> str:
    """Return the page of `roofline compare` as a complete HTML document; `line` is the command that prints the same."""
    return static_page(view(result, line), f"{line} --output compare.html")


def view(result: Comparison, line: str) -> View:
    """Return everything that the page shows."""
    drawn = [one for one in (ratio_figure(result), times_figure(result)) if one is not None]
    sections = [Section(key=one.key, title=one.title, note="", figure=one, tables=(), half=len(drawn) > 1) for one in drawn]
    why = tuple((", ".join(of), text) for text, of in _explained(result))
    files = Table("Files", "", ("what", "file"), (False, False), tuple(_files(result)))
    listed = {
        "compared": replace(
            _compared(result), columns=("quantity", "measured", "predicted", "ratio", "80 % interval", "differs")
        ),
        "why": Table("Likely reasons", "", ("quantities", "why"), (False, False), why) if why else None,
        "files": files,
        "log": _read(result),
    }
    for key, one in listed.items():
        if one is not None:
            rows = text_table(f"{key}-rows", replace(one, title="Rows"))
            sections.append(
                Section(key=key, title=one.title, note="", figure=None, tables=(rows,), folded=key in ("files", "log"))
            )
    return View(
        title=f"Predicted and measured: {_headline(result)}",
        subtitle=" · ".join(_settings(result)),
        answer=(_verdict(result), *notes(result), *(f"{label}: {text}" for label, text in _assumed_line(result))),
        fits=all(row.within is not False for row in result.rows),
        error="",
        tiles=_tiles(result),
        commands=(Command(label="Reproduce in a terminal", text=line),),
        sections=tuple(sections),
        assumptions=text_table("assumptions", replace(summary.assumptions_table(result), title="What is assumed")),
        not_modelled=_NOT_MODELLED,
        verdict=_verdict(result),
    )


_NOT_MODELLED = (
    "Requests as they came: the load is taken as one of steady requests of mean lengths.",
    "Clients and networks between the benchmark and the engine.",
    "What else ran on the machine.",
)
_FIRST = ("tpot_s", "ttft_s", "output_tokens_per_s", "kv_capacity_tokens", "e2e_s", "requests_per_s")
"""Quantities that have tiles, as far as they were measured."""
_TILES = 4
_AGREE = "in the 80 % interval, or within 5 %"


def _tiles(result: Comparison) -> tuple[Tile, ...]:
    """How many quantities agree, and the main ones: what was measured, and what is predicted."""
    judged = [row.within for row in result.rows if row.within is not None]
    tiles = [Tile(label="Agree", meaning="quantities", cell=text_cell(f"{sum(judged)} of {len(judged)}"), note=_AGREE)]
    named = {row.quantity: row for row in result.rows if row.predicted is not None}
    for row in [named[name] for name in _FIRST if name in named][:_TILES]:
        text = f"predicted {_predicted(row)}{f', {_ratio(row)} x' if row.ratio else ''}"
        cell = Cell(text=_figure(row.measured, row.unit), value=row.measured)
        tiles.append(Tile(label=_name(row)[0].upper() + _name(row)[1:], meaning="measured", cell=cell, note=text))
    return tuple(tiles)


def _predicted(row: Row) -> str:
    return formatting.about(row.predicted) if row.unit == "s" and row.predicted else _figure(row.predicted, row.unit)


def ratio_figure(result: Comparison) -> Figure | None:
    """Return the plot of predicted over measured, a row per quantity with its interval; None without predictions."""
    rows = [row for row in result.rows if row.ratio]
    if not rows:
        return None
    agreed = [row for row in rows if row.within is not False]
    outside = [row for row in rows if row.within is False]
    banded = [row for row in rows if row.low and row.high]
    series = []
    for name, role, some in (("agree", "estimate", agreed), ("differ", "limit", outside)):
        if some:
            series.append(
                Series(
                    name=name,
                    kind="points",
                    role=role,
                    x=tuple(row.ratio or 0.0 for row in some),
                    y=tuple(map(_name, some)),
                    size=tuple(_SIZE for _ in some),
                    labels=tuple(_label(row) for row in some),
                    short=tuple(map(_ratio, some)),
                )
            )
    series += [_interval(row) for row in banded]
    ends = [end / row.measured for row in banded for end in (row.low or 0.0, row.high or 0.0)] + [
        row.ratio or 1.0 for row in rows
    ]
    return Figure(
        key="ratios",
        title="Predicted over measured",
        note="On the line both are equal. Lines: the 80 % interval of the prediction. Shaded: within 5 %.",
        x=Axis(title="predicted / measured", scale="log", low=min(*ends, 0.8) / 1.1, high=max(*ends, 1.25) * 1.1),
        y=Axis(title="", scale="category"),
        series=tuple(series),
        marks=(Mark(text="equal", x=1.0, role="critical"),),
        zones=(Zone(text="", role="less", x0=1 - NEAR, x1=1 + NEAR),),
        table=table(
            "ratios-rows",
            "Predicted over measured",
            "",
            ("quantity", "measured", "predicted", "predicted / measured"),
            [
                (
                    text_cell(_name(row)),
                    Cell(text=_figure(row.measured, row.unit), value=row.measured),
                    Cell(text=_predicted(row), value=row.predicted),
                    Cell(text=_ratio(row), value=row.ratio),
                )
                for row in rows
            ],
        ),
    )


_SIZE = 0.15
"""Area of a point."""


def _label(row: Row) -> str:
    return f"{_name(row)}: measured {_figure(row.measured, row.unit)}, predicted {_predicted(row)}"


def _interval(row: Row) -> Series:
    """The 80 % interval of a prediction, over what was measured."""
    ends = (row.low or 0.0, row.high or 0.0)
    return Series(
        name="80 % interval",
        kind="line",
        role="roof",
        x=tuple(end / row.measured for end in ends),
        y=(_name(row), _name(row)),
        variant=0,
    )


def times_figure(result: Comparison) -> Figure | None:
    """Return the bars of measured and predicted times; None without a benchmark."""
    rows = [row for row in result.rows if row.unit == "s" and row.predicted]
    if not rows:
        return None
    series = [
        Series(
            name=name,
            kind="bars",
            role=role,
            x=tuple(map(_name, rows)),
            y=tuple(values),
            labels=tuple(map(_label, rows)),
            short=tuple(texts),
        )
        for name, role, values, texts in (
            ("measured", "measured", [row.measured for row in rows], [_figure(row.measured, row.unit) for row in rows]),
            ("predicted", "estimate", [row.predicted for row in rows], [_predicted(row) for row in rows]),
        )
    ]
    cells = [
        (
            text_cell(_name(row)),
            *(NOTHING if value is None else Cell(text=formatting.seconds(value), value=value) for value in _values(row)),
        )
        for row in rows
    ]
    names = ("quantity", "measured", "predicted", "from", "to", "bound")
    return Figure(
        key="times",
        title="Times",
        note="Measured by the benchmark, and predicted for its load.",
        x=Axis(title="", scale="category"),
        y=Axis(title="time", scale="linear", low=0.0, unit="s"),
        series=tuple(series),
        table=table("times-rows", "Times", "", names, cells),
    )


def _values(row: Row) -> tuple[float | None, ...]:
    return (row.measured, row.predicted, row.low, row.high, row.bound)
