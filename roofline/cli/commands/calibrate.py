"""`roofline calibrate`: from measured records to a fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofline.cli import complete
from roofline.cli.options import JsonOption, QuietOption


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="calibrate")(calibrate)


def calibrate(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Records: .csv or .parquet files, or folders that hold them.")
    ],
    hardware: Annotated[
        str,
        typer.Option(
            "--hardware",
            "-H",
            metavar="HW",
            help="Id or YAML file of the accelerator that was measured.",
            autocompletion=complete.hardware,
        ),
    ],
    backend: Annotated[
        str | None,
        typer.Option(
            "--backend", metavar="NAME", help="Whose kernels; needed where the records are of several.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where the fit goes (.yaml): `analyze --backend FILE` uses it. .json: the whole answer.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Fit the efficiencies of an accelerator's kernels to measured records, and say how far off the fit is.

    A third of the shapes is held out: the fit never sees them, and the errors are of them. Parameters that the data do not
    determine are named. Example: roofline calibrate measurements/h200-sxm -H h200-sxm --backend torch -o h200.yaml
    """
    from roofline.cli import calibration
    from roofline.cli.output import emit

    emit(calibration.answer(paths, hardware, backend, output, quiet=quiet), json=json, output=output, quiet=quiet)
    return 0
