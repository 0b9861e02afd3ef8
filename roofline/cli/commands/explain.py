"""`roofline explain`: a number's formula in symbols, with numbers put in, and where it comes from."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli import complete
from roofline.cli.options import DEPLOYMENT, HARDWARE, WORKLOAD, JsonOption, ModelArgument, OutputOption, QuietOption, option

Text = str | None


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="explain")(explain)


def explain(  # noqa: PLR0917 - a flag each
    model: ModelArgument,
    subject: Annotated[
        Text, typer.Argument(metavar="[QUANTITY|PATH]", help="A quantity, or the path of an operator. Default: a list.")
    ] = None,
    hardware: Annotated[
        Text, typer.Option("--hardware", "-H", metavar="HW", help="Id or YAML file.", autocompletion=complete.hardware)
    ] = None,
    format: Annotated[str, typer.Option("--format", help="text, latex or json.")] = "text",
    batch: Annotated[Text, option("--batch", "-b", text="Sequences. Default: 1.", panel=WORKLOAD, metavar="N")] = None,
    input_len: Annotated[
        Text, option("--input-len", text="Prompt tokens a sequence. Default: 1024.", panel=WORKLOAD, metavar="N")
    ] = None,
    context: Annotated[
        Text, option("--context", text="Tokens cached before the step. Default: input-len.", panel=WORKLOAD, metavar="N")
    ] = None,
    phase: Annotated[
        Text, option("--phase", text="prefill or decode. Default: decode.", panel=WORKLOAD, metavar="PHASE")
    ] = None,
    dtype: Annotated[Text, option("--dtype", text="Of all weights.", panel=DEPLOYMENT, metavar="DTYPE")] = None,
    activation_dtype: Annotated[
        Text, option("--activation-dtype", text="Of activations.", panel=DEPLOYMENT, metavar="DTYPE")
    ] = None,
    kv_cache_dtype: Annotated[
        Text, option("--kv-cache-dtype", text="Of the KV cache.", panel=DEPLOYMENT, metavar="DTYPE")
    ] = None,
    quantization: Annotated[
        Text, option("--quantization", text="Scheme of the linear layers.", panel=DEPLOYMENT, metavar="NAME")
    ] = None,
    tensor_parallel_size: Annotated[
        Text, option("--tensor-parallel-size", "--tp", text="Default: 1.", panel=DEPLOYMENT, metavar="N")
    ] = None,
    pipeline_parallel_size: Annotated[
        Text, option("--pipeline-parallel-size", "--pp", text="Default: 1.", panel=DEPLOYMENT, metavar="N")
    ] = None,
    data_parallel_size: Annotated[
        Text, option("--data-parallel-size", "--dp", text="Default: 1.", panel=DEPLOYMENT, metavar="N")
    ] = None,
    expert_parallel_size: Annotated[
        Text, option("--expert-parallel-size", "--ep", text="Default: 1.", panel=DEPLOYMENT, metavar="N")
    ] = None,
    gpu_memory_utilization: Annotated[
        Text,
        option("--gpu-memory-utilization", text="Share of memory that the engine uses.", panel=DEPLOYMENT, metavar="SHARE"),
    ] = None,
    reserve: Annotated[
        Text, option("--reserve", text='Memory kept free, such as "2 GiB".', panel=DEPLOYMENT, metavar="BYTES")
    ] = None,
    block_size: Annotated[
        Text, option("--block-size", text="Tokens in a block of the KV cache.", panel=DEPLOYMENT, metavar="N")
    ] = None,
    engine: Annotated[Text, option("--engine", text="NAME or NAME@VERSION.", panel=DEPLOYMENT, metavar="NAME")] = None,
    peak_flops: Annotated[Text, option("--peak-flops", text='"312 TFLOP/s".', panel=HARDWARE, metavar="RATE")] = None,
    bandwidth: Annotated[Text, option("--bandwidth", text='"2039 GB/s".', panel=HARDWARE, metavar="RATE")] = None,
    memory: Annotated[Text, option("--memory", text='"80 GiB".', panel=HARDWARE, metavar="BYTES")] = None,
    mla: Annotated[Text, option("--mla", text="auto, expand or absorb.", panel=WORKLOAD, metavar="FORM")] = None,
    mask: Annotated[Text, option("--mask", text="causal or full.", panel=WORKLOAD, metavar="MASK")] = None,
    json: JsonOption = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> None:
    """Where a number comes from: formula, numbers put in, value, source.

    Quantities: kv_bytes_per_token, arithmetic_intensity, ridge_point, critical_batch, max_batch, max_context, decode_floor,
    parameters. Example: roofline explain llama-3.1-8b critical_batch --hardware a100-sxm-80gb
    """  # fmt: skip
    options = {name: value for name, value in locals().items() if value is not None}
    for name in ("model", "subject", "hardware", "format", "json", "output", "quiet"):
        options.pop(name, None)
    from roofline.cli.formulas import explain_one, list_subjects
    from roofline.cli.output import emit

    answer = list_subjects(model) if subject is None else explain_one(model, subject, hardware, options, format)
    emit(answer, json=json, output=output, quiet=quiet)
