"""Whether results can be written where they are asked for, found out before the work is done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.core

from roofline import files
from roofline.errors import InputError, StoppedByASignalError

OUTPUTS = ("output", "perfetto")
"""Parameters of commands that name what is written; all others name what is read, if they name a file."""


class Command(typer.core.TyperCommand):
    """A command that refuses a place where it cannot write, and does not write over what it reads."""

    def invoke(self, ctx: Any) -> Any:
        """Run it."""
        try:
            with files.run():
                _check(self.params, ctx.params)
                return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:  # Typer would make an exit without a message of it
            raise StoppedByASignalError(interrupt) from None


def _check(parameters: list[Any], values: dict[str, Any]) -> None:
    """Refuse outputs that cannot be written, as far as the command line alone tells.

    Raises:
        InputError: as of `files.check_target`; two outputs into one file; a file that is given as an input, or is shipped.
    """
    named = {entry.name: entry for entry in parameters}
    outputs = {name: Path(values[name]) for name in OUTPUTS if values.get(name) is not None}
    for name, output in outputs.items():
        if output.suffix and not _is_folder(named[name], values):
            files.check_target(output)
            _check_shipped(output)
        for other, value in values.items():
            if other in OUTPUTS:
                if other != name and other in outputs and outputs[other].resolve() == output.resolve():
                    both = f"{_flag(named[other])} and {_flag(named[name])} are both {output}"
                    raise InputError(f"{both}: give them names of their own")
            elif files.is_file(output) and files.identity(output) in map(files.identity, _paths(value)):
                what = f"the file given as {_flag(named[other])}"
                raise InputError(f"cannot write {output}: it is {what}; it would be overwritten")


def _is_folder(parameter: Any, values: dict[str, Any]) -> bool:
    """Whether a command makes a folder of its output: records of a bench, a set of worksheets."""
    return parameter.metavar == "FOLDER" or values.get("seeds") is not None


def _flag(parameter: Any) -> str:
    """A parameter as it is written: the longest name of an option, or the word for an argument."""
    return str(max(parameter.opts, key=len) if parameter.param_type_name == "option" else parameter.name.upper())


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
