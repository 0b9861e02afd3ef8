"""`roofline trace`: what a trace or a measured run holds, and the trace as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofline.cli import options, plan_options


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="trace")(trace)


def trace(
    source: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="Folder of a measured run (requests.jsonl, meta.json), or a CSV or Parquet trace."),
    ],
    skip_bad_rows: plan_options.SkipBadRows = False,
    json: options.JsonOption = False,
    output: options.OutputOption = None,
    quiet: options.QuietOption = False,
) -> None:
    """Show the requests of a measured run and the engine that served them, and write them as a trace.

    -o with .csv writes arrived_at, num_prefill_tokens, num_decode_tokens; .json what is shown. Example:
    roofline trace runs/rtx4090 -o trace.csv
    """
    from roofline.cli import tracing

    tracing.answer(source, skip_bad_rows=skip_bad_rows, json=json, output=output, quiet=quiet)
