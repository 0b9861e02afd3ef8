"""Every option of plans, simulations and preemption, once: traffic, objectives, limits, the server, runs, KV cache swapping.

The entries are of the same schema as those of a prediction (`roofline.predict.options`): the flags of the commands and the
keyword arguments of the Python API are made from them. Values may be text; what reads them knows their units.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, TypedDict

from roofline.predict.options import OPTIONS, Count, Flag, LimitsOptions, Number, Option, Quantity, Text, entries


def _text(help: str, metavar: str, default: str = "", *, common: bool = False, aliases: tuple[str, ...] = ()) -> Option:
    return Option(kind="text", help=help, metavar=metavar, default=default, common=common, aliases=aliases)


def _count(help: str, default: str = "", metavar: str = "N", *, common: bool = False, aliases: tuple[str, ...] = ()) -> Option:
    return Option(kind="count", help=help, metavar=metavar, default=default, common=common, aliases=aliases)


def _flag(help: str, off: str = "") -> Option:
    return Option(kind="flag", help=help, off=off)


class RequestClassOptions(TypedDict, total=False):
    """What arrives: one class of requests."""

    rate: Annotated[Number, _text("Mean rate of Poisson arrivals, such as 8 or 300/min.", "REQUESTS/S", common=True)]
    concurrency: Annotated[
        Count, _count("Number of concurrent clients, each with one request in flight; replaces --rate.", common=True)
    ]
    input_len: Annotated[
        Count,
        _text(
            "Number of prompt tokens: N, uniform:LO:HI, lognormal:MEAN:SD[:MAX] or file:PATH.", "DIST", common=True,
            aliases=OPTIONS["input_len"].aliases,
        ),
    ]  # fmt: skip
    output_len: Annotated[
        Count, _text("Number of output tokens, in the same format.", "DIST", common=True, aliases=OPTIONS["output_len"].aliases)
    ]
    trace: Annotated[Text, _text("CSV file of requests; supplies lengths and, without --rate, the arrival rate.", "FILE")]
    prefix_hit: Annotated[Number, _text("Fraction of each prompt that is in the prefix cache.", "FRACTION")]
    cached_prefix: Annotated[Count, _count("Number of prompt tokens in the prefix cache; replaces --prefix-hit.")]
    system_prompt: Annotated[
        Count, _count("Number of tokens before each prompt (or conversation) that requests share.", metavar="TOKENS")
    ]
    system_prompts: Annotated[Count, _count("Number of different system prompts.", "1")]
    turns: Annotated[
        Count, _text("Turns per conversation; --input-len has the new tokens of each, --rate counts turns.", "DIST", "1")
    ]
    think: Annotated[
        Quantity,
        _text('Pause before each later turn, such as "10 s", "exponential:10 s" or "lognormal:10 s:5 s".', "TIME", "0"),
    ]
    burstiness: Annotated[
        Number, _text("Coefficient of variation of the times between arrivals; vLLM's burstiness is 1/CV^2.", "CV", "1")
    ]
    peak_factor: Annotated[Number, _text("Ratio of the peak rate to the mean; the plan covers the peak.", "FACTOR")]
    profile: Annotated[Text, _text("Relative load in equal intervals of a day, such as 1,1,2,4,3,1, or a file.", "LIST")]


class TrafficOptions(RequestClassOptions, total=False):
    """What arrives."""

    skip_bad_rows: Annotated[Flag, _flag("Skip and count malformed rows of a trace.")]
    traffic: Annotated[Text, _text("YAML file of request classes; replaces all other traffic options.", "FILE")]


class ObjectiveOptions(TypedDict, total=False):
    """Service-level objectives."""

    ttft: Annotated[Quantity, _text('Objective for time to first token, such as "2 s".', "TIME", common=True)]
    tpot: Annotated[Quantity, _text('Objective for mean time per output token, such as "50 ms".', "TIME", common=True)]
    percentile: Annotated[Number, _text("Percentage of requests that must comply.", "P", "95", common=True)]


class BatchOptions(TypedDict, total=False):
    """Offline batch work: no rate, and no clients."""

    tokens: Annotated[
        Count,
        _text(
            "Offline batch work: number of output tokens to generate in all (prompt tokens are not counted); replaces --rate. "
            "Requests have --input-len and --output-len, and run at full load, cheapest per token first.",
            "N",
        ),
    ]
    deadline: Annotated[Quantity, _text('Time in which they have to be done, such as "12 h".', "TIME")]


class SearchOptions(TypedDict, total=False):
    """What a plan searches, or checks."""

    hardware: Annotated[
        Text,
        Option(
            kind="text", metavar="HW[,HW...]", letter="H", completes="hardware", repeated=True, common=True,
            help="Accelerators or nodes, separated by commas.",
            default="all with measurements and a price",
        ),
    ]  # fmt: skip
    rank: Annotated[
        Text,
        _text(
            "Sort key: cost (per hour), token-cost, gpus or latency.",
            "KEY",
            "cost; token-cost with --concurrency or --tokens",
            common=True,
        ),
    ]
    mode: Annotated[
        Text,
        _text(
            "Where prefill and decode run: colocated, disaggregated (separate servers) or any.",
            "MODE",
            "any",
        ),
    ]
    allow_disaggregated: Annotated[
        Number,
        _text(
            "With --mode any: how much cheaper than the best colocated deployment separate servers must be; 0: at all.",
            "MARGIN",
            "10%",
        ),
    ]
    simulate: Annotated[
        Flag, _flag("Simulate the best candidates, correct their replicas, and rank them again by what the simulation shows.")
    ]
    simulate_top: Annotated[Count, _count("Number of candidates to simulate; implies --simulate.", "3")]
    top: Annotated[Count, _count("Number of candidates to list in addition to the Pareto front.", "10")]
    attention_dp_balance: Annotated[
        Flag, _flag("Delay prefills until every data-parallel rank can start one, for at most 50 steps.")
    ]
    fp8_kv_cache: Annotated[
        Flag, _flag("Also search an fp8 KV cache where the checkpoint does not have one. Check the output quality.")
    ]
    check: Annotated[Text, _text("YAML file of a deployment to check against the objectives.", "FILE", common=True)]
    replicas: Annotated[Count, _count("Number of replicas for --check, unless its FILE sets it.")]


class LimitOptions(TypedDict, total=False):
    """Prices and limits of a plan."""

    price: Annotated[Text, _text("YAML file of prices.", "FILE", "built-in price ranges", common=True)]
    max_gpus: Annotated[Count, _count("Maximum number of accelerators.", common=True, aliases=("num_gpus", "gpus"))]
    max_cost: Annotated[Number, _text("Maximum cost per hour, in the currency of the prices.", "AMOUNT")]
    inventory: Annotated[Text, _text("Available accelerators, such as h100-sxm=16,l40s=8, or a file.", "LIST")]
    spare: Annotated[Count, _count("Number of spare replicas; 1 gives N+1 redundancy.", "0")]
    start_up: Annotated[
        Text,
        _text(
            'Time from the request for a replica until it serves, such as "2 min", for the cost of a fleet that follows '
            "--profile.",
            "TIME",
            "time to load the weights at 1.55 GB/s, plus 30 s",
        ),
    ]
    pue: Annotated[Number, _text("Power usage effectiveness: ratio of facility power to IT power.", "FACTOR", "1")]


class PlanOptions(RequestClassOptions, ObjectiveOptions, LimitsOptions, total=False):
    """All options of `plan` but its own."""


class RequestOptions(TypedDict, total=False):
    """The requests of a simulation."""

    trace: Annotated[
        Text,
        _text("CSV or Parquet file with columns arrived_at, num_prefill_tokens and num_decode_tokens.", "FILE", common=True),
    ]
    workload: Annotated[
        Text,
        _text(
            "Arrivals: poisson:RATE, gamma:RATE:CV, constant:RATE, bursty:RATE:FACTOR, at-once[:N], a YAML file of traffic, or "
            "closed:CLIENTS[:THINK[:RAMP]] (clients that wait for each reply, pause for THINK, and start within RAMP). "
            "A closed loop also accepts :prompts=N (per client), :spread=LO-HI (range of factors on the lengths) and "
            ":warm-up=N (prompts per client to exclude).",
            "SPEC",
        ),
    ]
    rate: Annotated[
        Number,
        _text(
            "Mean rate of Poisson arrivals, such as 8 or 300/min; rescales the arrivals of a trace.", "REQUESTS/S", common=True
        ),
    ]
    requests: Annotated[Count, _count("Maximum number of requests.", "all in the trace; 10,000 without one")]
    until: Annotated[
        Quantity, _text('Stop arrivals after this time, such as "10 min"; requests in flight are completed.', "TIME")
    ]
    day: Annotated[
        Quantity,
        _text('Length of the day that --profile repeats, such as "1 h"; without --until one day is simulated.', "TIME", "24 h"),
    ]
    ttft: Annotated[Quantity, _text('Goodput objective for time to first token, such as "2 s".', "TIME", common=True)]
    tpot: Annotated[Quantity, _text('Goodput objective for time per output token, such as "50 ms".', "TIME", common=True)]


class ServerOptions(TypedDict, total=False):
    """The simulated server."""

    replicas: Annotated[Count, _count("Number of replicas of the deployment.", "1", common=True)]
    router: Annotated[
        Text,
        _text(
            "Load balancing between replicas: round-robin, least-loaded, least-tokens, power-of-two, prefix-aware, "
            "lora-aware or session-sticky.",
            "NAME",
            "round-robin",
            aliases=("balancer",),
        ),
    ]
    attention_dp_balance: Annotated[
        Flag, _flag("Delay prefills until every data-parallel rank can start one, for at most 50 steps.")
    ]
    scheduler: Annotated[
        Text,
        _text(
            "Scheduler: vllm-v1, vllm-v1-async, vllm-v0, sglang, no-evict (TensorRT-LLM), sarathi, orca, "
            "static, sjf, priority or fair (VTC).",
            "NAME",
            "set by the engine (vLLM: vllm-v1)",
            common=True,
        ),
    ]
    length_error: Annotated[
        Number,
        _text("Error of the output lengths that sjf predicts: standard deviation of their logarithm.", "SD", "0: known"),
    ]
    max_wait: Annotated[
        Quantity, _text("Time from arrival after which a request goes first, with sjf, priority or fair.", "TIME", "no limit")
    ]
    admission: Annotated[
        Text,
        _text(
            "Admission control: all, queue:N (at most N requests wait at a replica), token-bucket:RATE[:BURST] (prompt "
            "tokens/s and prompt tokens, per class) or slo (drop requests that would miss --ttft). Later classes are dropped "
            "first.",
            "SPEC",
            "all",
        ),
    ]
    preemption: Annotated[
        Text, _text("Handling of preempted requests: recompute, swap or cheaper (the faster of the two).", "HOW", "recompute")
    ]
    preemption_candidate: Annotated[
        Text,
        _text(
            "Request to preempt: last-admitted, last-arrived, least-important (class), fewest-output-tokens or cheapest "
            "(to restore).",
            "NAME",
            "set by the scheduler",
        ),
    ]
    num_gpu_blocks_override: Annotated[Count, _count("Number of KV cache blocks per replica.", "as many as fit in memory")]
    basis: Annotated[
        Text, _text("Step times to use: estimate or bound.", "BASIS", "estimate if measurements exist, otherwise bound")
    ]


class FleetOptions(TypedDict, total=False):
    """Replicas that come and go."""

    autoscale: Annotated[
        Text,
        _text(
            "Autoscaling: max=N, and min, policy (waiting, unfinished, kv or concurrency), target (per replica), start-up, "
            'interval and scale-down-window, such as "min=1,max=8,target=5,start-up=60 s", or a YAML file.',
            "SPEC|FILE",
        ),
    ]
    failures: Annotated[
        Text,
        _text(
            "Failures of replicas, whose requests are retried on others: mtbf, repair, retries (5) and resume (restart or "
            'continue), such as "mtbf=6 h,repair=5 min"; at fixed times "at=10 s:replica=0"; or a YAML file.',
            "SPEC|FILE",
        ),
    ]
    lora_adapters: Annotated[
        Text,
        _text("Number of LoRA adapters, of which each request has one: N (equal shares) or N:zipf:EXPONENT.", "N[:zipf:S]"),
    ]
    max_loras: Annotated[Count, _count("Number of different adapters in a batch, and of slots on the device.", "1")]
    max_cpu_loras: Annotated[
        Count, _count("Number of adapters in the host's memory; others are read from disk.", "as --max-loras")
    ]
    max_lora_rank: Annotated[Count, _count("Rank of the adapters.", "16", metavar="R")]


class PoolOptions(TypedDict, total=False):
    """Replicas that only prefill, or only decode; replicas of several deployments."""

    disaggregated: Annotated[
        Flag,
        _flag(
            "Prefill and decode on separate replicas: KV caches are sent from the prefill pool to the decode pool. How many "
            "replicas each pool has follows from --replicas (rate matching), unless given."
        ),
    ]
    prefill_replicas: Annotated[Count, _count("Number of replicas that prefill.", "rate matching")]
    decode_replicas: Annotated[Count, _count("Number of replicas that decode.", "rate matching")]
    pools: Annotated[
        Text,
        _text(
            "YAML file (kind: pools) with options of a prefill and a decode pool (hardware, parallelism, ...), or of several "
            "colocated pools behind one router.",
            "FILE",
        ),
    ]
    transfer_bandwidth: Annotated[
        Quantity,
        _text(
            'Bandwidth of a KV cache transfer, per device and direction, such as "50 GB/s".', "RATE",
            "the network of the node, otherwise the link to the host",
        ),
    ]  # fmt: skip
    transfer_latency: Annotated[Quantity, _text('Further time per transfer, such as "2 ms".', "TIME", "0")]
    first_token: Annotated[
        Text,
        _text(
            "When the first token is returned: prefill (when the prompt is computed), transfer (when the KV cache has arrived) "
            "or decode (with the first decode step).",
            "WHEN",
            "set by the engine (vLLM: decode; SGLang, TensorRT-LLM: transfer)",
        ),
    ]


class CopyOptions(TypedDict, total=False):
    """Copies between a device and its host."""

    host_link: Annotated[
        Quantity,
        _text(
            'Bandwidth of large copies between device and host, per direction, such as "25 GB/s".',
            "RATE",
            "set by the hardware",
        ),
    ]
    pinned: Annotated[Flag, _flag("Use page-locked or pageable host memory. Default: --pinned.", off="pageable")]
    coalesced: Annotated[Flag, _flag("Gather the blocks into one copy per direction.")]
    overlapped: Annotated[Flag, _flag("Overlap copies with the kernels of other sequences.")]
    gpus_per_link: Annotated[Count, _count("Number of devices that share one link to the host.", "1")]
    host_memory: Annotated[
        Quantity,
        _text("Host memory for the swapped KV caches of a replica.", "BYTES", "the replica's share of the node's memory"),
    ]


class OffloadOptions(TypedDict, total=False):
    """KV cache tiers beside the device's."""

    kv_offload: Annotated[
        Text,
        _text(
            "Store KV cache blocks outside the device and load them where that is faster than computing them: host memory per "
            'replica, such as "200 GB" (with the options of swapping for the link), or a YAML file of tiers.',
            "SIZE|FILE",
        ),
    ]


class RunOptions(TypedDict, total=False):
    """The runs of a simulation."""

    seed: Annotated[Count, _count("Random seed.", "0")]
    replications: Annotated[Count, _count("Number of runs with different seeds, for confidence intervals.")]
    warm_up: Annotated[
        Number,
        _text(
            "Fraction of the requests, from the start, to exclude from the statistics.",
            "FRACTION",
            "up to the steady state (MSER-5) of 1,000 requests and more; 0, or 0.1 with --replications, of fewer",
        ),
    ]
    find_rate: Annotated[
        Flag,
        _flag("Find the highest rate at which the objectives hold, over several seeds (--replications; default: 5)."),
    ]
    stepwise: Annotated[Flag, _flag("Simulate every step individually (slower; for verification).")]
    perfetto: Annotated[Text, _text("Write a trace of steps and requests for ui.perfetto.dev (.json or .json.gz).", "FILE")]


def _by_name(options: Iterable[Option]) -> dict[str, Option]:
    return {option.name: option for option in options}


PLAN = _by_name(
    entries({
        "Traffic": TrafficOptions, "Batch work": BatchOptions, "Objectives": ObjectiveOptions, "Search": SearchOptions,
        "Cost and limits": LimitOptions,
    })
)  # fmt: skip
"""Options of `plan` besides those of the deployment."""
COPIES = _by_name(entries({"KV cache swapping": CopyOptions}))
"""Options of copies to the host: those of `preempt`, and of `simulate` without `overlapped`."""
_COMMON = {name: PLAN[name] for name in ("input_len", "output_len", "prefix_hit", "cached_prefix", "skip_bad_rows")}
SIMULATE = {
    **_by_name(entries({"Workload": RequestOptions})),
    **{
        name: replace(PLAN[name], group="Workload") for name in ("system_prompt", "system_prompts", "turns", "think")
    },
    **_COMMON, **_by_name(entries({"Server": ServerOptions})),
    "profile": replace(
        PLAN["profile"], group="Workload",
        help="Relative load in equal intervals of a day, such as 1,1,2,4,3,1, or a file; --rate is the mean.",
    ),
    **_by_name(entries({"Fleet": FleetOptions})), **_by_name(entries({"Disaggregation": PoolOptions})),
    **{name: option for name, option in COPIES.items() if name != "overlapped"},
    **_by_name(entries({"KV cache tiers": OffloadOptions})), **_by_name(entries({"Runs": RunOptions})),
    "percentile": replace(
        PLAN["percentile"], group="Runs", common=False, help="Percentage of requests that must comply, with --find-rate."
    ),
}  # fmt: skip
"""Options of `simulate` besides those of the deployment."""
PREFIX_CACHING = replace(
    OPTIONS["enable_prefix_caching"],
    help="Keep KV cache blocks until they are needed, for requests with the same prefix and for preempted requests. "
    "Default: where prompts share tokens.",
)
"""The option of `simulate` and `replay`, where it has an effect."""
REPLAY = {
    "skip_bad_rows": PLAN["skip_bad_rows"],
    "scheduler": replace(
        SIMULATE["scheduler"], help="Scheduler, as in `simulate`.", default="set by the run (vllm-v1 or vllm-v1-async)"
    ),
    "num_gpu_blocks_override": replace(
        SIMULATE["num_gpu_blocks_override"], default="set by the run, otherwise as many as fit in memory"
    ),
    "basis": SIMULATE["basis"],
}
"""Options of `replay` besides those of the deployment."""
