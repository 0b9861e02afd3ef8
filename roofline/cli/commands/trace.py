"""`roofline trace`: what a trace or a measured run holds, and the trace as a file."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import files, formatting
from roofline.cli.options import Options, takes
from roofline.cli.output import Output, Result, by_role
from roofline.cli.tables import print_answer, screen_width
from roofline.documents import envelope
from roofline.errors import InputError
from roofline.formatting import plural
from roofline.serving.options import PLAN
from roofline.text import Answer, Labelled, clean, shell_lines

if TYPE_CHECKING:
    from roofline.serving.traffic.engine_run import EngineMeta
    from roofline.serving.traffic.trace import Trace


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="trace")(takes(first=[PLAN["skip_bad_rows"]], formats=[".csv"], tables=False)(trace))


def trace(
    source: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="Folder of a measured run (requests.jsonl, meta.json), or a CSV or Parquet trace."),
    ],
    *,
    options: Options,
    out: Output,
) -> None:
    """Extract a request trace from a measured run.

    Summarizes the requests and the engine that served them. With -o, writes the trace (.csv, with columns arrived_at,
    num_prefill_tokens and num_decode_tokens) or the summary (.json).

    Example: roofline trace runs/rtx4090 -o trace.csv
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
    out.emit(
        Result(
            document,
            None,
            lambda: print_answer(_answer(requests, meta, line), out.verbosity),
            {".csv": lambda: as_csv(requests)},
        )
    )


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


def _answer(trace: Trace, meta: EngineMeta | None, line: str | None) -> Answer:
    skipped = [("Left out", f"{trace.skipped:,} broken: {'; '.join(trace.reasons)}")] if trace.skipped else []
    return Answer(
        title=f"{trace.name}: {plural(len(trace), 'request')}",
        verdict="" if trace.rate is None else f"{trace.rate:.3g} requests/s over {formatting.seconds(trace.duration)}.",
        parts=(
            _requests(trace),
            (*skipped, *(("Note", note) for note in trace.notes)),
            () if meta is None else _described(meta),
            "" if line is None else f"Simulate this deployment:\n{shell_lines(line, screen_width(), 2)}",
        ),
        hint="As a trace: -o FILE.csv",
    )


def _requests(trace: Trace) -> Labelled:
    rows = [
        ("Prompts", f"{trace.mean_prompt:,.0f} tokens on average, max. {int(trace.prompts.max()):,}"),
        ("Outputs", f"{trace.mean_output:,.0f} tokens on average, max. {int(trace.outputs.max()):,}"),
    ]
    if trace.rate is not None:
        rows.append(("Burstiness", f"coefficient of variation of the interarrival times {trace.interarrival_cv:.2f}"))
    elif trace.duration is not None:
        rows.append(("Arrivals", f"over {formatting.seconds(trace.duration)}"))
    return tuple(rows)


def _described(meta: EngineMeta) -> Labelled:
    """What meta.json says of the engine."""
    rows = [("Model", meta.model), ("Engine", meta.version and f"vLLM {meta.version}"), ("Device", meta.device)]
    if meta.device_bytes is not None:
        rows.append(("Device memory", formatting.binary(meta.device_bytes)))
    for name, value in (("Prefix caching", meta.prefix_caching), ("Async scheduling", meta.asynchronous)):
        rows.append((name, None if value is None else "on" if value else "off"))
    options = ", ".join(f"{name} {value}" for name, value in meta.options.items() if not isinstance(value, bool))
    rows.append(("Options", options or None))
    return tuple((name, "not stated" if value is None else clean(value)) for name, value in rows)
