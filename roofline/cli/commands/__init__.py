"""The commands, by name: which there are, and how each is loaded when it is called or when its help is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
import typer.core

from roofline import files
from roofline.cli.help import Plain, PlainGroup, section
from roofline.errors import InputError, StoppedByASignalError
from roofline.registry import Registry

_Register = Callable[[typer.Typer], None]
"""Adds a command, or a group of them, to an application."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A command as the list of commands shows it.

    Args:
        name: of the command.
        summary: the first sentence of its help, on one line.
        load: imports its module and returns what adds it to an application. The command is named `name` there.
        group: under which the help lists it.
    """

    name: str
    summary: str
    load: Callable[[], _Register]
    group: str = "Other"


def _shipped(name: str) -> Callable[[], _Register]:
    return lambda: _load(name)


def _load(name: str) -> _Register:  # noqa: C901, PLR0912 - an import each
    """Import the module of a command that ships, and no other."""
    match name:
        case "analyze":
            from roofline.cli.commands.analyze import register
        case "bench":
            from roofline.cli.commands.bench import register
        case "calibrate":
            from roofline.cli.commands.calibrate import register
        case "claim":
            from roofline.cli.commands.claim import register
        case "compare":
            from roofline.cli.commands.compare import register
        case "doctor":
            from roofline.cli.commands.doctor import register
        case "explain":
            from roofline.cli.commands.explain import register
        case "hardware":
            from roofline.cli.commands.hardware import register
        case "limits":
            from roofline.cli.commands.limits import register
        case "models":
            from roofline.cli.commands.models import register
        case "op":
            from roofline.cli.commands.op import register
        case "plan":
            from roofline.cli.commands.plan import register
        case "preempt":
            from roofline.cli.commands.preempt import register
        case "profile":
            from roofline.cli.commands.profile import register
        case "replay":
            from roofline.cli.commands.replay import register
        case "report":
            from roofline.cli.commands.report import register
        case "schema":
            from roofline.cli.commands.schema import register
        case "simulate":
            from roofline.cli.commands.simulate import register
        case "study":
            from roofline.cli.commands.study import register
        case "sweep":
            from roofline.cli.commands.sweep import register
        case "trace":
            from roofline.cli.commands.trace import register
        case "validate":
            from roofline.cli.commands.validate import register
        case "worksheet":
            from roofline.cli.commands.worksheet import register
        case _:
            raise KeyError(name)
    return register


_GROUPS = {
    "Predict": {
        "analyze": "Predict memory use, latency and throughput, and what limits them.",
        "op": "Predict the FLOP count, bytes, time and bottleneck of an operator.",
        "explain": "Show the formula, values and source behind a number.",
        "limits": "Find the maximum batch at each context length and what limits it.",
        "sweep": "Evaluate a grid of models, hardware and settings.",
        "report": "Write a self-contained, interactive HTML report of a prediction.",
    },
    "Serve": {
        "plan": "Find deployments that serve a load within latency objectives.",
        "simulate": "Simulate a server under a request trace or random arrivals.",
        "study": "Compare policies by simulations at several rates and seeds.",
        "preempt": "Compare recomputing a preempted sequence with swapping it.",
    },
    "Measure": {
        "bench": "Run microbenchmarks on this machine (requires the extra `bench`).",
        "calibrate": "Fit kernel efficiencies to measurements.",
        "validate": "Compare predictions with measurements.",
        "profile": "Find where the time of a recorded run went.",
    },
    "Check": {
        "claim": "Check whether a stated performance number is possible.",
        "compare": "Compare predictions with an engine's log and benchmark results.",
        "replay": "Replay a measured run in the simulator.",
        "trace": "Extract a request trace from a measured run.",
    },
    "Teach": {
        "worksheet": "Write a problem sheet with computed solutions.",
    },
    "Data and setup": {
        "models": "List, show, import and check models.",
        "hardware": "List, show and check accelerators and nodes.",
        "schema": "Print the JSON Schema of model files, hardware files or options.",
        "doctor": "Check this installation: versions, extras, data files, GPUs.",
    },
}
"""The commands that ship, by the group under which the help lists them, each with the first sentence of its help."""
_SHIPPED = {name for group in _GROUPS.values() for name in group}
COMMANDS = Registry(
    "command",
    [Entry(name, summary, _shipped(name), group) for group, listed in _GROUPS.items() for name, summary in listed.items()],
    group="roofline.commands",
    accepts=Entry,
)
"""Commands by name, in the order in which help lists them. Installed packages add theirs by the entry-point group."""


SETTINGS: dict[str, Any] = {
    "no_args_is_help": True,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
"""How the application is made, and with it each command."""


class Commands(MutableMapping[str, Any]):
    """The commands of the application by name, as click has them; each is loaded when it is looked up."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            # NB: packages are searched for plug-ins only where no command that ships has the name
            register = _shipped(name)() if name in _SHIPPED else COMMANDS[name].load()
            app = typer.Typer(**SETTINGS)
            app.callback()(lambda: None)  # makes it a group
            register(app)
            for added in app.registered_groups:
                added.cls = PlainGroup
            for group in (app, *(added.typer_instance for added in app.registered_groups)):
                for entry in group.registered_commands if group is not None else ():
                    if entry.cls is None or not issubclass(entry.cls, Command):
                        entry.cls = Command
            self._loaded[name] = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"{name}: a command cannot be taken away")

    def __contains__(self, name: object) -> bool:
        return name in _SHIPPED or name in COMMANDS

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class CommandGroup(PlainGroup):
    """The application: it lists commands by their summaries, and loads only the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Commands()

    def options(self, ctx: Any) -> list[str]:
        """Lines of the commands by group, then of the options."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for entry in COMMANDS.values():
            groups.setdefault(entry.group, []).append((entry.name, entry.summary))
        column = max(map(len, COMMANDS))
        listed = [line for group, entries in groups.items() for line in section(group, entries, column)]
        return [*listed, *Plain.options(self, ctx)]

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the commands, in the order of the help."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command for the shell's completion; `resolve_command` has the one that runs."""
        del ctx
        if cmd_name not in self.commands:
            return None
        return typer.core.TyperCommand(cmd_name, help=COMMANDS[cmd_name].summary)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Name of the command that is called, the command, and the arguments that follow it."""
        if args and args[0] in self.commands:
            return args[0], self.commands[args[0]], args[1:]
        return super().resolve_command(ctx, args)


_OUTPUTS = ("output", "perfetto")
"""Parameters of commands that name what is written; all others name what is read, if they name a file."""


class Command(Plain, typer.core.TyperCommand):
    """A command that refuses, before the work is done, to write where it cannot, or over what it reads."""

    def invoke(self, ctx: Any) -> Any:
        """Check the outputs, then run the command.

        Raises:
            InputError: an output that cannot be written, or would overwrite an input or a shipped file.
            StoppedByASignalError: it was interrupted.
        """
        try:
            with files.run():
                _check_outputs(self.params, ctx.params)
                return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:  # Typer would make an exit without a message of it
            raise StoppedByASignalError(interrupt) from None


def _check_outputs(parameters: list[Any], values: dict[str, Any]) -> None:
    """Refuse outputs that cannot be written, as far as the command line alone tells.

    Raises:
        InputError: as of `files.check_target`; two outputs into one file; a file that is given as an input, or is shipped.
    """
    named = {entry.name: entry for entry in parameters}
    outputs = {name: Path(values[name]) for name in _OUTPUTS if values.get(name) is not None}
    for name, output in outputs.items():
        # records of a bench and a set of worksheets are folders
        if output.suffix and not (named[name].metavar == "FOLDER" or values.get("seeds") is not None):
            files.check_target(output)
            _check_shipped(output)
            files.remove_stale_of(output)
        for other, value in values.items():
            if other in _OUTPUTS:
                if other != name and other in outputs and outputs[other].resolve() == output.resolve():
                    both = f"{_flag(named[other])} and {_flag(named[name])} are both {output}"
                    raise InputError(f"{both}: give them names of their own")
            elif files.is_file(output) and files.identity(output) in map(files.identity, _paths(value)):
                what = f"the file given as {_flag(named[other])}"
                raise InputError(f"cannot write {output}: it is {what}; it would be overwritten")


def _flag(parameter: Any) -> str:
    """A parameter as it is written: the first long name of an option, or the word for an argument."""
    if parameter.param_type_name != "option":
        return str(parameter.name.upper())
    return str(next((name for name in parameter.opts if name.startswith("--")), parameter.opts[0]))


def _paths(value: Any) -> Iterator[str | Path]:
    """What a value may name: itself, each of several, and of `file:PATH[:COLUMN]` the path."""
    if isinstance(value, (list, tuple)):
        for entry in value:
            yield from _paths(entry)
    elif isinstance(value, Path):
        yield value
    elif isinstance(value, str):
        yield value
        if value.startswith("file:"):
            path = value.removeprefix("file:").strip()
            yield path
            yield path.rpartition(":")[0]


def _check_shipped(output: Path) -> None:
    """Refuse the file of a shipped id, whatever command it is given to."""
    if output.suffix.lower() not in (".yaml", ".yml") or not files.is_file(output):
        return
    from roofline.specs.library import shipped_as

    if (what := shipped_as(output)) is not None:
        raise InputError(f"cannot write {output}: it is {what}, which is shipped; it would be overwritten")
