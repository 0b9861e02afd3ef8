"""`roofline hardware`: the accelerators and nodes that are known."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli import complete
from roofline.cli.options import JsonOption, OutputOption, QuietOption


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(help="The accelerators and nodes that are known.", no_args_is_help=True)
    group.command(name="list")(list_hardware)
    group.command(name="show")(show)
    group.command(name="check")(check)
    app.add_typer(group, name="hardware")


def list_hardware(json: JsonOption = False, output: OutputOption = None, quiet: QuietOption = False) -> None:
    """Every accelerator and node with its headline figures."""
    from roofline.cli import lists
    from roofline.cli.output import emit

    emit(lists.hardware(), json=json, output=output, quiet=quiet)


def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Id or YAML file.", autocompletion=complete.hardware)],
    format: Annotated[str, typer.Option("--format", help="text, yaml or json.")] = "text",
    json: JsonOption = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> None:
    """One accelerator or node: every number with its source."""
    from roofline.cli import shows
    from roofline.cli.output import emit

    emit(shows.formatted(shows.hardware(name), format), json=json, output=output, quiet=quiet)


def check(
    files: Annotated[list[str] | None, typer.Argument(metavar="[NAME|FILE]...", help="Default: all that are known.")] = None,
    json: JsonOption = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """Check hardware files: keys, units, sources, and the peak against units x clock. Exit code 1 when one is wrong."""
    from roofline.cli.checks import check_files
    from roofline.cli.output import emit

    answer, code = check_files("hardware", files or [])
    emit(answer, json=json, output=output, quiet=quiet)
    return code
