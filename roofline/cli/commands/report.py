"""`roofline report`: a page of its own, with controls that compute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofline.cli import complete, options


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="report")(report)


def report(  # noqa: PLR0917 - a flag each
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL", help="Id, YAML file, config.json or its folder, or org/name.", autocompletion=complete.models
        ),
    ] = None,
    hardware: Annotated[
        list[str] | None,
        typer.Option(
            "--hardware", "-H", metavar="HW", help="Id or YAML file; several side by side.", autocompletion=complete.hardware
        ),
    ] = None,
    calculator: Annotated[
        bool, typer.Option("--calculator", help="A page in which any shipped model and hardware can be chosen.")
    ] = False,
    saved: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="RESULT", help="The page of what `analyze` has written as JSON, or `sweep` as a folder or file."
        ),
    ] = None,
    assume: options.Assume = None,
    batch: options.Batch = None,
    input_len: options.InputLen = None,
    output_len: options.OutputLen = None,
    context: options.Context = None,
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
    max_model_len: options.MaxModelLen = None,
    max_num_seqs: options.MaxNumSeqs = None,
    max_num_batched_tokens: options.MaxNumBatchedTokens = None,
    gpu_memory_utilization: options.GpuMemoryUtilization = None,
    reserve: options.Reserve = None,
    block_size: options.BlockSize = None,
    engine: options.Engine = None,
    backend: options.Backend = None,
    peak_flops: options.PeakFlops = None,
    bandwidth: options.Bandwidth = None,
    memory: options.Memory = None,
    mask: options.Mask = None,
    attention: options.Attention = None,
    logits: options.Logits = None,
    mla: options.Mla = None,
    routing_skew: options.RoutingSkew = None,
    expert_imbalance: options.ExpertImbalance = None,
    shared_prefix: options.SharedPrefix = None,
    ignore_capacity: options.IgnoreCapacity = False,
    output: options.OutputOption = None,
    quiet: options.QuietOption = False,
) -> int:
    """One HTML file that works without a network: the answer, figures, and controls that compute in the browser.

    Example: roofline report llama-3.1-8b --hardware a100-sxm-80gb --hardware h200-sxm -o report.html
    """
    given = dict(locals())
    for name in ("model", "hardware", "calculator", "saved", "output", "quiet"):
        given.pop(name)
    from roofline.cli import pages

    given = {name: value for name, value in given.items() if value not in (None, False)}
    pages.write(model, hardware or [], given, calculator=calculator, saved=saved, output=output, quiet=quiet)
    return 0
