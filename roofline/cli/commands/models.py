"""`roofline models`: the models that are known."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli import complete
from roofline.cli.options import JsonOption, OutputOption


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(help="The models that are known.", no_args_is_help=True)
    group.command(name="list")(list_models)
    group.command(name="show")(show)
    group.command(name="check")(check)
    app.add_typer(group, name="models")


def list_models(json: JsonOption = False, output: OutputOption = None) -> None:
    """Every model with its size."""
    from roofline.cli.catalogue import emit_rows
    from roofline.predict.catalogue import model_rows

    rows, inputs = model_rows()
    emit_rows("models", rows, inputs, json=json, output=output)


def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Id or YAML file.", autocompletion=complete.models)],
    format: Annotated[str, typer.Option("--format", help="text, yaml or json.")] = "text",
    json: JsonOption = False,
) -> None:
    """One model: its parameters by part, its cache, its file."""
    from roofline.cli.catalogue import show_model

    show_model(name, "json" if json else format)


def check(
    files: Annotated[list[str] | None, typer.Argument(metavar="[NAME|FILE]...", help="Default: all that are shipped.")] = None,
    json: JsonOption = False,
) -> int:
    """Check model files. Exit code 1 when one is wrong."""
    from roofline.cli.catalogue import check_files

    return check_files("models", files or [], json=json)
