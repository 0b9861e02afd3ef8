"""The answer of `roofline sweep`: rows, files, folders of parts, and progress meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline import files, formatting
from roofline.cli.output import Answer, emit
from roofline.cli.page import print_table
from roofline.cli.progress import counted
from roofline.cli.text import clean, csv_cell
from roofline.errors import InputError
from roofline.formatting import plural
from roofline.predict.options import read_quantity
from roofline.predict.sweeps.axes import WORKLOAD
from roofline.predict.sweeps.reduce import Reduction
from roofline.predict.sweeps.run import check_values
from roofline.predict.sweeps.spec import PART_ROWS, Sweep, is_sweep_file, load_sweep_file
from roofline.report.summary import Table
from roofline.units import parse_count
from roofline.version import envelope

if TYPE_CHECKING:
    import pandas as pd

MOST_SHOWN = 1_000
"""Rows that are printed."""
"""Seconds between lines of progress where there is no terminal."""

_HEADS = {
    "time_estimate_s": "estimate", "time_low_s": "from", "time_high_s": "to", "time_bound_s": "bound",
    "step_estimate_s": "step", "step_low_s": "step from", "step_high_s": "step to", "step_bound_s": "step bound",
    "tokens_per_s": "tokens/s bound", "tokens_per_s_estimate": "tokens/s",
    "tokens_per_s_per_device": "tokens/s a device, bound",
    "tokens_per_s_per_device_estimate": "tokens/s a device", "memory_bytes": "memory", "arithmetic_intensity": "FLOP/B",
    "bound_by": "binds", "weight_dtype": "weights", "kv_dtype": "KV", "activation_dtype": "activations",
}  # fmt: skip
_SUFFIXES = (".csv", ".json", ".md", ".parquet")
_LESS = (
    "time_low_s",
    "time_high_s",
    "tokens_per_s",
    "tokens_per_s_per_device_estimate",
    "arithmetic_intensity",
    "activation_dtype",
)
"""Columns that are left to files where a table is printed."""


def ask(
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
    """A sweep from a file, from flags, or from a file with flags in place of some of its keys."""
    paths = [Path(one) for one in first if is_sweep_file(Path(one))]
    if paths and len(first) > 1:
        raise InputError(
            f"{paths[0]} is a sweep of its own: name its models in the file, or give --hardware and flags without it"
        )
    file = load_sweep_file(paths[0]) if paths else None
    if file is None and not grid.get("hardware"):
        _no_sweep(first)
    given = {name: value for name, value in grid.items() if value not in (None, [])}
    if file is None and not first:
        raise InputError(
            "what is swept? Give the YAML file of a sweep, or MODEL --hardware HW and axes such as --batch 1:512:x2"
        )
    given = ({"model": first} if file is None else dict(file.grid)) | given
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
        given,
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


def answer(sweep: Sweep, *, executor: str | None, json: bool, output: Path | None, quiet: bool) -> int:
    """Give the rows in the form that was asked for; the exit code, which is 1 where nothing is left to keep."""
    if output is not None and output.suffix:
        _check(output)
    check_values(sweep)
    if not quiet:
        _tell_too_long(sweep)
    if output is not None and not output.suffix:
        return _folder(sweep, output, executor, json=json, quiet=quiet)
    with counted("points", quiet=quiet) as told:
        frame = _in_memory(sweep, executor, told, unread=output is None and not json)
    refused = frame.attrs["refused"]
    _tell_refused(refused, sweep, quiet=quiet)
    whole = _whole(
        sweep, {"points": sweep.points, "rows": _rows(frame) if json or _is(output, ".json") else [], "refused": refused}
    )
    formats: dict[str, Callable[[], str | bytes]] = {".csv": lambda: _csv(frame), ".parquet": lambda: _parquet(frame)}
    emit(Answer(whole, lambda: _rows(frame), lambda: _show(sweep, frame), formats), json=json, output=output, quiet=quiet)
    return int(sweep.reduction is not None and frame.empty)


def _folder(sweep: Sweep, output: Path, executor: str | None, *, json: bool, quiet: bool) -> int:
    """Give the rows as a folder of parts."""
    try:
        with counted("points", quiet=quiet) as told:
            manifest, new = _into_folder(sweep, output, executor, told)
    except KeyboardInterrupt:
        sys.stderr.write(f"stopped: the parts in {clean(output)} are whole, and the same command goes on with them\n")
        return 4
    _tell_refused(manifest["refused"], sweep, quiet=quiet)
    if not quiet:
        done = f"wrote {clean(output)}" if new else f"{clean(output)} was complete"
        sys.stderr.write(f"{done}: {plural(manifest['rows'], 'row')} in {plural(len(manifest['parts']), 'part')}\n")
    if sweep.reduction is None:
        if json:
            emit(Answer(_whole(sweep, manifest), None, lambda: None), json=True, output=None, quiet=quiet)
        return 0
    from roofline.predict.sweeps.folder import read

    frame = sweep.reduction.merge([read(output)[0]])
    kept = _whole(sweep, manifest | {"rows": _rows(frame)})
    emit(Answer(kept, None, lambda: _show(sweep, frame)), json=json, output=None, quiet=quiet)
    return int(frame.empty)


def _tell_too_long(sweep: Sweep) -> None:
    """Lengths that a model was not made for, on stderr."""
    lengths = {length for phase in sweep.axes["phase"] for length in sweep.lengths(phase)}
    for name, model in sweep.models.items():
        if beyond := sum(length > model.max_position_embeddings for length in lengths):
            made = f"{name} was made for {model.max_position_embeddings:,} tokens"
            sys.stderr.write(clean(f"{made}; beyond that: {plural(beyond, 'length')} of the grid") + "\n")


def _check(output: Path) -> None:
    """Refuse a file of no format before hours are spent on what is to be in it."""
    if output.suffix.lower() not in _SUFFIXES:
        allowed = f"must be one of {', '.join(_SUFFIXES)}; without one it is a folder of parts"
        raise InputError(f"cannot write {output}: the suffix says the format, and {allowed}")


def _is(output: Path | None, suffix: str) -> bool:
    return output is not None and output.suffix.lower() == suffix


def _whole(sweep: Sweep, more: dict[str, Any]) -> dict[str, Any]:
    inputs = {entry.role: {"name": entry.name, "path": entry.path, "sha256": entry.sha256} for entry in sweep.inputs}
    return envelope(inputs) | {"kind": "sweep", "sweep": sweep.describe()} | more


def _in_memory(sweep: Sweep, executor: str | None, told: Callable[[int, int], None], *, unread: bool) -> pd.DataFrame:
    from roofline.predict.sweeps.run import collect

    if unread and sweep.reduction is None and sweep.points > MOST_SHOWN:
        raise InputError(
            f"{sweep.points:,} points are too many to read: -o FILE.csv or FILE.parquet, -o FOLDER (no suffix) for parts, "
            "--json, or --reduce best, pareto or histogram"
        )
    if executor is None:
        return collect(sweep, progress=told)
    from roofline.predict.sweeps.run import evaluated

    return collect(sweep, evaluated(sweep, executor), told)


def _into_folder(
    sweep: Sweep, path: Path, executor: str | None, told: Callable[[int, int], None]
) -> tuple[dict[str, Any], int]:
    """The manifest, and how many parts are new."""
    from roofline.predict.sweeps.folder import Folder
    from roofline.predict.sweeps.run import written_parts

    folder = Folder(path, sweep)
    folder.prepare()
    every = list(sweep.parts())
    left = list(folder.missing(every))
    done = sum(part.points for part in every) - sum(part.points for part in left)
    told(done, sweep.points)
    for written in written_parts(sweep, left, executor):
        folder.put(written)
        done += written.points + written.refused
        told(done, sweep.points)
    return folder.finish(len(every)), len(left)


def _tell_refused(refused: list[dict[str, Any]], sweep: Sweep, *, quiet: bool) -> None:
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
    # what was asked for by name is shown, whatever it is
    goals = sweep.reduction.objectives if sweep.reduction else ()
    asked = set(sweep.columns if sweep.named else ()) | {goal.column for goal in goals}
    staged = any(value not in (None, 1) for value in sweep.axes.get("pp", ()))
    less = [name for name in frame.columns if name in _LESS or (name.startswith("step_") and not staged)]
    shown = [name for name in frame.columns if name in asked or not (name in less or _constant(sweep, frame, name))]
    rows = [
        tuple(_cell(name, value) for name, value in zip(shown, row, strict=True))
        for row in frame[shown].itertuples(index=False)
    ]
    right = tuple(frame[name].dtype.kind in "iuf" for name in shown)
    print_table(
        Table(_title(sweep, frame), _note(sweep, frame), tuple(_HEADS.get(name, name) for name in shown), right, tuple(rows))
    )


def _constant(sweep: Sweep, frame: pd.DataFrame, name: str) -> bool:
    """Whether a column is an axis, or what follows from axes, of one value: that stands in the title."""
    axis = name in sweep.axes or name in (*WORKLOAD, "devices", "weight_dtype", "kv_dtype", "fits")
    return axis and name != "batch" and bool(len(frame)) and len(frame[name].unique()) == 1


def _title(sweep: Sweep, frame: pd.DataFrame) -> str:
    told = ("fits", "dtype", "kv_cache_dtype")  # by the formats
    fixed = [name for name in frame.columns if _constant(sweep, frame, name) and name not in told]
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
    kept = sweep.reduction
    parts = []
    if kept is not None:
        goals = ", ".join(str(goal) for goal in kept.objectives)
        each = f", for each {', '.join(kept.by)}" if kept.by else ""
        several = " of all models together" if len(sweep.models) > 1 and "model" not in kept.by else ""
        parts.append(f"{kept.rule}{several} by {goals}{each}")
        parts += [f"{phase} steps of at most {formatting.seconds(seconds)}" for phase, seconds in kept.limits.items()]
        if frame.empty:
            parts.append("no point fits and meets them")
    if "time_estimate_s" in frame.columns:
        parts.append(
            "estimate: of one step as measured kernels take; bound: the least the hardware allows; - where it does not fit"
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
