"""Every option of plans, simulations and preemption, once: traffic, objectives, limits, the server, runs, copies to the host.

The entries are of the same schema as those of a prediction (`roofline.predict.options`): the flags of the commands and the
keyword arguments of the Python API are made from them. Values may be text; what reads them knows their units.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, TypedDict

from roofline.predict.options import Count, Number, Option, Quantity, entries


def _text(help: str, metavar: str, default: str = "") -> Option:
    return Option(kind="text", help=help, metavar=metavar, default=default)


def _count(help: str, default: str = "", metavar: str = "N") -> Option:
    return Option(kind="count", help=help, metavar=metavar, default=default)


def _flag(help: str, off: str = "") -> Option:
    return Option(kind="flag", help=help, off=off)


class TrafficOptions(TypedDict, total=False):
    """What arrives."""

    rate: Annotated[Number, _text("Requests that arrive: 8, 300/min. Poisson.", "REQUESTS/S")]
    concurrency: Annotated[Count, _count("Clients with one request each, instead of a rate.")]
    input_len: Annotated[Count, _text("Prompt tokens: 1024, uniform:LO:HI, lognormal:MEAN:SD[:MAX], file:PATH.", "DIST")]
    output_len: Annotated[Count, _text("Generated tokens, likewise.", "DIST")]
    trace: Annotated[str, _text("CSV of requests; their lengths, and their rate unless given.", "FILE")]
    skip_bad_rows: Annotated[bool, _flag("Leave broken rows of a trace out, and count them.")]
    traffic: Annotated[str, _text("YAML of several classes of requests, instead of all these.", "FILE")]
    prefix_hit: Annotated[Number, _text("Share of prompt tokens that the prefix cache has.", "FRACTION")]
    burstiness: Annotated[Number, _text("Coefficient of variation of times between arrivals.", "CV", "1")]
    peak_factor: Annotated[Number, _text("Peak rate over the mean; the peak is planned for.", "FACTOR")]
    profile: Annotated[str, _text("Weights of the parts of a day: 1,1,2,4,3,1, or a file.", "LIST")]


class ObjectiveOptions(TypedDict, total=False):
    """Service-level objectives."""

    ttft: Annotated[Quantity, _text('First token within "2 s".', "TIME")]
    tpot: Annotated[Quantity, _text('Each further token within "50 ms", on average.', "TIME")]
    percentile: Annotated[Number, _text("Share of the requests that have to.", "P", "95")]


class SearchOptions(TypedDict, total=False):
    """What a plan searches, or checks."""

    hardware: Annotated[
        str,
        Option(
            kind="text", metavar="HW[,HW...]", letter="H", completes="hardware", repeated=True,
            help="Ids or YAML files; several times, or with commas.", default="the measured ones that have a price",
        ),
    ]  # fmt: skip
    rank: Annotated[str, _text("cost (per hour), token-cost, gpus or latency.", "BY", "cost; with clients token-cost")]
    mode: Annotated[str, _text("Prefill and decode on the same servers (colocated), separate (disaggregated), any.", "MODE")]
    top: Annotated[Count, _count("Candidates to list, and the Pareto front.", "10")]
    attention_dp_balance: Annotated[
        bool, _flag("Hold prompts until every data-parallel rank can start one, for at most 50 steps.")
    ]
    check: Annotated[str, _text("Does this deployment meet the objectives? YAML with its flags.", "FILE")]
    replicas: Annotated[Count, _count("With --check: number of replicas, if FILE does not say.")]


class LimitOptions(TypedDict, total=False):
    """Prices and limits of a plan."""

    price: Annotated[str, _text("YAML of prices.", "FILE", "dated ranges")]
    max_gpus: Annotated[Count, _count("Maximum number of devices.")]
    max_cost: Annotated[Number, _text("Maximum cost per hour, in the prices' currency.", "AMOUNT")]
    inventory: Annotated[str, _text("Available devices: h100-sxm=16,l40s=8, or a file.", "LIST")]
    spare: Annotated[Count, _count("Replicas more than needed (N+1: 1).")]
    pue: Annotated[Number, _text("Power of the building over the machines'.", "FACTOR", "1")]


class RequestOptions(TypedDict, total=False):
    """The requests of a simulation."""

    trace: Annotated[str, _text("CSV or Parquet of requests: arrived_at, num_prefill_tokens, num_decode_tokens.", "FILE")]
    workload: Annotated[
        str,
        _text(
            "poisson:RATE, gamma:RATE:CV, constant:RATE, bursty:RATE:FACTOR, closed:CLIENTS[:THINK[:RAMP]] "
            "[:prompts=N][:spread=LO-HI][:warm-up=N], at-once[:N], or a YAML file of traffic.",
            "SPEC",
        ),
    ]
    rate: Annotated[
        Number, _text("Requests that arrive: 8, 300/min. Poisson; of a trace its arrivals are stretched.", "REQUESTS/S")
    ]
    requests: Annotated[Count, _count("Maximum number of requests.", "a trace's, else 10,000")]
    until: Annotated[Quantity, _text('None arrives after "10 min"; those that arrived are served.', "TIME")]
    ttft: Annotated[Quantity, _text('Good: first token within "2 s".', "TIME")]
    tpot: Annotated[Quantity, _text('Good: each further token within "50 ms", on average.', "TIME")]


class ServerOptions(TypedDict, total=False):
    """The simulated server."""

    replicas: Annotated[Count, _count("Copies of the deployment.", "1")]
    balancer: Annotated[str, _text("round-robin or least-loaded.", "NAME", "round-robin")]
    attention_dp_balance: Annotated[
        bool, _flag("Hold prompts until every data-parallel rank can start one, for at most 50 steps.")
    ]
    scheduler: Annotated[
        str,
        _text(
            "vllm-v1, vllm-v1-async, vllm-v0, sglang, sarathi, orca, no-evict (GUARANTEED_NO_EVICT), static, sjf, priority.",
            "NAME",
            "vllm-v1; no-evict with --engine trtllm, sglang with --engine sglang",
        ),
    ]
    preemption: Annotated[str, _text("recompute, swap, or cheaper: of the two, by the closed form.", "HOW", "recompute")]
    num_gpu_blocks_override: Annotated[Count, _count("KV blocks of a replica.", "those that fit in memory")]
    basis: Annotated[str, _text("Step times: estimate or bound.", "BASIS", "estimate if kernels were measured")]


class CopyOptions(TypedDict, total=False):
    """Copies between a device and its host."""

    host_link: Annotated[Quantity, _text('What large copies reach in one direction: "25 GB/s".', "RATE")]
    pinned: Annotated[bool, _flag("Whether the host's memory is page-locked.", off="pageable")]
    coalesced: Annotated[bool, _flag("Blocks are gathered: one call each way.")]
    overlapped: Annotated[bool, _flag("Copies overlap with the kernels of other sequences.")]
    gpus_per_link: Annotated[Count, _count("Devices that share one link to the host.", "1")]
    host_memory: Annotated[Quantity, _text("For evicted sequences of a replica.", "BYTES", "the node's share")]


class RunOptions(TypedDict, total=False):
    """The runs of a simulation."""

    seed: Annotated[Count, _count("Of all that is drawn at random.", "0")]
    replications: Annotated[Count, _count("Runs with other seeds, for confidence intervals.")]
    warm_up: Annotated[Number, _text("Share of the requests that is not counted.", "SHARE", "0, of several runs 10%")]
    stepwise: Annotated[bool, _flag("Do every step on its own: slower, for checking.")]
    perfetto: Annotated[str, _text("A trace of steps and requests for ui.perfetto.dev: .json or .json.gz.", "FILE")]


def _by_name(options: Iterable[Option]) -> dict[str, Option]:
    return {option.name: option for option in options}


PLAN = _by_name(
    entries({
        "Traffic": TrafficOptions, "Objectives": ObjectiveOptions, "Search": SearchOptions, "Money and limits": LimitOptions,
    })
)  # fmt: skip
"""Options of `plan` besides those of the deployment."""
COPIES = _by_name(entries({"Copies": CopyOptions}))
"""Options of copies to the host: those of `preempt`, and of `simulate` without `overlapped`."""
_COMMON = {name: PLAN[name] for name in ("input_len", "output_len", "skip_bad_rows")}
SIMULATE = {
    **_by_name(entries({"Workload": RequestOptions})), **_COMMON, **_by_name(entries({"Server": ServerOptions})),
    **{name: option for name, option in COPIES.items() if name != "overlapped"}, **_by_name(entries({"Runs": RunOptions})),
}  # fmt: skip
"""Options of `simulate` besides those of the deployment."""
REPLAY = {
    "skip_bad_rows": PLAN["skip_bad_rows"],
    "scheduler": replace(SIMULATE["scheduler"], help="As of simulate.", default="vllm-v1-async or vllm-v1, as the run had it"),
    "num_gpu_blocks_override": replace(SIMULATE["num_gpu_blocks_override"], default="the run's, else those that fit in memory"),
    "basis": SIMULATE["basis"],
}
"""Options of `replay` besides those of the deployment."""
