"""`roofline explain`: a number's formula in symbols, with numbers put in, and where it comes from."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli import complete
from roofline.cli.options import JsonOption, ModelArgument, Options, OutputOption, QuietOption, takes
from roofline.predict.options import DEPLOYMENT, WORKLOAD

Text = str | None


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="explain")(takes((WORKLOAD, *DEPLOYMENT), without=("segments",))(explain))


def explain(
    model: ModelArgument,
    subject: Annotated[
        Text, typer.Argument(metavar="[QUANTITY|PATH]", help="A quantity, or the path of an operator. Default: a list.")
    ] = None,
    hardware: Annotated[
        Text, typer.Option("--hardware", "-H", metavar="HW", help="Id or YAML file.", autocompletion=complete.hardware)
    ] = None,
    format: Annotated[str, typer.Option("--format", help="text, latex or json.")] = "text",
    *,
    options: Options,
    json: JsonOption = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> None:
    """Where a number comes from: formula, numbers put in, value, source.

    Quantities: kv_bytes_per_token, arithmetic_intensity, ridge_point, critical_batch, max_batch, max_context, decode_floor,
    break_even_link, parameters. Example: roofline explain llama-3.1-8b critical_batch --hardware a100-sxm-80gb
    """  # fmt: skip
    from roofline.cli.formulas import explain_one, list_subjects
    from roofline.cli.output import emit

    answer = (
        list_subjects(model, options.get("assume"))
        if subject is None
        else explain_one(model, subject, hardware, options, format)
    )
    emit(answer, json=json, output=output, quiet=quiet)
