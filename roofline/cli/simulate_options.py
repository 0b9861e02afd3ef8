"""Options of `roofline simulate` alone. Values stay text: they are read, with their units, by the simulator."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli.options import own as option

WORKLOAD, SERVER, RUNS = "Workload", "Server", "Runs"

Trace = Annotated[
    str | None,
    option("--trace", text="CSV or Parquet of requests: arrived_at, num_prefill_tokens, num_decode_tokens.", panel=WORKLOAD,
           metavar="FILE"),
]  # fmt: skip
Workload = Annotated[
    str | None,
    option("--workload", text="poisson:RATE, gamma:RATE:CV, constant:RATE, bursty:RATE:FACTOR, closed:CLIENTS[:THINK[:RAMP]] "
           "[:prompts=N][:spread=LO-HI][:warm-up=N], at-once[:N], or a YAML file of traffic.", panel=WORKLOAD, metavar="SPEC"),
]  # fmt: skip
Rate = Annotated[
    str | None,
    option("--rate", text="Requests that arrive: 8, 300/min. Poisson; of a trace its arrivals are stretched.", panel=WORKLOAD,
           metavar="REQUESTS/S"),
]  # fmt: skip
Requests = Annotated[
    str | None, option("--requests", text="The most that come. Default: a trace's, else 10,000.", panel=WORKLOAD, metavar="N")
]
Until = Annotated[
    str | None,
    option("--until", text='None comes after "10 min"; those that came are answered.', panel=WORKLOAD, metavar="TIME"),
]
Ttft = Annotated[str | None, option("--ttft", text='Good: first token within "2 s".', panel=WORKLOAD, metavar="TIME")]
Tpot = Annotated[
    str | None, option("--tpot", text='Good: each later token within "50 ms", on average.', panel=WORKLOAD, metavar="TIME")
]
Replicas = Annotated[str | None, option("--replicas", text="Copies of the deployment. Default: 1.", panel=SERVER, metavar="N")]
Balancer = Annotated[
    str | None, option("--balancer", text="round-robin or least-loaded. Default: round-robin.", panel=SERVER, metavar="NAME")
]
Scheduler = Annotated[
    str | None,
    option("--scheduler", text="vllm-v1, vllm-v1-async, vllm-v0, sarathi, orca, static, sjf, priority. Default: vllm-v1.",
           panel=SERVER, metavar="NAME"),
]  # fmt: skip
Preemption = Annotated[
    str | None,
    option("--preemption", text="recompute, swap, or cheaper: of the two, by the closed form. Default: recompute.",
           panel=SERVER, metavar="HOW"),
]  # fmt: skip
NumGpuBlocksOverride = Annotated[
    str | None,
    option("--num-gpu-blocks-override", text="KV blocks of a replica. Default: what there is room for.", panel=SERVER,
           metavar="N"),
]  # fmt: skip
Basis = Annotated[
    str | None,
    option("--basis", text="Step times: estimate or bound. Default: estimate where kernels were measured.", panel=SERVER,
           metavar="BASIS"),
]  # fmt: skip
Seed = Annotated[str | None, option("--seed", text="Of all that is drawn at random. Default: 0.", panel=RUNS, metavar="N")]
Replications = Annotated[
    str | None, option("--replications", text="Runs with other seeds, for confidence intervals.", panel=RUNS, metavar="N")
]
WarmUp = Annotated[
    str | None,
    option("--warm-up", text="Share of the requests that is not counted. Default: 0, of several runs 10%.", panel=RUNS,
           metavar="SHARE"),
]  # fmt: skip
Perfetto = Annotated[
    str | None,
    option("--perfetto", text="A trace of steps and requests for ui.perfetto.dev: .json or .json.gz.", panel=RUNS,
           metavar="FILE"),
]  # fmt: skip
Stepwise = Annotated[
    bool, typer.Option("--stepwise", help="Do every step on its own: slower, for checking.", rich_help_panel=RUNS)
]
