"""A measured run with all that is known of its deployment: what the run says, and what is given in its place."""

from __future__ import annotations

from typing import Any

from roofline import formatting
from roofline.audit.engine_logs import names
from roofline.audit.replay.card import Card, Fitted, fit
from roofline.audit.replay.result import Beside, Replay
from roofline.audit.replay.serving import again
from roofline.audit.replay.times import Times
from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.errors import InputError
from roofline.graph.build import build
from roofline.graph.sharding import stages
from roofline.predict.analyze import facts
from roofline.predict.bounds import matrix_dtype
from roofline.predict.options import ALIASES
from roofline.serving.simulation.server import Server, deployed, serve
from roofline.serving.traffic.engine_run import EngineMeta, EngineRun
from roofline.specs.hardware import Hardware
from roofline.specs.library import by_driver_name, load_hardware
from roofline.specs.source import Assumption, Origin
from roofline.specs.workload import Segment

_OF_A_STEP = ("batch", "input_len", "context", "shared_prefix")
"""What `analyze` is asked about: here the run says it."""


class Question:
    """A run with all that is known of its deployment."""

    def __init__(
        self, run: EngineRun, model: Any, hardware: Any, scheduler: str | None, basis: str | None, blocks: Any,
        deployment: dict[str, Any], notes: list[Assumption],
    ) -> None:  # fmt: skip
        self.run, self.notes, self.basis = run, notes, basis
        meta = run.meta
        given = {name: value for name, value in deployment.items() if value is not None}
        self.inputs: list[Any] = []
        self.model = model if isinstance(model, Model) else self._model(model, meta, given.pop("assume", None))
        self.hardware = hardware if isinstance(hardware, Hardware) else self._hardware(hardware, meta)
        said = dict(meta.options) if meta is not None else {}
        if meta is not None and meta.data_parallel_size > 1:
            raise InputError(
                f"{meta.path}: data_parallel_size {meta.data_parallel_size}: the file does not say which replica a request "
                "went to, and replicas that work together are not simulated"
            )
        measured_blocks = said.pop("num_gpu_blocks_override", None)
        self.blocks = measured_blocks if blocks is None else blocks
        self.options = {**_unless(said, given), **given}
        self.scheduler = scheduler or self._scheduler(meta)
        if meta is not None and meta.version is not None and meta.prefix_caching is None:
            self.options.setdefault("enable_prefix_caching", True)
            notes.append(Assumption("enable_prefix_caching", True, "assumed", "the engine's default: the run does not say it"))

    def _model(self, model: Any, meta: EngineMeta | None, assume: Any) -> Model:
        if model is None:
            if meta is None or meta.model is None:
                raise InputError(f"{self.run.trace.path}: nothing beside it names the model: give MODEL")
            model = names.model(meta.model)
            self.notes.append(Assumption("model", model, "given", f"the run names {meta.model}: the same dimensions"))
        loaded, read = load_model(model, assume)
        self.inputs.append(read)
        return loaded

    def _hardware(self, hardware: Any, meta: EngineMeta | None) -> Hardware:
        if hardware is None:
            said = None if meta is None else meta.device
            hardware = None if said is None else by_driver_name(said)
            if hardware is None:
                what = "names no accelerator" if said is None else f"names {said!r}, which is no accelerator that is shipped"
                raise InputError(f"{self.run.trace.path}: the run {what}: give --hardware")
            self.notes.append(Assumption("hardware", hardware, "given", f"the run names {said}"))
        loaded, read = load_hardware(hardware)
        self.inputs += read
        return loaded

    def _scheduler(self, meta: EngineMeta | None) -> str | None:
        """By whether steps are formed while others run; None where nothing is known of the engine."""
        if meta is None or (ahead := meta.ahead) is None:
            return None
        why = "the run says so" if meta.asynchronous is not None else f"the default of vLLM {meta.version}"
        origin: Origin = "given" if meta.asynchronous is not None else "assumed"
        self.notes.append(Assumption("async_scheduling", ahead, origin, why))
        return "vllm-v1-async" if ahead else "vllm-v1"

    def server(self, card: Card | None, notes: list[Assumption]) -> Server:
        """The deployment, on a card with other constants if they are given."""
        options = dict(self.options)
        if card is not None:
            options |= {"peak_flops": card.peak_flops, "bandwidth": card.bandwidth}
        request = deployed(self.model, self.hardware, options)
        return serve(
            request, scheduler=self.scheduler, preemption=None, basis=self.basis, replicas=None, balancer=None, stepwise=False,
            notes=notes, num_gpu_blocks_override=self.blocks, keeps=bool(options.get("enable_prefix_caching")),
        )  # fmt: skip

    def answer(self, first: int | None) -> Replay:
        """The comparison; with a fit on the first requests, if so many are to be looked at."""
        run, notes = self.run, self.notes
        measured = Times.of(run.arrived, run.first, run.last, run.trace.outputs)
        server = self.server(None, notes)
        whole = again(run, server)
        notes += [note for note in server.request.assumptions if note.name not in _OF_A_STEP]
        card, unseen, fitted = None, None, None
        if first is not None:
            found = self._fit(first, measured, server)
            card = self._described(found, first, server)
            after = again(run, self.server(found.card, []))
            rest = measured.part(first, len(run))
            unseen = Beside.of("unfitted", rest, whole.times.part(first, len(run)))
            fitted = Beside.of("fitted", rest, after.times.part(first, len(run)))
            why = f"fitted on the first {first:,} of {len(run):,} requests of {run.trace.name}"
            notes.append(Assumption("peak_flops", formatting.quantity(found.card.peak_flops, "FLOP/s"), "given", why))
            notes.append(Assumption("bandwidth", formatting.quantity(found.card.bandwidth, "B/s"), "given", why))
        files = {entry.role: {"name": entry.name, "path": entry.path, "sha256": entry.sha256} for entry in self._files(server)}
        return Replay(
            inputs=files,
            **facts(server.request),
            run=_about(run),
            server={
                "scheduler": server.scheduler.name, "basis": server.tables.basis, "blocks": server.room.blocks,
                "block_size": server.room.block_size, "max_num_seqs": server.room.seats,
                "max_num_batched_tokens": server.room.budget, "prefix_caching": server.room.keeps,
                "preemptions": whole.preemptions,
            },
            unfitted=Beside.of("unfitted", measured, whole.times),
            assumptions=tuple(notes),
            card=card,
            unseen=unseen,
            fitted=fitted,
        )  # fmt: skip

    def _files(self, server: Server) -> list[Any]:
        return [*self.inputs, *server.request.inputs, self.run.trace.input]

    def _fit(self, first: int, measured: Times, server: Server) -> Fitted:
        start = Card(_peak(server), server.request.hardware.bandwidth)
        return fit(lambda card: again(self.run, self.server(card, [])).times.part(0, first), measured.part(0, first), start)

    def _described(self, found: Fitted, first: int, server: Server) -> dict[str, Any]:
        return {
            "peak_flops": found.card.peak_flops,
            "bandwidth": found.card.bandwidth,
            "replaces": {"peak_flops": _peak(server), "bandwidth": server.request.hardware.bandwidth},
            "achieved": self._achieved(self.server(found.card, [])),
            "requests": first,
            "error": found.error,
            "servings": found.servings,
        }

    def _achieved(self, server: Server) -> dict[str, float]:
        """Rates of a device in two steps: one full of prompt tokens, and one that decodes as many as there are seats or blocks
        for, half-way through their answers."""
        trace, room, hardware = self.run.trace, server.room, server.request.hardware
        context = int(trace.mean_prompt + trace.mean_output / 2)
        many = max(min(room.seats, room.blocks * room.block_size // context), 1)
        parts, lanes = server.tables.parts, server.request.deployment.pipeline_parallel_size
        prompts, decodes = (Segment(1, room.budget // lanes, 0),), (Segment(many, 1, context, decode=True),)
        busy = {
            name: sum(float(part.whole) for part in parts.work(step)[name])
            for name, step in (("matrix", prompts), ("memory", decodes))
        }
        return {
            "flops": busy["matrix"] * hardware.peak(_format(server)) / server.tables.mixed(0, 0, [(room.budget // lanes, 0)]),
            "bandwidth": busy["memory"] * hardware.bandwidth / server.tables.mixed(many, many * context, []),
            "sequences": many,
        }


def _unless(said: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """What the run says, where nobody says another."""
    taken = {ALIASES.get(name, name) for name in given}
    return {name: value for name, value in said.items() if name not in taken}


def _peak(server: Server) -> float:
    """FLOP/s of the format in which a step multiplies most."""
    return server.request.hardware.peak(_format(server))


def _format(server: Server) -> str:
    """The format in which a step multiplies most."""
    request = server.request
    work: dict[str, float] = {}
    for stage in stages(request.model, request.deployment.pipeline_parallel_size):
        graph = build(request.model, request.deployment, request.precision, (Segment(1, 1, 1, decode=True),), stage)
        for operator, repeat in graph.values():
            flops = operator.cost().matrix_flops * repeat
            if flops:
                dtype = matrix_dtype(operator, request.hardware)
                work[dtype] = work.get(dtype, 0.0) + float(flops)
    return max(work, key=lambda dtype: work[dtype])


def _about(run: EngineRun) -> dict[str, Any]:
    meta, trace = run.meta, run.trace
    return {
        "name": trace.name, "requests": len(run), "skipped": trace.skipped, "offered_rate": trace.rate,
        "duration_s": float(run.last.max()), "mean_input": trace.mean_prompt, "mean_output": trace.mean_output,
        "model": meta and meta.model, "engine_version": meta and meta.version, "device": meta and meta.device,
        "device_bytes": meta and meta.device_bytes, "options": dict(meta.options) if meta else {},
        "async_scheduling": meta and meta.asynchronous, "prefix_caching": meta and meta.prefix_caching,
    }  # fmt: skip
