"""`roofline worksheet`: problems that compute their own answers."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli import options


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="worksheet")(worksheet)


def worksheet(  # noqa: PLR0917 - a flag each
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPIC",
            help="transformer, kv-cache, roofline, batching, measured, moe, preemption or serving.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        str | None, typer.Option("--seed", metavar="N", help="Which numbers. Default: 0.", show_default=False)
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", metavar="A..B", help="A class set: a sheet a seed, and key.csv, in the folder that -o names."),
    ] = None,
    answers: Annotated[bool, typer.Option("--answers", help="With solutions and the usual mistakes.")] = False,
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMAT", help="html, md or notebook. Default: by the suffix of -o, else md."),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="The templates of each topic, and no sheet.")] = False,
    json: options.JsonOption = False,
    output: options.OutputOption = None,
    quiet: options.QuietOption = False,
) -> int:
    """A sheet of problems whose answers the toolkit computes; as a page it checks them and says what is off.

    The same seed and version give the same sheet, everywhere. Example:
    roofline worksheet kv-cache --seed 7 -o kv-cache.html
    """
    from roofline.cli import worksheeting

    asked = worksheeting.Asked(topic=topic, seed=seed, seeds=seeds, answers=answers, form=form, listed=listed)
    return worksheeting.answer(asked, json=json, output=output, quiet=quiet)
