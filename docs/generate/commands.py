"""The reference of the command line, from the application: every command, its arguments and options by panel."""

from __future__ import annotations

import re
from typing import Any

import typer

from generate.docstring import prose
from generate.table import table, toctree
from roofline.cli.app import app
from roofline.cli.help import by_group, split_example
from roofline.predict.explain import QUANTITIES

_HEAD = """\
# Command line

`roofline COMMAND --help` shows the same. The result goes to stdout, messages and errors to stderr. `--json` prints one object
in base units; `-o FILE` writes the format that the suffix names. Quantities carry a unit (`"50 ms"`, `"2 TB/s"`), and `8k`
tokens are 8192.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the answer is no: it does not fit, an objective is missed, a check failed |
| 2 | bad usage or bad input: the message says what is wrong and what is allowed |
| 3 | an optional extra is not installed |
| 4 | a measurement was interrupted |
"""


def pages() -> dict[str, str]:
    """A page a command, and their index."""
    found, rows = {}, []
    for name, command in commands().items():
        found[f"cli/{name}.md"] = _page(name, command)
        rows.append([f"[`roofline {name}`]({name}.md)", prose(_about(command))])
    found["cli/explain.md"] += _quantities()
    index = "\n".join([_HEAD, table(["command", "answer"], rows), "", toctree(commands()), ""])
    return {"cli/index.md": index, **found}


def _quantities() -> str:
    """What can be explained besides the operators, as a section of the page of `explain`."""
    rows = [
        [f"`{name}`", one.group, prose(one.about), "yes" if one.timed else "", "yes" if one.needs_hardware else ""]
        for name, one in QUANTITIES.items()
    ]
    head = ["quantity", "group", "meaning", "bound, floor, estimate", "needs --hardware"]
    return f"\n## Quantities\n\n{table(head, rows)}\n"


def commands() -> dict[str, Any]:
    """Commands and groups by name, in order."""
    return dict(sorted(typer.main.get_command(app).commands.items()))  # type: ignore[attr-defined]


def _about(command: Any) -> str:
    return (command.help or "").strip().split("\n\n")[0]


def _page(name: str, command: Any) -> str:
    inside = getattr(command, "commands", None)
    if inside is None:
        return "\n\n".join([f"# roofline {name}", *_command(f"roofline {name}", command, "##")]) + "\n"
    parts = [f"# roofline {name}", prose(command.help or "")]
    for below, sub in inside.items():
        parts += [f"## roofline {name} {below}", *_command(f"roofline {name} {below}", sub, "###")]
    return "\n\n".join(parts) + "\n"


def _command(name: str, command: Any, level: str) -> list[str]:
    """Usage, help, example, arguments and options."""
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    arguments = [parameter for parameter in shown if parameter.param_type_name == "argument"]
    options = [parameter for parameter in shown if parameter.param_type_name == "option" and parameter.name != "help"]
    usage = " ".join([name, *(_argument(one) for one in arguments), *(["[OPTIONS]"] if options else [])])
    text, example = split_example(command.help or "")
    parts = [f"```text\n{usage}\n```", *(prose(block) for block in text.split("\n\n") if block.strip())]
    if example:
        parts.append(f"```sh\n{example}\n```")
    if arguments:
        rows = [[f"`{one.metavar or one.name.upper()}`", prose(one.help or "")] for one in arguments]
        parts += [f"{level} Arguments", table(["argument", "meaning"], rows)]
    for panel, members in by_group(options).items():
        parts += [f"{level} {panel}", table(["option", "meaning"], [[_option(one), _help(one)] for one in members])]
    return parts


def _argument(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    if name.startswith("["):
        return str(name)
    many = "..." if parameter.nargs == -1 else ""
    return f"{name}{many}" if parameter.required else f"[{name}]{many}"


def _option(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in parameter.opts)
    off = f" / `{'`, `'.join(parameter.secondary_opts)}`" if parameter.secondary_opts else ""
    value = "" if parameter.is_flag or parameter.count else f" *{_escape(parameter.metavar or 'VALUE')}*"
    return names + off + value


def _escape(text: str) -> str:
    return re.sub(r"([*_\[\]<>|])", r"\\\1", text)


def _help(parameter: Any) -> str:
    default = parameter.default
    known = parameter.show_default and not parameter.is_flag and default not in (None, ()) and not callable(default)
    text = prose(parameter.help or "")
    return f"{text} Default: `{default}`." if known else text
