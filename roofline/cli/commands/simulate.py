"""`roofline simulate`: what becomes of the requests of a workload on a deployment, one event after another."""

from __future__ import annotations

import typer

from roofline.cli import copy_options, plan_options
from roofline.cli import simulate_options as own
from roofline.cli.options import HardwareOption, JsonOption, ModelArgument, Options, OutputOption, QuietOption, takes
from roofline.predict.options import DEPLOYMENT


def register(app: typer.Typer) -> None:
    """Add the command."""
    without = ("data_parallel_size", "shared_prefix", "ignore_capacity")
    app.command(name="simulate")(takes(DEPLOYMENT, without=without)(simulate))


def simulate(  # noqa: PLR0917 - a flag each
    model: ModelArgument,
    hardware: HardwareOption,
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
    *,
    options: Options,
    perfetto: own.Perfetto = None,
    json: JsonOption = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """Simulate a server: latencies, throughput and utilisation under a trace or random arrivals.

    -o with .csv or .parquet writes a row a request while it runs; .html, .json and .md the result. Example:
    roofline simulate llama-3.1-8b --hardware a100-sxm-80gb --rate 4 --input-len lognormal:1155:900 --output-len 211
    """
    given = {**locals(), **options}
    for name in ("model", "hardware", "pinned", "options", "json", "output", "quiet"):
        given.pop(name)
    from roofline.cli import simulating

    given = {name: value for name, value in given.items() if value not in (None, False)}
    return simulating.answer(model, hardware, {**given, "pinned": pinned}, json=json, output=output, quiet=quiet)
