"""The page of a sweep: one file without controls, with figures as still pictures and the numbers beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from roofline import formatting
from roofline.predict.engine_command import shell_line
from roofline.predict.grid import COLUMNS
from roofline.predict.sweeps.spec import PLAIN, THROUGH
from roofline.report.cells import figure, seconds, share, table, whole, words
from roofline.report.figure import Cell, Command, Section, Table, Tile, View
from roofline.report.page import static_page
from roofline.report.sweep import fronts, maps, tables
from roofline.report.sweep.data import LENGTH, LENGTHS, Swept, basis, called, cell, fitting, rates, written
from roofline.report.sweep.maps import is_grid

if TYPE_CHECKING:
    import pandas as pd

_NOT_MODELLED = (
    "Queues: these are single steps in which every sequence has the same length, not requests that come and go.",
    "The host: tokenisation, network, scheduling beyond what was measured of the engine as a whole.",
    "Clocks that fall with heat or power beyond what the measured kernels saw.",
)


def sweep_page(swept: Swept) -> str:
    """The page of a sweep."""
    return static_page(view(swept), shell_line(("roofline", "report", "--from", swept.name, "--output", "sweep.html")))


def view(swept: Swept) -> View:
    """Everything that it shows."""
    line = command(swept)
    refused = refused_table(swept)
    first = Section(
        key="swept",
        title="What was swept",
        note="",
        figure=None,
        tables=(axes_table(swept), *([refused] if refused else [])),
    )
    last = Section(key="inputs", title="What it stands on", note="", figure=None, tables=(inputs_table(swept),))
    return View(
        title=title(swept),
        subtitle=subtitle(swept),
        answer=answer(swept),
        fits=len(swept.frame) > 0 and ("fits" not in swept.frame.columns or bool(swept.frame["fits"].any())),
        error="",
        tiles=tiles(swept),
        commands=(Command(label="The same rows in a terminal", text=line),) if line else (),
        sections=(first, *_sections(swept), last),
        assumptions=columns_table(swept),
        not_modelled=_NOT_MODELLED,
    )


def _sections(swept: Swept) -> list[Section]:
    phases = swept.phases if len(swept.frame) else []
    return [
        section
        for phase, rows in phases
        for make in _makers(swept, phase, rows)
        for section in make(swept, phase, rows, len(phases))
    ]


def _makers(
    swept: Swept, phase: str, rows: pd.DataFrame
) -> tuple[Callable[[Swept, str, pd.DataFrame, int], list[Section]], ...]:
    """What is made of the rows of a phase."""
    if swept.rule == "histogram":
        return (maps.histogram_sections,)
    if swept.rule == "best":
        return (tables.best_sections,)
    if swept.rule == "pareto" or (swept.described is None and not _whole(swept, phase, rows)):
        return (fronts.sections, tables.best_sections)
    return (fronts.sections, tables.configuration_sections)


def _whole(swept: Swept, phase: str, rows: pd.DataFrame) -> bool:
    """Whether rows alone are those of a grid, and not a choice of some."""
    return all(is_grid(group, phase) for _, group in swept.configurations(rows))


# overview: What was swept and what was refused, in words, tiles and tables.

_NAMED, _VALUES, _REASONS, _INPUTS, _SAID = 3, 12, 40, 60, 3


def title(swept: Swept) -> str:
    """Models on hardware."""
    models, hardware = swept.grid.get("model", []), swept.grid.get("hardware", [])
    if not models or not hardware:
        return f"Sweep: {swept.name}"
    return f"Sweep: {_several(models, 'models')} on {_several(hardware, 'accelerators')}"


def _several(names: list[Any], what: str) -> str:
    shown = [written(name) for name in names]
    if len(shown) > _NAMED:
        return f"{len(shown)} {what}"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def subtitle(swept: Swept) -> str:
    """How much it is."""
    parts = [f"{len(swept.frame):,} row{'s' * (len(swept.frame) != 1)}"]
    parts += [f"{swept.points:,} points"] if swept.points is not None else []
    parts += [" and ".join(str(phase) for phase in swept.grid.get("phase", []))]
    parts += [{"best": "the best of each group", "pareto": "Pareto front", "histogram": "counts"}.get(swept.rule, "all points")]
    described = swept.described or {}
    parts += [f"data {described['data_version']}"] if "data_version" in described else []
    return " · ".join(part for part in parts if part)


def answer(swept: Swept) -> tuple[str, ...]:
    """The main things, a sentence each."""
    if swept.frame.empty:
        return ("No point was kept: none fits in memory and meets what was asked for.",)
    said = []
    if swept.rule == "histogram":
        counted = int(swept.frame["count"].sum())
        return (f"Counted were {counted:,} points, all of which fit in memory{_limits(swept)}.",)
    fits = fitting(swept.frame)
    if swept.rule:
        kept = "front" if swept.rule == "pareto" else "best points"
        said.append(f"Of the points that fit in memory{_limits(swept)}, these {len(fits):,} are the {kept}.")
    else:
        said.append(f"{int(fits.sum()):,} of {len(fits):,} points fit in memory.")
    for phase, rows in swept.phases:
        said += _best(swept, phase, rows) if swept.rule == "best" else _extremes(swept, phase, rows[fitting(rows)])
    refused = sum(int(entry.get("points", 0)) for entry in swept.refused)
    if refused:
        of = f" of {swept.points:,}" if swept.points is not None else ""
        said.append(f"{refused:,}{of} points cannot be, and have no rows: the reasons are below.")
    return tuple(said)


def _limits(swept: Swept) -> str:
    limits = ((swept.described or {}).get("reduce") or {}).get("limits", {})
    names = (("prefill_s", "TTFT"), ("decode_s", "TPOT"))
    said = [f"{name} of at most {formatting.seconds(limits[key])}" for key, name in names if key in limits]
    return f" and have a {' and a '.join(said)}" if said else ""


def _extremes(swept: Swept, phase: str, rows: pd.DataFrame) -> list[str]:
    """The most tokens a second of a device, and the fastest step."""
    found = basis(swept, phase, rows)
    if found is None or not rows[found.time].notna().any():
        return []
    rate, said = rates(rows, phase, found), []
    ending = "" if found.name == "estimate" else " at the bound"
    if rate is not None and rate.notna().any():
        most = int(rate.argmax())
        produced = "tokens/s" if phase == "decode" else "prompt tokens/s"
        said.append(
            f"Most {produced} a device{ending}: {figure(float(rate.iloc[most])).text}, {_where(swept, phase, rows.iloc[most])}."
        )
    least = int(rows[found.time].argmin())
    took = seconds(float(rows[found.time].iloc[least])).text
    said.append(f"Least {found.title}{ending}: {took}, {_where(swept, phase, rows.iloc[least])}.")
    return said


def _best(swept: Swept, phase: str, rows: pd.DataFrame) -> list[str]:
    """The first rows that were kept, a sentence each."""
    goal = next((goal for goal in swept.objectives if goal.column in rows.columns), None)
    if goal is None:
        return []
    ordered = rows.sort_values(goal.column, ascending=not goal.largest, kind="stable").head(_SAID)
    return [
        f"{called(goal.column, phase)}: {cell(goal.column, float(row[goal.column])).text}, {_where(swept, phase, row)}."
        for _, row in ordered.iterrows()
    ]


def _where(swept: Swept, phase: str, row: pd.Series[Any]) -> str:
    place = f"batch {int(row['batch']):,}"
    place += f" and {int(row[LENGTH[phase]]):,} {LENGTHS[phase]}" if LENGTH[phase] in row else ""
    return f"with {swept.called(row.to_dict())}, at {place}"


def tiles(swept: Swept) -> tuple[Tile, ...]:
    """Numbers in large type."""
    if swept.rule in ("histogram", "best") or swept.frame.empty:
        return ()
    fits = fitting(swept.frame)
    found = [Tile(label="rows", cell=whole(len(fits)), note="" if swept.points is None else f"of {swept.points:,} points")]
    if not swept.rule:
        found.append(Tile(label="fit in memory", cell=share(float(fits.mean())), note=f"{int(fits.sum()):,} points"))
    for phase, rows in swept.phases:
        kept = rows[fitting(rows)]
        on = basis(swept, phase, kept)
        if on is None or not kept[on.time].notna().any():
            continue
        note = on.name if on.name == "estimate" else "at the bound"
        found.append(Tile(label=f"least {on.title}", cell=seconds(float(kept[on.time].min())), note=note))
        rate = rates(kept, phase, on)
        if rate is not None and rate.notna().any():
            label = f"most {'tokens' if phase == 'decode' else 'prompt tokens'}/s a device"
            found.append(Tile(label=label, cell=figure(float(rate.max())), note=note))
    return tuple(found)


def axes_table(swept: Swept) -> Table:
    """Axes and their values."""
    rows = [(words(name.replace("_", "-")), whole(len(values)), words(_listed(values))) for name, values in swept.grid.items()]
    return table("axes", "Axes", "", ("axis", "values", "which"), rows)


def _listed(values: list[Any]) -> str:
    shown = [written(value) for value in values]
    if len(shown) > _VALUES:
        shown = [*shown[: _VALUES - 1], "…", shown[-1]]
    return ", ".join(shown) if all("," not in text for text in shown) else "; ".join(shown)


def refused_table(swept: Swept) -> Table | None:
    """What cannot be, by its reason; None if all can."""
    if not swept.refused:
        return None
    reasons: dict[str, list[dict[str, Any]]] = {}
    for entry in swept.refused:
        reasons.setdefault(str(entry.get("why", "")), []).append(entry)
    rows: list[tuple[Cell, ...]] = []
    for why, entries in list(reasons.items())[:_REASONS]:
        points = sum(int(entry.get("points", 0)) for entry in entries)
        rows.append((words(why), whole(points), whole(len(entries)), words(_example(swept, entries[0]))))
    more = f"The first {_REASONS} of {len(reasons):,} reasons." if len(reasons) > _REASONS else ""
    return table("refused", "What cannot be", more, ("why", "points", "configurations", "such as"), rows)


def _example(swept: Swept, entry: dict[str, Any]) -> str:
    given = entry.get("configuration")
    if not isinstance(given, dict):
        return ""
    known = {name: value for name, value in given.items() if len(swept.grid.get(name, ())) > 1} or given
    return ", ".join(f"{name.replace('_', '-')} {written(value)}" for name, value in known.items())


def columns_table(swept: Swept) -> Table:
    """What each answer means."""
    counted = swept.rule == "histogram" and "column" in swept.frame.columns
    kept = swept.frame.columns if len(swept.frame) else (swept.described or {}).get("columns", ())
    names = [str(name) for name in (swept.frame["column"].drop_duplicates() if counted else kept)]
    rows = [(words(name), words(COLUMNS[name].meaning), words(_kind(name))) for name in names if name in COLUMNS]
    return table("columns", "Columns", "", ("column", "meaning", "is"), rows)


def _kind(column: str) -> str:
    if COLUMNS[column].estimated:
        return "an estimate"
    timed = column.endswith("_bound_s") or column.startswith("tokens_per_s")
    return "a bound" if timed else "without overlap" if column == "time_sum_s" else "counted"


def inputs_table(swept: Swept) -> Table:
    """Files that the answers stand on."""
    described = swept.described
    if described is None:
        note = "The file has rows alone: what was refused and which files it stands on are in a folder of parts, or in a .json."
        return table("inputs", "Inputs", note, ("what", "name", "SHA-256"), [(words("rows"), words(swept.name), words("–"))])
    inputs = described.get("inputs")
    entries = list(inputs.items()) if isinstance(inputs, dict) else []
    rows = [
        (words(str(role).partition(" ")[0]), words(str(entry.get("name"))), words(str(entry.get("sha256", ""))[:16]))
        for role, entry in entries[:_INPUTS]
        if isinstance(entry, dict)
    ]
    note = f"roofline {described.get('tool_version', '')}, data {described.get('data_version', '')}."
    note += f" The first {_INPUTS} of {len(entries)} files." if len(entries) > _INPUTS else ""
    return table("inputs", "Inputs", note, ("what", "name", "SHA-256, its start"), rows)


# command: The command that sweeps the same again.

_MOST = 60
"""Values that a line can have and still be read."""


def command(swept: Swept) -> str:
    """The line; "" where none says it: too many values, or a default among others, which has no name."""
    described = swept.described
    if described is None or any(None in values for values in swept.grid.values()):
        return ""
    values = {name: [written(value).replace(",", "") for value in values] for name, values in swept.grid.items()}
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
