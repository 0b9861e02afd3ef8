"""`roofline limits`: up to which batch, over contexts, and why no further."""

from __future__ import annotations

import typer

from roofline.cli import options


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="limits")(limits)


def limits(  # noqa: PLR0917 - a flag each
    model: options.ModelArgument,
    hardware: options.HardwareOption,
    ttft: options.TtftLimit = None,
    tpot: options.TpotLimit = None,
    context: options.Contexts = None,
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
    shared_prefix: options.SharedPrefix = None,
    speculative_model: options.SpeculativeModel = None,
    speculative_method: options.SpeculativeMethod = None,
    num_speculative_tokens: options.NumSpeculativeTokens = None,
    acceptance: options.Acceptance = None,
    speculative_draft_tensor_parallel_size: options.SpeculativeDraftTensorParallelSize = None,
    speculative_config: options.SpeculativeConfig = None,
    json: options.JsonOption = False,
    output: options.OutputOption = None,
    quiet: options.QuietOption = False,
) -> int:
    """Batch limits over contexts: what memory holds, where compute binds, what an SLO allows, and which is met first.

    Exit code 1 when at no context a sequence fits and is quick enough. Example:
    roofline limits llama-3.1-8b --hardware a100-sxm-80gb --tpot "50 ms"
    """
    given = dict(locals())
    for name in ("model", "hardware", "json", "output", "quiet"):
        given.pop(name)
    from roofline.cli import limits as answers

    given = {name: value for name, value in given.items() if value not in (None, False)}
    return answers.answer(model, hardware, given, json=json, output=output, quiet=quiet)
