"""Running the bench and listing its points, as a person sees it."""

from __future__ import annotations

import importlib.util
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline import files
from roofline.cli.output import Answer, Rows, write_stdout
from roofline.cli.page import print_table
from roofline.errors import InputError, MissingExtraError, UnitError, UnknownNameError
from roofline.formatting import plural
from roofline.report.summary import Table
from roofline.text import clean
from roofline.units import parse_quantity
from roofline.version import envelope

if TYPE_CHECKING:
    from roofline.measure.bench.point import Point
    from roofline.measure.bench.run import Progress, Report

_DTYPES = ("bf16", "fp16", "fp32", "tf32", "fp8", "int8")
_LEAST_BUDGET = 5.0
_EVERY = 10.0  # seconds between two lines of progress where there is no terminal


def need_torch() -> None:
    """The room behind this door needs torch."""
    # NB: an entry of None in sys.modules is how a test takes a library away
    if ("torch" in sys.modules and sys.modules["torch"] is None) or importlib.util.find_spec("torch") is None:
        raise MissingExtraError("measuring", "bench")


def _dtypes(text: str | None) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(filter(None, (part.strip() for part in (text or "").split(",")))))
    for name in names:
        if name not in _DTYPES:
            raise UnknownNameError("dtype", name, _DTYPES, list_all=True)
    return names


def _suites(text: str) -> tuple[Any, ...]:
    from roofline.measure.bench.suites import suites

    return tuple(dict.fromkeys(suite for part in text.split(",") for suite in suites(part.strip())))


def seconds(text: str) -> float:
    """A budget: seconds, or with a unit.

    >>> seconds("540"), seconds("9m"), seconds("1h")
    (540.0, 540.0, 3600.0)
    """
    # NB: a budget is never milliseconds, so that a bare number and m for minutes cannot be misread
    written = re.sub(r"(?<=[\d\s])m\s*$", "min", text)
    try:
        value = float(parse_quantity(f"{written} s" if re.fullmatch(r"[\d.\s]+", written) else written, "s"))
    except UnitError as error:
        raise InputError(f"--budget: {error}; a bare number is in seconds, such as 540, and m is minutes, such as 9m") from None
    if value < _LEAST_BUDGET:
        raise InputError(f"--budget must be {_LEAST_BUDGET:g} seconds or more, such as 540, 540s or 9m, not {text!r}")
    return value


def run(
    suite: str, device: str | None, dtype: str | None, budget: str | None, output: Path | None, *, counters: bool, json: bool,
    quiet: bool,
) -> int:  # fmt: skip
    """Run suites; 4 when it was interrupted."""
    names, dtypes, limit = _suites(suite), _dtypes(dtype), seconds(budget) if budget is not None else None
    from roofline.measure.bench.devices import bind

    bind()  # before torch is loaded, which is next
    from roofline.measure.bench.devices import best
    from roofline.measure.bench.run import Request, execute

    where = device or best()
    folder = output if output is not None else default_folder(where)
    if files.exists(folder) and not files.is_folder(folder):
        msg = f"{folder}: is a file; records go into a folder"
        raise InputError(msg)
    with _progress(quiet=quiet) as show:
        report = execute(Request(folder, names, where, dtypes, limit, counters), show)
    if not quiet:
        for line in report.said:
            sys.stderr.write(f"{clean(line)}\n")
    if json:
        from roofline.predict.result import dump_json

        write_stdout(dump_json({**envelope({}), "folder": str(folder), **_as_dict(report)}))
    else:
        _tell(folder, report)
    return 4 if report.outcome in ("interrupted", "failed") else 0


def default_folder(device: str) -> Path:
    """Where records go when no folder is named: measurements/<device>/<date>."""
    from roofline.measure.bench.devices import device as find_device
    from roofline.measure.bench.machine import now, shipped_id

    found = find_device(device)
    return Path("measurements") / (shipped_id(found) or found.slug) / now()[:10]


def _as_dict(report: Report) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(report)


def _tell(folder: Path, report: Report) -> None:
    left = report.points - report.before - report.records - len(report.not_run)
    ended = {
        "done": "All points are measured." if not report.not_run else "All points that run here are measured.",
        "budget": f"The budget is spent; {_left_over(left)}",
        "failed": f"The device failed; {_left_over(left)}",
        "interrupted": f"Interrupted; {_left_over(left)}",
    }[report.outcome]
    write_stdout(f"{plural(report.records, 'record')} in {report.seconds:.0f} s, in {clean(folder)}. {ended}")
    if report.before:
        write_stdout(f"{plural(report.before, 'record')} of earlier runs were kept and not repeated.")
    if report.not_run:
        write_stdout(f"{plural(len(report.not_run), 'point')} could not be run here; why:")
        why: dict[str, int] = {}
        for entry in report.not_run:
            why[entry["why"]] = why.get(entry["why"], 0) + 1
        for text, count in sorted(why.items(), key=lambda item: -item[1])[:8]:
            write_stdout(f"  {count:>5,}  {clean(text)}")
        if len(why) > 8:
            write_stdout(f"  and {len(why) - 8} more reasons, in environment.json")
    if not report.hardware:
        write_stdout("No hardware.yaml yet: it is made of the ceilings (--suite ceilings).")
    if report.records + report.before and (report.hardware or report.shipped):
        write_stdout(f"Compare with predictions: roofline validate {_quoted(folder)}")


def _left_over(points: int) -> str:
    """What the next run has to do.

    >>> _left_over(1)
    '1 point is left: the same command goes on with it.'
    """
    verb, pronoun = ("is", "it") if points == 1 else ("are", "them")
    return f"{plural(points, 'point')} {verb} left: the same command goes on with {pronoun}."


def _quoted(folder: Path) -> str:
    import shlex

    return shlex.quote(clean(folder))


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
            bar.update(task, total=state.total, completed=state.done, left=_left(state.left_s), words=clean(state.words)[:70])

        yield show


def _lines() -> Callable[[Progress], None]:
    last = 0.0

    def show(state: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY and state.words:
            last = time.monotonic()
            sys.stderr.write(f"{state.done}/{state.total}  {_left(state.left_s)}  {clean(state.words)}\n")
            sys.stderr.flush()

    return show


def _left(value: float | None) -> str:
    """Time to go."""
    if value is None:
        return ""
    minutes, rest = divmod(round(max(value, 0.0)), 60)
    return f"{minutes} min {rest:02d} s left" if minutes else f"{rest} s left"


def listing(suite: str, device: str | None, dtype: str | None) -> Answer:
    """Every point of suites on a device."""
    names, dtypes = _suites(suite), _dtypes(dtype)
    from roofline.measure.bench.devices import best
    from roofline.measure.bench.devices import device as find_device
    from roofline.measure.bench.run import scope_of
    from roofline.measure.bench.suites import plan

    found = find_device(device or best())
    points = plan(names, scope_of(found, dtypes))
    rows: Rows = [_row(point) for point in points]
    whole = {**envelope({}), "device": found.name, "points": rows}
    return Answer(whole, lambda: [_flat(row) for row in rows], lambda: _show(found.name, points))


def _row(point: Point) -> dict[str, Any]:
    return {
        "suite": point.suite, "op": point.op, "dtype": point.dtype, "backend": point.backend, "cache": point.cache,
        "tier": point.tier, "dims": dict(point.numbers), **dict(point.texts),
        "matrix_flops": float(point.cost.matrix_flops), "bytes": float(point.cost.bytes),
    }  # fmt: skip


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    dims = " ".join(f"{name}={value}" for name, value in row["dims"].items())
    return {**{name: row[name] for name in ("suite", "op", "dtype", "backend", "cache", "tier")}, "dims": dims}


def _show(name: str, points: list[Point]) -> None:
    write_stdout(
        f"{clean(name)}: {plural(len(points), 'point')}; `first` are those that a short run measures before all others"
    )
    for suite in dict.fromkeys(point.suite for point in points):
        print_table(_table(suite, [point for point in points if point.suite == suite]))


def _table(suite: str, points: list[Point]) -> Table:
    """One row an op and its kernels."""
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
    parts = []
    for name in group[0].numbers:
        values = sorted({point.numbers[name] for point in group if name in point.numbers})
        if len(values) > 1:
            parts.append(f"{name} {values[0]:,} to {values[-1]:,}")
        elif values[0] not in (0, 1):
            parts.append(f"{name} {values[0]:,}")
    return ", ".join(parts)
