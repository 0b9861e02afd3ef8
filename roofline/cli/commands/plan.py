"""`roofline plan`: which hardware, how many, which flags, at what cost, for a traffic and its objectives."""

from __future__ import annotations

import typer

from roofline.cli import plan_options as plans
from roofline.cli.options import JsonOption, Options, OutputOption, QuietOption, takes
from roofline.predict.options import DEPLOYMENT


def register(app: typer.Typer) -> None:
    """Add the command."""
    without = ("shared_prefix", "logits", "ignore_capacity", "enable_prefix_caching")
    app.command(name="plan")(takes(DEPLOYMENT, without=without)(plan))


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
    *,
    options: Options,
    json: JsonOption = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """Plan capacity: deployments that serve a traffic within its objectives, best first.

    What is given of a deployment (--tp, --dtype, ...) is not searched. Exit code 1 when nothing serves it. Example:
    roofline plan llama-3.1-8b --rate 50 --input-len lognormal:1155:900 --output-len 211 --ttft "2 s" --tpot "50 ms"
    """
    given = {**locals(), **options}
    for name in ("model", "options", "json", "output", "quiet"):
        given.pop(name)
    from roofline.cli import planning

    given = {name: value for name, value in given.items() if value not in (None, False, [])}
    return planning.answer(model, given, json=json, output=output, quiet=quiet)
