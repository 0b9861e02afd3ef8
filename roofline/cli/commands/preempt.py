"""`roofline preempt`: an evicted sequence, recomputed or swapped out and in."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli import copy_options, options

BESIDE = "Beside"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="preempt")(preempt)


def preempt(  # noqa: PLR0917 - a flag each
    model: options.ModelArgument,
    hardware: options.HardwareOption,
    tokens: Annotated[str, typer.Option("--tokens", metavar="N", help="Of the evicted sequence; 8k = 8192.")],
    host_link: copy_options.HostLink = None,
    pinned: copy_options.Pinned = True,
    coalesced: copy_options.Coalesced = False,
    overlapped: Annotated[
        bool,
        typer.Option("--overlapped", help="Copies run beside the kernels of others.", rich_help_panel=copy_options.COPIES),
    ] = False,
    gpus_per_link: copy_options.GpusPerLink = None,
    host_memory: copy_options.HostMemory = None,
    batch: Annotated[
        str | None,
        options.option("--batch", "-b", text="Sequences that run meanwhile. Default: 0.", panel=BESIDE, metavar="N"),
    ] = None,
    context: Annotated[
        str | None,
        options.option("--context", text="Cached tokens of each of them. Default: tokens.", panel=BESIDE, metavar="N"),
    ] = None,
    assume: options.Assume = None,
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
    json: options.JsonOption = False,
    output: options.OutputOption = None,
    quiet: options.QuietOption = False,
) -> int:
    """An evicted sequence: recompute its cache, or swap it out to the host and in again; where the two cost the same.

    Exit code 1 when the device cannot hold the sequence. Example:
    roofline preempt llama-3.1-8b --hardware a100-sxm-80gb --tokens 2048 --coalesced
    """
    given = dict(locals())
    for name in ("model", "hardware", "pinned", "json", "output", "quiet"):
        given.pop(name)
    from roofline.cli import preemption

    given = {name: value for name, value in given.items() if value not in (None, False)}
    return preemption.answer(model, hardware, {**given, "pinned": pinned}, json=json, output=output, quiet=quiet)
