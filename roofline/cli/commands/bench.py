"""`roofline bench`: microbenchmarks through torch, recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofline.cli.options import JsonOption, OutputOption, QuietOption

_Suite = Annotated[
    str,
    typer.Option("--suite", metavar="SUITE", help="ceilings, operators, transfers, collectives or all; several with commas."),
]
_Device = Annotated[
    str | None,
    typer.Option("--device", metavar="DEVICE", help="cuda or cpu. Default: cuda where there is one.", show_default=False),
]
_Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="LIST",
        help="Of the operators: bf16, fp16, fp32, tf32, fp8, int8; several with commas. Default: bf16 on cuda, fp32 on cpu.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(help="Microbenchmarks through torch, recorded. Needs the extra `bench`.", no_args_is_help=False)
    group.callback(invoke_without_command=True)(_bare)
    group.command(name="run")(run)
    group.command(name="list")(list_points)
    group.command(name="show")(show)
    app.add_typer(group, name="bench")


def _bare(context: typer.Context) -> None:
    """Microbenchmarks through torch, recorded."""
    if context.invoked_subcommand is None:
        from roofline.cli.measuring import need_torch

        need_torch()
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def run(
    suite: _Suite = "all",
    device: _Device = None,
    dtype: _Dtype = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget", metavar="SECONDS", help="Stop after this many seconds, or a time such as 9m or 2 h.", show_default=False
        ),
    ] = None,
    counters: Annotated[
        bool, typer.Option("--counters", help="Also count bytes and FLOP of a sample of points, with Nsight Compute.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Where records go. Default: measurements/<device>/<date>.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Measure: ceilings first, then what tells most. Run again into the same folder, it goes on where it stopped.

    FOLDER gets records.csv (one row a measurement, on the disk before the next begins), environment.json and, from the
    ceilings, hardware.yaml. Exit code 4 when it was interrupted; a spent budget is 0.
    Example: roofline bench run --suite ceilings --device cpu --budget 60 -o /tmp/records
    """  # fmt: skip
    from roofline.cli import measuring

    measuring.need_torch()
    return measuring.run(suite, device, dtype, budget, output, counters=counters, json=json, quiet=quiet)


def list_points(
    suite: _Suite = "all",
    device: _Device = None,
    dtype: _Dtype = None,
    json: JsonOption = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> None:
    """What a run would measure on this device, by suite and op. With --json or -o, every point."""
    from roofline.cli import measuring
    from roofline.cli.output import emit

    measuring.need_torch()
    emit(measuring.listing(suite, device, dtype), json=json, output=output, quiet=quiet)


def show(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What `bench run` wrote.")],
    json: JsonOption = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> None:
    """What a folder of records holds: on what it was measured, how many points, the best rates of each op."""
    from roofline.cli import records
    from roofline.cli.output import emit

    emit(records.answer(folder), json=json, output=output, quiet=quiet)
