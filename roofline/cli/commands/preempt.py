"""`roofline preempt`: an evicted sequence, recomputed or swapped out and in."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli import options

COPIES, BESIDE = "Copies", "Beside"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="preempt")(preempt)


def preempt(  # noqa: PLR0917 - a flag each
    model: options.ModelArgument,
    hardware: options.HardwareOption,
    tokens: Annotated[str, typer.Option("--tokens", metavar="N", help="Of the evicted sequence; 8k = 8192.")],
    host_link: Annotated[
        str | None,
        options.option(
            "--host-link", text='What large copies reach in one direction: "25 GB/s".', panel=COPIES, metavar="RATE"
        ),
    ] = None,
    pinned: Annotated[
        bool, typer.Option("--pinned/--pageable", help="Whether the host's memory is page-locked.", rich_help_panel=COPIES)
    ] = True,
    coalesced: Annotated[
        bool, typer.Option("--coalesced", help="Blocks are gathered: one call each way.", rich_help_panel=COPIES)
    ] = False,
    overlapped: Annotated[
        bool, typer.Option("--overlapped", help="Copies run beside the kernels of others.", rich_help_panel=COPIES)
    ] = False,
    gpus_per_link: Annotated[
        str | None,
        options.option("--gpus-per-link", text="Devices behind one link to the host. Default: 1.", panel=COPIES, metavar="N"),
    ] = None,
    host_memory: Annotated[
        str | None,
        options.option(
            "--host-memory",
            text="For evicted sequences of a replica. Default: the node's share.",
            panel=COPIES,
            metavar="BYTES",
        ),
    ] = None,
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
