"""`roofline sweep`: any grid, as a tidy table."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli import complete, options
from roofline.cli.options import JsonOption, OutputOption, QuietOption, option

GRID, KEPT, RUN = "Axes (each: a value, several apart by commas, or a range such as 1:512:x2)", "What is kept", "How it is run"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="sweep")(sweep)


def sweep(  # noqa: PLR0917 - a flag each
    first: Annotated[
        list[str] | None,
        typer.Argument(metavar="SPEC|MODEL...", help="YAML file of a sweep, or models.", autocompletion=complete.models),
    ] = None,
    hardware: Annotated[
        list[str] | None,
        typer.Option("--hardware", "-H", metavar="HW", help="Ids or YAML files.", autocompletion=complete.hardware),
    ] = None,
    phase: Annotated[str | None, option("--phase", text="prefill, decode or both. Default: decode.", panel=GRID)] = None,
    batch: Annotated[str | None, option("--batch", "-b", text="Sequences in the whole deployment.", panel=GRID)] = None,
    input_len: Annotated[str | None, option("--input-len", text="Prompt tokens (prefill).", panel=GRID)] = None,
    context: Annotated[
        str | None, option("--context", text="Tokens cached before the step (decode). Default: input-len.", panel=GRID)
    ] = None,
    tp: Annotated[str | None, option("--tensor-parallel-size", "--tp", text="Default: 1.", panel=GRID)] = None,
    pp: Annotated[str | None, option("--pipeline-parallel-size", "--pp", text="Default: 1.", panel=GRID)] = None,
    dp: Annotated[str | None, option("--data-parallel-size", "--dp", text="Default: 1.", panel=GRID)] = None,
    ep: Annotated[str | None, option("--expert-parallel-size", "--ep", text="Default: 1.", panel=GRID)] = None,
    cp: Annotated[
        str | None,
        option("--context-parallel-size", "--prefill-context-parallel-size", "--cp", text="Default: 1.", panel=GRID),
    ] = None,
    sequence_parallel: Annotated[str | None, option("--sequence-parallel", text="true, false.", panel=GRID)] = None,
    dtype: Annotated[str | None, option("--dtype", text="Of all weights.", panel=GRID)] = None,
    activation_dtype: Annotated[str | None, option("--activation-dtype", text="Of activations.", panel=GRID)] = None,
    kv_cache_dtype: Annotated[str | None, option("--kv-cache-dtype", text="Of the KV cache.", panel=GRID)] = None,
    mamba_ssm_cache_dtype: Annotated[
        str | None, option("--mamba-ssm-cache-dtype", text="Of recurrent state.", panel=GRID)
    ] = None,
    quantization: Annotated[str | None, option("--quantization", text="Schemes of weights.", panel=GRID)] = None,
    engine: Annotated[str | None, option("--engine", text="NAME or NAME@VERSION.", panel=GRID)] = None,
    backend: Annotated[str | None, option("--backend", text="Whose kernels the estimate is for.", panel=GRID)] = None,
    gpu_memory_utilization: Annotated[
        str | None, option("--gpu-memory-utilization", text="Share of memory that the engine uses.", panel=GRID)
    ] = None,
    reserve: Annotated[str | None, option("--reserve", text="Memory kept free.", panel=GRID)] = None,
    block_size: Annotated[str | None, option("--block-size", text="Tokens in a block of the cache.", panel=GRID)] = None,
    max_model_len: Annotated[str | None, option("--max-model-len", text="Longest sequence.", panel=GRID)] = None,
    max_num_seqs: Annotated[str | None, option("--max-num-seqs", text="Most sequences of a replica.", panel=GRID)] = None,
    max_num_batched_tokens: Annotated[
        str | None, option("--max-num-batched-tokens", text="Most tokens in one step.", panel=GRID)
    ] = None,
    shared_prefix: Annotated[str | None, option("--shared-prefix", text="Cached tokens common to all.", panel=GRID)] = None,
    routing_skew: Annotated[str | None, option("--routing-skew", text="Zipf exponent of experts.", panel=GRID)] = None,
    expert_imbalance: Annotated[
        str | None, option("--expert-imbalance", text="Tokens of the busiest device over the mean.", panel=GRID)
    ] = None,
    mask: Annotated[str | None, option("--mask", text="causal, full.", panel=GRID)] = None,
    attention: Annotated[str | None, option("--attention", text="fused, eager.", panel=GRID)] = None,
    logits: Annotated[str | None, option("--logits", text="last, all.", panel=GRID)] = None,
    mla: Annotated[str | None, option("--mla", text="auto, expand, absorb.", panel=GRID)] = None,
    peak_flops: Annotated[str | None, option("--peak-flops", text="In place of the hardware's.", panel=GRID)] = None,
    bandwidth: Annotated[str | None, option("--bandwidth", text="In place of the hardware's.", panel=GRID)] = None,
    memory: Annotated[str | None, option("--memory", text="In place of the hardware's.", panel=GRID)] = None,
    columns: Annotated[
        str | None, option("--columns", text="Answers that are wanted, apart by commas.", panel=KEPT, metavar="LIST")
    ] = None,
    reduce: Annotated[
        str | None, option("--reduce", text="best, pareto or histogram, of the points that fit.", panel=KEPT, metavar="RULE")
    ] = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            "--objective",
            help="COLUMN:max or COLUMN:min, by which it is kept; several for pareto.",
            metavar="COLUMN",
            rich_help_panel=KEPT,
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        str | None, option("--by", text="Axes each of whose values has a result of its own.", panel=KEPT, metavar="AXES")
    ] = None,
    ttft: Annotated[str | None, option("--ttft", text='Prefill steps of at most, "500 ms".', panel=KEPT, metavar="T")] = None,
    tpot: Annotated[str | None, option("--tpot", text='Decode steps of at most, "50 ms".', panel=KEPT, metavar="T")] = None,
    ignore_capacity: options.IgnoreCapacity = False,
    executor: Annotated[
        str | None,
        option("--executor", text="processes[:N] or dask[:ADDRESS]. Default: this process.", panel=RUN, metavar="WHO"),
    ] = None,
    part_rows: Annotated[
        str | None, option("--part-rows", text="Points of a part. Default: 1,000,000.", panel=RUN, metavar="N")
    ] = None,
    json: JsonOption = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """Any grid of models, hardware, deployments and workloads: times, rates, memory, what fits and what binds, a row a point.

    A grid larger than memory goes into a folder (-o NAME without a suffix), in parts that a stopped sweep goes on with.

    Example: roofline sweep llama-3.1-8b -H a100-sxm-80gb,h100-sxm --tp 1,2 --batch 1:256:x2 --context 1k,8k
    """
    grid = dict(locals())
    for name in (
        "first", "columns", "reduce", "objective", "by", "ttft", "tpot", "ignore_capacity", "executor", "part_rows", "json",
        "output", "quiet",
    ):  # fmt: skip
        grid.pop(name)
    from roofline.cli import sweeping

    asked = sweeping.ask(
        first or [],
        grid,
        columns=columns,
        reduce=reduce,
        objectives=objective or [],
        by=by,
        ttft=ttft,
        tpot=tpot,
        part_rows=part_rows,
        ignore_capacity=ignore_capacity,
    )
    return sweeping.answer(asked, executor=executor, json=json, output=output, quiet=quiet)
