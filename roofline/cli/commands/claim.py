"""`roofline claim`: is a number that somebody states possible?"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from roofline.cli import complete
from roofline.cli.options import JsonOption, Options, OutputOption, QuietOption, changed, own, takes
from roofline.cli.places import Command
from roofline.predict.options import DEPLOYMENT, PARALLELISM, WORKLOAD

CLAIM = "What is claimed"


def register(app: typer.Typer) -> None:
    """Add the command."""
    stated = (
        changed("phase", help="Which tokens the rate counts.", choices=("decode", "prefill"), metavar="decode|prefill",
                default="decode", group=CLAIM),
        changed("peak_flops", help='A dense peak of the hardware, "989 TFLOP/s".', group=CLAIM),
        changed("batch", default="the most favourable"),
        changed("input_len", default=""),
        changed("context", help="Tokens cached before the step.", default="input-len, or the shortest"),
    )  # fmt: skip
    without = ("segments", "assume", "ignore_capacity")
    app.command(name="claim", cls=_Command)(takes((WORKLOAD, *DEPLOYMENT), without=without, changed=stated)(claim))


class _Command(Command):
    """A command whose help ends with the grammar, which is read only when help is shown."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The usual help, then the grammar; with boxes the former is printed already."""
        from roofline.audit.claims.grammar import grammar

        super().format_help(ctx, formatter)
        formatter.write(f"\n{grammar()}\n")


def claim(  # noqa: PLR0917 - a flag each
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar='["TEXT"] [MODEL]', help="The claim in words, a model, or both.", autocompletion=complete.models
        ),
    ] = None,
    hardware: Annotated[
        str | None, typer.Option("--hardware", "-H", metavar="HW", help="Id or YAML file.", autocompletion=complete.hardware)
    ] = None,
    tokens_per_s: Annotated[
        str | None, own("--tokens-per-s", text="Tokens a second, of the whole batch.", panel=CLAIM, metavar="X")
    ] = None,
    per_user: Annotated[bool, typer.Option("--per-user", help="The rate is that of one user.", rich_help_panel=CLAIM)] = False,
    per_gpu: Annotated[bool, typer.Option("--per-gpu", help="The rate is that of one device.", rich_help_panel=CLAIM)] = False,
    ttft: Annotated[str | None, own("--ttft", text='Time to first token, "10 ms".', panel=CLAIM, metavar="T")] = None,
    tpot: Annotated[str | None, own("--tpot", text='Time per output token, "7 ms".', panel=CLAIM, metavar="T")] = None,
    fits: Annotated[bool, typer.Option("--fits", help="That it fits in memory.", rich_help_panel=CLAIM)] = False,
    devices: Annotated[
        str | None,
        own(
            "--devices",
            text="Devices, divided in the kindest way where no size is given.",
            panel=PARALLELISM,
            metavar="N",
        ),
    ] = None,
    *,
    options: Options,
    json: JsonOption = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """Whether a number is possible, implausible or impossible, why, and which usual mistakes would give it.

    Exit code 1 when it is impossible. What is left unsaid is read in the kindest way. Example: roofline claim
    "llama-3.1-8b on a100-sxm-80gb: 3500 tok/s at batch 1 fp16"
    """
    given: dict[str, Any] = {**locals(), **options}
    for name in ("words", "hardware", "options", "json", "output", "quiet"):
        given.pop(name)
    from roofline.cli import claims
    from roofline.cli.output import emit

    asked = {name: value for name, value in given.items() if value not in (None, False)}
    answer, code = claims.answer(words or [], hardware, asked)
    emit(answer, json=json, output=output, quiet=quiet)
    return code
