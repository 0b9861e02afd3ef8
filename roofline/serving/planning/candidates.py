"""From sized replicas to candidates: how many replicas, what they cost, how they perform, which come first."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from roofline.formatting import duration, percent
from roofline.predict.analyze import estimate_basis
from roofline.predict.engine_command import (
    TRTLLM_FILE,
    engine_command,
    sglang_command,
    trtllm_command,
    trtllm_options,
    vllm_command,
)
from roofline.predict.request import ResolvedRequest
from roofline.predict.speculation import Speculation
from roofline.registry import Registry
from roofline.serving.kv_transfer import cache_link
from roofline.serving.planning.batch import BatchPerformance, batch_performance, fewest_replicas
from roofline.serving.planning.load import Load, Query
from roofline.serving.planning.performance import ClosedLoopPerformance, Performance, closed_loop_performance, performance
from roofline.serving.planning.result import Candidate, Cost, Finish, Pool, Power, Simulated
from roofline.serving.planning.search import Option
from roofline.serving.planning.sizing import Role, SizedReplica
from roofline.serving.queueing.replica import BOUND
from roofline.serving.queueing.steady import steady
from roofline.serving.simulation.autoscaling import start_up
from roofline.serving.traffic.profile import Paid
from roofline.specs.hardware import Hardware
from roofline.specs.library import load_engine
from roofline.specs.prices import Price
from roofline.specs.workload import Step, decode, prefill

_VLLM_KV_ROLES = {"prefill": "kv_producer", "decode": "kv_consumer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLaunch:
    """A replica to start an engine for.

    Args:
        request: the deployment.
        longest: tokens of the longest sequence.
        pool: prefill or decode, if the two are disaggregated.
        prefix_caching: whether prompts share prefixes.
        speculation: the model with its draft; None: no tokens are drafted.
    """

    request: ResolvedRequest
    longest: int
    pool: str | None = None
    prefix_caching: bool = False
    speculation: Speculation | None = None


@dataclass(frozen=True, slots=True)
class EngineFlags:
    """The command line of an engine. Packages add one through the entry point group `roofline.engine_flags`.

    Args:
        name: of the engine.
        flags: makes the command line of a replica, word by word; None if the engine has no such option.
        version: of the engine; None: that of the request's engine.
        files: contents of the files that the command line names, by name; None: it names none.
    """

    name: str
    flags: Callable[[ReplicaLaunch], list[str] | None]
    version: str | None = None
    files: Callable[[ReplicaLaunch], dict[str, str]] | None = None

    def label(self, request: ResolvedRequest) -> str:
        """Name and version of the engine, such as `vllm@0.19`."""
        own = request.engine if request.engine.name == self.name else load_engine(self.name)[0]
        return f"{self.name}@{self.version or own.version}"


def _vllm_flags(start: ReplicaLaunch) -> list[str]:
    """VLLM's server.

    Sources: https://docs.vllm.ai/en/latest/configuration/engine_args.html; a cache that moves between servers:
    https://docs.vllm.ai/en/stable/features/nixl_connector_usage.html.
    """
    words = list(vllm_command(start.request, start.longest))
    if start.prefix_caching and start.request.prefix_caching is None:
        words.append("--enable-prefix-caching")
    if start.pool is not None:
        role = {"kv_connector": "NixlConnector", "kv_role": _VLLM_KV_ROLES[start.pool]}
        words += ["--kv-transfer-config", json.dumps(role)]
    if start.speculation is not None:
        words += ["--speculative-config", json.dumps(_speculative_config(start.speculation))]
    return words


def _speculative_config(speculation: Speculation) -> dict[str, Any]:
    """VLLM's `--speculative-config`: https://docs.vllm.ai/en/latest/features/speculative_decoding/."""
    options, draft = speculation.options, speculation.draft.request
    config: dict[str, Any] = {"method": options.method, "num_speculative_tokens": options.tokens}
    if options.model is not None and draft is not None:
        config["model"] = draft.model.hf_id or draft.model.name
        if options.draft_tensor_parallel_size is not None:
            config["draft_tensor_parallel_size"] = options.draft_tensor_parallel_size
    return config


def _sglang_flags(start: ReplicaLaunch) -> list[str] | None:
    """SGLang's server, as far as its options mean the same: not those of drafts."""
    if start.speculation is not None:
        return None
    words = list(sglang_command(start.request, start.longest))
    if words and start.pool is not None:
        words += ["--disaggregation-mode", start.pool]
    return words or None


def _trtllm_flags(start: ReplicaLaunch) -> list[str] | None:
    """TensorRT-LLM's server; a pool needs its orchestrator beside it (`trtllm-serve disaggregated`). None with drafts."""
    if start.speculation is not None:
        return None
    return list(trtllm_command(start.request, start.longest)) or None


def _trtllm_files(start: ReplicaLaunch) -> dict[str, str]:
    """The file of options that TensorRT-LLM's command names.

    Source: of pools, https://nvidia.github.io/TensorRT-LLM/1.0.0/features/disagg-serving.html: caches are moved by a
    transceiver, and servers of prompts do not overlap their scheduler.
    """
    options = trtllm_options(start.request, start.longest)
    if start.pool is not None:
        more = ", disable_overlap_scheduler: true" if start.pool == "prefill" else ""
        options = options.removesuffix("}") + f", cache_transceiver_config: {{backend: DEFAULT}}{more}}}"
    return {TRTLLM_FILE: options}


ENGINES = Registry(
    "engine",
    (
        EngineFlags("sglang", _sglang_flags, "0.5"), EngineFlags("trtllm", _trtllm_flags, "1.0", _trtllm_files),
        EngineFlags("vllm", _vllm_flags),
    ),
    group="roofline.engine_flags",
    accepts=EngineFlags,
)  # fmt: skip


_TINY = 1e-9
_HIGH_UTILIZATION = 0.75  # docs/capacity.md, errors by utilization
_DISAGGREGATED: tuple[Role, ...] = ("prefill", "decode")
_CLOSED_LOOP_TRIALS = 24  # numbers of replicas that are tried for a closed loop


class PoolSize(NamedTuple):
    """Equal replicas, spares not counted, in a role."""

    option: Option
    role: Role
    sized: SizedReplica
    replicas: int


@dataclass(frozen=True)
class CandidateDraft:
    """One pool, or a prefill and a decode pool, of a size that meets the objectives: what is needed to rank them.

    Args:
        pools: one or two pools.
        spare: replicas of each pool for those that fail.
        closed_loop: the performance, if clients send the requests, or all are there at once.
        batch: the finish time, if all are there at once.
    """

    pools: tuple[PoolSize, ...]
    spare: int
    closed_loop: ClosedLoopPerformance | None = None
    batch: BatchPerformance | None = None

    @property
    def option(self) -> Option:
        """The deployment that decodes."""
        return self.pools[-1].option

    @property
    def devices(self) -> int:
        """Devices of all replicas, spares included."""
        return sum(pool.option.devices * (pool.replicas + self.spare) for pool in self.pools)

    @property
    def max_rate(self) -> float:
        """Requests/s within the objectives, of the tightest pool, spares not counted."""
        return min(pool.sized.max_rate * pool.replicas for pool in self.pools)


def drafts(query: Query, options: Sequence[Option]) -> list[CandidateDraft]:
    """The number of replicas of every deployment that meets the objectives, whatever it costs.

    Args:
        query: the query.
        options: deployments that fit; those that cannot meet the objectives at any number of replicas are left out.
    """
    if query.batch is not None:
        return [draft for option in options if (draft := batch_draft(query, option)) is not None]
    clients = query.load.concurrency
    if clients is not None:
        return [draft for option in options if (draft := _closed_loop_draft(query, option, clients)) is not None]
    rate = query.load.rate
    assert rate is not None  # noqa: S101 - a load has either a rate or clients
    colocated = [
        CandidateDraft((PoolSize(option, "both", sized, _needed(rate, sized)),), query.spare)
        for option in options if (sized := option.sized.get("both")) is not None and sized.max_rate > 0
    ]  # fmt: skip
    return colocated + list(_disaggregated(query, options, rate))


def _needed(rate: float, sized: SizedReplica) -> int:
    """Replicas that serve a rate within the objectives."""
    return max(math.ceil(rate / sized.max_rate * (1 - _TINY)), 1)


def _disaggregated(query: Query, options: Sequence[Option], rate: float) -> Iterable[CandidateDraft]:
    """Prefill and decode pools on one kind of hardware in one precision: of each the one with fewest devices."""
    groups: dict[tuple[str, str], list[Option]] = {}
    for option in options:
        groups.setdefault((option.hardware.name, option.precision), []).append(option)
    for group in groups.values():
        pools: list[PoolSize] = []
        for role in _DISAGGREGATED:
            able = [
                PoolSize(option, role, sized, _needed(rate, sized)) for option in group
                if (sized := option.sized.get(role)) is not None and sized.max_rate > 0
            ]  # fmt: skip
            if able:
                pools.append(min(able, key=lambda p: ((p.replicas + query.spare) * p.option.devices, p.option.devices)))
        if len(pools) == 2:
            yield CandidateDraft(tuple(pools), query.spare)


def batch_draft(query: Query, option: Option, replicas: int | None = None) -> CandidateDraft | None:
    """The replicas of a deployment that end offline work in time: as many as given, or the fewest; None if none do."""
    work, sized = query.batch, option.sized.get("both")
    if work is None or sized is None:
        return None
    if replicas is None and (replicas := fewest_replicas(sized, query.load, work)) is None:
        return None
    seen = batch_performance(sized, query.load, work.requests / replicas)
    return CandidateDraft((PoolSize(option, "both", sized, replicas),), query.spare, seen.each, seen)


def closed_loop_draft(query: Query, option: Option, replicas: int) -> CandidateDraft:
    """Some replicas of a deployment for the clients of a query."""
    sized = option.sized["both"]
    seen = closed_loop_performance(sized, query.load, (query.load.concurrency or 1) / replicas)
    return CandidateDraft((PoolSize(option, "both", sized, replicas),), query.spare, seen)


def _closed_loop_draft(query: Query, option: Option, clients: int) -> CandidateDraft | None:
    """The fewest replicas with which the clients are within the objectives."""
    load, sized = query.load, option.sized["both"]
    allowed = max(query.devices(option.hardware) // option.devices - query.spare, 1)
    most = min(clients, allowed)
    tried = sorted({round(most ** (step / _CLOSED_LOOP_TRIALS)) for step in range(_CLOSED_LOOP_TRIALS + 1)} | {2, 3})
    before = 0
    for replicas in (count for count in tried if count <= most):
        if not closed_loop_performance(sized, load, clients / replicas).misses(load):
            low, high = before, replicas
            while high - low > 1:
                middle = (low + high) // 2
                missed = closed_loop_performance(sized, load, clients / middle).misses(load)
                low, high = (middle, high) if missed else (low, middle)
            return closed_loop_draft(query, option, high)
        before = replicas
    return None


class Ranked(NamedTuple):
    """A draft in order: its Pareto measures, and the value that it is ranked by."""

    draft: CandidateDraft
    measures: tuple[float, ...]
    value: float


def order(
    query: Query, unordered: Sequence[CandidateDraft], simulated: Mapping[int, Simulated] = MappingProxyType({})
) -> list[Ranked]:
    """Sort drafts by the query's rank. In a closed loop, where each draft has its own rate, an hour's cost is per token.

    Ties go to fewer devices, then to lower latency. Ranked by cost, drafts without a price come last, by devices instead.

    Args:
        query: the query.
        unordered: the drafts.
        simulated: simulations by `id` of a draft, whose times and rates count instead of those that were predicted.

    Returns:
        Each draft with its Pareto measures: cost per hour (over the rate in a closed loop, unless ranked by `cost`; devices, if
        any draft has no price), mean TTFT and mean TPOT in s; of offline work cost and finish time.
    """
    ranked = []
    costs = [cost_per_hour(query, draft) for draft in unordered]
    priced = None not in costs
    for draft, hour in zip(unordered, costs, strict=True):
        seen = simulated.get(id(draft))
        ttft, tpot = _mean_times(query, draft)
        finish = None if draft.batch is None else draft.batch.finish_s
        if seen is not None and seen.simulation is not None:
            finish = finish and seen.finish_s
            ttft, tpot = (times.mean or 0.0 for times in (seen.simulation.ttft_s, seen.simulation.tpot_s))
        # at a given rate all serve the same tokens; clients send more to those that answer sooner
        rate = 1.0 if draft.closed_loop is None else draft.closed_loop.rate * draft.pools[0].replicas
        if draft.closed_loop is not None and seen is not None and seen.requests_per_s:
            rate = seen.requests_per_s
        per = 1.0 if query.rank == "cost" else rate
        cost, devices = None if hour is None else hour / per, draft.devices / per
        key: tuple[float, ...] = (float("inf"), devices, tpot, ttft) if cost is None else (cost, draft.devices, tpot, ttft)
        if query.rank == "gpus":
            key = (draft.devices, key[0], tpot, ttft)
        elif query.rank == "latency":  # of a mean request, from its arrival to its last token
            key = (ttft + (query.load.mean_output - 1) * tpot, key[0], draft.devices)
            if finish is not None:
                key = (finish, *key[1:])
        first = cost if priced and cost is not None else devices
        value = devices if key[0] == float("inf") else key[0]
        measures = (first, ttft, tpot) if finish is None else (first, finish)
        ranked.append((key, Ranked(draft, measures, value)))
    ranked.sort(key=lambda each: each[0])
    return [one for _, one in ranked]


def _mean_times(query: Query, draft: CandidateDraft) -> tuple[float, float]:
    """Mean TTFT and TPOT of a draft, s, without bands and percentiles."""
    if draft.closed_loop is not None:
        seen = draft.closed_loop.performance
        return seen.ttft.mean or 0.0, seen.tpot.mean or 0.0
    rate = query.load.rate or 0.0
    first, last = draft.pools[0], draft.pools[-1]
    each = rate / (first.replicas + draft.spare)
    prefills = steady(first.sized.at(query.load, each).server, each)
    decodes = prefills if last is first else steady(last.sized.server, rate / (last.replicas + draft.spare))
    shares = [service.mix.share for service in query.load.services]
    return (
        sum(share * float(prefills.ttft_mean(k)[0]) for k, share in enumerate(shares)),
        sum(share * float(decodes.tpot_mean(k)[0]) for k, share in enumerate(shares)),
    )


def cost_per_hour(query: Query, draft: CandidateDraft) -> float | None:
    """Cost per hour of all devices of a draft, spares included, in the currency of the prices; None without a price."""
    price = query.prices.of(draft.option.hardware, draft.devices)
    return None if price is None else price.value * draft.devices


def watts(hardware: Hardware, devices: int = 1) -> float | None:
    """TDP of `devices` accelerators in W, an upper bound of their power; None if the file of the hardware has no `power`.

    NB: a step that waits for memory draws less, an idle accelerator a fraction; hosts, switches and storage are not included.
    """
    power = hardware.accelerator.power
    return None if power is None else power.value * devices


def typical_steps(request: ResolvedRequest, load: Load) -> tuple[Step, ...]:
    """A full decode step at the end of a mean request, and a mean prompt in each rank."""
    ranks, slots = request.deployment.data_parallel_size, request.deployment.max_num_seqs or 1
    return decode(slots * ranks, round(load.mean_input + load.mean_output)), prefill(ranks, round(load.mean_input))


def candidate(query: Query, draft: CandidateDraft) -> Candidate:
    """The candidate of a draft: its performance, cost, power, deployments and notes."""
    seen, rate, mean_rate = _performance(query, draft)
    load, hardware = query.load, draft.option.hardware
    outputs, inputs = mean_rate * load.mean_output, mean_rate * load.mean_input
    power = watts(hardware, draft.devices)
    closed = draft.closed_loop is not None
    request = draft.pools[-1].sized.replica.request
    return Candidate(
        hardware=hardware.name,
        title=hardware.title if hardware.node is None else f"{hardware.accelerator.title} of {hardware.title}",
        mode="colocated" if len(draft.pools) == 1 else "disaggregated",
        precision=draft.option.precision,
        pools=tuple(_pool(query, draft, pool, seen) for pool in draft.pools),
        performance=seen,
        requests_per_s=rate,
        output_tokens_per_s=rate * load.mean_output,
        input_tokens_per_s=rate * load.mean_input,
        cost=_cost(query, draft, seen, inputs, outputs),
        power=Power(power, None if power is None or not outputs else power * query.pue / outputs, query.pue),
        headroom=None if closed else draft.max_rate / rate - 1,
        breaks_at=None if closed else draft.max_rate,
        basis=draft.pools[0].sized.replica.basis,
        finish_s=None if draft.batch is None else _finish(query, draft, draft.batch),
        notes=tuple(_notes(query, draft, seen)),
        estimate_basis=estimate_basis(request, typical_steps(request, load)),
    )


def _performance(query: Query, draft: CandidateDraft) -> tuple[Performance, float, float]:
    """Performance, requests/s at the peak, and mean requests/s."""
    if draft.closed_loop is not None:
        rate = draft.closed_loop.rate * draft.pools[0].replicas
        return draft.closed_loop.performance, rate, rate
    rate, mean = query.load.rate or 0.0, query.load.mean_rate or 0.0
    first, last = draft.pools[0], draft.pools[-1]
    rates = (rate / (first.replicas + draft.spare), rate / (last.replicas + draft.spare))
    after = first.option.after_s if last is not first else ()
    return performance(first.sized, last.sized, query.load, rates, after), rate, mean


def _cost(query: Query, draft: CandidateDraft, seen: Performance, inputs: float, outputs: float) -> Cost:
    """Cost at mean input and output tokens/s."""
    price = query.prices.of(draft.option.hardware, draft.devices)
    if price is None:
        return Cost()
    devices = draft.devices
    hour = price.value * devices
    per_second = hour / 3600
    share = seen.prompt_share
    if len(draft.pools) == 2:
        prefill = draft.pools[0]
        share = prefill.option.devices * (prefill.replicas + draft.spare) / devices
    return Cost(
        per_hour=hour,
        low=price.low * devices,
        high=price.high * devices,
        input=per_second * share / inputs * 1e6 if inputs else None,
        output=per_second * (1 - share) / outputs * 1e6 if outputs else None,
        total=per_second / (inputs + outputs) * 1e6,
        currency=price.currency,
        price=price.describe(),
        scaled_per_hour=_scaled(query, draft, price),
        offers=price.offers,
    )


def _finish(query: Query, draft: CandidateDraft, batch: BatchPerformance) -> Finish:
    """When offline work is done, and what it costs until then."""
    price = query.prices.of(draft.option.hardware, draft.devices)
    hours = draft.devices * batch.finish_s / 3600
    finish = Finish(batch.finish_s, batch.low_s, batch.high_s, batch.bound_s)
    if price is None:
        return finish
    work = query.batch
    assert work is not None  # noqa: S101 - drafts with a finish time are of batch work
    cost = price.value * hours
    return replace(
        finish, cost=cost, cost_low=price.low * hours, cost_high=price.high * hours,
        per_million_output=cost / (work.requests * query.load.mean_output) * 1e6,
    )  # fmt: skip


def _scaled(query: Query, draft: CandidateDraft, price: Price) -> float | None:
    """Mean cost per hour with as many replicas as each part of the day needs, each from when it is requested."""
    profile, mean = query.traffic.profile, query.load.mean_rate
    if profile is None or mean is None:
        return None
    pools = []
    for pool in draft.pools:
        needed = (_needed(mean * factor, pool.sized) + draft.spare for factor in profile.factors)
        devices = tuple(replicas * pool.option.devices for replicas in needed)
        pools.append(Paid(devices, start_up_s(query, pool.sized)))

    def cost(devices: int) -> float:
        mean = price.for_devices(devices)
        assert mean is not None  # noqa: S101 - no part of the day needs more than the peak, which the offers have
        return mean.value * devices

    return profile.mean_paid(pools, cost)


def start_up_s(query: Query, sized: SizedReplica) -> float:
    """Seconds from the request for a replica until it serves: as given, or to load its weights and start its engine."""
    return query.start_up if query.start_up is not None else start_up(sized.replica.request, {}, [])


def _pool(query: Query, draft: CandidateDraft, size: PoolSize, seen: Performance) -> Pool:
    sized, request = size.sized, size.sized.replica.request
    hits = sized.prefix_cache is not None or any(service.mix.cached for service in query.load.services)
    batch = sized.slots * request.deployment.data_parallel_size
    full = replace(request, workload=replace(request.workload, batch=batch, steps=(("decode", decode(batch, 1)),)))
    pool = None if size.role == "both" else size.role
    start = ReplicaLaunch(
        request=full, longest=size.option.longest, pool=pool, prefix_caching=hits, speculation=sized.replica.speculation
    )
    # the engine that was asked for first, whose options the search is of
    engines = sorted(ENGINES.values(), key=lambda engine: engine.name != request.engine.name)
    lines = {engine.label(request): flags for engine in engines if (flags := engine.flags(start)) is not None}
    written = {engine.label(request): engine.files(start) for engine in engines if engine.files is not None}
    return Pool(
        role=size.role,
        replicas=size.replicas + draft.spare,
        spare=draft.spare,
        devices=request.deployment.devices,
        deployment=_deployment(size),
        engine_flags=lines,
        engine_files={label: files for label, files in written.items() if label in lines},
        max_rate=sized.max_rate,
        binds=sized.binds,
        running=0.0 if size.role == "prefill" else seen.running,
    )


def _deployment(size: PoolSize) -> dict[str, Any]:
    """A deployment as keys of the JSON output, with the batch limit that memory allows at mean lengths."""
    request, chosen = size.sized.replica.request, size.sized.replica.request.deployment
    published = request.model.quantization
    speculation = size.sized.replica.speculation
    drafted = {} if speculation is None else {"speculative": _speculative(speculation)}
    return {
        "checkpoint": request.model.hf_id or request.model.name,
        "weight_dtype": request.precision.dtypes("linear").weight.name,
        "activation_dtype": request.precision.activation.name,
        "kv_dtype": request.precision.kv.name,
        "quantization": chosen.quantization or (published[0].name if published else None),
        "tensor_parallel": chosen.tensor_parallel_size,
        "pipeline_parallel": chosen.pipeline_parallel_size,
        "data_parallel": chosen.data_parallel_size,
        "expert_parallel": chosen.expert_parallel_size,
        "context_parallel": chosen.context_parallel_size,
        "max_num_seqs": size.sized.slots,
        "max_num_batched_tokens": size.sized.budget,
        "max_model_len": size.option.longest,
        "gpu_memory_utilization": request.memory.utilization,
        "block_size": request.memory.block_size,
        "engine": f"{request.engine.name}@{request.engine.version}",
        "backend": chosen.backend,
        **drafted,
    }


def _speculative(speculation: Speculation) -> dict[str, Any]:
    options = speculation.options
    return {
        "method": options.method, "draft": speculation.draft.name, "num_speculative_tokens": options.tokens,
        "acceptance": options.acceptance, "tokens_per_round": speculation.tokens,
    }  # fmt: skip


def _notes(query: Query, draft: CandidateDraft, seen: Performance) -> Iterable[str]:
    option, load = draft.option, query.load
    if draft.batch is not None and query.batch is not None and (draft.batch.high_s or 0.0) > query.batch.deadline_s:
        yield "at the slow end of the estimate's interval, it ends after the deadline"
    if draft.pools[0].sized.replica.basis == BOUND:
        name = option.hardware.accelerator.name
        yield f"times are roofline bounds: no kernels of {name} were measured"
    if seen.utilisation > _HIGH_UTILIZATION and load.concurrency is None:
        share = percent(_HIGH_UTILIZATION, 0)
        yield f"beyond {share} of the saturation rate, waits may be up to a quarter longer than predicted"
    yield from _notes_on_cache(query, draft, seen)
    yield from _notes_on_formats(query, draft.pools[0].sized.replica.request)
    longest = load.beyond if load.beyond is not None else load.longest
    if longest > option.longest:
        yield f"requests of more than {option.longest:,} tokens are refused by --max-model-len"
    if (speculation := draft.pools[-1].sized.replica.speculation) is not None:
        options = speculation.options
        yield (
            f"{speculation.draft.name}: {options.tokens} tokens are drafted per round, each accepted with the given "
            f"probability of {options.acceptance:g}, so that a round gives {speculation.tokens:.3g} tokens"
        )
    if query.traffic.profile is not None and query.load.mean_rate is not None:
        takes = duration(max(start_up_s(query, pool.sized) for pool in draft.pools))
        yield f"a fleet that follows the profile requests replicas {takes} before they serve"
    if len(draft.pools) == 2:
        link = cache_link(option.hardware)
        assert link is not None  # noqa: S101 - disaggregated pools are only tried if there is a link
        yield f"caches move over {link[0]} at {link[1] / 1e9:g} GB/s per device"


def _notes_on_cache(query: Query, draft: CandidateDraft, seen: Performance) -> Iterable[str]:
    """What a KV cache that retains prefixes cannot do."""
    state, pool = seen.cache, draft.pools[0]
    if query.load.retained and pool.sized.prefix_cache is None:
        yield "no prefixes are retained: blocks of layers with a window or a state are found by rules that are not modeled"
    if state is None or query.load.rate is None:
        return
    if state.cache.given and state.needed is None:
        yield f"the hit share that is given is more than the {percent(state.max_hit_rate, digits=3)} that turns have in common"
    elif state.needed is not None and state.needed > (free := state.cache.num_blocks - state.running):
        size = state.cache.block_size * state.cache.ranks
        yield (
            f"the given hit share needs {state.needed * size:,.0f} tokens of KV cache beside the running requests, which leave "
            f"{max(free, 0.0) * size:,.0f}: enough for {percent(state.achievable_hit_rate, digits=3)}"
        )
    sized, each = pool.sized, query.load.rate / (pool.replicas + draft.spare)
    empty = sized.server_of(query.load, state.cache.none_cached).capacity
    if empty < each:
        yield (
            f"with an empty KV cache a replica serves {empty:.3g} requests/s, less than its {each:.3g}: after a start, or a "
            "burst that evicts what is retained, it recovers only under less load"
        )


def _notes_on_formats(query: Query, request: ResolvedRequest) -> Iterable[str]:
    model, chosen = request.model, request.deployment
    if chosen.quantization == "fp8" and not model.quantization and "quantization" not in query.fixed:
        yield "the checkpoint is not in fp8: check the output quality with fp8 weights"
    if (wanted := chosen.quantization) not in (None, "none") and f"./{model.name}-{wanted}" in engine_command(request, 1):
        yield f"the engine loads the format that a checkpoint has: its command names a folder for one in {wanted}"
    if model.quantization != query.model.quantization:
        yield f"weights are those of {model.hf_id}"
    if chosen.kv_cache_dtype == "fp8" and "kv_cache_dtype" not in query.fixed:
        yield "the KV cache is in fp8, for which the checkpoint has no scales: check the output quality"
