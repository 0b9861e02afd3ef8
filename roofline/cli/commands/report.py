"""`roofline report`: a page of its own, with controls that compute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofline.cli import complete
from roofline.cli.options import Options, OutputOption, QuietOption, takes
from roofline.predict.options import DEPLOYMENT, WORKLOAD


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="report")(takes((WORKLOAD, *DEPLOYMENT), without=("phase", "segments", "enable_prefix_caching"))(report))


def report(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL", help="Id, YAML file, config.json or its folder, or org/name.", autocompletion=complete.models
        ),
    ] = None,
    hardware: Annotated[
        list[str] | None,
        typer.Option(
            "--hardware", "-H", metavar="HW", help="Id or YAML file; several side by side.", autocompletion=complete.hardware
        ),
    ] = None,
    calculator: Annotated[
        bool, typer.Option("--calculator", help="A page in which any shipped model and hardware can be chosen.")
    ] = False,
    saved: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="RESULT", help="The page of what `analyze` has written as JSON, or `sweep` as a folder or file."
        ),
    ] = None,
    *,
    options: Options,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """One HTML file that works without a network: the answer, figures, and controls that compute in the browser.

    Example: roofline report llama-3.1-8b --hardware a100-sxm-80gb --hardware h200-sxm -o report.html
    """
    from roofline.cli import pages

    pages.write(model, hardware or [], options, calculator=calculator, saved=saved, output=output, quiet=quiet)
    return 0
