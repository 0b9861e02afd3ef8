"""`roofline limits`: up to which batch, over contexts, and why no further."""

from __future__ import annotations

import typer

from roofline.cli.options import (
    HardwareOption,
    ModelArgument,
    Options,
    TpotLimit,
    TtftLimit,
    changed,
    command_line,
    given,
    takes,
)
from roofline.cli.output import Output, Result
from roofline.cli.tables import markdown_described, print_answer
from roofline.predict.options import DEPLOYMENT, PREFIX, SPECULATION

FIGURES = ("batch-limits", "limit-rates", "variants")


def register(app: typer.Typer) -> None:
    """Add the command."""
    contexts = changed(
        "context",
        help="Numbers of tokens cached before the decode step, such as 1k,4k,32k.",
        metavar="LIST",
        default="1k to the maximum of the model",
    )
    of_prompts = [changed(name, common=False) for name in PREFIX]
    decorate = takes(
        (*DEPLOYMENT, SPECULATION),
        without=("ignore_capacity",),
        changed=(contexts, *of_prompts),
        figures=FIGURES,
        formats=[".html"],
    )
    app.command(name="limits")(decorate(limits))


def limits(
    model: ModelArgument,
    hardware: HardwareOption,
    ttft: TtftLimit = None,
    tpot: TpotLimit = None,
    *,
    options: Options,
    out: Output,
) -> int:
    """Find the maximum batch at each context length and what limits it.

    Considers memory, compute and, with --ttft or --tpot, latency. Exits with code 1 if not even one sequence is possible.

    Example: roofline limits llama-3.1-8b --hardware a100-sxm-80gb --tpot "50 ms"
    """
    from roofline.predict.limits import limits as compute

    query = given({"ttft": ttft, "tpot": tpot, **options})
    result = compute(model, hardware, **query)
    from roofline.report import limits as text

    lines, tables = text.sentences(result), text.tables(result)

    line = command_line("limits", model, hardware, query)

    def page() -> str:
        return text.limits_page(result, line)

    def show() -> None:
        print_answer(text.answer(result), out.verbosity)

    formats = {".md": lambda: markdown_described(result, lines, tables), ".html": page}
    out.emit(Result(result.to_dict(), result.flat, show, formats, lambda: result, line))
    if result.possible:
        return 0
    out.verdict(lines[0])
    return 1
