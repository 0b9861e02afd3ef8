"""Arguments and flags that several commands share. The flags of a prediction are made from its schema of options; their values
stay text, which the request reads with its units.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from roofline.cli.help import OUTPUT
from roofline.cli.output import FIGURE_SUFFIXES, TABLES, Output
from roofline.predict.options import OPTIONS, Option, of_groups

Options = dict[str, Any]
"""The options of the schema that were given, by name: where a command has this parameter, `takes` puts their flags."""


def complete_models(incomplete: str) -> list[str]:
    """Ids of models that begin with a text, for shell completion."""
    return _beginning(_names("models"), incomplete)


def complete_hardware(incomplete: str) -> list[str]:
    """Ids of hardware that begin with a text, after the commas of a list, for shell completion."""
    return _beginning(_names("hardware"), incomplete)


def complete_subjects(context: typer.Context, incomplete: str) -> list[str]:
    """Quantities of `explain`, and the paths of the model's operators, that begin with a text, for shell completion."""
    from roofline.errors import RooflineError
    from roofline.predict.explain.explain import QUANTITIES, subjects

    if known := _beginning(QUANTITIES, incomplete):
        return known
    try:
        return _beginning(subjects(context.params["model"]), incomplete)
    except (KeyError, RooflineError):  # of the model: the command itself will report it
        return []


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(last)]


def _names(kind: str) -> list[str]:
    """Names of a kind that an option completes."""
    from roofline.errors import RooflineError
    from roofline.specs.library import engine_names, fit_files, ids

    try:
        match kind:
            case "models":
                return list(ids("models"))
            case "hardware":
                return list(ids("hardware"))
            case "engines":
                return engine_names()
            case "backends":
                return sorted({path.stem for paths in fit_files().values() for path in paths})
            case "dtypes":
                from roofline.dtypes import FORMATS

                return list(FORMATS)
            case _:
                from roofline.specs.quantization import schemes

                return [*schemes(), "none"]
    except RooflineError:  # of ROOFLINE_PATH: the command itself will report it
        return []


def _completion(option: Option) -> Callable[[str], list[str]] | None:
    """What the shell completes the value of an option with."""
    if option.choices:
        return lambda incomplete: _beginning(option.choices, incomplete)
    return (lambda incomplete: _beginning(_names(option.completes), incomplete)) if option.completes else None


def own(*names: str, text: str, panel: str | None = None, metavar: str | None = None) -> Any:
    """A Typer option of one command alone: an optional flag whose value is text."""
    return typer.Option(*names, help=text, metavar=metavar, rich_help_panel=panel, show_default=False)


def hardware_option(
    text: str = "Accelerator or node: id, YAML file, or a count and an id, such as 8xh100-sxm.", *, show_default: bool = True
) -> Any:
    """The Typer option `--hardware` with a help text."""
    return typer.Option(
        "--hardware", "-H", metavar="HW", help=text, autocompletion=complete_hardware, show_default=show_default
    )


def model_argument(
    text: str = "Model: id, YAML file, config.json or its folder, or Hugging Face repository (org/name).",
    metavar: str = "MODEL",
) -> Any:
    """A Typer argument that names a model."""
    return typer.Argument(metavar=metavar, help=text, autocompletion=complete_models)


ModelArgument = Annotated[str, model_argument()]
HardwareOption = Annotated[str, hardware_option()]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.", rich_help_panel=OUTPUT)]


def output_option(formats: Iterable[str]) -> Any:
    """The Typer option `--output` of a command that writes these formats."""
    text = f"Write to FILE ({', '.join(sorted(set(formats)))})."
    return typer.Option("--output", "-o", metavar="FILE", help=text, dir_okay=True, rich_help_panel=OUTPUT)


QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Suppress everything on stderr except errors.", rich_help_panel=OUTPUT)
]
TtftLimit = Annotated[
    str | None, own("--ttft", text='Limit on the time to first token of a single prompt, such as "500 ms".', metavar="TIME")
]
TpotLimit = Annotated[str | None, own("--tpot", text='Limit on the time per output token, such as "50 ms".', metavar="TIME")]
VerboseOption = Annotated[
    int,
    typer.Option(
        "--verbose", "-v", count=True, show_default=False, help="Print full tables; -vv also lists all assumptions.",
        rich_help_panel=OUTPUT,
    ),
]  # fmt: skip
_OUTPUT_DEFAULTS: dict[str, Any] = {"json": False, "output": None, "verbose": 0, "quiet": False}


def figure_option(names: Sequence[str]) -> Any:
    """The Typer option `--figure` of a command whose result has figures of these names."""
    text = f"Figure that -o writes: {', '.join(names)}. Default: the first."
    whole = [name for name in names if "*" not in name]
    return typer.Option(
        "--figure", metavar="NAME", help=text, rich_help_panel=OUTPUT, show_default=False,
        autocompletion=lambda incomplete: _beginning(whole, incomplete),
    )  # fmt: skip


def flag(option: Option) -> Any:
    """An option of the schema as an annotated type for Typer."""
    group = None if option.common else option.group
    if option.kind == "flag":
        names = f"{option.flag}/--{option.off}" if option.off else option.flag
        return Annotated[
            bool | None if option.undecided else bool,
            typer.Option(names, *option.flags[1:], help=option.text, rich_help_panel=group),
        ]
    return Annotated[
        list[str] | None if option.repeated else str | None,
        typer.Option(
            *option.flags, help=option.text, metavar=option.metavar, rich_help_panel=group, show_default=False,
            autocompletion=_completion(option),
        ),
    ]  # fmt: skip


def takes(
    groups: Iterable[str] = (),
    *,
    first: Iterable[Option] = (),
    without: Iterable[str] = (),
    changed: Iterable[Option] = (),
    figures: Sequence[str] = (),
    formats: Iterable[str] = (),
    tables: bool = True,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that gives a command the flags that several commands have.

    Its parameter `options` becomes the flags of some groups of the schema: the command gets those that were given, by name, and
    those that are on by default. Its parameter `out` becomes `--json`, `--output`, `--verbose` and
    `--quiet`, and `--figure` where there are figures: the command gets an `Output`.

    Args:
        groups: of the schema.
        first: options that the command has besides, before these.
        without: options of these groups that the command does not have.
        changed: options that mean something else to this command, or that it has besides, after these.
        figures: names of the figures that a result of the command can have; one that ends in `*` stands for several.
        formats: extensions of files that the command writes besides JSON, tables and figures.
        tables: whether it writes its rows as a table.
    """
    listed = {entry.name: entry for entry in (*first, *of_groups(tuple(groups), tuple(without)), *changed)}
    written = (".json", *(TABLES if tables else ()), *formats, *(FIGURE_SUFFIXES if figures else ()))
    outputs = {
        "json": JsonOption,
        "output": Annotated[Path | None, output_option(written)],
        "verbose": VerboseOption,
        "quiet": QuietOption,
        **({"figure": Annotated[str | None, figure_option(figures)]} if figures else {}),
    }
    switches = [name for name, entry in listed.items() if entry.off]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        parameters: list[inspect.Parameter] = []
        own_parameters = inspect.signature(command, eval_str=True).parameters
        for parameter in own_parameters.values():
            if parameter.name == "options":
                parameters += [_keyword(name, flag(entry), _default(entry)) for name, entry in listed.items()]
            elif parameter.name == "out":
                parameters += [_keyword(name, kind, _OUTPUT_DEFAULTS.get(name)) for name, kind in outputs.items()]
            else:
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

        def run(**values: Any) -> Any:
            if "options" in own_parameters:
                chosen = {name: values.pop(name) for name in listed}
                values["options"] = given(chosen) | {name: chosen[name] for name in switches if chosen[name] is not None}
            if "out" in own_parameters:
                out = Output(*(values.pop(name, None) for name in ("json", "output", "quiet", "verbose", "figure")))
                if figures:
                    out.check_figure(figures)
                values["out"] = out
            return command(**values)

        run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
        run.__annotations__ = {entry.name: entry.annotation for entry in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _keyword(name: str, annotation: Any, default: bool | int | None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _default(option: Option) -> bool | None:
    return bool(option.off) if option.kind == "flag" and not option.undecided else None


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


def several(values: Iterable[str] | None) -> list[str]:
    """Values of an option that may be repeated, each of which may hold several separated by commas."""
    return [part.strip() for value in values or () for part in value.split(",") if part.strip()]


def command_line(command: str, model: str, hardware: str, options: Mapping[str, Any], without: Iterable[str] = ()) -> str:
    """The shell command that runs `command` again with the same model, hardware and options."""
    return invocation(command, (model,), {"hardware": hardware, **options}, without)


def invocation(command: str, arguments: Iterable[str], options: Mapping[str, Any], without: Iterable[str] = ()) -> str:
    """The shell command that runs `command` with these arguments and options; those in `without` are left out."""
    from roofline.predict.engine_command import shell_line

    line = ["roofline", command, *arguments]
    for name, value in options.items():
        flag_name = f"--{name.replace('_', '-')}"
        if name == "pinned":
            line += [] if value else ["--pageable"]
        elif value is False and name in OPTIONS:
            line += [f"--{OPTIONS[name].off}"] if OPTIONS[name].off else []
        elif value is True:
            line.append(flag_name)
        elif name not in without:
            line += [flag_name, str(value)]
    return shell_line(tuple(line))
