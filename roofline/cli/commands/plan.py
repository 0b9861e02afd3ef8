"""`roofline plan`: which hardware, how many, which flags, at what cost, for a traffic and its objectives."""

from __future__ import annotations

import typer

from roofline.cli import options
from roofline.cli import plan_options as plans


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="plan")(plan)


def plan(  # noqa: PLR0917 - a flag each
    model: plans.ModelArgument = None,
    rate: plans.Rate = None,
    concurrency: plans.Concurrency = None,
    input_len: plans.InputLen = None,
    output_len: plans.OutputLen = None,
    trace: plans.Trace = None,
    skip_bad_rows: plans.SkipBadRows = False,
    traffic: plans.TrafficFile = None,
    prefix_hit: plans.PrefixHit = None,
    burstiness: plans.Burstiness = None,
    peak_factor: plans.PeakFactor = None,
    profile: plans.Profile = None,
    ttft: plans.Ttft = None,
    tpot: plans.Tpot = None,
    percentile: plans.Percentile = None,
    hardware: plans.Hardware = None,
    rank: plans.Rank = None,
    mode: plans.Mode = None,
    top: plans.Top = None,
    check: plans.Check = None,
    replicas: plans.Replicas = None,
    price: plans.Price = None,
    max_gpus: plans.MaxGpus = None,
    max_cost: plans.MaxCost = None,
    inventory: plans.Inventory = None,
    spare: plans.Spare = None,
    pue: plans.Pue = None,
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
    expert_imbalance: options.ExpertImbalance = None,
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
    mla: options.Mla = None,
    routing_skew: options.RoutingSkew = None,
    json: options.JsonOption = False,
    output: options.OutputOption = None,
    quiet: options.QuietOption = False,
) -> int:
    """Plan capacity: deployments that serve a traffic within its objectives, best first.

    What is given of a deployment (--tp, --dtype, ...) is not searched. Exit code 1 when nothing serves it. Example:
    roofline plan llama-3.1-8b --rate 50 --input-len lognormal:1155:900 --output-len 211 --ttft "2 s" --tpot "50 ms"
    """
    given = dict(locals())
    for name in ("model", "json", "output", "quiet"):
        given.pop(name)
    from roofline.cli import planning

    given = {name: value for name, value in given.items() if value not in (None, False, [])}
    return planning.answer(model, given, json=json, output=output, quiet=quiet)
