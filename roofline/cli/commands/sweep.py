"""`roofline sweep`: any grid, as a tidy table, a file, or a folder of parts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import files, formatting
from roofline.cli.options import Options, complete_models, given, hardware_option, takes
from roofline.cli.options import own as option
from roofline.cli.output import FIGURE_SUFFIXES, Output, Result, by_role, progress
from roofline.cli.tables import print_answer, screen_width
from roofline.documents import envelope
from roofline.errors import InputError
from roofline.formatting import plural
from roofline.predict.options import OPTIONS
from roofline.text import Answer, Table, clean, csv_cell, fitted
from roofline.units import parse_count

if TYPE_CHECKING:
    import pandas as pd

    from roofline.predict.sweeps.reduce import Reduction
    from roofline.predict.sweeps.spec import Sweep
    from roofline.report.sweep.data import SweepData

RULES, RUN = "Selection", "Execution"
_MAX_PRINTED = 1_000
"""Rows that are printed at most."""
_HEADS = {
    "time_estimate_s": "estimate", "time_low_s": "low", "time_high_s": "high", "time_bound_s": "bound",
    "time_floor_s": "floor",
    "step_estimate_s": "step time", "step_low_s": "step low", "step_high_s": "step high", "step_bound_s": "step bound",
    "tokens_per_s": "tokens/s bound", "tokens_per_s_estimate": "tokens/s",
    "tokens_per_s_per_device": "tokens/s per device, bound",
    "tokens_per_s_per_device_estimate": "tokens/s per device", "memory_bytes": "memory", "arithmetic_intensity": "FLOP/B",
    "bound_by": "limited by", "weight_dtype": "weights", "kv_dtype": "KV", "activation_dtype": "activations",
}  # fmt: skip
_SUFFIXES = (".csv", ".html", ".json", ".md", ".parquet", *FIGURE_SUFFIXES)
FIGURES = tuple(
    f"{name}-{phase}{ending}"
    for phase in ("prefill", "decode")
    for name, ending in (
        ("front", ""), ("front-long", ""), ("map", "-*"), ("curves", ""), ("bars", ""), ("histogram", "-*"),
    )
)  # fmt: skip
_IN_FILES = (
    "time_floor_s",
    "time_low_s",
    "time_high_s",
    "tokens_per_s",
    "tokens_per_s_per_device_estimate",
    "arithmetic_intensity",
    "activation_dtype",
)
"""Columns that are left to files where a table is printed."""
_DISPENSABLE = (
    "step_low_s",
    "step_high_s",
    "step_bound_s",
    "step_estimate_s",
    "bound_by",
    "memory_bytes",
    "tokens_per_s_per_device",
    "time_bound_s",
    "weight_dtype",
    "kv_dtype",
    "devices",
)
"""Columns that a screen too narrow for all does without, first to last."""
_TITLE = ("model", "hardware", "phase")
_ROWS = 16
"""Rows on one screen."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    axes = [replace(entry, kind="text", metavar="LIST") for entry in OPTIONS.values() if entry.axis]
    axes = [replace(entry, default="decode") if entry.name == "phase" else entry for entry in axes]
    app.command(name="sweep")(takes((), changed=(*axes, OPTIONS["ignore_capacity"]), figures=FIGURES, formats=[".html"])(sweep))


def sweep(  # noqa: PLR0917 - a flag each
    first: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SPEC|MODEL...", help="YAML file of a sweep, or one or more models.", autocompletion=complete_models
        ),
    ] = None,
    hardware: Annotated[list[str] | None, hardware_option("Accelerators or nodes, separated by commas.")] = None,
    columns: Annotated[
        str | None, option("--columns", text="Output columns, separated by commas.", panel=RULES, metavar="LIST")
    ] = None,
    reduce: Annotated[
        str | None,
        option(
            "--reduce",
            text="Summarize the points that fit in memory: best, pareto (front) or histogram.",
            panel=RULES,
            metavar="RULE",
        ),
    ] = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            "--objective",
            help="Column to optimize, as COLUMN:max or COLUMN:min; repeat for a Pareto front.",
            metavar="COLUMN",
            rich_help_panel=RULES,
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        str | None, option("--by", text="Reduce separately for each value of these axes.", panel=RULES, metavar="AXES")
    ] = None,
    ttft: Annotated[
        str | None,
        option("--ttft", text='Maximum prefill time of the points to keep, such as "500 ms".', panel=RULES, metavar="T"),
    ] = None,
    tpot: Annotated[
        str | None,
        option("--tpot", text='Maximum decode step time of the points to keep, such as "50 ms".', panel=RULES, metavar="T"),
    ] = None,
    executor: Annotated[
        str | None,
        option(
            "--executor",
            text="Run in N processes (processes[:N]) or on a Dask cluster (dask[:ADDRESS]). Default: one process.",
            panel=RUN,
            metavar="NAME",
        ),
    ] = None,
    part_rows: Annotated[
        str | None,
        option("--part-rows", text="Number of points per file of a folder. Default: 1,000,000.", panel=RUN, metavar="N"),
    ] = None,
    *,
    options: Options,
    out: Output,
) -> int:
    """Evaluate a grid of models, hardware and settings.

    Every option marked LIST, except --columns, is an axis: one value, several separated by commas, or a range such as
    1:512:x2. The result has one row per point. For a grid larger than memory, write to a folder (-o NAME without a suffix); an
    interrupted sweep resumes there.

    Example: roofline sweep llama-3.1-8b -H a100-sxm-80gb,h100-sxm --tp 1,2 --batch 1:256:x2 --context 1k,8k
    """
    ignore_capacity = bool(options.pop("ignore_capacity", False))
    sweep = _sweep(
        first or [],
        {"hardware": hardware, **options},
        columns=columns,
        reduce=reduce,
        objectives=objective or [],
        by=by,
        ttft=ttft,
        tpot=tpot,
        part_rows=part_rows,
        ignore_capacity=ignore_capacity,
    )
    return _run(sweep, executor, out)


def _sweep(
    first: list[str],
    grid: dict[str, Any],
    *,
    columns: str | None,
    reduce: str | None,
    objectives: list[str],
    by: str | None,
    ttft: str | None,
    tpot: str | None,
    part_rows: str | None,
    ignore_capacity: bool,
) -> Sweep:
    """A sweep from a file, from flags, or from a file with flags instead of some of its keys."""
    from roofline.predict.options import read_quantity
    from roofline.predict.sweeps.reduce import Reduction
    from roofline.predict.sweeps.spec import PART_ROWS, Sweep, is_sweep_file, load_sweep_file

    paths = [Path(one) for one in first if is_sweep_file(Path(one))]
    if paths and len(first) > 1:
        raise InputError(
            f"{paths[0]} is a sweep of its own: name its models in the file, or give --hardware and flags without it"
        )
    file = load_sweep_file(paths[0]) if paths else None
    if file is None and not grid.get("hardware"):
        _no_sweep(first)
    axes = given(grid)
    if file is None and not first:
        raise InputError(
            "what is swept? Give the YAML file of a sweep, or MODEL --hardware HW and axes such as --batch 1:512:x2"
        )
    axes = ({"model": first} if file is None else dict(file.grid)) | axes
    rule = reduce or (file.reduce if file else None)
    limits = {
        name: read_quantity(name, value, "s") if value is not None else None
        for name, value in (("ttft", ttft or (file.ttft if file else None)), ("tpot", tpot or (file.tpot if file else None)))
    }
    goals = objectives or list(file.objectives if file else ())
    groups = [part.strip() for part in by.split(",")] if by else list(file.by if file else ())
    if rule is None and (goals or groups or any(limits.values())):
        raise InputError("--objective, --by, --ttft and --tpot say what is kept: give --reduce best, pareto or histogram too")
    rows = parse_count(part_rows, "--part-rows", 1) if part_rows else (file.part_rows if file else None) or PART_ROWS
    return Sweep.of(
        axes,
        columns=[part.strip() for part in columns.split(",")] if columns else file.columns if file else None,
        part_rows=rows,
        ignore_capacity=ignore_capacity or bool(file and file.ignore_capacity),
        reduction=None
        if rule is None
        else Reduction.of(rule, objectives=goals, by=groups, ttft=limits["ttft"], tpot=limits["tpot"]),
    )


def _no_sweep(first: list[str]) -> None:
    """Refuse a file that was meant to be a sweep and is none."""
    for name in first:
        if name.endswith((".yaml", ".yml")):
            what = "has no `kind: sweep`" if files.exists(name) else "is not there"
            raise InputError(f"{name} {what}: give the YAML file of a sweep, or MODEL --hardware HW and axes")


def _run(sweep: Sweep, executor: str | None, out: Output) -> int:
    """Write the rows in the form that the flags name; the exit code, which is 1 where nothing is left to keep."""
    from roofline.predict.sweeps.run import check_values

    if out.file is not None and out.file.suffix:
        out.check_suffix(_SUFFIXES, "; without one it is a folder of parts")
    check_values(sweep)
    if not out.quiet:
        _warn_too_long(sweep)
    if out.file is not None and not out.file.suffix:
        return _write_folder(sweep, out.file, executor, out)
    with progress("points", quiet=out.quiet) as report:
        frame = _in_memory(sweep, executor, report, unread=out.file is None and not out.json)
    refused = frame.attrs["refused"]
    _warn_refused(refused, sweep, quiet=out.quiet)
    rows = _rows(frame) if out.json or out.has_suffix(".json") else []
    document = _document(sweep, {"points": sweep.points, "rows": rows, "refused": refused})
    formats: dict[str, Callable[[], str | bytes]] = {".csv": lambda: _csv(frame), ".parquet": lambda: _parquet(frame)}

    def show() -> None:
        print_answer(_answer(sweep, frame), out.verbosity)

    def figures() -> SweepData:
        from roofline.report.sweep.data import SweepData

        described = {**envelope(by_role(sweep.inputs)), **sweep.describe()}
        return SweepData(name="", frame=frame, described=described, refused=tuple(refused), points=sweep.points)

    def page() -> str:
        from roofline.report.sweep.page import sweep_page

        return sweep_page(figures())

    formats[".html"] = page
    out.emit(Result(document, lambda: _rows(frame), show, formats, figures))
    return int(sweep.reduction is not None and frame.empty)


def _write_folder(sweep: Sweep, folder: Path, executor: str | None, out: Output) -> int:
    """Write the rows as a folder of parts."""
    try:
        with progress("points", quiet=out.quiet) as report:
            manifest, new = _into_folder(sweep, folder, executor, report)
    except KeyboardInterrupt:
        sys.stderr.write(f"stopped: the parts in {clean(folder)} are whole, and the same command goes on with them\n")
        return 4
    _warn_refused(manifest["refused"], sweep, quiet=out.quiet)
    done = f"wrote {folder}" if new else f"{folder} was complete"
    out.note(f"{done}: {plural(manifest['rows'], 'row')} in {plural(len(manifest['parts']), 'part')}")
    to_stdout = replace(out, file=None)
    if sweep.reduction is None:
        if out.json:
            to_stdout.emit(Result(_document(sweep, manifest), None, lambda: None))
        return 0
    from roofline.predict.sweeps.folder import read

    frame = sweep.reduction.merge([read(folder)[0]])
    document = _document(sweep, manifest | {"rows": _rows(frame)})
    to_stdout.emit(Result(document, None, lambda: print_answer(_answer(sweep, frame), out.verbosity)))
    return int(frame.empty)


def _warn_too_long(sweep: Sweep) -> None:
    """Lengths that a model was not made for, on stderr."""
    lengths = {length for phase in sweep.axes["phase"] for length in sweep.lengths(phase)}
    for name, model in sweep.models.items():
        if beyond := sum(length > model.max_position_embeddings for length in lengths):
            made = f"{name} was made for {model.max_position_embeddings:,} tokens"
            sys.stderr.write(clean(f"{made}; beyond that: {plural(beyond, 'length')} of the grid") + "\n")


def _document(sweep: Sweep, more: dict[str, Any]) -> dict[str, Any]:
    return envelope(by_role(sweep.inputs)) | {"kind": "sweep", "sweep": sweep.describe()} | more


def _in_memory(sweep: Sweep, executor: str | None, report: Callable[[int, int], None], *, unread: bool) -> pd.DataFrame:
    from roofline.predict.sweeps.run import collect

    if unread and sweep.reduction is None and sweep.points > _MAX_PRINTED:
        raise InputError(
            f"{sweep.points:,} points are too many to read: -o FILE.csv or FILE.parquet, -o FOLDER (no suffix) for parts, "
            "--json, or --reduce best, pareto or histogram"
        )
    if executor is None:
        return collect(sweep, progress=report)
    from roofline.predict.sweeps.run import evaluated

    return collect(sweep, evaluated(sweep, executor), report)


def _into_folder(
    sweep: Sweep, path: Path, executor: str | None, report: Callable[[int, int], None]
) -> tuple[dict[str, Any], int]:
    """The manifest, and how many parts are new."""
    from roofline.predict.sweeps.folder import Folder
    from roofline.predict.sweeps.run import written_parts

    folder = Folder(path, sweep)
    folder.prepare()
    every = list(sweep.parts())
    left = list(folder.missing(every))
    done = sum(part.points for part in every) - sum(part.points for part in left)
    report(done, sweep.points)
    for written in written_parts(sweep, left, executor):
        folder.put(written)
        done += written.points + written.refused
        report(done, sweep.points)
    return folder.finish(len(every)), len(left)


def _warn_refused(refused: list[dict[str, Any]], sweep: Sweep, *, quiet: bool) -> None:
    """Configurations that have no rows, on stderr: each reason once."""
    if quiet or not refused:
        return
    reasons: dict[str, int] = {}
    for entry in refused:
        reasons[entry["why"]] = reasons.get(entry["why"], 0) + entry["points"]
    total = sum(reasons.values())
    sys.stderr.write(f"{total:,} of {sweep.points:,} points cannot be:\n")
    for why, points in list(reasons.items())[:8]:
        sys.stderr.write(clean(f"  {points:,}: {why}") + "\n")
    if len(reasons) > 8:
        sys.stderr.write(f"  and {len(reasons) - 8} more reasons\n")


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    import pandas as pd

    plain = frame.astype(object).where(frame.notna(), None)
    return [{str(name): None if value is pd.NA else value for name, value in row.items()} for row in plain.to_dict("records")]


def _csv(frame: pd.DataFrame) -> str:
    cleaned = frame.copy(deep=False)
    for name in frame.columns:
        if frame[name].dtype == "category":
            cleaned[name] = frame[name].cat.rename_categories(lambda text: str(csv_cell(text)))
    return str(cleaned.to_csv(index=False, lineterminator="\n"))


def _parquet(frame: pd.DataFrame) -> bytes:
    import io

    from roofline.predict.sweeps.folder import arrow

    pa, pq = arrow()
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None), sink, compression="zstd")
    return sink.getvalue()


def _answer(sweep: Sweep, frame: pd.DataFrame) -> Answer:
    """What has one value as the title, what is best in a sentence, and a table: axes that vary, times, rates, memory."""
    every = list(range(len(frame)))
    leading = _leading(sweep, frame)
    table, brief = (_table(sweep, frame, rows) for rows in (every, leading))
    more = len(frame) - len(leading)
    if more > 0 and leading != every[: len(leading)]:
        brief = replace(brief, title="Highest throughput per device first")
    return Answer(
        title=_title(sweep, frame),
        settings=" · ".join(_settings(sweep, frame)),
        verdict=_verdict(sweep, frame),
        brief=(brief,) if brief.rows else (),
        details=(table,) if table.rows else (),
        notes=_notes(frame),
        hint=f"{plural(more, 'more row')}: -v    All columns: -o FILE.csv" if more > 0 else "All columns: -o FILE.csv",
    )


def _table(sweep: Sweep, frame: pd.DataFrame, chosen: list[int]) -> Table:
    """The rows of these positions, with the columns that vary over all."""
    # what is named is printed, whatever it is
    goals = sweep.reduction.objectives if sweep.reduction else ()
    staged = any(value not in (None, 1) for value in sweep.axes.get("pp", ()))
    twins = {} if staged else {name: name.replace("step_", "time_") for name in frame.columns if name.startswith("step_")}
    named = set(sweep.columns if sweep.named else ()) | {twins.get(goal.column, goal.column) for goal in goals}
    hidden = [name for name in frame.columns if name in _IN_FILES or name in twins]
    part = frame.iloc[chosen]
    if "fits" in frame.columns and part["fits"].all():
        hidden.append("fits")
    if {"devices", "tp"} <= set(frame.columns) and frame["devices"].equals(frame["tp"]):
        hidden.append("devices")
    columns = [name for name in frame.columns if name in named or not (name in hidden or _constant(sweep, frame, name))]
    # the edges of a histogram are values of its column
    kinds = [goals[0].column if name in ("low", "high") and name not in sweep.axes else name for name in columns]
    rows = tuple(
        tuple(_cell(kind, value) for kind, value in zip(kinds, row, strict=True))
        for row in part[columns].itertuples(index=False)
    )
    right = tuple(frame[name].dtype.kind in "iuf" for name in columns)
    table = Table("", "", tuple(_HEADS.get(name, name.replace("_", "-")) for name in columns), right, rows)
    return fitted(table, screen_width() - 2, [_HEADS.get(name, name) for name in _DISPENSABLE if name not in named])


def _rate(frame: pd.DataFrame) -> str | None:
    """The column of throughput per device, estimated if it is; None without any."""
    columns = ("tokens_per_s_per_device_estimate", "tokens_per_s_per_device", "tokens_per_s_estimate", "tokens_per_s")
    return next((name for name in columns if name in frame.columns and frame[name].notna().any()), None)


def _leading(sweep: Sweep, frame: pd.DataFrame) -> list[int]:
    """The positions of the rows on one screen: those of the highest throughput, if they are of one phase and not yet chosen."""
    rate = _rate(frame)
    if len(frame) <= _ROWS or rate is None or sweep.reduction is not None or len(frame["phase"].unique()) > 1:
        return list(range(min(len(frame), _ROWS)))
    order = frame[rate].fillna(-1.0).to_numpy().argsort(kind="stable")[::-1]
    return [int(at) for at in order[:_ROWS]]


def _verdict(sweep: Sweep, frame: pd.DataFrame) -> str:
    """How many points fit and which is best; what a reduction kept."""
    if sweep.reduction is not None:
        return _reduced(sweep, sweep.reduction, frame)
    parts = []
    if "fits" in frame.columns and not frame["fits"].all():
        fit = int(frame["fits"].sum())
        parts.append(f"{fit:,} of {plural(len(frame), 'point')} fit in memory." if fit else "No point fits in memory.")
    rate = _rate(frame)
    if rate is not None and len(frame) > 1 and len(frame["phase"].unique()) == 1:
        best = frame.iloc[int(frame[rate].fillna(-1.0).to_numpy().argmax())]
        varied = _axes(sweep) - {"devices", "fits"}
        axes = [name for name in frame.columns if name in varied and not _constant(sweep, frame, name)]
        where = ", ".join(_setting(name, best[name]) for name in axes)
        per = (
            " per device" if "per_device" in rate and not ("devices" in frame.columns and (frame["devices"] == 1).all()) else ""
        )
        parts.append(f"Highest throughput{per}: {_cell(rate, best[rate])} tok/s{f' ({where})' if where else ''}.")
    return " ".join(parts)


def _reduced(sweep: Sweep, reduction: Reduction, frame: pd.DataFrame) -> str:
    """What a reduction kept, by which objectives and limits."""
    heads = [_HEADS.get(goal.column, goal.column.replace("_", " ")) for goal in reduction.objectives]
    goals = ", ".join(
        f"{'highest' if goal.largest else 'lowest'} {head}" for goal, head in zip(reduction.objectives, heads, strict=True)
    )
    what = {"best": f"Best: {goals}", "pareto": f"Pareto front: {goals}", "histogram": f"Histogram: {', '.join(heads)}"}
    each = f", for each {' and '.join(reduction.by)}" if reduction.by else ""
    several = ", all models together" if len(sweep.models) > 1 and "model" not in reduction.by else ""
    limits = [f"{phase} steps of at most {formatting.seconds(seconds)}" for phase, seconds in reduction.limits.items()]
    text = "; ".join([f"{what.get(reduction.rule, f'{reduction.rule.capitalize()}: {goals}')}{each}{several}", *limits])
    return f"No point fits and meets the limits. {text}." if frame.empty else f"{text}."


def _axes(sweep: Sweep) -> set[str]:
    """Columns that are axes or follow from them."""
    from roofline.predict.sweeps.axes import WORKLOAD

    return {*sweep.axes, *WORKLOAD, "devices", "weight_dtype", "kv_dtype", "fits"}


def _constant(sweep: Sweep, frame: pd.DataFrame, name: str) -> bool:
    """Whether a column is an axis, or follows from axes, and has one value, which the title has."""
    return name in _axes(sweep) and name != "batch" and bool(len(frame)) and len(frame[name].unique()) == 1


def _setting(name: str, value: Any) -> str:
    """An axis and its value."""
    words = {"weight_dtype": "weights", "kv_dtype": "KV"}
    if name in _TITLE:
        return clean(value)
    return (
        plural(int(value), "device") if name == "devices" else f"{words.get(name, name.replace('_', '-'))} {_cell(name, value)}"
    )


def _title(sweep: Sweep, frame: pd.DataFrame) -> str:
    values = [frame[name].unique() if name in frame.columns else sweep.axes.get(name, ()) for name in _TITLE]
    return ", ".join(clean(listed[0]) for listed in values if len(listed) == 1) or "Sweep"


def _settings(sweep: Sweep, frame: pd.DataFrame) -> list[str]:
    """What has one value and is not in the title; the number of points."""
    by_formats = (*_TITLE, "fits", "dtype", "kv_cache_dtype")
    constant = [name for name in frame.columns if _constant(sweep, frame, name) and name not in by_formats]
    rows = plural(len(frame), "row")
    of = "" if len(frame) == sweep.points else f" of {plural(sweep.points, 'point')}"
    return [*(_setting(name, frame[name].iloc[0]) for name in constant), f"{rows}{of}"]


def _notes(frame: pd.DataFrame) -> tuple[tuple[str, str], ...]:
    """What the columns of times are."""
    missing = f"; {formatting.ABSENT}: does not fit" if "fits" in frame.columns and not frame["fits"].all() else ""
    texts = {
        "time_bound_s": "operators run in sequence at peak rates",
        "time_estimate_s": f"time of one step with the efficiencies of measured kernels{missing}",
    }
    if "phase" in frame.columns and set(frame["phase"]) == {"decode"}:
        texts["memory_bytes"] = "of the decode step alone; prefill needs more for activations"
    return tuple((_HEADS[name].capitalize(), text) for name, text in texts.items() if len(frame) and name in frame.columns)


def _cell(name: str, value: Any) -> str:
    if value is None or str(value) in ("nan", "<NA>"):
        return formatting.ABSENT
    if isinstance(value, bool) or name == "fits":
        return "yes" if value else "no"
    if name.startswith("tokens_per_s") or name == "arithmetic_intensity":
        return formatting.number(float(f"{value:.3g}"), 3)
    if name in ("flops", "bytes"):
        return formatting.quantity(value, {"flops": "FLOP", "bytes": "B"}[name], 3)
    if name.endswith("_s"):
        return formatting.fixed(value, "s", 3)
    if name.endswith("_bytes"):
        return formatting.binary(value, 3)
    if isinstance(value, Real):
        return f"{value:,}" if isinstance(value, Integral) else formatting.number(float(value), 4)
    return clean(value)
