"""`roofline hardware`: the accelerators and nodes that are known."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli import complete
from roofline.cli.options import JsonOption, OutputOption


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(help="The accelerators and nodes that are known.", no_args_is_help=True)
    group.command(name="list")(list_hardware)
    group.command(name="show")(show)
    group.command(name="check")(check)
    app.add_typer(group, name="hardware")


def list_hardware(json: JsonOption = False, output: OutputOption = None) -> None:
    """Every accelerator and node with its headline figures."""
    from roofline.cli.catalogue import emit_rows
    from roofline.predict.catalogue import hardware_rows

    rows, inputs = hardware_rows()
    emit_rows("hardware", rows, inputs, json=json, output=output)


def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Id or YAML file.", autocompletion=complete.hardware)],
    format: Annotated[str, typer.Option("--format", help="text, yaml or json.")] = "text",
    json: JsonOption = False,
) -> None:
    """One accelerator or node: every number with its source."""
    from roofline.cli.catalogue import show_hardware

    show_hardware(name, "json" if json else format)


def check(
    files: Annotated[list[str] | None, typer.Argument(metavar="[NAME|FILE]...", help="Default: all that are shipped.")] = None,
    json: JsonOption = False,
) -> int:
    """Check hardware files: keys, units, sources, and the peak against units x clock. Exit code 1 when one is wrong."""
    from roofline.cli.catalogue import check_files

    return check_files("hardware", files or [], json=json)
