"""`simulate`: serve a workload on a deployment, one engine step at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Unpack

from roofline import files
from roofline.blocks.model import Model
from roofline.documents import __version__
from roofline.errors import InputError
from roofline.predict.drafts import NAMES as SPECULATIVE
from roofline.predict.drafts import read_options
from roofline.predict.options import DEPLOYMENT, SPECULATION, Count, LimitsOptions, Number, keywords
from roofline.predict.request import ResolvedRequest, sized
from roofline.predict.speculation import Speculation
from roofline.serving.preemption.copies import parse_host_copy
from roofline.serving.simulation.admission import parse_admission
from roofline.serving.simulation.combinations import Mechanism, check_together
from roofline.serving.simulation.confidence import MIN_REQUESTS, WarmUp, initial_requests
from roofline.serving.simulation.perfetto import Trace
from roofline.serving.simulation.pools import PoolOptions, PoolsQuery, read_pools, resolve_pools
from roofline.serving.simulation.request_writer import RequestWriter
from roofline.serving.simulation.result import Simulation, changes, is_saturated, summarize, without_fit
from roofline.serving.simulation.run import Interrupts, Observers, Run, run
from roofline.serving.simulation.schedulers import SCHEDULERS
from roofline.serving.simulation.server import (
    OutOfKVBlocksError,
    PolicyOptions,
    ServerConfig,
    resolve_server,
    resolve_speculative_replica,
)
from roofline.serving.simulation.workload import Workload, flagged, read_workload
from roofline.serving.traffic.classes import Traffic
from roofline.serving.traffic.scalars import parse_share
from roofline.serving.traffic.trace import Trace as RequestTrace
from roofline.specs.hardware import Hardware
from roofline.specs.source import Assumption
from roofline.units import parse_count

WARM_UP = 0.1
"""Share of the requests that are not counted where short runs, or clients, are repeated."""
MAX_REPLICATIONS = 1000
"""Runs whose metrics are held together; intervals of 100 are a third as wide as those of 10."""
_OF_A_STEP = ("batch", "input_len", "context", "shared_prefix")
"""Assumptions on the step that `analyze` is about: here the workload has them."""


@files.run()  # its inputs are not written over from Python either
@keywords(*DEPLOYMENT, SPECULATION)
def simulate(
    model: str | PathLike[str] | Model,
    hardware: str | PathLike[str] | Hardware,
    *,
    trace: str | PathLike[str] | RequestTrace | None = None,
    workload: str | PathLike[str] | Traffic | Workload | None = None,
    rate: float | str | None = None,
    input_len: Count = None,
    output_len: Count = None,
    prefix_hit: Number = None,
    cached_prefix: Count = None,
    system_prompt: Count = None,
    system_prompts: Count = None,
    turns: Count = None,
    think: float | str | None = None,
    requests: int | str | None = None,
    until: float | str | None = None,
    profile: Any = None,
    day: float | str | None = None,
    ttft: float | str | None = None,
    tpot: float | str | None = None,
    replicas: int | str | None = None,
    router: str | None = None,
    attention_dp_balance: bool = False,
    autoscale: Any = None,
    failures: Any = None,
    lora_adapters: int | str | None = None,
    max_loras: int | str | None = None,
    max_cpu_loras: int | str | None = None,
    max_lora_rank: int | str | None = None,
    scheduler: str | None = None,
    length_error: float | str | None = None,
    max_wait: float | str | None = None,
    admission: str | None = None,
    preemption_candidate: str | None = None,
    preemption: Literal["recompute", "swap", "cheaper"] | None = None,
    num_gpu_blocks_override: int | str | None = None,
    host_link: float | str | None = None,
    pinned: bool = True,
    coalesced: bool = False,
    gpus_per_link: int | str | None = None,
    host_memory: float | str | None = None,
    kv_offload: str | PathLike[str] | float | None = None,
    basis: Literal["estimate", "bound"] | None = None,
    seed: int | str | None = None,
    replications: int | str | None = None,
    warm_up: float | str | None = None,
    skip_bad_rows: bool = False,
    rows: str | PathLike[str] | None = None,
    perfetto: str | PathLike[str] | None = None,
    stepwise: bool = False,
    find_rate: bool = False,
    disaggregated: bool = False,
    prefill_replicas: int | str | None = None,
    decode_replicas: int | str | None = None,
    pools: str | PathLike[str] | None = None,
    transfer_bandwidth: float | str | None = None,
    transfer_latency: float | str | None = None,
    first_token: str | None = None,
    percentile: float | str | None = None,
    interrupts: Interrupts | None = None,
    progress: Callable[[int, int | None], None] | None = None,
    **deployment: Unpack[LimitsOptions],
) -> Simulation:
    """Serve a workload on a deployment, one engine step at a time.

    Args:
        model: a shipped id, the path of a file, or a loaded model.
        hardware: likewise.
        trace: a CSV or Parquet file of requests with their arrivals; or without, beside a rate or a workload.
        workload: `poisson:8`, `gamma:8:2`, `constant:8`, `bursty:8:4`, `closed:32`, `at-once:1000`, or a YAML file of traffic.
        rate: requests/s, or a text such as `300/min`; the arrivals of a trace are stretched.
        input_len: prompt tokens, a distribution such as `lognormal:1155:900`; a trace has its own.
        output_len: output tokens, likewise.
        prefix_hit: share of every prompt that the prefix cache has whenever the request is admitted; or
        cached_prefix: the same in tokens. Every sequence has blocks of its own for them.
        system_prompt: tokens before the lengths above that requests have in common.
        system_prompts: how many different ones there are; each conversation has one of them.
        turns: of a conversation, a distribution: a prompt is all before it and `input_len` new tokens; the rate is of turns.
        think: pause before each turn but the first: seconds, `10 s`, `exponential:10 s` or `lognormal:10 s:5 s`.
        requests: maximum number of requests.
        until: seconds (or a text with a unit) after which none arrives; those that have arrived are served.
        profile: relative load in equal parts of a day, a list or a file: the rate is the mean over the day.
        day: its length in seconds, or a text with a unit: a day may be compressed. Default: 24 h.
        ttft: objective for the time to first token: seconds, or a text with a unit.
        tpot: objective for the time per output token after the first, on average over a request, likewise.
        replicas: copies of the deployment behind the router.
        router: `round-robin` (default), `least-loaded`, `least-tokens`, `power-of-two`, `prefix-aware`, `lora-aware` or
            `session-sticky`: of the replicas, and of the data-parallel ranks of each.
        attention_dp_balance: hold prompts until every data-parallel rank can start one, for at most 50 steps.
        autoscale: `min=1,max=8,policy=waiting,target=5,start-up=60 s`, a mapping, or a YAML file
            (`roofline.serving.simulation.autoscaling.parse_autoscale`); `replicas` are those at the start then.
        failures: `mtbf=6 h,repair=5 min,retries=5`, a mapping, or a YAML file
            (`roofline.serving.simulation.failures.parse_failures`).
        lora_adapters: number of LoRA adapters, of which each request has one: `100`, or by unequal shares `100:zipf:1`.
        max_loras: different adapters in a batch, and slots for them on the device.
        max_cpu_loras: adapters in the host's memory; others are read from disk.
        max_lora_rank: rank of all adapters.
        scheduler: `vllm-v1` (default), `vllm-v1-async`, `vllm-v0`, `sglang` (default with the engine `sglang`), `sarathi`,
            `orca`, `no-evict` (default with the engine `trtllm`), `static`, `sjf`, `priority`, `fair`.
        length_error: standard deviation of the logarithm of the output lengths that `sjf` predicts, over the true ones.
        max_wait: seconds (or a text with a unit) from arrival after which a request goes first, with `sjf`, `priority`, `fair`.
        admission: `all` (default), `queue:N`, `token-bucket:RATE[:BURST]` (prompt tokens/s and prompt tokens), or `slo`.
        preemption_candidate: `last-admitted`, `last-arrived`, `least-important`, `fewest-output-tokens` or `cheapest`; default:
            as the scheduler has it.
        preemption: `recompute` (default), `swap`, or `cheaper`: of the two, by the closed form.
        num_gpu_blocks_override: KV cache blocks of a replica, instead of those that fit.
        host_link: bytes/s (or a text with a unit) of large copies to the host in one direction. The next four are of these
            copies too.
        pinned: whether the host's memory is page-locked.
        coalesced: blocks are gathered and cross in one call each way, not in one per block, layer and tensor.
        gpus_per_link: devices behind one link to the host; those of a replica copy at the same time.
        host_memory: bytes for the preempted sequences of a replica; default: its share of the node's.
        kv_offload: tiers of the KV cache beside the device's: bytes of host memory per replica (or a text with a unit), by
            copies as above, or a YAML file of tiers.
        basis: `estimate` of step times (default where kernels were measured) or `bound`.
        seed: of all that is drawn at random.
        replications: runs with other seeds, for confidence intervals.
        warm_up: share of the requests that are not counted. Default: where at least 1,000 requests arrive at a rate, those
            before the steady state (MSER-5); of others none, or 10 % of each of several runs.
        skip_bad_rows: leave broken rows of a trace out.
        rows: a `.csv` or `.parquet` file for a row per request, written as they end.
        perfetto: a `.json` or `.json.gz` file for a trace of one run, which ui.perfetto.dev shows.
        stepwise: form every step on its own: slower, for checking.
        find_rate: find the highest rate at which the objectives hold, over `replications` seeds (default 5), beginning at
            `rate`; the result is of that rate.
        disaggregated: compute prompts and decode on separate replicas, and send KV caches from the ones to the others.
        prefill_replicas: replicas that compute prompts. Default: of `replicas`, the number at which the slower pool serves
            most.
        decode_replicas: replicas that decode, likewise.
        pools: YAML file (`kind: pools`) with options of a `prefill` and a `decode` pool, such as other hardware or parallelism;
            or of several `colocated` pools behind one router.
        transfer_bandwidth: bytes/s (or a text with a unit) of a KV cache per device in one direction. Default: of the network
            of a node, else of the link to the host.
        transfer_latency: seconds (or a text) that a transfer takes besides. Default: 0.
        first_token: `prefill`: the first token comes when the prompt is computed; `transfer`: when the cache has arrived;
            `decode`: with the first decode step. Default: as the engine does (vLLM: `decode`; SGLang, TensorRT-LLM:
            `transfer`).
        percentile: percentage of the requests of each class that must meet both objectives; default: 95, or as the traffic
            has it.
        interrupts: what Ctrl-C does: with it the run ends, and the result is of what was served so far (`interrupted`).
        progress: called now and then with the number of requests that have ended, and of all (None: unknown).
        **deployment: the options of `roofline analyze` that describe the deployment, and its speculative decoding.

    Returns:
        The result, without metrics where the deployment does not fit (`fits`). `.to_dict()` has the layout of
        `roofline simulate --json`.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, an invalid file, a scheduler that makes no progress.
    """
    given = dict(locals())
    if find_rate:
        from roofline.serving.simulation import find_rate as search

        return search.find_rate(simulate, given)
    if percentile is not None:
        raise InputError("--percentile says what --find-rate looks for: give that too")
    notes: list[Assumption] = []
    load = read_workload(
        trace=trace, workload=workload, rate=rate, requests=requests, until=until, skip_bad_rows=skip_bad_rows, notes=notes,
        input_len=input_len, output_len=output_len, ttft=ttft, tpot=tpot,
        prefix_hit=prefix_hit, cached_prefix=cached_prefix, system_prompt=system_prompt, system_prompts=system_prompts,
        turns=turns, think=think, profile=profile, day=day,
    )  # fmt: skip
    _note_cached_shares(load, notes, tiers=kv_offload is not None)
    host_options = parse_host_copy(
        host_link=host_link, pinned=pinned, coalesced=coalesced, gpus_per_link=gpus_per_link, host_memory=host_memory
    )
    policies = PolicyOptions(
        length_error=length_error, max_wait=max_wait, admission=admission, preemption_candidate=preemption_candidate,
        objective=any(one.ttft for one in load.classes), retries_at_once=any(not one.think for one in load.clients),
    )  # fmt: skip
    transfer = {"transfer_bandwidth": transfer_bandwidth, "transfer_latency": transfer_latency, "first_token": first_token}
    of_server = {
        "scheduler": scheduler, "preemption": preemption, "router": router, "num_gpu_blocks_override": num_gpu_blocks_override,
    }  # fmt: skip
    query = read_pools(
        disaggregated=disaggregated, pools=pools, prefill_replicas=prefill_replicas, decode_replicas=decode_replicas,
        replicas=replicas, transfer=transfer,
    )  # fmt: skip
    check_together(_mechanisms(given, query, adapters=any(one.adapter for one in load.classes)))
    tried: list[ResolvedRequest] = []

    def make(
        request: ResolvedRequest, pool: PoolOptions | None, listed: list[Assumption], speculation: Speculation | None = None
    ) -> ServerConfig:
        tried.append(request)
        balanced = attention_dp_balance and (pool is None or pool.role != "decode")
        own = {} if pool is None else pool.options
        return resolve_server(
            request, basis=basis, replicas=replicas if pool is None else None, stepwise=stepwise, notes=listed,
            host_options=host_options, enable_prefix_caching=request.prefix_caching, attention_dp_balance=balanced,
            shares=load.has_content, autoscale=autoscale, failures=failures, kv_offload=kv_offload, speculation=speculation,
            policies=policies, lora_adapters=lora_adapters, max_loras=max_loras, max_cpu_loras=max_cpu_loras,
            max_lora_rank=max_lora_rank, adapters=[one.adapter for one in load.classes],
            **{name: own.get(name, value) for name, value in of_server.items()},
        )  # fmt: skip

    try:
        if query is None:
            one, options = sized(hardware, {**deployment}, 1 if replicas is None else parse_count(replicas, "--replicas", 1))
            replica, speculation = resolve_speculative_replica(model, one, options)
            server = make(replica, None, notes, speculation)
        else:
            server = resolve_pools(query, model, hardware, {**deployment}, make, load, notes)
    except OutOfKVBlocksError as error:
        return without_fit(tried[-1], load, [*notes, *_assumptions(tried[-1])], str(error))
    num_runs = 1 if replications is None else parse_count(replications, "--replications", minimum=1)
    if num_runs > MAX_REPLICATIONS:
        raise InputError(f"--replications must be at most {MAX_REPLICATIONS:,}, not {num_runs:,}")
    if num_runs > 1 and not load.random:
        raise InputError("--replications: a trace is the same in each of them; give arrivals by --workload, such as poisson:8")
    first_seed = 0 if seed is None else parse_count(seed, "--seed")
    share, planned = _planned_warm_up(warm_up, num_runs, load, server)
    if perfetto is not None:
        _check_trace(server, num_runs)
    with ExitStack() as results:
        writer = None
        if rows is not None:
            writer = results.enter_context(RequestWriter(Path(rows), tuple(one.name for one in load.classes)))
        trace_file = (
            None if perfetto is None else results.enter_context(_trace(Path(perfetto), server, load.source, interrupts))
        )
        runs = _replicate(server, load, first_seed, num_runs, share, Observers(writer, trace_file, interrupts, progress))
    cut = warm_up_of(load, runs) if planned is None else replace(planned, requests=max(one.num_warm_up for one in runs))
    notes.append(Assumption("warm_up", cut.requests, "given" if cut.method in ("given", "workload") else "default", cut.why))
    notes += _assumptions(*[part.request for part in server.parts])
    return summarize(server, load, runs, notes, first_seed, cut)


def _note_cached_shares(load: Workload, notes: list[Assumption], *, tiers: bool) -> None:
    """Note the shares of prompts that are given as cached, which KV cache tiers would find themselves."""
    for one in load.classes:
        if value := one.prefix_hit or one.cached_prefix:
            name = "prefix_hit" if one.prefix_hit else "cached_prefix"
            if tiers:
                flag = f"--{name.replace('_', '-')}"
                msg = f"{flag} is a share that is cached whatever comes, and --kv-offload finds what is"
                raise InputError(f"{msg}: leave one of them out")
            why = "of every prompt, found whenever it is admitted; every sequence has blocks of its own for them"
            notes.append(Assumption(f"{one.name}.{name}", value, "given", why))


def _mechanisms(  # noqa: C901 - each option, once
    given: Mapping[str, Any], query: PoolsQuery | None, *, adapters: bool
) -> dict[Mechanism, str]:
    """What the options ask for that is not simulated together with everything, and the option that does."""
    mechanisms: dict[Mechanism, str] = {}
    schedulers = [given["scheduler"]]
    if query is not None:
        schedulers = [pool.options.get("scheduler", given["scheduler"]) for pool in query.pools]
        mechanisms["pools"] = "--disaggregated" if given["disaggregated"] else "--pools"
    plain: tuple[Mechanism, ...] = ("autoscale", "failures", "kv_offload", "max_wait")
    mechanisms |= {name: f"--{name.replace('_', '-')}" for name in plain if given[name] is not None}
    if given["preemption"] in ("swap", "cheaper"):
        mechanisms["swap"] = f"--preemption {given['preemption']}"
    if given["admission"] is not None:
        admission = parse_admission(str(given["admission"]))
        if admission.gate is not None:
            mechanisms["gate"] = f"--admission {admission.text}"
        if admission.control is not None:
            mechanisms["slo" if admission.needs_objective else "queue_limit"] = f"--admission {admission.text}"
    speculative, _ = read_options(given["deployment"])
    if speculative is not None and speculative.tokens:
        asks = next(name for name in SPECULATIVE if given["deployment"].get(name) is not None)
        mechanisms["speculation"] = f"--{asks.replace('_', '-')}"
        if speculative.method != "ngram":
            mechanisms["draft"] = mechanisms["speculation"]
    for name in schedulers:
        if name is not None and getattr(SCHEDULERS[name].queue(), "meter", None) is not None:
            mechanisms["fair"] = f"--scheduler {name}"
        elif name is not None and not SCHEDULERS[name].queue().fifo:
            mechanisms["ordered"] = f"--scheduler {name}"
    if given["lora_adapters"] is not None or adapters:
        mechanisms["lora"] = "--lora-adapters" if given["lora_adapters"] is not None else "adapter (of a class of requests)"
    return mechanisms


def _replicate(
    server: ServerConfig, workload: Workload, seed: int, num_runs: int, warm_up_share: float, observers: Observers
) -> list[Run]:
    """Runs with other seeds: all, or those that were whole when the user ended it, or what there is of the first."""
    runs: list[Run] = []
    for index in range(num_runs):
        one = run(server, workload, (seed, index), warm_up_share, observers)
        if not one.stopped or not runs:
            runs.append(one)
        if one.stopped:
            for each in runs:
                each.stopped = True
            break
    return runs


def _assumptions(*requests: ResolvedRequest) -> list[Assumption]:
    """What is assumed of the deployments, once."""
    notes = dict.fromkeys(note for request in requests for note in request.assumptions)
    return [note for note in notes if note.name not in _OF_A_STEP]


def _check_trace(server: ServerConfig, num_runs: int) -> None:
    """Refuse a trace of more than one run, or of replicas that change."""
    if num_runs > 1:
        raise InputError("--perfetto shows one run: leave out --replications")
    if server.fleet is not None:
        name = "autoscale" if server.fleet.autoscale is not None else "failures"
        raise InputError(f"--perfetto shows replicas that serve from begin to end: leave out --{name}")


def _trace(path: Path, server: ServerConfig, source: str, interrupts: Interrupts | None) -> Trace:
    metadata = {
        "tool": f"roofline {__version__}", "model": server.request.model.name, "hardware": server.request.hardware.name,
        "scheduler": server.scheduler.name, "preemption": server.preemption.mode, "basis": server.tables.basis,
        "workload": source,
    }  # fmt: skip
    return Trace(path, metadata) if interrupts is None else Trace(path, metadata, interrupts.whole)


def _planned_warm_up(warm_up: Any, num_runs: int, workload: Workload, server: ServerConfig) -> tuple[float, WarmUp | None]:
    """Share of the requests that are left out of each run from the start, and what that is called; None: it is found later."""
    if workload.warm_up:
        if warm_up is not None:
            raise InputError("--warm-up: the workload has a warm-up of its own; leave one of them out")
        return 0.0, WarmUp(0, "workload", "the first of each client, as the workload states")
    if warm_up is not None:
        share = flagged("warm-up", parse_share, warm_up)
        return share, WarmUp(0, "given", "of the requests of each run, its first ones, are not counted")
    if changing := changes(workload, server):
        return 0.0, WarmUp(0, "none", f"{changing}: all requests count")
    if not workload.closed and workload.rate is not None and (workload.num_expected or 0) >= MIN_REQUESTS:
        return 0.0, None
    if num_runs > 1:
        return WARM_UP, WarmUp(0, "default", "a tenth of the requests of each run, its first ones, is not counted")
    if workload.closed:
        return 0.0, WarmUp(0, "none", "a closed loop counts from its first request, unless it states a warm-up")
    few = f"of fewer than {MIN_REQUESTS:,} requests all count" if workload.rate is not None else "all requests come at once"
    return 0.0, WarmUp(0, "none", few)


def warm_up_of(workload: Workload, runs: Sequence[Run]) -> WarmUp:
    """Find the warm-up of runs with a steady arrival rate, and leave it out of each of them: the same number of requests.

    Args:
        workload: their requests.
        runs: runs of which nothing is left out yet; latencies are averaged over them.
    """
    if any(one.stopped for one in runs):
        return WarmUp(0, "none", "the run was interrupted: all that ended is counted")
    if any(is_saturated(workload, one) for one in runs):
        return WarmUp(0, "none", "saturated: there is no steady state to begin")
    import numpy as np

    latencies = {}
    for name in runs[0].metrics.groups:
        parts = [one.metrics.groups[name].sums() for one in runs]
        num_groups = min(len(sums) for sums, _ in parts)
        latencies[name] = tuple(np.sum([part[which][:num_groups] for part in parts], axis=0) for which in (0, 1))
    requests, why = initial_requests(latencies, runs[0].metrics.groups["ttft"].size)
    for one in runs:
        one.num_warm_up = one.metrics.cut(requests)
    return WarmUp(runs[0].num_warm_up, "mser-5", why)
