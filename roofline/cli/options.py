"""Arguments and flags that several commands share. The flags of a prediction are made from its schema of options; their values
stay text, which the request reads with its units."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from roofline.cli import complete
from roofline.predict.options import OPTIONS, Option, of_groups

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="Id, YAML file, config.json or its folder, or org/name.", autocompletion=complete.models
    ),
]
HardwareOption = Annotated[
    str, typer.Option("--hardware", "-H", metavar="HW", help="Id or YAML file.", autocompletion=complete.hardware)
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to FILE; its suffix says the format.", dir_okay=True),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No messages on stderr but errors.")]
Options = dict[str, Any]
"""The options of the schema that were given, by name: where a command has this parameter, `takes` puts their flags."""


def flag(option: Option) -> Any:
    """The type of a flag for Typer."""
    if option.kind == "flag":
        return Annotated[bool, typer.Option(option.flag, help=option.text, rich_help_panel=option.group)]
    return Annotated[
        str | None,
        typer.Option(
            *option.flags, help=option.text, metavar=option.metavar, rich_help_panel=option.group, show_default=False,
            autocompletion=getattr(complete, option.completes) if option.completes else None,
        ),
    ]  # fmt: skip


def takes(groups: Iterable[str], *, without: Iterable[str] = (), changed: Iterable[Option] = ()) -> Callable[[Any], Any]:
    """Give a command the flags of some groups instead of its parameter `options`, which becomes a dict of what was given.

    `changed` are options that mean something else to this command, or that it has besides.
    """
    wanted, left_out, others = tuple(groups), tuple(without), tuple(changed)

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        listed = {entry.name: entry for entry in (*of_groups(wanted, left_out), *others)}
        flags = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=False if entry.kind == "flag" else None, annotation=flag(entry)
            )
            for name, entry in listed.items()
        ]
        parameters: list[inspect.Parameter] = []
        for own in inspect.signature(command, eval_str=True).parameters.values():
            parameters += flags if own.name == "options" else [own.replace(kind=inspect.Parameter.KEYWORD_ONLY)]

        def run(**values: Any) -> Any:
            given = {name: values.pop(name) for name in listed}
            return command(**values, options={name: value for name, value in given.items() if value not in (None, False)})

        run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
        run.__annotations__ = {entry.name: entry.annotation for entry in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def changed(name: str, **fields: Any) -> Option:
    """An option of the schema that says something else in one command."""
    return replace(OPTIONS[name], **fields)


def own(*names: str, text: str, panel: str, metavar: str | None = None) -> Any:
    """An optional flag of one command alone, as text."""
    return typer.Option(*names, help=text, metavar=metavar, rich_help_panel=panel, show_default=False)


TtftLimit = Annotated[
    str | None, own("--ttft", text='First token of a prompt alone within "500 ms".', panel="Objectives", metavar="TIME")
]
TpotLimit = Annotated[str | None, own("--tpot", text='Each further token within "50 ms".', panel="Objectives", metavar="TIME")]
