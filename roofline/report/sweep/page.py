"""The page of a sweep: one file without controls, with figures as still pictures and the numbers beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from roofline import formatting
from roofline.blocks.model_files import load_model
from roofline.errors import RooflineError
from roofline.predict.engine_command import shell_line
from roofline.predict.grid import COLUMNS
from roofline.predict.sweeps.spec import PLAIN, THROUGH
from roofline.report.cells import about_count, about_time, number_cell, seconds, share, table, text_cell, whole
from roofline.report.figure import Cell, Command, Section, Table, Tile, View
from roofline.report.page import static_page
from roofline.report.sweep import fronts, maps, tables
from roofline.report.sweep.data import LENGTH, LENGTHS, Basis, SweepData, basis, called, cell, fitting, rates, written
from roofline.report.sweep.maps import is_grid
from roofline.specs.library import is_path, load_hardware, split_count

if TYPE_CHECKING:
    import pandas as pd

_NOT_MODELLED = (
    "Queues: these are single steps in which every sequence has the same length, not requests that come and go.",
    "The host: tokenisation, network, scheduling beyond what was measured of the engine as a whole.",
    "Clocks that fall with heat or power beyond what the measured kernels saw.",
)


def sweep_page(sweep: SweepData) -> str:
    """The page of a sweep as a complete HTML document."""
    from_file = shell_line(("roofline", "report", "--from", sweep.name, "--output", "sweep.html"))
    line = command(sweep)
    return static_page(
        view(sweep), f"{line} --output sweep.html" if not sweep.name and line else from_file if sweep.name else ""
    )


def view(sweep: SweepData) -> View:
    """Everything that the page shows."""
    line = command(sweep)
    answer = _answer(sweep)
    refused = _refused_table(sweep)
    first = Section(
        key="swept",
        title="What was swept",
        note="",
        figure=None,
        tables=(_axes_table(sweep), *([refused] if refused else [])),
    )
    last = Section(key="inputs", title="Inputs", note="", figure=None, tables=(_inputs_table(sweep),))
    return View(
        title=_title(sweep),
        subtitle=_subtitle(sweep),
        answer=answer,
        fits=len(sweep.frame) > 0 and ("fits" not in sweep.frame.columns or bool(sweep.frame["fits"].any())),
        error="",
        tiles=_tiles(sweep),
        commands=(Command(label="The same rows in a terminal", text=line),) if line else (),
        sections=(*_sections(sweep), first, last),
        assumptions=_columns_table(sweep),
        not_modelled=_NOT_MODELLED,
        verdict=answer[0],
    )


def _sections(sweep: SweepData) -> list[Section]:
    phases = sweep.phases if len(sweep.frame) else []
    return _paired(
        [
            section
            for phase, rows in phases
            for make in _makers(sweep, phase, rows)
            for section in make(sweep, phase, rows, len(phases))
        ]
    )


def _paired(sections: list[Section]) -> list[Section]:
    """The sections; one of half the width that has none beside it is as wide as the page."""
    paired: list[Section] = []
    is_left = True
    for at, section in enumerate(sections):
        has_right = at + 1 < len(sections) and sections[at + 1].half
        paired.append(replace(section, half=section.half and (has_right or not is_left)))
        is_left = not paired[-1].half or not is_left
    return paired


def _makers(
    sweep: SweepData, phase: str, rows: pd.DataFrame
) -> tuple[Callable[[SweepData, str, pd.DataFrame, int], list[Section]], ...]:
    """What is made of the rows of a phase."""
    if sweep.rule == "histogram":
        return (maps.histogram_sections,)
    if sweep.rule == "best":
        return (tables.best_sections,)
    if sweep.rule == "pareto" or (sweep.described is None and not _whole(sweep, phase, rows)):
        return (fronts.sections, tables.best_sections)
    return (fronts.sections, tables.configuration_sections)


def _whole(sweep: SweepData, phase: str, rows: pd.DataFrame) -> bool:
    """Whether rows alone are those of a grid, and not a choice of some."""
    return all(is_grid(group, phase) for _, group in sweep.configurations(rows))


# Overview: sentences, tiles and tables

_NAMED, _VALUES, _REASONS, _INPUTS, _MAX_SENTENCES = 3, 12, 40, 60, 3


def _title(sweep: SweepData) -> str:
    """Title of the page: models on hardware, by their titles."""
    models, hardware = sweep.grid.get("model", []), sweep.grid.get("hardware", [])
    if not models or not hardware:
        return f"Sweep: {sweep.name}" if sweep.name else "Sweep"
    on = _several([_called("hardware", written(name)) for name in hardware], "accelerators")
    return f"Sweep: {_several([_called('models', written(name)) for name in models], 'models')} on {on}"


def _called(kind: Literal["models", "hardware"], name: str) -> str:
    """The title of a shipped model or of hardware, with its count if it has one; of another, which may be gone, its name."""
    count, single = split_count(name) if kind == "hardware" else (None, name)
    if is_path(single):  # a file, which may have changed since
        return name
    try:
        title = load_model(single)[0].title if kind == "models" else load_hardware(single)[0].title
    except RooflineError:  # no longer shipped, or not here
        return name
    return title if count is None else f"{count} x {title}"


def _several(written_names: list[str], what: str) -> str:
    if len(written_names) > _NAMED:
        return f"{len(written_names)} {what}"
    return written_names[0] if len(written_names) == 1 else f"{', '.join(written_names[:-1])} and {written_names[-1]}"


def _subtitle(sweep: SweepData) -> str:
    """One line of text: number of rows and points, phases, reduction, version of the data."""
    parts = [f"{len(sweep.frame):,} row{'s' * (len(sweep.frame) != 1)}"]
    parts += [f"{sweep.points:,} points"] if sweep.points is not None else []
    parts += [" and ".join(str(phase) for phase in sweep.grid.get("phase", []))]
    parts += [{"best": "the best of each group", "pareto": "Pareto front", "histogram": "counts"}.get(sweep.rule, "all points")]
    described = sweep.described or {}
    parts += [f"data {described['data_version']}"] if "data_version" in described else []
    return " · ".join(part for part in parts if part)


def _answer(sweep: SweepData) -> tuple[str, ...]:
    """The main results, a sentence each."""
    if sweep.frame.empty:
        return ("No point was kept: none fits in memory and meets the limits.",)
    texts = []
    if sweep.rule == "histogram":
        counted = int(sweep.frame["count"].sum())
        return (f"Counted were {counted:,} points, all of which fit in memory{_limits(sweep)}.",)
    fits = fitting(sweep.frame)
    if sweep.rule:
        kind = "front" if sweep.rule == "pareto" else "best points"
        texts.append(f"Of the points that fit in memory{_limits(sweep)}, these {len(fits):,} are the {kind}.")
    else:
        texts.append(f"{int(fits.sum()):,} of {len(fits):,} points fit in memory.")
    for phase, rows in sweep.phases:
        texts += _best(sweep, phase, rows) if sweep.rule == "best" else _extremes(sweep, phase, rows[fitting(rows)])
    refused = sum(int(entry.get("points", 0)) for entry in sweep.refused)
    if refused:
        of = f" of {sweep.points:,}" if sweep.points is not None else ""
        texts.append(f"{refused:,}{of} points cannot be, and have no rows: the reasons are below.")
    return tuple(texts)


def _limits(sweep: SweepData) -> str:
    limits = ((sweep.described or {}).get("reduce") or {}).get("limits", {})
    names = (("prefill_s", "TTFT"), ("decode_s", "TPOT"))
    texts = [f"{name} of at most {formatting.seconds(limits[key])}" for key, name in names if key in limits]
    return f" and have a {' and a '.join(texts)}" if texts else ""


def _extremes(sweep: SweepData, phase: str, rows: pd.DataFrame) -> list[str]:
    """The highest tokens/s per device, and the fastest step."""
    timing = basis(sweep, phase, rows)
    if timing is None or not rows[timing.time].notna().any():
        return []
    rate, texts = rates(rows, phase, timing), []
    ending = "" if timing.name == "estimate" else " at the bound"
    if rate is not None and rate.notna().any():
        most = int(rate.argmax())
        produced = "tokens/s" if phase == "decode" else "prompt tokens/s"
        where = _where(sweep, phase, rows.iloc[most])
        texts.append(f"Max {produced} per device{ending}: {number_cell(float(rate.iloc[most])).text}, {where}.")
    least = int(rows[timing.time].argmin())
    took = seconds(float(rows[timing.time].iloc[least])).text
    texts.append(f"Min {timing.title}{ending}: {took}, {_where(sweep, phase, rows.iloc[least])}.")
    return texts


def _best(sweep: SweepData, phase: str, rows: pd.DataFrame) -> list[str]:
    """The first rows that were kept, a sentence each."""
    goal = next((goal for goal in sweep.objectives if goal.column in rows.columns), None)
    if goal is None:
        return []
    ordered = rows.sort_values(goal.column, ascending=not goal.largest, kind="stable").head(_MAX_SENTENCES)
    return [
        f"{called(goal.column, phase)}: {cell(goal.column, float(row[goal.column])).text}, {_where(sweep, phase, row)}."
        for _, row in ordered.iterrows()
    ]


def _where(sweep: SweepData, phase: str, row: pd.Series[Any]) -> str:
    place = f"batch {int(row['batch']):,}"
    place += f" and {int(row[LENGTH[phase]]):,} {LENGTHS[phase]}" if LENGTH[phase] in row else ""
    return f"with {sweep.called(row.to_dict())}, at {place}"


def _tiles(sweep: SweepData) -> tuple[Tile, ...]:
    """Headline numbers: rows, points that fit, min time and max rate of each phase."""
    if sweep.rule in ("histogram", "best") or sweep.frame.empty:
        return ()
    fits = fitting(sweep.frame)
    listed = [Tile(label="Rows", cell=whole(len(fits)), note="" if sweep.points is None else f"of {sweep.points:,} points")]
    if not sweep.rule:
        listed.append(Tile(label="Fit in memory", cell=share(float(fits.mean())), note=f"{int(fits.sum()):,} points"))
    for phase, rows in sweep.phases:
        fitted = rows[fitting(rows)]
        on = basis(sweep, phase, fitted)
        if on is None or not fitted[on.time].notna().any():
            continue
        note = on.name if on.name == "estimate" else "at the bound"
        listed.append(Tile(label=f"Min {on.title}", cell=_as(on, about_time, seconds, float(fitted[on.time].min())), note=note))
        rate = rates(fitted, phase, on)
        if rate is not None and rate.notna().any():
            label = f"Max {'tokens' if phase == 'decode' else 'prompt tokens'}/s per device"
            listed.append(Tile(label=label, cell=_as(on, about_count, number_cell, float(rate.max())), note=note))
    return tuple(listed)


def _as(on: Basis, estimated: Callable[[float], Cell], exact: Callable[[float], Cell], value: float) -> Cell:
    """A number with the digits of an estimate if it is one."""
    return (estimated if on.name == "estimate" else exact)(value)


def _axes_table(sweep: SweepData) -> Table:
    """Table of the axes and their values."""
    rows = [
        (text_cell(name.replace("_", "-")), whole(len(values)), text_cell(_listed(values)))
        for name, values in sweep.grid.items()
    ]
    return table("axes", "Axes", "", ("axis", "values", "which"), rows)


def _listed(values: list[Any]) -> str:
    texts = [written(value) for value in values]
    if len(texts) > _VALUES:
        texts = [*texts[: _VALUES - 1], "…", texts[-1]]
    return ", ".join(texts) if all("," not in text for text in texts) else "; ".join(texts)


def _refused_table(sweep: SweepData) -> Table | None:
    """Table of the configurations that were refused, by reason; None without any."""
    if not sweep.refused:
        return None
    reasons: dict[str, list[dict[str, Any]]] = {}
    for entry in sweep.refused:
        reasons.setdefault(str(entry.get("why", "")), []).append(entry)
    rows: list[tuple[Cell, ...]] = []
    for why, entries in list(reasons.items())[:_REASONS]:
        points = sum(int(entry.get("points", 0)) for entry in entries)
        rows.append((text_cell(why), whole(points), whole(len(entries)), text_cell(_example(sweep, entries[0]))))
    more = f"The first {_REASONS} of {len(reasons):,} reasons." if len(reasons) > _REASONS else ""
    return table("refused", "What cannot be", more, ("why", "points", "configurations", "such as"), rows)


def _example(sweep: SweepData, entry: dict[str, Any]) -> str:
    given = entry.get("configuration")
    if not isinstance(given, dict):
        return ""
    known = {name: value for name, value in given.items() if len(sweep.grid.get(name, ())) > 1} or given
    return ", ".join(f"{name.replace('_', '-')} {written(value)}" for name, value in known.items())


def _columns_table(sweep: SweepData) -> Table:
    """Table of the columns and their meanings."""
    counted = sweep.rule == "histogram" and "column" in sweep.frame.columns
    columns = sweep.frame.columns if len(sweep.frame) else (sweep.described or {}).get("columns", ())
    names = [str(name) for name in (sweep.frame["column"].drop_duplicates() if counted else columns)]
    rows = [(text_cell(name), text_cell(COLUMNS[name].meaning), text_cell(_kind(name))) for name in names if name in COLUMNS]
    return table("columns", "Columns", "", ("column", "meaning", "is"), rows)


def _kind(column: str) -> str:
    if COLUMNS[column].estimated:
        return "an estimate"
    timed = column.endswith("_bound_s") or column.startswith("tokens_per_s")
    return "a bound" if timed else "without overlap" if column == "time_sum_s" else "counted"


def _inputs_table(sweep: SweepData) -> Table:
    """Table of the files that the results are computed from."""
    described = sweep.described
    if described is None:
        note = "The file has rows alone: what was refused and its inputs are in a folder of parts, or in a .json."
        return table(
            "inputs", "Inputs", note, ("what", "name", "SHA-256"), [(text_cell("rows"), text_cell(sweep.name), text_cell("–"))]
        )
    inputs = described.get("inputs")
    entries = list(inputs.items()) if isinstance(inputs, dict) else []
    rows = [
        (
            text_cell(str(role).partition(" ")[0]),
            text_cell(str(entry.get("name"))),
            text_cell(str(entry.get("sha256", ""))[:16]),
        )
        for role, entry in entries[:_INPUTS]
        if isinstance(entry, dict)
    ]
    note = f"roofline {described.get('tool_version', '')}, data {described.get('data_version', '')}."
    note += f" The first {_INPUTS} of {len(entries)} files." if len(entries) > _INPUTS else ""
    return table("inputs", "Inputs", note, ("what", "name", "SHA-256, its start"), rows)


# The command that sweeps the same again

_MOST = 60
"""Values that a line can have and still be read."""


def command(sweep: SweepData) -> str:
    """The command that sweeps the same; "" if none can: too many values, or a default among others, which has no name."""
    described = sweep.described
    if described is None or any(None in values for values in sweep.grid.values()):
        return ""
    values = {name: [written(value).replace(",", "") for value in values] for name, values in sweep.grid.items()}
    if sum(map(len, values.values())) > _MOST:
        return ""
    line = ["roofline", "sweep", *values.pop("model", [])]
    for name, listed in values.items():
        line += [f"--{name.replace('_', '-')}", ",".join(listed)]
    reduced: dict[str, Any] = described.get("reduce") or {}
    columns = [name for name in described.get("columns", ()) if not reduced or name in (*PLAIN, *THROUGH)]
    if columns and not set(PLAIN) <= set(columns):
        line += ["--columns", ",".join(columns)]
    if reduced:
        line += ["--reduce", str(reduced.get("rule"))]
        for goal in reduced.get("objectives", ()):
            line += ["--objective", str(goal)]
        line += ["--by", ",".join(reduced["by"])] if reduced.get("by") else []
        for phase, flag in (("prefill_s", "--ttft"), ("decode_s", "--tpot")):
            if phase in reduced.get("limits", {}):
                line += [flag, f"{reduced['limits'][phase] * 1e3:.12g} ms"]
    line += ["--ignore-capacity"] if described.get("ignore_capacity") else []
    return shell_line(tuple(line))
