"""`roofline replay`: a measured run beside its simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofline.cli import complete, options, plan_options
from roofline.cli import simulate_options as own


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="replay")(replay)


def replay(  # noqa: PLR0917 - a flag each
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a measured run: requests.jsonl, meta.json.")],
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="MODEL", help="Default: what the run names.", autocompletion=complete.models, show_default=False
        ),
    ] = None,
    hardware: Annotated[
        str | None,
        typer.Option(
            "--hardware",
            "-H",
            metavar="HW",
            help="Id or YAML file. Default: the device that the run names.",
            autocompletion=complete.hardware,
            show_default=False,
        ),
    ] = None,
    fit_first: Annotated[
        str | None,
        typer.Option(
            "--fit-first", metavar="N", help="Fit FLOP/s and bandwidth of the card on the first N requests.", show_default=False
        ),
    ] = None,
    skip_bad_rows: plan_options.SkipBadRows = False,
    scheduler: Annotated[
        str | None,
        options.option(
            "--scheduler",
            text="As of simulate. Default: vllm-v1-async or vllm-v1, as the run had it.",
            panel=own.SERVER,
            metavar="NAME",
        ),
    ] = None,
    num_gpu_blocks_override: Annotated[
        str | None,
        options.option(
            "--num-gpu-blocks-override",
            text="KV blocks of a replica. Default: the run's, else what there is room for.",
            panel=own.SERVER,
            metavar="N",
        ),
    ] = None,
    basis: own.Basis = None,
    assume: options.Assume = None,
    dtype: options.Dtype = None,
    activation_dtype: options.ActivationDtype = None,
    kv_cache_dtype: options.KvCacheDtype = None,
    quantization: options.Quantization = None,
    tensor_parallel_size: options.TensorParallelSize = None,
    pipeline_parallel_size: options.PipelineParallelSize = None,
    expert_parallel_size: options.ExpertParallelSize = None,
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
    json: options.JsonOption = False,
    output: options.OutputOption = None,
    quiet: options.QuietOption = False,
) -> None:
    """Serve the requests of a measured run by the simulator, and lay TTFT, TPOT and E2E beside the measured ones.

    Options that describe the deployment stand in place of what the run says. -o: .csv, .md, .parquet a row a figure; .json.
    Example: roofline replay runs/rtx4090 --fit-first 100
    """
    given = dict(locals())
    for name in ("run", "json", "output", "quiet"):
        given.pop(name)
    from roofline.cli import replaying

    given = {name: value for name, value in given.items() if value not in (None, False)}
    replaying.answer(run, given, json=json, output=output, quiet=quiet)
