"""`roofline simulate`: what becomes of the requests of a workload on a deployment, one event after another."""

from __future__ import annotations

import typer

from roofline.cli import copy_options, options, plan_options
from roofline.cli import simulate_options as own


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="simulate")(simulate)


def simulate(  # noqa: PLR0917 - a flag each
    model: options.ModelArgument,
    hardware: options.HardwareOption,
    trace: own.Trace = None,
    workload: own.Workload = None,
    rate: own.Rate = None,
    input_len: plan_options.InputLen = None,
    output_len: plan_options.OutputLen = None,
    requests: own.Requests = None,
    until: own.Until = None,
    ttft: own.Ttft = None,
    tpot: own.Tpot = None,
    skip_bad_rows: plan_options.SkipBadRows = False,
    replicas: own.Replicas = None,
    balancer: own.Balancer = None,
    scheduler: own.Scheduler = None,
    preemption: own.Preemption = None,
    num_gpu_blocks_override: own.NumGpuBlocksOverride = None,
    host_link: copy_options.HostLink = None,
    pinned: copy_options.Pinned = True,
    coalesced: copy_options.Coalesced = False,
    gpus_per_link: copy_options.GpusPerLink = None,
    host_memory: copy_options.HostMemory = None,
    basis: own.Basis = None,
    seed: own.Seed = None,
    replications: own.Replications = None,
    warm_up: own.WarmUp = None,
    stepwise: own.Stepwise = False,
    assume: options.Assume = None,
    dtype: options.Dtype = None,
    activation_dtype: options.ActivationDtype = None,
    kv_cache_dtype: options.KvCacheDtype = None,
    mamba_ssm_cache_dtype: options.MambaSsmCacheDtype = None,
    quantization: options.Quantization = None,
    tensor_parallel_size: options.TensorParallelSize = None,
    pipeline_parallel_size: options.PipelineParallelSize = None,
    expert_parallel_size: options.ExpertParallelSize = None,
    context_parallel_size: options.ContextParallelSize = None,
    sequence_parallel: options.SequenceParallel = False,
    max_model_len: options.MaxModelLen = None,
    max_num_seqs: options.MaxNumSeqs = None,
    max_num_batched_tokens: options.MaxNumBatchedTokens = None,
    gpu_memory_utilization: options.GpuMemoryUtilization = None,
    reserve: options.Reserve = None,
    block_size: options.BlockSize = None,
    enable_prefix_caching: options.EnablePrefixCaching = False,
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
    perfetto: own.Perfetto = None,
    json: options.JsonOption = False,
    output: options.OutputOption = None,
    quiet: options.QuietOption = False,
) -> int:
    """Simulate a server: latencies, throughput and utilisation under a trace or random arrivals.

    -o with .csv or .parquet writes a row a request while it runs; .html, .json and .md the result. Example:
    roofline simulate llama-3.1-8b --hardware a100-sxm-80gb --rate 4 --input-len lognormal:1155:900 --output-len 211
    """
    given = dict(locals())
    for name in ("model", "hardware", "pinned", "json", "output", "quiet"):
        given.pop(name)
    from roofline.cli import simulating

    given = {name: value for name, value in given.items() if value not in (None, False)}
    return simulating.answer(model, hardware, {**given, "pinned": pinned}, json=json, output=output, quiet=quiet)
