"""Help as plain text: the same on a terminal and in a pipe, at most 100 columns, options by group, common ones first."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable
from typing import Any

import typer.core

COMMON, OUTPUT = "Common options", "Output"
"""The first two groups of options: those without a group of their own, and those that every command has."""
_WIDTH, _NARROWEST, _NAMES = 100, 50, 34  # columns of the page, and at most of the names of an option

Row = tuple[str, str]
"""A term and what it means."""


def width() -> int:
    """Columns of a help page: the terminal's, at most 100; 100 where there is no terminal."""
    return max(min(shutil.get_terminal_size((_WIDTH, 24)).columns, _WIDTH), _NARROWEST)


def section(title: str, entries: Iterable[Row], column: int = 0) -> list[str]:
    """Lines of a titled list, with an empty line before it; none where it is empty.

    Args:
        title: of the list.
        entries: terms and their meanings; a term too long for its column has a line of its own.
        column: columns of the terms; 0: those of the longest, at most 34.
    """
    listed = list(entries)
    column = column or min(max((len(term) for term, _ in listed), default=0), _NAMES)
    lines = ["", f"{title}:"] if listed else []
    for term, meaning in listed:
        wrapped = textwrap.wrap(meaning, width() - column - 4, break_on_hyphens=False) or [""]
        lines.append(f"  {term}" if len(term) > column else f"  {term:<{column}}  {wrapped.pop(0)}".rstrip())
        lines += [f"{'':{column + 4}}{line}" for line in wrapped]
    return lines


class Plain:
    """A command whose help is plain text, with its options by group."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write usage, description, example, arguments, and options by group."""
        formatter.write("\n".join([*self.head(ctx), *self.arguments(ctx), *self.options(ctx)]) + "\n")

    def head(self, ctx: Any) -> list[str]:
        """Lines of the usage, the description, and the example."""
        pieces = [_usage(entry) for entry in self.get_params(ctx) if entry.param_type_name == "argument"]  # type: ignore[attr-defined]
        lines = [" ".join([f"Usage: {ctx.command_path}", "[OPTIONS]", *pieces, *self.rest()])]
        text, example = split_example(self.help or "")  # type: ignore[attr-defined]
        for paragraph in filter(None, (" ".join(part.split()) for part in text.split("\n\n"))):
            lines += ["", *textwrap.wrap(paragraph, width(), initial_indent="  ", subsequent_indent="  ")]
        return [*lines, *(["", "Example:", *_shell_lines(example)] if example else [])]

    def rest(self) -> list[str]:
        """What follows the arguments in the usage."""
        return []

    def arguments(self, ctx: Any) -> list[str]:
        """Lines of the arguments."""
        arguments = [entry for entry in self.get_params(ctx) if entry.param_type_name == "argument"]  # type: ignore[attr-defined]
        return section("Arguments", [(re.sub(r"^\[([^][]*)\]$", r"\1", _name(entry)), entry.help or "") for entry in arguments])

    def options(self, ctx: Any) -> list[str]:
        """Lines of the options: the common ones, those of the output, then the other groups."""
        groups = by_group(self.get_params(ctx))  # type: ignore[attr-defined]
        return [line for title, entries in groups.items() for line in section(title, map(_row, entries))]


class PlainGroup(Plain, typer.core.TyperGroup):
    """A group of commands with such help."""

    def rest(self) -> list[str]:
        """The command of the group."""
        return ["COMMAND [ARGS]..."]

    def options(self, ctx: Any) -> list[str]:
        """Lines of the commands, then of the options."""
        listed = [(name, summary(self.commands[name].help or "")) for name in self.list_commands(ctx)]
        return [*section("Commands", listed), *super().options(ctx)]


def by_group(parameters: Iterable[Any]) -> dict[str, list[Any]]:
    """The options among the parameters of a command by the title of their group: common ones, those of the output, others."""
    groups: dict[str, list[Any]] = {COMMON: [], OUTPUT: []}
    for entry in parameters:
        if entry.param_type_name == "option" and not entry.hidden:
            group = OUTPUT if entry.name == "help" else entry.rich_help_panel or COMMON
            groups.setdefault(group, []).append(entry)
    if len(groups[OUTPUT]) == 1:
        groups[COMMON] += groups.pop(OUTPUT)
    if len(groups) <= 2:  # nothing is common where all is
        groups = {"Options" if group == COMMON else group: listed for group, listed in groups.items()}
    return {group: listed for group, listed in groups.items() if listed}


def split_example(text: str) -> tuple[str, str]:
    """The help of a command, and the example at its end, on one line; "" where there is none."""
    before, _, after = text.partition("Example:")
    return before.strip(), " ".join(after.split())


def summary(text: str) -> str:
    """The first sentence of the help of a command."""
    return re.split(r"(?<=\.)\s", " ".join(text.split()), maxsplit=1)[0]


def _shell_lines(command: str) -> list[str]:
    """A shell command in lines that can be copied; an option and its value stay together."""
    parts: list[str] = []
    for word in re.findall(r'(?:[^\s"]|"[^"]*")+', command):
        if parts and not word.startswith("-") and re.fullmatch(r"--?[a-z-]+", parts[-1]):
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    lines = ["  " + parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + 1 <= width() - 2:
            lines[-1] += f" {part}"
        else:
            lines[-1] += " \\"
            lines.append(f"      {part}")
    return lines


def _name(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _usage(argument: Any) -> str:
    name = _name(argument)
    if name.startswith("["):
        return name
    if argument.nargs == -1 and not name.endswith("..."):
        name += "..."
    return name if argument.required else f"[{name}]"


def _row(option: Any) -> Row:
    """Its names and what it means; names that do not fit beside the first are listed after the meaning."""
    letters = [name for name in option.opts if not name.startswith("--")]
    first, *others = [name for name in option.opts if name.startswith("--")]
    value = "" if option.is_flag or option.count else f" {option.metavar or option.name.upper()}"
    off = "".join(f" / {name}" for name in option.secondary_opts)
    names, also = [*letters, first], list[str]()
    for name in others:
        (names if len(", ".join([*names, name]) + value) <= _NAMES else also).append(name)
    default = option.default if option.show_default and not option.is_flag else None
    meaning = [option.help or ""]
    meaning += ["Required."] if option.required else []
    meaning += [f"Default: {default}."] if isinstance(default, str) and default else []
    meaning += [f"Alias{'es' * (len(also) > 1)}: {', '.join(also)}."] if also else []
    return ", ".join(names) + value + off, " ".join(meaning)
