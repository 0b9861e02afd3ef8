"""Options of `roofline plan` alone. Values stay text: they are read, with their units, by the planner."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli.options import complete_hardware, complete_models
from roofline.cli.options import own as option

TRAFFIC, OBJECTIVES, SEARCH, MONEY = "Traffic", "Objectives", "Search", "Money and limits"

ModelArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL", help="Id, YAML file, config.json or its folder, or org/name.", autocompletion=complete_models
    ),
]
Hardware = Annotated[
    list[str] | None,
    typer.Option(
        "--hardware", "-H", metavar="HW[,HW...]", help="Ids or YAML files; several times, or with commas. Default: the "
        "measured ones that have a price.", autocompletion=complete_hardware,
        rich_help_panel=SEARCH, show_default=False,
    ),
]  # fmt: skip
Rate = Annotated[
    str | None, option("--rate", text="Requests that arrive: 8, 300/min. Poisson.", panel=TRAFFIC, metavar="REQUESTS/S")
]
Concurrency = Annotated[
    str | None, option("--concurrency", text="Clients with one request each, in place of a rate.", panel=TRAFFIC, metavar="N")
]
InputLen = Annotated[
    str | None,
    option("--input-len", text="Prompt tokens: 1024, uniform:LO:HI, lognormal:MEAN:SD[:MAX], file:PATH.", panel=TRAFFIC,
           metavar="DIST"),
]  # fmt: skip
OutputLen = Annotated[str | None, option("--output-len", text="Generated tokens, likewise.", panel=TRAFFIC, metavar="DIST")]
Trace = Annotated[
    str | None,
    option("--trace", text="CSV of requests; their lengths, and their rate unless given.", panel=TRAFFIC, metavar="FILE"),
]
SkipBadRows = Annotated[
    bool, typer.Option("--skip-bad-rows", help="Leave broken rows of a trace out, and count them.", rich_help_panel=TRAFFIC)
]
TrafficFile = Annotated[
    str | None,
    option("--traffic", text="YAML of several classes of requests, in place of all these.", panel=TRAFFIC, metavar="FILE"),
]
PrefixHit = Annotated[
    str | None,
    option("--prefix-hit", text="Share of prompt tokens that the prefix cache has.", panel=TRAFFIC, metavar="FRACTION"),
]
Burstiness = Annotated[
    str | None,
    option("--burstiness", text="Coefficient of variation of times between arrivals. Default: 1.", panel=TRAFFIC, metavar="CV"),
]
PeakFactor = Annotated[
    str | None,
    option("--peak-factor", text="Peak rate over the mean; the peak is planned for.", panel=TRAFFIC, metavar="FACTOR"),
]
Profile = Annotated[
    str | None,
    option("--profile", text="Weights of the parts of a day: 1,1,2,4,3,1, or a file.", panel=TRAFFIC, metavar="LIST"),
]
Ttft = Annotated[str | None, option("--ttft", text='First token within "2 s".', panel=OBJECTIVES, metavar="TIME")]
Tpot = Annotated[
    str | None, option("--tpot", text='Each later token within "50 ms", on average.', panel=OBJECTIVES, metavar="TIME")
]
Percentile = Annotated[
    str | None, option("--percentile", text="Of the requests that have to. Default: 95.", panel=OBJECTIVES, metavar="P")
]
Rank = Annotated[str | None, option("--rank", text="cost, gpus or latency. Default: cost.", panel=SEARCH, metavar="BY")]
Mode = Annotated[
    str | None,
    option("--mode", text="Prompts and answers on the same servers (colocated), on their own (disaggregated), any.",
           panel=SEARCH, metavar="MODE"),
]  # fmt: skip
Top = Annotated[
    str | None, option("--top", text="Candidates to list, and the Pareto front. Default: 10.", panel=SEARCH, metavar="N")
]
Price = Annotated[str | None, option("--price", text="YAML of prices. Default: dated ranges.", panel=MONEY, metavar="FILE")]
MaxGpus = Annotated[str | None, option("--max-gpus", text="The most devices.", panel=MONEY, metavar="N")]
MaxCost = Annotated[
    str | None,
    option("--max-cost", text="The most that an hour costs, in the prices' currency.", panel=MONEY, metavar="AMOUNT"),
]
Inventory = Annotated[
    str | None,
    option("--inventory", text="Devices that are there: h100-sxm=16,l40s=8, or a file.", panel=MONEY, metavar="LIST"),
]
Spare = Annotated[str | None, option("--spare", text="Replicas more than needed (N+1: 1).", panel=MONEY, metavar="N")]
Pue = Annotated[
    str | None, option("--pue", text="Power of the building over the machines'. Default: 1.", panel=MONEY, metavar="FACTOR")
]
Replicas = Annotated[
    str | None,
    option("--replicas", text="With --check: how many there are, where FILE does not say.", panel=SEARCH, metavar="N"),
]
Check = Annotated[
    str | None,
    option("--check", text="Does this deployment meet the objectives? YAML with its flags.", panel=SEARCH, metavar="FILE"),
]
