"""`roofline analyze`: one model on one hardware at one workload."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from roofline.cli import options


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="analyze")(analyze)


def analyze(  # noqa: PLR0917 - a flag each
    model: options.ModelArgument,
    hardware: options.HardwareOption,
    assume: options.Assume = None,
    batch: options.Batch = None,
    input_len: options.InputLen = None,
    output_len: options.OutputLen = None,
    context: options.Context = None,
    phase: options.Phase = None,
    segments: options.Segments = None,
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
    ignore_capacity: options.IgnoreCapacity = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show the formula of each operator.")] = False,
    json: options.JsonOption = False,
    output: options.OutputOption = None,
    quiet: options.QuietOption = False,
) -> int:
    """What a model costs on hardware: memory, time bounds operator by operator, limits, and why.

    Exit code 1 when it does not fit. Example: roofline analyze llama-3.1-8b --hardware a100-sxm-80gb --batch 32 --context 4k
    """  # fmt: skip
    given = dict(locals())
    for name in ("model", "hardware", "json", "output", "quiet", "explain"):
        given.pop(name)
    return _answer(model, hardware, {name: value for name, value in given.items() if value not in (None, False)},
                   json=json, output=output, quiet=quiet, explain=explain)  # fmt: skip


def _answer(model: str, hardware: str, given: dict[str, Any], *, json: bool, output: Any, quiet: bool, explain: bool) -> int:
    from roofline.cli.output import Answer, emit
    from roofline.predict.analyze import answer as answered
    from roofline.predict.result import operator_rows

    request, result = answered(model, hardware, **given)
    formulas: list[dict[str, Any]] = []
    if explain:
        from roofline.cli.formulas import of_operators

        formulas = of_operators(request)

    def show() -> None:
        from roofline.cli import page

        page.show(result, formulas)

    def markdown() -> str:
        from roofline.cli import page

        return page.markdown(result)

    whole = {**result.to_dict(), **({"formulas": formulas} if explain else {})}
    answer = Answer(whole, lambda: operator_rows(result), show, {".html": result.to_html, ".md": markdown})
    emit(answer, json=json, output=output, quiet=quiet)
    if result.memory.fits or request.ignore_capacity:
        return 0
    if not quiet and (json or output is not None):
        from roofline.report.summary import verdict

        sys.stderr.write(f"{verdict(result)}\n")
    return 1
