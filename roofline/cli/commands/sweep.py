"""`roofline sweep`: any grid, as a tidy table, a file, or a folder of parts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import files, formatting
from roofline.cli.options import Options, complete_models, given, hardware_option, takes
from roofline.cli.options import own as option
from roofline.cli.output import Output, Result, by_role, progress
from roofline.cli.tables import print_table
from roofline.documents import envelope
from roofline.errors import InputError
from roofline.formatting import plural
from roofline.predict.options import OPTIONS
from roofline.text import Table, clean, csv_cell
from roofline.units import parse_count

if TYPE_CHECKING:
    import pandas as pd

    from roofline.predict.sweeps.spec import Sweep

GRID, RULES, RUN = (
    "Axes (each: a value, several apart by commas, or a range such as 1:512:x2)",
    "What is kept",
    "How it is run",
)
_MAX_PRINTED = 1_000
"""Rows that are printed at most."""
_HEADS = {
    "time_estimate_s": "estimate", "time_low_s": "from", "time_high_s": "to", "time_bound_s": "bound",
    "step_estimate_s": "step", "step_low_s": "step from", "step_high_s": "step to", "step_bound_s": "step bound",
    "tokens_per_s": "tokens/s bound", "tokens_per_s_estimate": "tokens/s",
    "tokens_per_s_per_device": "tokens/s per device, bound",
    "tokens_per_s_per_device_estimate": "tokens/s per device", "memory_bytes": "memory", "arithmetic_intensity": "FLOP/B",
    "bound_by": "binds", "weight_dtype": "weights", "kv_dtype": "KV", "activation_dtype": "activations",
}  # fmt: skip
_SUFFIXES = (".csv", ".json", ".md", ".parquet")
_IN_FILES = (
    "time_low_s",
    "time_high_s",
    "tokens_per_s",
    "tokens_per_s_per_device_estimate",
    "arithmetic_intensity",
    "activation_dtype",
)
"""Columns that are left to files where a table is printed."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    axes = [replace(entry, group=GRID, kind="text", metavar="LIST") for entry in OPTIONS.values() if entry.axis]
    axes = [replace(entry, default="decode") if entry.name == "phase" else entry for entry in axes]
    app.command(name="sweep")(takes((), changed=(*axes, OPTIONS["ignore_capacity"]))(sweep))


def sweep(  # noqa: PLR0917 - a flag each
    first: Annotated[
        list[str] | None,
        typer.Argument(metavar="SPEC|MODEL...", help="YAML file of a sweep, or models.", autocompletion=complete_models),
    ] = None,
    hardware: Annotated[list[str] | None, hardware_option("Ids or YAML files.")] = None,
    columns: Annotated[
        str | None, option("--columns", text="Answers that are wanted, apart by commas.", panel=RULES, metavar="LIST")
    ] = None,
    reduce: Annotated[
        str | None,
        option("--reduce", text="best, pareto or histogram, of the points that fit.", panel=RULES, metavar="RULE"),
    ] = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            "--objective",
            help="COLUMN:max or COLUMN:min, by which it is kept; several for pareto.",
            metavar="COLUMN",
            rich_help_panel=RULES,
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        str | None, option("--by", text="Axes each of whose values has a result of its own.", panel=RULES, metavar="AXES")
    ] = None,
    ttft: Annotated[str | None, option("--ttft", text='Prefill steps of at most, "500 ms".', panel=RULES, metavar="T")] = None,
    tpot: Annotated[str | None, option("--tpot", text='Decode steps of at most, "50 ms".', panel=RULES, metavar="T")] = None,
    executor: Annotated[
        str | None,
        option("--executor", text="processes[:N] or dask[:ADDRESS]. Default: this process.", panel=RUN, metavar="WHO"),
    ] = None,
    part_rows: Annotated[
        str | None, option("--part-rows", text="Points of a part. Default: 1,000,000.", panel=RUN, metavar="N")
    ] = None,
    *,
    options: Options,
    out: Output,
) -> int:
    """Any grid of models, hardware, deployments and workloads: times, rates, memory, what fits, what binds; a row per point.

    A grid larger than memory goes into a folder (-o NAME without a suffix), in parts that a stopped sweep goes on with.

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
    out.emit(Result(document, lambda: _rows(frame), lambda: _show(sweep, frame), formats))
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
    to_stdout = Output(out.json, None, out.quiet)
    if sweep.reduction is None:
        if out.json:
            to_stdout.emit(Result(_document(sweep, manifest), None, lambda: None))
        return 0
    from roofline.predict.sweeps.folder import read

    frame = sweep.reduction.merge([read(folder)[0]])
    document = _document(sweep, manifest | {"rows": _rows(frame)})
    to_stdout.emit(Result(document, None, lambda: _show(sweep, frame)))
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


def _show(sweep: Sweep, frame: pd.DataFrame) -> None:
    """A table: axes that vary, times, rates, memory."""
    # what is named is shown, whatever it is
    goals = sweep.reduction.objectives if sweep.reduction else ()
    named = set(sweep.columns if sweep.named else ()) | {goal.column for goal in goals}
    staged = any(value not in (None, 1) for value in sweep.axes.get("pp", ()))
    hidden = [name for name in frame.columns if name in _IN_FILES or (name.startswith("step_") and not staged)]
    columns = [name for name in frame.columns if name in named or not (name in hidden or _constant(sweep, frame, name))]
    rows = [
        tuple(_cell(name, value) for name, value in zip(columns, row, strict=True))
        for row in frame[columns].itertuples(index=False)
    ]
    right = tuple(frame[name].dtype.kind in "iuf" for name in columns)
    print_table(
        Table(_title(sweep, frame), _note(sweep, frame), tuple(_HEADS.get(name, name) for name in columns), right, tuple(rows))
    )


def _constant(sweep: Sweep, frame: pd.DataFrame, name: str) -> bool:
    """Whether a column is an axis, or follows from axes, and has one value, which the title has."""
    from roofline.predict.sweeps.axes import WORKLOAD

    axis = name in sweep.axes or name in (*WORKLOAD, "devices", "weight_dtype", "kv_dtype", "fits")
    return axis and name != "batch" and bool(len(frame)) and len(frame[name].unique()) == 1


def _title(sweep: Sweep, frame: pd.DataFrame) -> str:
    by_formats = ("fits", "dtype", "kv_cache_dtype")
    fixed = [name for name in frame.columns if _constant(sweep, frame, name) and name not in by_formats]
    words = {"devices": "device", "weight_dtype": "weights", "kv_dtype": "KV"}
    first = [str(frame[name].iloc[0]) for name in fixed if name in ("model", "hardware", "phase")]
    rest = [
        plural(int(frame[name].iloc[0]), "device")
        if name == "devices"
        else f"{words.get(name, name.replace('_', '-'))} {frame[name].iloc[0]}"
        for name in fixed
        if name not in ("model", "hardware", "phase")
    ]
    return f"{', '.join([*first, *rest]) or 'Sweep'}: {plural(len(frame), 'row')} of {plural(sweep.points, 'point')}"


def _note(sweep: Sweep, frame: pd.DataFrame) -> str:
    reduction = sweep.reduction
    parts = []
    if reduction is not None:
        goals = ", ".join(str(goal) for goal in reduction.objectives)
        each = f", for each {', '.join(reduction.by)}" if reduction.by else ""
        several = " of all models together" if len(sweep.models) > 1 and "model" not in reduction.by else ""
        parts.append(f"{reduction.rule}{several} by {goals}{each}")
        parts += [f"{phase} steps of at most {formatting.seconds(seconds)}" for phase, seconds in reduction.limits.items()]
        if frame.empty:
            parts.append("no point fits and meets them")
    if "time_estimate_s" in frame.columns:
        parts.append(
            "estimate: of one step as measured kernels take; bound: operators in sequence at peak rates; -: does not fit"
        )
    return "; ".join(parts)


def _cell(name: str, value: Any) -> str:
    if value is None or str(value) in ("nan", "<NA>"):
        return "-"
    if isinstance(value, bool) or name == "fits":
        return "yes" if value else "no"
    if name.startswith("tokens_per_s") or name in ("arithmetic_intensity", "flops", "bytes"):
        return (
            f"{value:,.4g}"
            if abs(value) < 1e4
            else f"{value:,.0f}"
            if abs(value) < 1e12
            else formatting.quantity(value, "", 4).strip()
        )
    if name.endswith("_s"):
        return formatting.seconds(value)
    if name.endswith("_bytes"):
        return formatting.binary(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) or hasattr(value, "bit_length") else clean(value)
