"""`replay`: simulate the requests of a measured run on the deployment that it had, and compare latencies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from roofline import formatting
from roofline.audit.engine_logs import names
from roofline.audit.replay.fit import DeviceRates, FitResult, fit_rates, profile_link
from roofline.audit.replay.result import Comparison, Latencies, Replay
from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.errors import InputError
from roofline.graph.build import build
from roofline.graph.sharding import stages
from roofline.predict.analyze import estimate_basis, facts
from roofline.predict.bounds import matrix_dtype
from roofline.predict.efficiency.estimate import REDUCING
from roofline.predict.efficiency.kernels import kernels
from roofline.predict.options import ALIASES
from roofline.predict.request import sized
from roofline.serving.simulation.ranks import RankGroup
from roofline.serving.simulation.replica import Replica
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.router import ROUTERS, AnyReplica, open_loop
from roofline.serving.simulation.server import ServerConfig, resolve_replica, resolve_server
from roofline.serving.simulation.step_log import END, StepLog
from roofline.serving.traffic.engine_run import EngineMeta, EngineRun, read_run
from roofline.specs.hardware import Hardware
from roofline.specs.library import by_driver_name, load_hardware
from roofline.specs.source import Assumption, Origin
from roofline.specs.workload import Segment, decode, prefill
from roofline.units import parse_count

_MIN_FIT = 10
"""Requests that two constants are fitted on, at least."""
_DP_ROUTER = "least-loaded"
"""Router of the data-parallel ranks of a run (vLLM, v1/engine/core_client.py, DPLBAsyncMPClient, which weighs waiting ones)."""
_OF_A_STEP = ("batch", "input_len", "context", "shared_prefix")
"""Assumptions on the step that `analyze` is about: here the run has them."""


def replay(
    run: str | Path | EngineRun,
    model: str | PathLike[str] | Model | None = None,
    hardware: str | PathLike[str] | Hardware | None = None,
    *,
    fit_first: int | str | None = None,
    scheduler: str | None = None,
    basis: str | None = None,
    skip_bad_rows: bool = False,
    num_gpu_blocks_override: int | str | None = None,
    **deployment: Any,
) -> Replay:
    """Simulate the requests of a measured run, with its arrivals and lengths, and compare the latencies.

    Args:
        run: its folder (see `roofline.serving.traffic.read_run`), or the run itself.
        model: a shipped id, the path of a file, or a loaded model; default: the model that the run names.
        hardware: likewise.
        fit_first: fit compute rate and bandwidth on this many requests, the first that arrived (at least 10), and compare on
            the others. With several tensor-parallel devices the bandwidth of all-reduces is fitted too, if these requests
            determine it. The rates are of this run, its model and its tensor-parallel size.
        scheduler: as in `simulate`; default: `vllm-v1-async` or `vllm-v1`, as the run had it.
        basis: `estimate` of step times (default where kernels were measured) or `bound`.
        skip_bad_rows: leave broken lines out; otherwise the first one is an error.
        num_gpu_blocks_override: KV blocks of a replica; default: those that the run had, else those that fit.
        **deployment: the options of `roofline analyze` that describe the deployment, instead of those of the run.

    Returns:
        Measured and simulated latencies in seconds; `.to_dict()` has the layout of `roofline replay --json`.

    Raises:
        SpecError: a file that is missing or broken.
        InputError: no model or hardware named, an unknown name, a wrong value, fewer requests than `fit_first` needs, a model
            that does not fit, or a request that the deployment could never serve.
    """
    measured = run if isinstance(run, EngineRun) else read_run(run, skip_bad_rows)
    notes: list[Assumption] = []
    if measured.trace.skipped:
        why = f"broken, and left out: {'; '.join(measured.trace.reasons)}"
        notes.append(Assumption("skipped_rows", measured.trace.skipped, "given", why))
    replayer = Replayer(measured, model, hardware, scheduler, basis, num_gpu_blocks_override, deployment, notes)
    num_fit = None if fit_first is None else parse_count(fit_first, "--fit-first", minimum=_MIN_FIT)
    if num_fit is not None and num_fit >= len(measured):
        raise InputError(
            f"--fit-first {num_fit:,}: the run has {len(measured):,} requests, and some have to be left to judge by"
        )
    return replayer.result(num_fit)


@dataclass(frozen=True)
class Served:
    """Simulated latencies of the requests of a run, and the number of preemptions."""

    latencies: Latencies
    num_preemptions: int


@dataclass(frozen=True, slots=True)
class LinkFit:
    """The bandwidth of all-reduces in a fit.

    Attributes:
        stated: byte/s that the estimate reaches in a step full of prompt tokens, or that were given.
        origin: `fitted`; `held` at the stated value, because the requests do not determine it; or `given`.
        low: lower end of the 80 % interval, byte/s.
        high: upper end.
        why: reason for a value that was not fitted.
        profile: fits of the other rates at several rates of the link.
    """

    stated: float
    origin: str
    low: float
    high: float
    why: str
    profile: tuple[FitResult, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as under `card.link` in `roofline replay --json`; byte/s."""
        profile = [{**fit.rates.options(), "error": fit.error} for fit in self.profile]
        interval = {"low": self.low, "high": self.high}
        return {"stated": self.stated, "origin": self.origin, **interval, "why": self.why, "profile": profile}


def serve(run: EngineRun, server: ServerConfig) -> Served:
    """Simulate the requests of a run with their own arrival times and lengths.

    As an engine's own times do, latencies begin when the engine looks for new requests, which it does between two steps.

    Raises:
        InputError: a request that is longer than the server allows or than its KV cache.
    """
    import numpy as np

    log, num_ranks, router = StepLog(), server.tables.ranks, ROUTERS[server.router]
    probes = [
        Replica(server.scheduler, server.tables, server.config, log=log, preemption=server.preemption, index=index)
        for index in range(server.replicas * num_ranks)
    ]
    replicas: list[AnyReplica] = list(probes)
    if num_ranks > 1:
        groups = [probes[first : first + num_ranks] for first in range(0, len(probes), num_ranks)]
        replicas = [RankGroup(group, server.tables, router.route(group)) for group in groups]
    rows = zip(run.arrived.tolist(), run.trace.prompts.tolist(), run.trace.outputs.tolist(), strict=True)
    requests = [Request(index, *row) for index, row in enumerate(rows)]

    def refuse(request: Request) -> bool:
        num_tokens = request.num_prompt_tokens + request.max_tokens
        why = probes[0].refusal(request)
        if num_tokens > server.max_model_len:
            why = f"has {num_tokens:,} tokens, and a sequence at most {server.max_model_len:,} (--max-model-len)"
        if why is None:
            return False
        raise InputError(f"{run.trace.path}: request {request.index} {why}: the run had another deployment")

    open_loop(requests, replicas, router.route(replicas), refuse)
    ends = np.array(log.ends, dtype=np.float64).reshape(-1, len(END))
    ended = dict(zip(END, ends[np.argsort(ends[:, END.index("index")])].T, strict=True))
    seen = np.array([request.seen_time for request in requests])
    return Served(Latencies.of(seen, ended["first"], ended["ended"], run.trace.outputs), log.num_preemptions)


class Replayer:
    """A measured run with its deployment: what the files of the run say, and what the user gives instead.

    Args:
        run: the measured run.
        model: as in `replay`.
        hardware: likewise.
        scheduler: likewise.
        basis: likewise.
        num_blocks: KV blocks of a replica; None: as measured, else as many as fit.
        deployment: options of `roofline analyze` that replace those of the run.
        notes: gets an assumption for everything that was not given.

    Raises:
        InputError: no model or hardware named, or an unknown name.
    """

    def __init__(
        self, run: EngineRun, model: Any, hardware: Any, scheduler: str | None, basis: str | None, num_blocks: Any,
        deployment: dict[str, Any], notes: list[Assumption],
    ) -> None:  # fmt: skip
        self.run, self.notes, self.basis = run, notes, basis
        meta = run.meta
        hardware, deployment = sized(hardware, deployment)
        given = {name: value for name, value in deployment.items() if value is not None}
        self.inputs: list[Any] = []
        self.model = model if isinstance(model, Model) else self._model(model, meta, given.pop("assume", None))
        self.hardware = hardware if isinstance(hardware, Hardware) else self._hardware(hardware, meta)
        of_run = dict(meta.options) if meta is not None else {}
        measured_blocks = of_run.pop("num_gpu_blocks_override", None)
        self.num_blocks = measured_blocks if num_blocks is None else num_blocks
        replaced = {ALIASES.get(name, name) for name in given}
        self.options = {**{name: value for name, value in of_run.items() if name not in replaced}, **given}
        self.replicas, self.router = self._data_parallel(1 if meta is None else meta.data_parallel_size, replaced)
        self.scheduler = scheduler or self._scheduler(meta)
        if meta is not None and meta.version is not None and meta.prefix_caching is None:
            self.options.setdefault("enable_prefix_caching", True)
            why = "the engine's default: the run does not say"
            notes.append(Assumption("enable_prefix_caching", True, "assumed", why))

    def _data_parallel(self, size: int, replaced: set[str]) -> tuple[int, str | None]:
        """The replicas of the run and its router. Ranks of a mixture of experts step together where they share the experts."""
        if size == 1 or "data_parallel_size" in replaced:
            return 1, None
        why = "the fewest unfinished requests, as vLLM's front end; the run does not say which rank a request went to"
        self.notes.append(Assumption("router", _DP_ROUTER, "assumed", why))
        tensor = parse_count(self.options.get("tensor_parallel_size") or 1, "--tensor-parallel-size", minimum=1)
        shared = parse_count(self.options.get("expert_parallel_size") or 1, "--expert-parallel-size", minimum=1)
        if shared <= tensor or not any(block.experts for block in self.model.blocks):
            if shared > tensor:
                del self.options["expert_parallel_size"]  # there are no experts
            return size, _DP_ROUTER
        self.options["data_parallel_size"] = size
        return 1, _DP_ROUTER

    def _model(self, model: Any, meta: EngineMeta | None, assume: Any) -> Model:
        if model is None:
            if meta is None or meta.model is None:
                raise InputError(f"{self.run.trace.path}: nothing beside it names the model: give MODEL")
            model = names.model(meta.model)
            self.notes.append(Assumption("model", model, "given", f"the run names {meta.model}: the same dimensions"))
        loaded, source = load_model(model, assume)
        self.inputs.append(source)
        return loaded

    def _hardware(self, hardware: Any, meta: EngineMeta | None) -> Hardware:
        if hardware is None:
            device = None if meta is None else meta.device
            hardware = None if device is None else by_driver_name(device)
            if hardware is None:
                what = "names no accelerator"
                candidates = [] if device is None else names.accelerators(device)
                if len(candidates) == 1:
                    hardware = candidates[0]
                elif candidates:
                    what = f"names {device!r}, which may be {' or '.join(candidates)}"
                elif device is not None:
                    what = f"names {device!r}, which is no accelerator that is shipped"
            if hardware is None:
                raise InputError(f"{self.run.trace.path}: the run {what}: give --hardware")
            self.notes.append(Assumption("hardware", hardware, "given", f"the run names {device}"))
        loaded, sources = load_hardware(hardware)
        self.inputs += sources
        return loaded

    def _scheduler(self, meta: EngineMeta | None) -> str | None:
        """By whether steps are formed while others run; None where the engine is not known."""
        if meta is None or (ahead := meta.ahead) is None:
            return None
        why = "the run says so" if meta.asynchronous is not None else f"the default of vLLM {meta.version}"
        origin: Origin = "given" if meta.asynchronous is not None else "assumed"
        self.notes.append(Assumption("async_scheduling", ahead, origin, why))
        return "vllm-v1-async" if ahead else "vllm-v1"

    def server(self, card: DeviceRates | None, notes: list[Assumption]) -> ServerConfig:
        """Return the deployment as a simulated server.

        Args:
            card: rates that replace the datasheet's peak and bandwidth; None: the datasheet's.
            notes: gets the choices of scheduler and basis.

        Raises:
            InputError: a wrong option, or a model that does not fit.
        """
        options = dict(self.options)
        if card is not None:
            options |= card.options()
        request = resolve_replica(self.model, self.hardware, options)
        return resolve_server(
            request, scheduler=self.scheduler, preemption=None, basis=self.basis, replicas=self.replicas,
            router=self.router, stepwise=False,
            notes=notes, num_gpu_blocks_override=self.num_blocks,
            enable_prefix_caching=options.get("enable_prefix_caching"),
        )  # fmt: skip

    def result(self, num_fit: int | None) -> Replay:
        """Simulate the run and compare; with `num_fit`, also fit rates on the first that many requests and compare the rest.

        Raises:
            InputError: as `server`, or a request that the deployment could never serve.
        """
        run, notes, num = self.run, self.notes, len(self.run)
        measured = Latencies.of(run.arrived, run.first, run.last, run.trace.outputs)
        server = self.server(None, notes)
        served = serve(run, server)
        notes += [note for note in server.request.assumptions if note.name not in _OF_A_STEP]
        card, unseen, fitted = None, None, None
        if num_fit is not None:
            best, link = self._fit(num_fit, measured, server)
            card = self._card(best, link, num_fit, server)
            after = serve(run, self.server(best.rates, []))
            rest = measured.slice(num_fit, num)
            unseen = Comparison.of("unfitted", rest, served.latencies.slice(num_fit, num))
            fitted = Comparison.of("fitted", rest, after.latencies.slice(num_fit, num))
            why = f"fitted on the first {num_fit:,} of {num:,} requests of {run.trace.name}; {card['holds_for']['text']}"
            for name, value in best.rates.options().items():
                unit = "FLOP/s" if name == "peak_flops" else "B/s"
                notes.append(Assumption(name, formatting.quantity(value, unit), "given", why))
            if link is not None and link.origin == "held":
                notes.append(Assumption("allreduce_bandwidth", formatting.quantity(link.stated, "B/s"), "default", link.why))
        sources = [*self.inputs, *server.request.inputs, run.trace.input]
        config = server.config
        return Replay(
            inputs={entry.role: {"name": entry.name, "path": entry.path, "sha256": entry.sha256} for entry in sources},
            **facts(server.request),
            run=_run(run),
            server={
                "scheduler": server.scheduler.name, "basis": server.tables.basis, "blocks": config.num_gpu_blocks,
                "block_size": config.block_size, "max_num_seqs": config.max_num_seqs,
                "max_num_batched_tokens": config.max_num_batched_tokens, "prefix_caching": config.enable_prefix_caching,
                "preemptions": served.num_preemptions,
            },
            unfitted=Comparison.of("unfitted", measured, served.latencies),
            assumptions=tuple(notes),
            estimate_basis=_basis(server, run),
            card=card,
            unseen=unseen,
            fitted=fitted,
        )  # fmt: skip

    def _fit(self, num_fit: int, measured: Latencies, server: ServerConfig) -> tuple[FitResult, LinkFit | None]:
        """Fit compute rate and bandwidth, then the link too where devices exchange data and the requests determine it."""
        start = DeviceRates(_peak(server), server.request.hardware.bandwidth)

        def simulated(card: DeviceRates) -> Latencies:
            return serve(self.run, self.server(card, [])).latencies.slice(0, num_fit)

        first = measured.slice(0, num_fit)
        two = fit_rates(simulated, first, start)
        stated = _allreduce_bandwidth(server)
        if stated is None:
            return two, None
        if (given := server.request.hardware.overrides.get("allreduce_bandwidth")) is not None:
            return two, LinkFit(given, "given", given, given, "given, and not fitted")
        profile = profile_link(simulated, first, replace(two.rates, allreduce_bandwidth=stated))
        servings = two.servings + sum(fit.servings for fit in profile.fits)
        if profile.determined:
            three = fit_rates(simulated, first, profile.best.rates)
            return replace(three, servings=servings + three.servings), LinkFit(
                stated, "fitted", profile.low, profile.high, f"80 % interval {profile.interval}", profile.fits
            )
        why = f"held: the first {num_fit:,} requests do not tell it from compute (80 % interval: {profile.interval})"
        return replace(two, servings=servings), LinkFit(stated, "held", profile.low, profile.high, why, profile.fits)

    def _card(self, best: FitResult, link: LinkFit | None, num_fit: int, server: ServerConfig) -> dict[str, Any]:
        replaced = {"peak_flops": _peak(server), "bandwidth": server.request.hardware.bandwidth}
        return {
            **best.rates.options(),
            "replaces": replaced if link is None else {**replaced, "allreduce_bandwidth": link.stated},
            "link": link and link.to_dict(),
            "holds_for": self._holds_for(server),
            "achieved": self._achieved(self.server(best.rates, [])),
            "requests": num_fit,
            "error": best.error,
            "servings": best.servings,
        }

    def _holds_for(self, server: ServerConfig) -> dict[str, Any]:
        """What the fitted rates belong to, and a sentence that says it."""
        request = server.request
        model, size = request.model.name, request.deployment.tensor_parallel_size
        text = f"of this run, {model} and TP {size}: not of the card, and not to be used for another model or TP"
        names = {"run": self.run.trace.name, "model": model, "hardware": request.hardware.name}
        return {**names, "tensor_parallel": size, "text": text}

    def _achieved(self, server: ServerConfig) -> dict[str, float]:
        """Rates of a device in two steps: one full of prompt tokens, and one that decodes `max_num_seqs` sequences, or as many
        as there are blocks for, half-way through their outputs."""
        trace, config, hardware, tables = self.run.trace, server.config, server.request.hardware, server.tables
        context = int(trace.mean_prompt + trace.mean_output / 2)
        num_sequences = max(min(config.max_num_seqs, config.num_gpu_blocks * config.block_size // context), 1)
        num_tokens = config.max_num_batched_tokens // server.request.deployment.pipeline_parallel_size
        prompts, decodes = (Segment(1, num_tokens, 0),), (Segment(num_sequences, 1, context, decode=True),)
        matrix_s = sum(float(parts.total) for parts in tables.costs.utilization(prompts)["matrix"])
        memory_s = sum(float(parts.total) for parts in tables.costs.utilization(decodes)["memory"])
        return {
            "flops": matrix_s * _peak(server) / tables.mixed(0, 0, [(num_tokens, 0)]),
            "bandwidth": memory_s * hardware.bandwidth / tables.mixed(num_sequences, num_sequences * context, []),
            "sequences": num_sequences,
        }


def _peak(server: ServerConfig) -> float:
    """FLOP/s of the format in which a step multiplies most."""
    request = server.request
    work: dict[str, float] = {}
    for stage in stages(request.model, request.deployment.pipeline_parallel_size):
        graph = build(request.model, request.deployment, request.precision, (Segment(1, 1, 1, decode=True),), stage)
        for operator, repeat in graph.values():
            flops = operator.cost().matrix_flops * repeat
            if flops:
                dtype = matrix_dtype(operator, request.hardware)
                work[dtype] = work.get(dtype, 0.0) + float(flops)
    return request.hardware.peak(max(work, key=lambda dtype: work[dtype]))


def _allreduce_bandwidth(server: ServerConfig) -> float | None:
    """Bytes/s that a device sends in the collectives of a step full of prompt tokens, over their estimated time beyond latency.

    None where there are none of these collectives, or the basis is the bound, in which they have the link's own rate.
    """
    request, tables, num_tokens = server.request, server.tables, server.config.max_num_batched_tokens
    if tables.basis != "estimate" or request.deployment.tensor_parallel_size == 1:
        return None
    sent, seconds = 0.0, 0.0
    for stage in stages(request.model, request.deployment.pipeline_parallel_size):
        graph = build(request.model, request.deployment, request.precision, (Segment(1, num_tokens, 0),), stage)
        for kernel in kernels(graph):
            if kernel.op in REDUCING:
                terms = request.estimator.terms(kernel)
                latency = terms.get("latency", terms.get("launch", 0.0) + terms.get("wait", 0.0))
                seconds += float((terms["total"] - latency) * kernel.repeat)
                sent += float(sum(operator.cost().link_bytes for operator in kernel.operators.values()) * kernel.repeat)
    return sent / seconds if sent and seconds > 0 else None


def _run(run: EngineRun) -> dict[str, Any]:
    meta, trace = run.meta, run.trace
    return {
        "name": trace.name, "requests": len(run), "skipped": trace.skipped, "offered_rate": trace.rate,
        "duration_s": float(run.last.max()), "mean_input": trace.mean_prompt, "mean_output": trace.mean_output,
        "model": meta and meta.model, "engine_version": meta and meta.version, "device": meta and meta.device,
        "device_bytes": meta and meta.device_bytes, "options": dict(meta.options) if meta else {},
        "async_scheduling": meta and meta.asynchronous, "prefix_caching": meta and meta.prefix_caching,
    }  # fmt: skip


def _basis(server: ServerConfig, run: EngineRun) -> str | None:
    """What the step times rest on, by those of a mean request; None of bounds."""
    if server.tables.basis != "estimate":
        return None
    prompt = max(round(run.trace.mean_prompt), 1)
    return estimate_basis(server.request, (prefill(1, prompt), decode(1, prompt)))
