"""`roofline limits`: up to which batch, over contexts, and why no further."""

from __future__ import annotations

import typer

from roofline.cli.options import (
    HardwareOption,
    JsonOption,
    ModelArgument,
    Options,
    OutputOption,
    QuietOption,
    TpotLimit,
    TtftLimit,
    changed,
    takes,
)
from roofline.predict.options import DEPLOYMENT, SPECULATION


def register(app: typer.Typer) -> None:
    """Add the command."""
    contexts = changed(
        "context", help="Tokens cached before the decode step: 1k,4k,32k.", metavar="LIST", default="1k to the model's longest"
    )
    app.command(name="limits")(takes((*DEPLOYMENT, SPECULATION), without=("ignore_capacity",), changed=(contexts,))(limits))


def limits(
    model: ModelArgument,
    hardware: HardwareOption,
    ttft: TtftLimit = None,
    tpot: TpotLimit = None,
    *,
    options: Options,
    json: JsonOption = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """Batch limits over contexts: what memory holds, where compute binds, what an SLO allows, and which is met first.

    Exit code 1 when at no context a sequence fits and is quick enough. Example:
    roofline limits llama-3.1-8b --hardware a100-sxm-80gb --tpot "50 ms"
    """
    from roofline.cli import limits as answers

    given = {name: value for name, value in {"ttft": ttft, "tpot": tpot, **options}.items() if value is not None}
    return answers.answer(model, hardware, given, json=json, output=output, quiet=quiet)
