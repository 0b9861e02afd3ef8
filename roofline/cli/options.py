"""Arguments and options that several commands share. Values stay text: they are read, with their units, by the request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from roofline.cli import complete

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="Id or YAML file.", autocompletion=complete.models)]
HardwareOption = Annotated[
    str, typer.Option("--hardware", "-H", metavar="HW", help="Id or YAML file.", autocompletion=complete.hardware)
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to FILE; its suffix says the format.", dir_okay=True),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No messages on stderr but errors.")]

WORKLOAD, DEPLOYMENT, HARDWARE, COUNTING = "Workload", "Deployment", "In place of the hardware's figures", "Counting"


def option(*names: str, text: str, panel: str, metavar: str | None = None) -> Any:
    """An optional value, as text."""
    return typer.Option(*names, help=text, metavar=metavar, rich_help_panel=panel, show_default=False)
