"""`roofline bench`: microbenchmarks and a decode loop through torch; the points of a device; what a folder of records holds."""

from __future__ import annotations

import importlib.util
import json as jsons
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import files, formatting
from roofline.cli.help import OUTPUT
from roofline.cli.options import (
    JsonOption,
    Options,
    QuietOption,
    VerboseOption,
    changed,
    hardware_option,
    model_argument,
    takes,
)
from roofline.cli.output import Output, Result, Rows, write_json
from roofline.cli.tables import print_answer, write
from roofline.documents import dump_json, envelope
from roofline.errors import InputError, MissingExtraError, UnitError, UnknownNameError
from roofline.formatting import percent, plural
from roofline.predict.options import OPTIONS
from roofline.text import NO_BREAK, Answer, Labelled, Table, clean
from roofline.units import parse_quantity

if TYPE_CHECKING:
    import pandas as pd

    from roofline.measure.bench.point import Point, Suite
    from roofline.measure.bench.run import Progress, Report

_DTYPES = ("bf16", "fp16", "fp32", "tf32", "fp8", "fp8_block", "int8", "int4_wo_g32", "int4_wo_g64", "int4_wo_g128", "int8_wo")
_MIN_BUDGET = 5.0
_MAX_BYTES = 2**26  # of environment.json
_EVERY = 10.0  # seconds between two lines of progress where there is no terminal
_Suite = Annotated[
    str,
    typer.Option(
        "--suite",
        metavar="SUITE",
        help="Benchmark suites: ceilings, operators, transfers, collectives or all, separated by commas.",
    ),
]
_Device = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="DEVICE", help="Device to measure: cuda or cpu. Default: cuda if available.", show_default=False
    ),
]
_Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="LIST",
        help=f"Data types of the operators: {', '.join(_DTYPES)} (wo: of weights only). Default: bf16; fp32 on cpu.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(help="Run microbenchmarks on this machine (requires the extra `bench`).", no_args_is_help=False)
    group.callback(invoke_without_command=True)(_bare)
    group.command(name="run")(run)
    group.command(name="serve")(takes(first=_SERVED)(serve))
    group.command(name="list")(takes()(list_points))
    group.command(name="show")(takes()(show))
    app.add_typer(group, name="bench")


def _bare(context: typer.Context) -> None:
    """Run microbenchmarks on this machine (requires the extra `bench`)."""
    if context.invoked_subcommand is None:
        _need_torch()
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def run(
    suite: _Suite = "all",
    device: _Device = None,
    dtype: _Dtype = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            metavar="TIME",
            help="Stop after this time, in seconds or with a unit, such as 9m or 2h.",
            show_default=False,
        ),
    ] = None,
    counters: Annotated[
        bool, typer.Option("--counters", help="Measure bytes and FLOP of a sample of points with Nsight Compute.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Write records to FOLDER. Default: measurements/<device>/<date>.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Run microbenchmarks, or resume those of an existing folder.

    Writes records.csv (one row per measurement, saved immediately), environment.json and, from the suite `ceilings`,
    hardware.yaml. Exits with code 4 if interrupted, and with 0 if the time budget runs out.

    Example: roofline bench run --suite ceilings --device cpu --budget 60 -o /tmp/records
    """  # fmt: skip
    _need_torch()
    names, dtypes, limit = _suites(suite), _dtypes(dtype), parse_budget(budget) if budget is not None else None
    from roofline.measure.bench.devices import best, bind

    bind()  # before torch is loaded, which is next
    from roofline.measure.bench.run import Request, execute

    device = device or best()
    folder = output if output is not None else default_folder(device)
    _check_folder(folder)
    with _progress(quiet=quiet) as progress:
        report = execute(Request(folder, names, device, dtypes, limit, counters), progress)
    for line in report.notes:
        Output(json, None, quiet).note(line)
    if json:
        document = asdict(report)
        document["said"] = document.pop("notes")  # the key that readers of the document know
        write_json(dump_json({**envelope({}), "folder": str(folder), **document}))
    else:
        _show_report(folder, report)
    return 4 if report.outcome in ("interrupted", "failed") else 0


_SERVED = (
    changed("batch", help="Number of sequences."),
    changed("input_len", default="1024; 128 on cpu"),
    changed("dtype", help="Data type of weights, activations and KV cache: bf16, fp16 or fp32.", default="bf16; fp32 on cpu"),
    changed("backend", default="that of the hardware", common=True),
)
_LENGTHS = {"cuda": 1024, "cpu": 128}


def serve(
    model: Annotated[
        str | None, model_argument("Model to run with random weights. Default: llama-3.2-1b; gpt2 on cpu.", "[MODEL]")
    ] = None,
    *,
    hardware: Annotated[
        str | None,
        hardware_option(
            "Accelerator to compare with. Default: this one; measured first if it is not known.", show_default=False
        ),
    ] = None,
    device: _Device = None,
    steps: Annotated[int, typer.Option("--steps", min=1, metavar="N", help="Number of decode steps after the prompts.")] = 32,
    budget: Annotated[
        str, typer.Option("--budget", metavar="TIME", help="Time to measure, in seconds or with a unit, such as 2m.")
    ] = "60",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Write records to FOLDER, as `bench run` does.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    json: JsonOption = False,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
    options: Options,
) -> None:
    """Measure a decode loop of a model and compare it with the prediction.

    Runs prefill of a batch and then decode steps with a growing KV cache, in PyTorch with random weights; on cuda with and
    without CUDA graphs. Shows a step's time, its kernels, what is between them, and the bound and the estimate of each.

    Example: roofline bench serve gpt2 --device cpu --batch 4 --steps 16 --budget 60
    """  # fmt: skip
    _need_torch()
    limit = parse_budget(budget)
    from roofline.measure.bench.devices import best, bind

    bind()  # before torch is loaded, which is next
    from roofline.measure.bench.decode_loop import LoopSizes
    from roofline.measure.bench.serve import DTYPES, Request
    from roofline.measure.bench.serve import serve as measure
    from roofline.report import serve_summary

    dtype, device = options.get("dtype"), device or best()
    if dtype is not None and dtype not in DTYPES:
        raise UnknownNameError("dtype", dtype, DTYPES, list_all=True)
    read = {name: OPTIONS[name].read(options[name]) for name in ("batch", "input_len") if name in options}
    sizes = LoopSizes(read.get("batch", 1), read.get("input_len", _LENGTHS.get(device, 1024)), steps)
    _check_folder(output)
    request = Request(model, device, dtype, sizes, limit, hardware, options.get("backend"), output)
    with _progress(quiet=quiet) as progress:
        result = measure(request, progress)
    out = Output(json, None, quiet, verbose)
    for line in result.notes:
        out.note(f"note: {line}")
    inputs = {entry.role: {"name": entry.name, "path": entry.path, "sha256": entry.sha256} for entry in result.inputs}
    document = {**envelope(inputs), **result.to_dict()}
    out.emit(Result(document, None, lambda: print_answer(serve_summary.answer(result), verbose)))


def _check_folder(folder: Path | None) -> None:
    """Refuse a file where records are to go."""
    if folder is not None and files.exists(folder) and not files.is_folder(folder):
        msg = f"{folder}: is a file; records go into a folder"
        raise InputError(msg)


def list_points(
    suite: _Suite = "all",
    device: _Device = None,
    dtype: _Dtype = None,
    *,
    out: Output,
) -> None:
    """List what a run would measure. With --json or -o, lists every point."""
    _need_torch()
    names, dtypes = _suites(suite), _dtypes(dtype)
    from roofline.measure.bench.devices import best
    from roofline.measure.bench.devices import device as device_of
    from roofline.measure.bench.run import scope_of
    from roofline.measure.bench.suites import plan

    chosen = device_of(device or best())
    points = plan(names, scope_of(chosen, dtypes))
    rows: Rows = [_row(point) for point in points]
    document = {**envelope({}), "device": chosen.name, "points": rows}
    out.emit(
        Result(
            document,
            lambda: [_flat(row) for row in rows],
            lambda: print_answer(_points_answer(chosen.name, points), out.verbosity),
        )
    )


def show(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder written by `bench run`.")],
    *,
    out: Output,
) -> None:
    """Summarize a folder of records: machine, points, best rates per operator."""
    from roofline.measure.records.read import read

    if not files.is_folder(folder):
        msg = f"{folder}: no such folder"
        raise InputError(msg)
    records = read([folder])
    environment = _environment(folder)
    rows = _rates(records.frame)
    refusals = [str(refusal) for refusal in records.refusals] + [f"passed by: {text}" for text in records.passed_by]
    document = {
        **envelope({}), "folder": str(folder), "records": len(records.frame), "refused": records.refused, "refusals": refusals,
        "environment": environment, "ops": rows,
    }  # fmt: skip
    out.emit(Result(document, lambda: rows, lambda: print_answer(_records_answer(document), out.verbosity)))


def _need_torch() -> None:
    """Refuse to measure without torch."""
    # NB: an entry of None in sys.modules is how a test takes a library away
    if ("torch" in sys.modules and sys.modules["torch"] is None) or importlib.util.find_spec("torch") is None:
        raise MissingExtraError("measuring", "bench")


def _dtypes(text: str | None) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(filter(None, (part.strip() for part in (text or "").split(",")))))
    for name in names:
        if name not in _DTYPES:
            raise UnknownNameError("dtype", name, _DTYPES, list_all=True)
    return names


def _suites(text: str) -> tuple[Suite, ...]:
    from roofline.measure.bench.suites import suites

    return tuple(dict.fromkeys(suite for part in text.split(",") for suite in suites(part.strip())))


def parse_budget(text: str) -> float:
    """A budget: seconds, or with a unit.

    >>> parse_budget("540"), parse_budget("9m"), parse_budget("1h")
    (540.0, 540.0, 3600.0)
    """
    # NB: a budget is never milliseconds, so that a bare number and m for minutes cannot be misread
    written = re.sub(r"(?<=[\d\s])m\s*$", "min", text)
    try:
        value = float(parse_quantity(f"{written} s" if re.fullmatch(r"[\d.\s]+", written) else written, "s"))
    except UnitError as error:
        raise InputError(f"--budget: {error}; a bare number is in seconds, such as 540, and m is minutes, such as 9m") from None
    if value < _MIN_BUDGET:
        raise InputError(f"--budget must be {_MIN_BUDGET:g} seconds or more, such as 540, 540s or 9m, not {text!r}")
    return value


def default_folder(device: str) -> Path:
    """Where records go when no folder is named: measurements/<device>/<date>."""
    from roofline.measure.bench.devices import device as device_of
    from roofline.measure.bench.machine import now, shipped_id

    chosen = device_of(device)
    return Path("measurements") / (shipped_id(chosen) or chosen.slug) / now()[:10]


def _show_report(folder: Path, report: Report) -> None:
    import shlex

    left = report.points - report.before - report.records - len(report.not_run)
    ended = {
        "done": "All points are measured." if not report.not_run else "All points that run here are measured.",
        "budget": f"The budget is spent; {_left_over(left)}",
        "failed": f"The device failed; {_left_over(left)}",
        "interrupted": f"Interrupted; {_left_over(left)}",
    }[report.outcome]
    write(f"{plural(report.records, 'record')} in {report.seconds:.0f} s, in {folder}. {ended}")
    if report.before:
        write(f"{plural(report.before, 'record')} of earlier runs were kept and not repeated.")
    if report.not_run:
        write(f"{plural(len(report.not_run), 'point')} could not be run here; why:")
        why = Counter(entry["why"] for entry in report.not_run)
        for text, count in why.most_common(_REASONS):
            write(f"{count:>5,}  {text}", indent=2, hanging=9)
        if len(why) > _REASONS:
            write(f"and {len(why) - _REASONS} more reasons, in environment.json", indent=2)
    if not report.hardware:
        write("No hardware.yaml yet: it is made of the ceilings (--suite ceilings).")
    if report.records + report.before and (report.hardware or report.shipped):
        write(f"Compare with predictions: roofline validate {shlex.quote(clean(folder))}")


_REASONS = 8
"""Reasons for which points could not be run that are printed."""


def _left_over(points: int) -> str:
    """What the next run has to do.

    >>> _left_over(1)
    '1 point is left: the same command goes on with it.'
    """
    verb, pronoun = ("is", "it") if points == 1 else ("are", "them")
    return f"{plural(points, 'point')} {verb} left: the same command goes on with {pronoun}."


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """A line that changes on a terminal, a line now and then elsewhere; all on stderr."""
    if quiet:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.completed}/{task.total}"),
        BarColumn(24),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.fields[words]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, left="", words="starting")

        def show(state: Any) -> None:
            bar.update(
                task, total=state.total, completed=state.done, left=_remaining(state.left_s), words=clean(state.words)[:70]
            )

        yield show


def _lines() -> Callable[[Progress], None]:
    last = 0.0

    def show(state: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY and state.words:
            last = time.monotonic()
            sys.stderr.write(f"{state.done}/{state.total}  {_remaining(state.left_s)}  {clean(state.words)}\n")
            sys.stderr.flush()

    return show


def _remaining(value: float | None) -> str:
    """The time that is left."""
    if value is None:
        return ""
    minutes, rest = divmod(round(max(value, 0.0)), 60)
    return f"{minutes} min {rest:02d} s left" if minutes else f"{rest} s left"


def _row(point: Point) -> dict[str, Any]:
    return {
        "suite": point.suite, "op": point.op, "dtype": point.dtype, "backend": point.backend, "cache": point.cache,
        "tier": point.tier, "dims": dict(point.numbers), **dict(point.texts),
        "matrix_flops": float(point.cost.matrix_flops), "bytes": float(point.cost.bytes),
    }  # fmt: skip


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    dims = " ".join(f"{name}={value}" for name, value in row["dims"].items())
    return {**{name: row[name] for name in ("suite", "op", "dtype", "backend", "cache", "tier")}, "dims": dims}


def _points_answer(name: str, points: list[Point]) -> Answer:
    """How many points of each op a suite has; with -v by kernels, with their dimensions."""
    suites = {suite: [point for point in points if point.suite == suite] for suite in dict.fromkeys(p.suite for p in points)}
    lines = []
    for suite, some in suites.items():
        ops = Counter(point.op for point in some)
        lines.append(
            (suite, f"{len(some):,}: {', '.join(f'{op} {count}'.replace(' ', NO_BREAK) for op, count in ops.items())}")
        )
    first = sum(point.tier == 0 for point in points)
    return Answer(
        title=f"{name}: {plural(len(points), 'point')}",
        verdict=f"A short run measures {first} of them before all others.",
        brief=(tuple(lines),),
        details=tuple(_suite_table(suite, some) for suite, some in suites.items()),
        hint="Kernels and dimensions: -v    Every point: -o FILE.csv    To measure: roofline bench run",
    )


def _suite_table(suite: str, points: list[Point]) -> Table:
    """A row per op and kernels."""
    kinds: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        kinds.setdefault((point.op, f"{point.dtype} {point.backend}"), []).append(point)
    cells = tuple(
        (*kind, f"{len(group):,}", f"{sum(point.tier == 0 for point in group):,}", _ranges(group))
        for kind, group in kinds.items()
    )
    return Table(suite, "", ("op", "kernels", "points", "first", "over"), (False, False, True, True, False), cells)


def _ranges(group: list[Point]) -> str:
    """The dimensions that change, from the smallest to the largest; the others with their value."""
    ranges = []
    for name in group[0].numbers:
        values = sorted({point.numbers[name] for point in group if name in point.numbers})
        if len(values) > 1:
            ranges.append(f"{name} {values[0]:,} to {values[-1]:,}")
        elif values[0] not in (0, 1):
            ranges.append(f"{name} {values[0]:,}")
    return ", ".join(ranges)


def _environment(folder: Path) -> dict[str, Any]:
    """The environment.json of a folder; empty where there is none."""
    path = folder / "environment.json"
    if not files.exists(path):
        return {}
    try:
        content = jsons.loads(files.read_text(path, _MAX_BYTES, "the environment of a run"))
    except ValueError as error:
        msg = f"{path}: cannot be read as JSON: {error}"
        raise InputError(msg) from None
    return _keys(content)


def _keys(value: Any) -> dict[str, Any]:
    """A part of the environment that has keys. What was written by hand may be anything."""
    return value if isinstance(value, dict) else {}


def _rates(frame: pd.DataFrame) -> Rows:
    """A row per op, dtype, backend and cache: how many, how long, the best rates by the median time of a point."""
    from roofline.cost import ZERO
    from roofline.measure.records.row_groups import group_rows, operators_of

    rows: Rows = []
    keys = ["op", "dtype", "backend", "cache"]
    for names, group in frame.groupby(keys, sort=True) if len(frame) else []:
        rates: dict[str, float] = {"flops": 0.0, "bytes": 0.0, "link": 0.0}
        for part in group_rows(group):
            cost = sum((operator.cost() * repeat for operator, repeat in operators_of(part).values()), ZERO)
            seconds = part["latency_us"].to_numpy() * 1e-6
            for name, value in (("flops", cost.matrix_flops), ("bytes", cost.bytes), ("link", cost.link_bytes)):
                rates[name] = max(rates[name], float((value / seconds).max()))
        spread = (group["latency_p90_us"] - group["latency_p10_us"]) / group["latency_us"]
        rows.append(
            {
                **dict(zip(keys, names, strict=True)), "n": len(group),
                "latency_min_us": group["latency_us"].min(), "latency_max_us": group["latency_us"].max(),
                "spread": spread.median() if spread.notna().any() else None,
                "best_flops_per_s": rates["flops"] or None, "best_bytes_per_s": rates["bytes"] or None,
                "best_link_bytes_per_s": rates["link"] or None,
            }
        )  # fmt: skip
    return rows


def _records_answer(document: dict[str, Any]) -> Answer:
    """On what and when it was measured, the best rates, and those of each op."""
    environment, rows = document["environment"], document["ops"]
    device, libraries = _keys(environment.get("device")), _keys(environment.get("libraries"))
    parts = [
        *(f"{word} {value}" for word, value in (("torch", libraries.get("torch")), ("CUDA", device.get("cuda"))) if value),
        *([f"driver {device['driver']}"] if device.get("driver") else []),
        plural(document["records"], "record"),
        *([f"{document['refused']} refused"] if document["refused"] else []),
    ]
    runs = environment.get("runs")
    runs = [("Run", _run(_keys(run))) for run in (runs if isinstance(runs, list) else [])]
    refusals = [("Refused", refusal) for refusal in document["refusals"]]
    listed = sorted(sorted(rows, key=lambda row: -row["n"])[:_ROWS], key=rows.index)
    more = len(rows) - len(listed)
    rates = (
        ("Spread", "p10 to p90 of a point's samples"),
        ("Rates", "predicted FLOP and compulsory bytes over the median time"),
    )
    return Answer(
        title=str(device.get("name") or document["folder"]),
        settings=" · ".join(map(str, parts)),
        verdict=_best_rates(rows),
        brief=(_records_table(listed), _shortened(refusals), _shortened(runs)),
        details=(_records_table(rows), tuple(refusals), tuple(runs)),
        notes=rates,
        hint=f"{plural(more, 'more row')}: -v" if more > 0 else "",
    )


_ROWS, _NAMED = 14, 2
"""Rows, and runs and refusals each, on one screen."""


def _shortened(lines: list[tuple[str, str]]) -> Labelled:
    """The first of some lines, and how many more there are."""
    more = len(lines) - _NAMED
    return (*lines[:_NAMED], *([("", f"{more} more: -v")] if more > 0 else []))


def _best_rates(rows: Rows) -> str:
    """The highest rate of each kind over all ops."""
    units = {"best_flops_per_s": "FLOP/s", "best_bytes_per_s": "B/s"}
    texts = []
    for name, unit in units.items():
        if known := [row for row in rows if row[name]]:
            best = max(known, key=lambda row: float(row[name]))
            cache = f", {best['cache']}" if best["cache"] else ""
            texts.append(f"{formatting.quantity(best[name], unit, 3)} ({best['op']} {best['dtype']}{cache})")
    return f"Best rates: {', '.join(texts)}." if texts else ""


def _run(run: dict[str, Any]) -> str:
    """When a run was, what it did, and how the device was after it."""
    after, suites = _keys(run.get("after")), run.get("suites")
    heat = [
        f"{word}{after[name]:,.0f}{unit}"
        for name, word, unit in (("clock_sm_mhz", "SM ", " MHz"), ("power_w", "", " W"), ("temperature_c", "", " °C"))
        if isinstance(after.get(name), (int, float))
    ]
    throttled = after.get("throttle_reasons")
    named = ", ".join(map(str, suites)) if isinstance(suites, list) else "?"
    ran = f"{run.get('started')}  {named}: {run.get('records')} records, {run.get('outcome')}"
    return "  ".join([ran, *heat, *(map(str, throttled) if isinstance(throttled, list) else [])])


def _records_table(rows: Rows) -> Table:
    def rate(value: float | None, unit: str) -> str:
        return "" if value is None else formatting.quantity(value, unit, 3)

    linked = any(row["best_link_bytes_per_s"] for row in rows)
    cells = tuple(
        (
            row["op"],
            f"{row['dtype']} {row['backend']}",
            row["cache"],
            f"{row['n']:,}",
            formatting.seconds(row["latency_min_us"] * 1e-6),
            formatting.seconds(row["latency_max_us"] * 1e-6),
            "" if row["spread"] is None else f"{percent(row['spread'], 0)}",
            rate(row["best_flops_per_s"], "FLOP/s"),
            rate(row["best_bytes_per_s"], "B/s"),
            *([rate(row["best_link_bytes_per_s"], "B/s")] if linked else []),
        )
        for row in rows
    )
    columns = ("op", "kernels", "cache", "n", "fastest", "slowest", "spread", "matrix", "memory", *(["link"] if linked else []))
    return Table("", "", columns, (False, False, False, *([True] * (len(columns) - 3))), cells)
