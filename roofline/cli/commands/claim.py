"""`roofline claim`: is a number that somebody states possible?"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from roofline.cli import complete, options
from roofline.cli.places import Command

CLAIM = "What is claimed"
_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "expert_parallel_size")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="claim", cls=_Command)(claim)


class _Command(Command):
    """A command whose help ends with the grammar, which is read only when help is shown."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The usual help, then the grammar; with boxes the former is printed already."""
        from roofline.claims.text.read import grammar

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
        str | None, options.option("--tokens-per-s", text="Tokens a second, of the whole batch.", panel=CLAIM, metavar="X")
    ] = None,
    per_user: Annotated[bool, typer.Option("--per-user", help="The rate is that of one user.", rich_help_panel=CLAIM)] = False,
    per_gpu: Annotated[bool, typer.Option("--per-gpu", help="The rate is that of one device.", rich_help_panel=CLAIM)] = False,
    phase: Annotated[
        str | None,
        options.option(
            "--phase", text="Which tokens the rate counts: decode or prefill. Default: decode.", panel=CLAIM, metavar="PHASE"
        ),
    ] = None,
    ttft: Annotated[
        str | None, options.option("--ttft", text='Time to first token, "10 ms".', panel=CLAIM, metavar="T")
    ] = None,
    tpot: Annotated[
        str | None, options.option("--tpot", text='Time per output token, "7 ms".', panel=CLAIM, metavar="T")
    ] = None,
    fits: Annotated[bool, typer.Option("--fits", help="That it fits in memory.", rich_help_panel=CLAIM)] = False,
    peak_flops: Annotated[
        str | None,
        options.option("--peak-flops", text='A dense peak of the hardware, "989 TFLOP/s".', panel=CLAIM, metavar="RATE"),
    ] = None,
    batch: Annotated[
        str | None,
        options.option(
            "--batch",
            "-b",
            text="Sequences in the whole deployment. Default: the kindest.",
            panel=options.WORKLOAD,
            metavar="N",
        ),
    ] = None,
    input_len: Annotated[
        str | None,
        options.option("--input-len", text="Prompt tokens a sequence; 8k = 8192.", panel=options.WORKLOAD, metavar="N"),
    ] = None,
    output_len: Annotated[
        str | None, options.option("--output-len", text="Generated tokens a sequence.", panel=options.WORKLOAD, metavar="N")
    ] = None,
    context: Annotated[
        str | None,
        options.option(
            "--context",
            text="Tokens cached before the step. Default: input-len, or the shortest.",
            panel=options.WORKLOAD,
            metavar="N",
        ),
    ] = None,
    dtype: options.Dtype = None,
    kv_cache_dtype: options.KvCacheDtype = None,
    quantization: options.Quantization = None,
    tensor_parallel_size: options.TensorParallelSize = None,
    pipeline_parallel_size: options.PipelineParallelSize = None,
    data_parallel_size: options.DataParallelSize = None,
    expert_parallel_size: options.ExpertParallelSize = None,
    devices: Annotated[
        str | None,
        options.option(
            "--devices",
            text="Devices, divided in the kindest way where no size is given.",
            panel=options.DEPLOYMENT,
            metavar="N",
        ),
    ] = None,
    json: options.JsonOption = False,
    output: options.OutputOption = None,
    quiet: options.QuietOption = False,
) -> int:
    """Whether a number is possible, implausible or impossible, why, and which usual mistakes would give it.

    Exit code 1 when it is impossible. What is left unsaid is read in the kindest way. Example: roofline claim
    "llama-3.1-8b on a100-sxm-80gb: 3500 tok/s at batch 1 fp16"
    """
    given: dict[str, Any] = dict(locals())
    for name in ("words", "hardware", "json", "output", "quiet"):
        given.pop(name)
    from roofline.cli import claims
    from roofline.cli.output import emit

    asked = {name: value for name, value in given.items() if value not in (None, False)}
    answer, code = claims.answer(words or [], hardware, asked)
    emit(answer, json=json, output=output, quiet=quiet)
    return code
