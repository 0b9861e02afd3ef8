"""The answer of `roofline trace`: figures of a trace, and of a measured run the command that simulates its deployment."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from roofline import files, formatting
from roofline.audit.engine_logs import names
from roofline.cli.output import Answer, emit, write_stdout
from roofline.cli.page import print_table
from roofline.errors import InputError
from roofline.predict.engine_command import shell_line
from roofline.report.summary import Table
from roofline.serving.traffic.engine_run import EngineMeta, read_run
from roofline.serving.traffic.trace import Trace, as_csv, read_trace
from roofline.specs.library import by_driver_name
from roofline.text import clean
from roofline.version import envelope


def answer(source: Path, *, skip_bad_rows: bool, json: bool, output: Path | None, quiet: bool) -> None:
    """Give what is known of a trace in the form that was asked for."""
    meta: EngineMeta | None = None
    if files.is_folder(source):
        run = read_run(source, skip_bad_rows)
        found, meta = run.trace, run.meta
    else:
        found = read_trace(source, skip_bad_rows)
    line = None if meta is None else _command(source, meta)
    whole = {**envelope(_inputs(found)), **_figures(found), "engine": meta and _engine(meta), "command": line}
    formats = {".csv": lambda: as_csv(found)}
    emit(Answer(whole, None, lambda: _show(found, meta, line), formats), json=json, output=output, quiet=quiet)


def _inputs(trace: Trace) -> dict[str, Any]:
    entry = trace.input
    return {entry.role: {"name": entry.name, "path": entry.path, "sha256": entry.sha256}}


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
