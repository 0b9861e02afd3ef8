"""`roofline analyze`: one model on one hardware at one workload."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from roofline.cli.options import (
    COUNTING,
    DEPLOYMENT,
    HARDWARE,
    WORKLOAD,
    HardwareOption,
    JsonOption,
    ModelArgument,
    OutputOption,
    QuietOption,
    option,
)

Text = str | None


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="analyze")(analyze)


def analyze(  # noqa: PLR0917 - a flag each
    model: ModelArgument,
    hardware: HardwareOption,
    batch: Annotated[
        Text, option("--batch", "-b", text="Sequences in the whole deployment. Default: 1.", panel=WORKLOAD, metavar="N")
    ] = None,
    input_len: Annotated[
        Text, option("--input-len", text="Prompt tokens a sequence; 8k = 8192. Default: 1024.", panel=WORKLOAD, metavar="N")
    ] = None,
    output_len: Annotated[
        Text, option("--output-len", text="Generated tokens a sequence; adds TTFT, TPOT and E2E.", panel=WORKLOAD, metavar="N")
    ] = None,
    context: Annotated[
        Text, option("--context", text="Tokens cached before the decode step. Default: input-len.", panel=WORKLOAD, metavar="N")
    ] = None,
    phase: Annotated[
        Text, option("--phase", text="prefill, decode or both. Default: both.", panel=WORKLOAD, metavar="PHASE")
    ] = None,
    segments: Annotated[
        Text, option("--segments", text="One mixed step: COUNTxNEW@CACHED,...", panel=WORKLOAD, metavar="LIST")
    ] = None,
    dtype: Annotated[
        Text, option("--dtype", text="Of all weights. Default: the model's.", panel=DEPLOYMENT, metavar="DTYPE")
    ] = None,
    activation_dtype: Annotated[
        Text, option("--activation-dtype", text="Of activations. Default: the model's.", panel=DEPLOYMENT, metavar="DTYPE")
    ] = None,
    kv_cache_dtype: Annotated[
        Text, option("--kv-cache-dtype", text="Of the KV cache. Default: as activations.", panel=DEPLOYMENT, metavar="DTYPE")
    ] = None,
    quantization: Annotated[
        Text,
        option(
            "--quantization",
            text="Scheme of the linear layers: fp8, fp8_block, int8, awq, gptq, mxfp4, nvfp4, none.",
            panel=DEPLOYMENT,
            metavar="NAME",
        ),
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
    max_model_len: Annotated[
        Text, option("--max-model-len", text="Longest sequence that the engine accepts.", panel=DEPLOYMENT, metavar="N")
    ] = None,
    max_num_seqs: Annotated[
        Text, option("--max-num-seqs", text="Most sequences in one step of a replica.", panel=DEPLOYMENT, metavar="N")
    ] = None,
    max_num_batched_tokens: Annotated[
        Text,
        option(
            "--max-num-batched-tokens", text="Most tokens in one step. Default: the engine's.", panel=DEPLOYMENT, metavar="N"
        ),
    ] = None,
    gpu_memory_utilization: Annotated[
        Text,
        option(
            "--gpu-memory-utilization",
            text="Share of memory that the engine uses. Default: the engine's.",
            panel=DEPLOYMENT,
            metavar="SHARE",
        ),
    ] = None,
    reserve: Annotated[
        Text, option("--reserve", text='Memory kept free, such as "2 GiB". Default: 0.', panel=DEPLOYMENT, metavar="BYTES")
    ] = None,
    block_size: Annotated[
        Text,
        option("--block-size", text="Tokens in a block of the KV cache. Default: the engine's.", panel=DEPLOYMENT, metavar="N"),
    ] = None,
    enable_prefix_caching: Annotated[
        bool,
        typer.Option(
            "--enable-prefix-caching",
            help="Accepted as engines write it; --shared-prefix says how much is shared.",
            rich_help_panel=DEPLOYMENT,
        ),
    ] = False,
    engine: Annotated[
        Text, option("--engine", text="NAME or NAME@VERSION. Default: vllm.", panel=DEPLOYMENT, metavar="NAME")
    ] = None,
    backend: Annotated[
        Text, option("--backend", text="Whose kernels the estimate is for.", panel=DEPLOYMENT, metavar="NAME")
    ] = None,
    peak_flops: Annotated[
        Text, option("--peak-flops", text='"312 TFLOP/s", for every dtype.', panel=HARDWARE, metavar="RATE")
    ] = None,
    bandwidth: Annotated[Text, option("--bandwidth", text='"2039 GB/s".', panel=HARDWARE, metavar="RATE")] = None,
    memory: Annotated[Text, option("--memory", text='"80 GiB".', panel=HARDWARE, metavar="BYTES")] = None,
    mask: Annotated[Text, option("--mask", text="causal or full. Default: causal.", panel=COUNTING, metavar="MASK")] = None,
    attention: Annotated[
        Text, option("--attention", text="fused or eager. Default: fused.", panel=COUNTING, metavar="KIND")
    ] = None,
    logits: Annotated[Text, option("--logits", text="last or all. Default: last.", panel=COUNTING, metavar="WHICH")] = None,
    mla: Annotated[Text, option("--mla", text="auto, expand or absorb. Default: auto.", panel=COUNTING, metavar="FORM")] = None,
    routing_skew: Annotated[
        Text,
        option("--routing-skew", text="Zipf exponent of expert popularity. Default: 0 (uniform).", panel=COUNTING, metavar="A"),
    ] = None,
    shared_prefix: Annotated[
        Text, option("--shared-prefix", text="Cached tokens common to the batch. Default: 0.", panel=COUNTING, metavar="N")
    ] = None,
    ignore_capacity: Annotated[
        bool, typer.Option("--ignore-capacity", help="Give times even if it does not fit.", rich_help_panel=COUNTING)
    ] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show the formula of each operator.")] = False,
    json: JsonOption = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """What a model costs on hardware: memory, time bounds operator by operator, limits, and why.

    Exit code 1 when it does not fit. Example: roofline analyze llama-3.1-8b --hardware a100-sxm-80gb --batch 32 --context 4k
    """  # fmt: skip
    given = dict(locals())
    for name in ("model", "hardware", "json", "output", "quiet", "explain"):
        given.pop(name)
    return _answer(model, hardware, {name: value for name, value in given.items() if value not in (None, False)},
                   json=json, output=output, quiet=quiet, explain=explain)  # fmt: skip


def _answer(model: str, hardware: str, options: dict[str, Any], *, json: bool, output: Any, quiet: bool, explain: bool) -> int:
    from roofline.cli.output import Answer, emit
    from roofline.predict.analyze import run
    from roofline.predict.request import prepare
    from roofline.predict.result import operator_rows

    request = prepare(model, hardware, **options)
    result = run(request)
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
