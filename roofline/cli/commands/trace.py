"""`roofline trace`: what a trace or a measured run holds, and the trace as a file."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import files, formatting
from roofline.cli.options import Options, takes
from roofline.cli.output import Output, Result, by_role, write_stdout
from roofline.cli.tables import print_table
from roofline.documents import envelope
from roofline.errors import InputError
from roofline.serving.options import PLAN
from roofline.text import Table, clean

if TYPE_CHECKING:
    from roofline.serving.traffic.engine_run import EngineMeta
    from roofline.serving.traffic.trace import Trace


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="trace")(takes(first=[PLAN["skip_bad_rows"]])(trace))


def trace(
    source: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="Folder of a measured run (requests.jsonl, meta.json), or a CSV or Parquet trace."),
    ],
    *,
    options: Options,
    out: Output,
) -> None:
    """Show the requests of a measured run and the engine that served them, and write them as a trace.

    -o with .csv writes arrived_at, num_prefill_tokens, num_decode_tokens; .json what is shown. Example:
    roofline trace runs/rtx4090 -o trace.csv
    """
    from roofline.serving.traffic.engine_run import read_run
    from roofline.serving.traffic.trace import as_csv, read_trace

    meta: EngineMeta | None = None
    if files.is_folder(source):
        run = read_run(source, **options)
        requests, meta = run.trace, run.meta
    else:
        requests = read_trace(source, **options)
    line = None if meta is None else _command(source, meta)
    engine = meta and _engine(meta)
    document = {**envelope(by_role([requests.input])), **_figures(requests), "engine": engine, "command": line}
    out.emit(Result(document, None, lambda: _show(requests, meta, line), {".csv": lambda: as_csv(requests)}))


def _figures(trace: Trace) -> dict[str, Any]:
    tokens = {
        name: {"mean": float(values.mean()), "max": int(values.max())}
        for name, values in (("input_tokens", trace.prompts), ("output_tokens", trace.outputs))
    }
    return {
        "requests": len(trace), "skipped": trace.skipped, "skipped_why": list(trace.reasons), "duration_s": trace.duration,
        "rate": trace.rate, "interarrival_cv": trace.interarrival_cv, **tokens, "notes": list(trace.notes),
    }  # fmt: skip


def _engine(meta: EngineMeta) -> dict[str, Any]:
    return {
        "model": meta.model, "version": meta.version, "device": meta.device, "device_bytes": meta.device_bytes,
        "data_parallel_size": meta.data_parallel_size, "options": dict(meta.options), "prefix_caching": meta.prefix_caching,
        "async_scheduling": meta.asynchronous,
    }  # fmt: skip


def _command(source: Path, meta: EngineMeta) -> str:
    """The line that simulates the deployment; `MODEL` and `HW` where the run does not say which."""
    from roofline.audit.engine_logs import names
    from roofline.predict.engine_command import shell_line
    from roofline.specs.library import by_driver_name

    model, device = "MODEL", None
    if meta.model is not None:
        with suppress(InputError):
            model = names.model(meta.model)
    if meta.device is not None:
        device = by_driver_name(meta.device)
    line = ["roofline", "simulate", model, "--hardware", device or "HW", "--trace", str(source)]
    if meta.ahead:
        line += ["--scheduler", "vllm-v1-async"]
    for name, value in meta.options.items():
        line += [f"--{name.replace('_', '-')}"] if value is True else [f"--{name.replace('_', '-')}", str(value)]
    return shell_line(tuple(line))


def _show(trace: Trace, meta: EngineMeta | None, line: str | None) -> None:
    lines = [f"{trace.name}: {len(trace):,} requests"]
    if trace.skipped:
        lines.append(f"{trace.skipped:,} broken, and left out: {'; '.join(trace.reasons)}")
    lines += trace.notes
    write_stdout(clean("\n".join(lines), keep_lines=True) + "\n")
    print_table(_requests(trace))
    if meta is not None:
        write_stdout("")
        print_table(_described(meta))
    if line is not None:
        write_stdout(f"\nSimulates the same deployment\n{clean(line)}")


def _requests(trace: Trace) -> Table:
    rows = [
        ("prompts", f"{trace.mean_prompt:,.0f} tokens on average, {int(trace.prompts.max()):,} at most"),
        ("answers", f"{trace.mean_output:,.0f} tokens on average, {int(trace.outputs.max()):,} at most"),
    ]
    if trace.duration is not None:
        rows.append(("arrivals", f"over {formatting.seconds(trace.duration)}"))
    if trace.rate is not None:
        rows.append(("rate", f"{trace.rate:.4g} requests/s, variation of the times between them {trace.interarrival_cv:.2f}"))
    return Table("Requests", "", ("", "value"), (False, False), tuple(rows))


def _described(meta: EngineMeta) -> Table:
    rows = [("model", meta.model), ("engine", meta.version and f"vLLM {meta.version}"), ("device", meta.device)]
    if meta.device_bytes is not None:
        rows.append(("device memory", formatting.binary(meta.device_bytes)))
    rows += [(name, str(value)) for name, value in meta.options.items()]
    for name, value in (("prefix caching", meta.prefix_caching), ("async scheduling", meta.asynchronous)):
        rows.append((name, None if value is None else "on" if value else "off"))
    cells = tuple((name, "not said" if value is None else clean(value)) for name, value in rows)
    return Table("Engine", "what meta.json says", ("", "value"), (False, False), cells)
