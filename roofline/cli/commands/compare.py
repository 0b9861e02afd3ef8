"""`roofline compare`: prediction beside reality."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roofline import formatting
from roofline.cli.options import Options, hardware_option, model_argument, takes
from roofline.cli.output import Output, Result, write_stdout
from roofline.cli.tables import print_table
from roofline.documents import envelope
from roofline.predict.options import DEPLOYMENT, SPECULATION
from roofline.text import Table, clean

if TYPE_CHECKING:
    from roofline.audit.engine_logs.compare import Comparison
    from roofline.audit.engine_logs.names import Row
    from roofline.specs.source import Assumption


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="compare")(takes((*DEPLOYMENT, SPECULATION))(compare))


def compare(
    model: Annotated[str | None, model_argument("Default: what the files name.")] = None,
    hardware: Annotated[str | None, hardware_option("Id or YAML file; logs seldom name it.", show_default=False)] = None,
    engine_log: Annotated[
        Path | None,
        typer.Option("--engine-log", metavar="FILE", help="Log of a server of vLLM or SGLang.", show_default=False),
    ] = None,
    bench: Annotated[
        Path | None,
        typer.Option(
            "--bench",
            metavar="FILE",
            help="Result of `vllm bench serve --save-result` or of sglang.bench_serving, in JSON.",
            show_default=False,
        ),
    ] = None,
    *,
    options: Options,
    out: Output,
) -> None:
    """What an engine's log and its benchmark say, beside what is predicted, and why they may differ.

    The deployment is read from the log; flags come before it. A ratio is predicted over measured.
    Example: roofline compare --engine-log vllm.log --bench result.json --hardware rtx-4090
    """
    from roofline.audit.engine_logs.compare import compare as run

    result = run(model, hardware, engine_log_path=engine_log, bench_path=bench, **options)
    document = {**envelope(result.inputs), **result.to_dict()}
    rows = [row.to_dict() for row in result.rows]
    for note in _notes(result):
        out.verdict(note)
    out.emit(Result(document, lambda: rows, lambda: _show(result), {".html": lambda: _page(result)}))


def _notes(result: Comparison) -> list[str]:
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


def _files(result: Comparison) -> list[str]:
    """What was read, a line each."""
    lines = []
    if (log := result.log) is not None:
        version = f" {log.version}" if log.version else ""
        lines.append(f"log        {log.path}: {log.engine}{version}, read as {log.format.title}")
    if (bench := result.bench) is not None:
        lines += [f"benchmark  {bench.path}: {bench.format.title}", f"load       {bench.load.description}"]
    if result.load is not None:
        lines.append(f"taken as   {result.load.description}")
    return lines


def _show(result: Comparison) -> None:

    parts = [_headline(result), *_files(result), *(f"note       {note}" for note in _notes(result))]
    write_stdout("\n".join(_wrapped(clean(part), 11) for part in parts))
    write_stdout("")
    if (table := _read(result)) is not None:
        print_table(table)
        write_stdout("")
    print_table(_compared(result))
    gaps = [row for row in result.rows if row.why]
    if gaps:
        write_stdout("\nLikely because")
        for reason in dict.fromkeys(row.why for row in gaps):
            of = ", ".join(_name(row) for row in gaps if row.why == reason)
            write_stdout(_wrapped(clean(f"  {of}: {reason}"), 4))
    if (assumed := _assumed(result)) is not None:
        write_stdout("")
        print_table(assumed)


def _wrapped(text: str, indent: int) -> str:
    """A line as wide as the terminal; in a pipe nothing is wrapped."""
    if not sys.stdout.isatty():
        return text
    import shutil

    width = shutil.get_terminal_size().columns
    return "\n".join(textwrap.wrap(text, width, subsequent_indent=" " * indent, break_on_hyphens=False)) or text


_NAMES = {
    "device_bytes": "device memory", "weights_bytes": "weights", "activations_bytes": "activations",
    "graphs_bytes": "CUDA graphs", "kv_cache_bytes": "memory for the cache", "kv_capacity_tokens": "tokens in the cache",
    "kv_capacity_tokens (from the log's memory)": "  from log's memory", "max_concurrency": "concurrency", "ttft_s": "TTFT",
    "tpot_s": "TPOT", "itl_s": "ITL", "e2e_s": "E2E", "requests_per_s": "requests/s", "output_tokens_per_s": "output tokens/s",
    "total_tokens_per_s": "all tokens/s",
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
    return f"{value:,.2f}x" if unit == "x" else f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _band(row: Row) -> str:
    """From the least to the most, with the unit once where it is the same."""
    low, high = _figure(row.low, row.unit), _figure(row.high, row.unit)
    number, _, unit = low.partition(" ")
    return f"{number if unit and high.endswith(f' {unit}') else low} to {high}" if low else ""


def _compared(result: Comparison) -> Table:

    cells = tuple(
        (
            _NAMES.get(row.quantity, row.quantity),
            _figure(row.measured, row.unit),
            _figure(row.predicted, row.unit),
            "" if row.ratio is None else f"{row.ratio:.3f}" if row.ratio < 10 else f"{row.ratio:,.1f}",
            _band(row),
            "!" if row.within is False else "",
        )
        for row in result.rows
    )
    columns = ("", "measured", "predicted", "ratio", "band", "")
    note = "ratio: predicted over measured; !: outside the band, or off by more than 5 %"
    return Table("Prediction beside reality", note, columns, (False, True, True, True, True, False), cells)


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


def _page(result: Comparison) -> str:
    """A page of its own."""
    from roofline.report import html

    why = tuple((_name(row), row.why) for row in result.rows if row.why)
    reasons = Table("Likely because", "", ("", "why"), (False, False), why) if why else None
    tables = [table for table in (_compared(result), reasons, _read(result), _assumed(result)) if table is not None]
    lines = "".join(f"<p>{html.escape(line)}</p>\n" for line in [*_files(result), *_notes(result)])
    title = _headline(result)
    return html.document(title, f"<h1>{html.escape(title)}</h1>\n{lines}{''.join(map(html.table, tables))}")
