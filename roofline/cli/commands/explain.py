"""`roofline explain`: a number's formula in symbols, with numbers put in, and where it comes from."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli import complete, options

Text = str | None


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="explain")(explain)


def explain(  # noqa: PLR0917 - a flag each
    model: options.ModelArgument,
    subject: Annotated[
        Text, typer.Argument(metavar="[QUANTITY|PATH]", help="A quantity, or the path of an operator. Default: a list.")
    ] = None,
    hardware: Annotated[
        Text, typer.Option("--hardware", "-H", metavar="HW", help="Id or YAML file.", autocompletion=complete.hardware)
    ] = None,
    format: Annotated[str, typer.Option("--format", help="text, latex or json.")] = "text",
    assume: options.Assume = None,
    batch: options.Batch = None,
    input_len: options.InputLen = None,
    context: options.Context = None,
    phase: options.Phase = None,
    dtype: options.Dtype = None,
    activation_dtype: options.ActivationDtype = None,
    kv_cache_dtype: options.KvCacheDtype = None,
    mamba_ssm_cache_dtype: options.MambaSsmCacheDtype = None,
    quantization: options.Quantization = None,
    tensor_parallel_size: options.TensorParallelSize = None,
    pipeline_parallel_size: options.PipelineParallelSize = None,
    data_parallel_size: options.DataParallelSize = None,
    expert_parallel_size: options.ExpertParallelSize = None,
    context_parallel_size: options.ContextParallelSize = None,
    sequence_parallel: options.SequenceParallel = False,
    gpu_memory_utilization: options.GpuMemoryUtilization = None,
    reserve: options.Reserve = None,
    block_size: options.BlockSize = None,
    engine: options.Engine = None,
    peak_flops: options.PeakFlops = None,
    bandwidth: options.Bandwidth = None,
    memory: options.Memory = None,
    mla: options.Mla = None,
    mask: options.Mask = None,
    json: options.JsonOption = False,
    output: options.OutputOption = None,
    quiet: options.QuietOption = False,
) -> None:
    """Where a number comes from: formula, numbers put in, value, source.

    Quantities: kv_bytes_per_token, arithmetic_intensity, ridge_point, critical_batch, max_batch, max_context, decode_floor,
    break_even_link, parameters. Example: roofline explain llama-3.1-8b critical_batch --hardware a100-sxm-80gb
    """  # fmt: skip
    given = {name: value for name, value in locals().items() if value is not None}
    for name in ("model", "subject", "hardware", "format", "json", "output", "quiet"):
        given.pop(name, None)
    from roofline.cli.formulas import explain_one, list_subjects
    from roofline.cli.output import emit

    answer = list_subjects(model, assume) if subject is None else explain_one(model, subject, hardware, given, format)
    emit(answer, json=json, output=output, quiet=quiet)
