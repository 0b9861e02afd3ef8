"""`roofline preempt`: an evicted sequence, recomputed or swapped out and in."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli.options import HardwareOption, ModelArgument, Options, changed, command_line, takes
from roofline.cli.output import Output, Result
from roofline.cli.tables import markdown_described, print_answer
from roofline.predict.options import DEPLOYMENT
from roofline.serving.options import COPIES

_MEANWHILE = "Other sequences"
FIGURES = ("costs", "blocks", "chunks")


def register(app: typer.Typer) -> None:
    """Add the command."""
    meanwhile = (
        changed(
            "batch", help="Number of other sequences that run at the same time.", default="0", group=_MEANWHILE, common=False
        ),
        changed(
            "context",
            help="Number of cached tokens of each other sequence.",
            default="same as --tokens",
            group=_MEANWHILE,
            common=False,
        ),
    )
    stays = (
        changed(
            "prefix_hit", help="Fraction of --tokens shared with other sequences; it stays in device memory.", common=False
        ),
        changed("cached_prefix"),
    )
    without = ("max_num_seqs", "enable_prefix_caching")
    app.command(name="preempt")(
        takes(
            DEPLOYMENT, first=COPIES.values(), without=without, changed=(*meanwhile, *stays), figures=FIGURES, formats=[".html"]
        )(preempt)
    )


def preempt(
    model: ModelArgument,
    hardware: HardwareOption,
    tokens: Annotated[
        str, typer.Option("--tokens", metavar="N", help="Number of cached tokens of the preempted sequence; 8k is 8192.")
    ],
    *,
    options: Options,
    out: Output,
) -> int:
    """Compare recomputing a preempted sequence with swapping it.

    To swap a sequence is to copy its KV cache to the host and back. Exits with code 1 if the sequence does not fit on the
    device.

    Example: roofline preempt llama-3.1-8b --hardware a100-sxm-80gb --tokens 2048 --coalesced
    """
    query = {"tokens": tokens, **options}
    from roofline.report import preemption_summary
    from roofline.serving.preemption.preempt import preempt as compute

    result = compute(model, hardware, **query)
    line = command_line("preempt", model, hardware, query)

    def page() -> str:
        from roofline.report.preemption_page import preemption_page

        return preemption_page(result, line)

    def markdown() -> str:
        return markdown_described(result, preemption_summary.sentences(result), preemption_summary.tables(result))

    formats = {".md": markdown, ".html": page}

    def show() -> None:
        print_answer(preemption_summary.answer(result), out.verbosity)

    out.emit(Result(result.to_dict(), result.flat, show, formats, lambda: result, line))
    if result.comparison is not None:
        return 0
    out.verdict(preemption_summary.verdict(result))
    return 1
