"""`roofline preempt`: an evicted sequence, recomputed or swapped out and in."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli.options import HardwareOption, ModelArgument, Options, changed, command_line, takes
from roofline.cli.output import Output, Result
from roofline.cli.tables import markdown_described, print_described
from roofline.predict.options import DEPLOYMENT
from roofline.serving.options import COPIES

_MEANWHILE = "Meanwhile"


def register(app: typer.Typer) -> None:
    """Add the command."""
    meanwhile = (
        changed("batch", help="Sequences that run meanwhile.", default="0", group=_MEANWHILE),
        changed("context", help="Cached tokens of each of them.", default="tokens", group=_MEANWHILE),
    )
    without = ("max_num_seqs", "enable_prefix_caching")
    app.command(name="preempt")(takes(DEPLOYMENT, first=COPIES.values(), without=without, changed=meanwhile)(preempt))


def preempt(
    model: ModelArgument,
    hardware: HardwareOption,
    tokens: Annotated[str, typer.Option("--tokens", metavar="N", help="Of the evicted sequence; 8k = 8192.")],
    *,
    options: Options,
    out: Output,
) -> int:
    """An evicted sequence: recompute its cache, or swap it out to the host and in again; where the two cost the same.

    Exit code 1 when the device cannot hold the sequence. Example:
    roofline preempt llama-3.1-8b --hardware a100-sxm-80gb --tokens 2048 --coalesced
    """
    query = {"tokens": tokens, **options}
    from roofline.report.preemption_summary import sentences, tables
    from roofline.serving.preemption.preempt import preempt as compute

    result = compute(model, hardware, **query)

    def page() -> str:
        from roofline.report.preemption_page import preemption_page

        return preemption_page(result, command_line("preempt", model, hardware, query))

    lines = sentences(result)
    formats = {".md": lambda: markdown_described(result, lines, tables(result)), ".html": page}
    out.emit(Result(result.to_dict(), result.flat, lambda: print_described(result, lines, tables(result)), formats))
    if result.comparison is not None:
        return 0
    out.verdict(lines[0])
    return 1
