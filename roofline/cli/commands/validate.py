"""`roofline validate`: measured records against predictions."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli import complete
from roofline.cli.options import JsonOption, OutputOption, QuietOption


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="validate")(validate)


def validate(  # noqa: PLR0917 - options are keywords to who calls
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Records: .csv or .parquet files, or folders that hold them.")
    ],
    hardware: Annotated[
        list[str] | None,
        typer.Option(
            "--hardware",
            "-H",
            metavar="HW",
            help="Id or YAML file; only records that name it. Default: what each record names.",
            autocompletion=complete.hardware,
        ),
    ] = None,
    backend: Annotated[
        str | None, typer.Option("--backend", metavar="NAME", help="Only records of these kernels.", show_default=False)
    ] = None,
    max_error: Annotated[
        str | None,
        typer.Option(
            "--max-error",
            metavar="E",
            help="Exit code 1 when the mean absolute error of the estimate (without one: of the bound) is more: 0.5 or 50%.",
            show_default=False,
        ),
    ] = None,
    fit: Annotated[
        str | None,
        typer.Option("--fit", metavar="FILE", help="Estimate by this file, which `calibrate` wrote.", show_default=False),
    ] = None,
    serving: Annotated[
        bool, typer.Option("--serving", help="PATH holds serving points: TPOT at a concurrency, against the closed loop.")
    ] = False,
    json: JsonOption = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """Compare measured records with predictions: by operator and regime, and which were faster than should be possible.

    A record is joined with the hardware of its `gpu`: shipped, or the hardware.yaml beside it. Rows that are wrong are
    refused by file and line, and the others are used. measurements/README.md lists the columns, and those that each op needs.
    """
    from roofline.cli import validation
    from roofline.cli.output import emit

    limit = validation.parse_error(max_error) if max_error is not None else None
    answer, code = validation.answer(paths, tuple(hardware or ()), backend, limit, fit=fit, serving=serving, quiet=quiet)
    emit(answer, json=json, output=output, quiet=quiet)
    return code
