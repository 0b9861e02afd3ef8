"""A model of which some layers are on the GPU and the others on its host, as llama.cpp's `--n-gpu-layers` has it.

The last layers are on the GPU, and the LM head counts as one of them; the embedding stays on the host. Caches are where their
layers are. A step runs the host's layers, sends the stream over the host link, and runs the GPU's; logits go back.

Source: https://github.com/ggml-org/llama.cpp, src/llama-model.cpp (load_tensors) and ggml/src/ggml-backend.cpp.
NB: with prompts of 32 tokens and more llama.cpp copies the weights of the host's layers to the GPU and multiplies there; the
faster of the two ways is taken.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, fields
from os import PathLike
from typing import Any

from roofline.blocks.model import Model
from roofline.errors import InputError
from roofline.graph.build import build
from roofline.graph.sharding import Stage
from roofline.predict.duration import Duration, total
from roofline.predict.memory import Setting, StageMemory
from roofline.predict.request import ResolvedRequest, prepare
from roofline.predict.timing import stage_bound, stage_estimate, with_engine
from roofline.specs.hardware import Hardware
from roofline.specs.workload import Step, sequences, tokens

STREAM_BYTES = 4
"""Bytes of an element of what is sent: llama.cpp's stream and logits are fp32."""
COPIED_FROM = 32
"""Tokens of a step from which on llama.cpp copies the host's weights to the GPU (GGML_OP_OFFLOAD_MIN_BATCH)."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two processors: its part of the model, and its memory in bytes."""

    hardware: str
    title: str
    layers: int
    weights_bytes: float
    kv_bytes: float
    activation_bytes: float
    usable_bytes: float

    @property
    def fits(self) -> bool:
        """Return whether all of it fits."""
        return self.weights_bytes + self.kv_bytes + self.activation_bytes <= self.usable_bytes


@dataclass(frozen=True, slots=True)
class SplitPhase:
    """Times of a step: on the GPU, on the host, of what is sent between them, and together; `copied` says whether the weights
    of the host's layers are multiplied on the GPU."""

    name: str
    gpu: Duration
    host: Duration
    link_s: float
    link_bytes: float
    whole: Duration
    copied: bool


@dataclass(frozen=True, slots=True)
class Offload:
    """A model on a GPU and its host."""

    model: str
    engine: str
    batch: int
    context: int
    n_gpu_layers: int
    gpu: Side
    host: Side
    phases: tuple[SplitPhase, ...]

    @property
    def fits(self) -> bool:
        """Return whether both parts fit."""
        return self.gpu.fits and self.host.fits

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data in seconds and bytes."""
        phases = [
            {
                **asdict(phase),
                **{name: getattr(phase, name).to_dict() for name in ("gpu", "host", "whole")},
            }
            for phase in self.phases
        ]
        sides = {name: {**asdict(side), "fits": side.fits} for name, side in (("gpu", self.gpu), ("host", self.host))}
        return {**asdict(self), **sides, "phases": phases, "fits": self.fits}


def offload(
    model: str | PathLike[str] | Model,
    hardware: str | PathLike[str] | Hardware,
    host: str | PathLike[str] | Hardware,
    n_gpu_layers: int,
    **options: Any,
) -> Offload:
    """Predict memory and times of a model of which some layers are on a GPU.

    Args:
        model: a shipped id, the path of a file, or a loaded model.
        hardware: the GPU.
        host: a processor: its memory has the other layers.
        n_gpu_layers: layers on the GPU, the LM head counted as one; more than there are: all.
        **options: those of `analyze`; one device.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, more than one device, or a GPU without a host link.
    """
    if isinstance(n_gpu_layers, bool) or not isinstance(n_gpu_layers, int) or n_gpu_layers < 0:
        raise InputError(f"--n-gpu-layers must be a whole number from 0, not {n_gpu_layers!r:.60}")
    options = {"engine": "llama.cpp", **{name: value for name, value in options.items() if value is not None}}
    card = prepare(model, hardware, **options)
    if card.deployment.devices > 1:
        raise InputError("--n-gpu-layers is of one GPU: leave out parallel sizes")
    processor = prepare(card.model, host, **{name: value for name, value in options.items() if name != "assume"})
    if any(layer.shared_weights for layer in card.model.layer_types.values()):
        raise InputError(f"--n-gpu-layers divides layers, and those of {card.model.name} run several times: leave it out")
    sequence = card.model.layer_sequence
    start = min(max(len(sequence) + 1 - n_gpu_layers, 0), len(sequence))
    below = Stage(0, tuple(Counter(sequence[:start]).items()), first=True, last=n_gpu_layers == 0)
    above = None if n_gpu_layers == 0 else Stage(1, tuple(Counter(sequence[start:]).items()), first=False, last=True)
    steps = [step for _, step in card.memory_steps()]
    return Offload(
        model=card.model.title,
        engine=f"{card.engine.name}@{card.engine.version}",
        batch=card.workload.batch,
        context=card.workload.context,
        n_gpu_layers=n_gpu_layers,
        gpu=_side(card, above, steps, len(sequence) - start),
        host=_side(processor, below, steps, start),
        phases=tuple(_phase(card, processor, name, step, below, above) for name, step in card.workload.steps),
    )


def _side(request: ResolvedRequest, stage: Stage | None, steps: list[Step], layers: int) -> Side:
    memory = request.memory
    free = memory.left_bytes(0.0, 0.0)
    if stage is None:
        return Side(request.hardware.name, request.hardware.title, 0, 0.0, 0.0, 0.0, float(free))
    part = StageMemory(stage=stage, **{entry.name: getattr(memory, entry.name) for entry in fields(Setting)})
    return Side(
        hardware=request.hardware.name,
        title=request.hardware.title,
        layers=layers,
        weights_bytes=part.weights_bytes,
        kv_bytes=max(float(part.needed_bytes(step)) for step in steps),
        activation_bytes=max(float(part.activation_bytes(step)) for step in steps),
        usable_bytes=float(free),
    )


def _phase(
    card: ResolvedRequest, processor: ResolvedRequest, name: str, step: Step, below: Stage, above: Stage | None
) -> SplitPhase:
    host, gpu = _time(processor, step, below), Duration(0.0, None, 0.0, 0.0, 0.0)
    sent, copied = 0.0, False
    if above is not None:
        gpu = _time(card, step, above)
        model = card.model
        sent = float(STREAM_BYTES * (tokens(step) * model.stream_width + sequences(step) * model.vocab_size))
        weights = sum(op.held_bytes * repeat for op, repeat in _graph(processor, step, below).values() if op.parameters)
        moved = card.hardware.to_host().seconds(float(weights), 0, 2)
        there = _time(card, step, below)
        copied = bool(below.layers) and tokens(step) >= COPIED_FROM and moved + _best(there) < _best(host)
        if copied:
            sent, gpu, host = sent + float(weights), total(gpu, there), Duration(0.0, None, 0.0, 0.0, 0.0)
    link = float(card.hardware.to_host().seconds(sent, 0, 2)) if sent else 0.0
    whole = total(host, gpu, Duration(link, None, link, link, link))
    return SplitPhase(name, gpu, host, link, sent, whole, copied)


def _best(time: Duration) -> float:
    return time.best or 0.0


def _graph(request: ResolvedRequest, step: Step, stage: Stage) -> Any:
    graph = build(request.model, request.deployment, request.precision, step, stage)
    return {path: entry for path, entry in graph.items() if path != "send"}  # what is sent goes over the host link


def _time(request: ResolvedRequest, step: Step, stage: Stage) -> Duration:
    """The time of a part of the model, with what the engine adds to a step where it samples."""
    graph = _graph(request, step, stage)
    bound, estimate = stage_bound(request, step, graph), stage_estimate(request, step, graph)[0]
    if estimate is None:
        return Duration(bound, None)
    if stage.last:
        estimate = with_engine(request, estimate, sequences(step))
    return Duration(bound, None, float(estimate.seconds), float(estimate.low), float(estimate.high))
