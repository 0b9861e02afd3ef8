"""`roofline models`: the models that are known."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli import complete
from roofline.cli.options import JsonOption, Options, OutputOption, QuietOption, takes
from roofline.predict.options import READING


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(help="The models that are known.", no_args_is_help=True)
    group.command(name="list")(list_models)
    group.command(name="show")(takes((READING,))(show))
    group.command(name="import")(takes((READING,))(import_config))
    group.command(name="check")(check)
    app.add_typer(group, name="models")


def list_models(json: JsonOption = False, output: OutputOption = None, quiet: QuietOption = False) -> None:
    """Every model with its size."""
    from roofline.cli import lists
    from roofline.cli.output import emit

    emit(lists.models(), json=json, output=output, quiet=quiet)


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Id, YAML file, config.json or its folder, or org/name.", autocompletion=complete.models
        ),
    ],
    format: Annotated[str, typer.Option("--format", help="text, yaml or json.")] = "text",
    *,
    options: Options,
    json: JsonOption = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> None:
    """One model: its layers, where its parameters are, its cache, its file."""
    from roofline.cli import show_model
    from roofline.cli.output import emit
    from roofline.cli.shows import formatted

    emit(formatted(show_model.model(name, **options), format), json=json, output=output, quiet=quiet)


def import_config(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="A config.json, the folder that holds one, or org/name.")],
    name: Annotated[str | None, typer.Option("--name", help="What to call it: an id, a title, or org/name.")] = None,
    *,
    options: Options,
    json: JsonOption = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> None:
    """A config.json as a model's file, to read, change and keep.

    Example: roofline models import ./config.json --name my-org/My-Model-7B -o my-model-7b.yaml
    """
    from roofline.cli import show_model
    from roofline.cli.output import emit

    emit(show_model.imported(config, options.get("assume"), name), json=json, output=output, quiet=quiet)


def check(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME|FILE|FOLDER]...", help="Default: all that are known.")
    ] = None,
    json: JsonOption = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """Check model files. Exit code 1 when one is wrong.

    A folder with a config.json and safetensors files, or their index, is compared tensor by tensor.
    """
    from roofline.cli.checks import check_files
    from roofline.cli.output import emit

    answer, code = check_files("models", files or [])
    emit(answer, json=json, output=output, quiet=quiet)
    return code
