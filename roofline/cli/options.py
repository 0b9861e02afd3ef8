"""Arguments and flags that several commands share. The flags of a prediction are made from its schema of options; their values
stay text, which the request reads with its units.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from roofline.cli.output import Output
from roofline.predict.options import OPTIONS, Option, of_groups

Options = dict[str, Any]
"""The options of the schema that were given, by name: where a command has this parameter, `takes` puts their flags."""


def complete_models(incomplete: str) -> list[str]:
    """Ids of models that begin with a text, for shell completion."""
    return _ids("models", incomplete)


def complete_hardware(incomplete: str) -> list[str]:
    """Ids of hardware that begin with a text, for shell completion."""
    return _ids("hardware", incomplete)


def _ids(kind: str, incomplete: str) -> list[str]:
    from roofline.errors import RooflineError
    from roofline.specs.library import ids

    try:
        known = ids("models" if kind == "models" else "hardware")
    except RooflineError:  # of ROOFLINE_PATH: the command itself will report it
        return []
    return [name for name in known if name.startswith(incomplete)]


_COMPLETIONS = {"models": complete_models, "hardware": complete_hardware}


def own(*names: str, text: str, panel: str | None = None, metavar: str | None = None) -> Any:
    """A Typer option of one command alone: an optional flag whose value is text."""
    return typer.Option(*names, help=text, metavar=metavar, rich_help_panel=panel, show_default=False)


def hardware_option(text: str, *, show_default: bool = True) -> Any:
    """The Typer option `--hardware` with a help text."""
    return typer.Option(
        "--hardware", "-H", metavar="HW", help=text, autocompletion=complete_hardware, show_default=show_default
    )


def model_argument(text: str = "Id, YAML file, config.json or its folder, or org/name.", metavar: str = "MODEL") -> Any:
    """A Typer argument that names a model."""
    return typer.Argument(metavar=metavar, help=text, autocompletion=complete_models)


ModelArgument = Annotated[str, model_argument()]
HardwareOption = Annotated[str, hardware_option("Id or YAML file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to FILE; its suffix says the format.", dir_okay=True),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No messages on stderr but errors.")]
TtftLimit = Annotated[
    str | None, own("--ttft", text='First token of a prompt alone within "500 ms".', panel="Objectives", metavar="TIME")
]
TpotLimit = Annotated[str | None, own("--tpot", text='Each further token within "50 ms".', panel="Objectives", metavar="TIME")]
_OUTPUT: dict[str, Any] = {"json": JsonOption, "output": OutputOption, "quiet": QuietOption}
_OUTPUT_DEFAULTS = {"json": False, "output": None, "quiet": False}


def flag(option: Option) -> Any:
    """An option of the schema as an annotated type for Typer."""
    if option.kind == "flag":
        names = f"{option.flag}/--{option.off}" if option.off else option.flag
        return Annotated[bool, typer.Option(names, help=option.text, rich_help_panel=option.group)]
    return Annotated[
        list[str] | None if option.repeated else str | None,
        typer.Option(
            *option.flags, help=option.text, metavar=option.metavar, rich_help_panel=option.group, show_default=False,
            autocompletion=_COMPLETIONS[option.completes] if option.completes else None,
        ),
    ]  # fmt: skip


def takes(
    groups: Iterable[str] = (),
    *,
    first: Iterable[Option] = (),
    without: Iterable[str] = (),
    changed: Iterable[Option] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that gives a command the flags that several commands have.

    Its parameter `options` becomes the flags of some groups of the schema: the command gets those that were given, by name, and
    those that are on by default. Its parameter `out` becomes `--json`, `--output` and `--quiet`: the command gets an `Output`.

    Args:
        groups: of the schema.
        first: options that the command has besides, before these.
        without: options of these groups that the command does not have.
        changed: options that mean something else to this command, or that it has besides, after these.
    """
    listed = {entry.name: entry for entry in (*first, *of_groups(tuple(groups), tuple(without)), *changed)}
    switches = [name for name, entry in listed.items() if entry.off]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        parameters: list[inspect.Parameter] = []
        own_parameters = inspect.signature(command, eval_str=True).parameters
        for parameter in own_parameters.values():
            if parameter.name == "options":
                parameters += [_keyword(name, flag(entry), _default(entry)) for name, entry in listed.items()]
            elif parameter.name == "out":
                parameters += [_keyword(name, annotation, _OUTPUT_DEFAULTS[name]) for name, annotation in _OUTPUT.items()]
            else:
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

        def run(**values: Any) -> Any:
            if "options" in own_parameters:
                chosen = {name: values.pop(name) for name in listed}
                values["options"] = given(chosen) | {name: chosen[name] for name in switches}
            if "out" in own_parameters:
                values["out"] = Output(values.pop("json"), values.pop("output"), values.pop("quiet"))
            return command(**values)

        run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
        run.__annotations__ = {entry.name: entry.annotation for entry in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _keyword(name: str, annotation: Any, default: bool | None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _default(option: Option) -> bool | None:
    return bool(option.off) if option.kind == "flag" else None


def changed(name: str, **fields: Any) -> Option:
    """The option `name` of the schema with other fields, for a command in which it means something else."""
    return replace(OPTIONS[name], **fields)


def given(values: Mapping[str, Any], *left_out: str) -> dict[str, Any]:
    """The parameters of a command that were given, by name, except `options`, `out` and those in `left_out`."""
    return {
        name: value
        for name, value in values.items()
        if name not in (*left_out, "options", "out") and value not in (None, False, [])
    }


def command_line(command: str, model: str, hardware: str, options: Mapping[str, Any], without: Iterable[str] = ()) -> str:
    """The shell command that runs `command` again with the same model, hardware and options."""
    from roofline.predict.engine_command import shell_line

    line = ["roofline", command, model, "--hardware", hardware]
    for name, value in options.items():
        flag_name = f"--{name.replace('_', '-')}"
        if name == "pinned":
            line += [] if value else ["--pageable"]
        elif value is True:
            line.append(flag_name)
        elif name not in without:
            line += [flag_name, str(value)]
    return shell_line(tuple(line))
