"""From what a user asks to a resolved request: specs loaded, defaults filled in, every choice on record."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from pydantic import ValidationError

from roofline.dtypes import Precision
from roofline.errors import InputError, UnknownNameError
from roofline.graph import check_parallel, replicated_kv_heads
from roofline.predict.memory import MemoryModel
from roofline.specs.assumption import Assumption
from roofline.specs.deployment import Conventions, Deployment
from roofline.specs.engine import Engine
from roofline.specs.hardware import Hardware
from roofline.specs.library import Input, load_engine, load_hardware, load_model
from roofline.specs.model import Model
from roofline.specs.precision import resolve_precision
from roofline.specs.workload import Step, decode, parse_segments, prefill, sequences
from roofline.units import parse_count, parse_quantity

PhaseName = Literal["prefill", "decode", "mixed"]

SHORT = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "ep": "expert_parallel_size",
}
OVERRIDES = {"peak_flops": "FLOP/s", "bandwidth": "byte/s", "memory": "byte"}
_COUNTS = {
    "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "expert_parallel_size", "max_model_len", "max_num_seqs",
    "max_num_batched_tokens", "block_size",
}  # fmt: skip
PHASES = ("prefill", "decode", "both")


@dataclass(frozen=True, slots=True)
class Workload:
    """What is asked of the deployment: the steps to look at, and the request that they serve."""

    batch: int
    input_len: int
    output_len: int | None
    context: int
    steps: tuple[tuple[PhaseName, Step], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """A question with nothing left open. `inputs` are the files that it stands on, `assumptions` the choices made."""

    model: Model
    hardware: Hardware
    engine: Engine
    deployment: Deployment
    precision: Precision
    workload: Workload
    memory: MemoryModel
    ignore_capacity: bool
    inputs: tuple[Input, ...]
    assumptions: tuple[Assumption, ...]


@dataclass
class _Options:
    """Options by name, handed out once: what is left over is unknown."""

    given: dict[str, Any]
    known: set[str] = field(default_factory=set)

    def take(self, name: str, default: Any = None) -> Any:
        self.known.add(name)
        value = self.given.pop(name, None)
        return default if value is None else value

    def done(self) -> None:
        if self.given:
            raise UnknownNameError("option", next(iter(self.given)), self.known | set(SHORT))


def prepare(model: str | Model, hardware: str | Hardware, **options: Any) -> Request:
    """Resolve a request. Options are those of `roofline analyze` with underscores; `tp`, `pp`, `dp`, `ep` are short."""
    expanded: dict[str, Any] = {}
    for name, value in options.items():
        full = SHORT.get(name, name)
        if value is None:
            expanded.setdefault(full, None)
        elif expanded.get(full) is not None:
            msg = f"{name} and {full} are the same option: give one of them"
            raise InputError(msg)
        else:
            expanded[full] = value
    given = _Options(expanded)
    notes: list[Assumption] = []

    loaded_model, model_inputs = (model, []) if isinstance(model, Model) else _one(load_model(model))
    loaded_hardware, hardware_inputs = (hardware, []) if isinstance(hardware, Hardware) else load_hardware(hardware)
    loaded_hardware = _override(loaded_hardware, given, notes)
    ignore_capacity = bool(given.take("ignore_capacity", default=False))
    engine, engine_input = load_engine(given.take("engine", "vllm"))
    deployment = _deployment(given, engine, notes)
    workload = _workload(given, loaded_model, deployment, notes)
    given.done()

    check_parallel(loaded_model, deployment)
    precision, chosen = resolve_precision(loaded_model, deployment, loaded_hardware.accelerator.peak_flops)
    notes = [*chosen, *notes, *_conventions(deployment, options), *_facts(loaded_model, loaded_hardware, deployment)]
    memory = MemoryModel(
        model=loaded_model,
        deployment=deployment,
        precision=precision,
        capacity=loaded_hardware.memory_bytes,
        utilization=deployment.gpu_memory_utilization or engine.gpu_memory_utilization,
        block_size=deployment.block_size or engine.block_size,
        max_num_batched_tokens=deployment.max_num_batched_tokens or engine.max_num_batched_tokens,
    )
    return Request(
        model=loaded_model,
        hardware=loaded_hardware,
        engine=engine,
        deployment=deployment,
        precision=precision,
        workload=workload,
        memory=memory,
        ignore_capacity=ignore_capacity,
        inputs=(*model_inputs, *hardware_inputs, engine_input),
        assumptions=tuple(notes),
    )


def _one(loaded: tuple[Model, Input]) -> tuple[Model, list[Input]]:
    return loaded[0], [loaded[1]]


def _override(hardware: Hardware, given: _Options, notes: list[Assumption]) -> Hardware:
    overrides = {}
    for name, unit in OVERRIDES.items():
        if (text := given.take(name)) is not None:
            value = parse_quantity(text, unit) if isinstance(text, str) else text
            if not value > 0:
                msg = f"{name} must be more than 0, not {text}"
                raise InputError(msg)
            overrides["memory_bytes" if name == "memory" else name] = value
            why = "every dtype" if name == "peak_flops" else "in place of the file's"
            notes.append(Assumption(name, text, "given", why))
    return Hardware(hardware.accelerator, hardware.node, overrides)


def _deployment(given: _Options, engine: Engine, notes: list[Assumption]) -> Deployment:
    values: dict[str, Any] = {}
    for name in Deployment.model_fields:
        if name == "conventions":
            continue
        value = given.take(name)
        if value is not None:
            values[name] = parse_count(value, name.replace("_", "-"), minimum=1) if name in _COUNTS else value
    conventions = {name: value for name in Conventions.model_fields if (value := given.take(name)) is not None}
    if "shared_prefix" in conventions:
        conventions["shared_prefix"] = parse_count(conventions["shared_prefix"], "shared-prefix")
    deployment = validated(Deployment, {**values, "engine": engine.name, "conventions": validated(Conventions, conventions)})
    label = f"{engine.name} {engine.version}"
    for name in ("gpu_memory_utilization", "block_size", "max_num_batched_tokens"):
        if getattr(deployment, name) is None:
            why = f"default of {label}"
            if name == "max_num_batched_tokens":
                why += ": activations are held for at most so many tokens at a time; FLOP and times are those of the whole step"
            notes.append(Assumption(name, getattr(engine, name), "default", why))
        else:
            notes.append(Assumption(name, getattr(deployment, name), "given", ""))
    notes.append(Assumption("engine", f"{engine.name}@{engine.version}", "default", "its defaults, and its blocks for the allocated KV cache"))
    notes.append(Assumption("reserve", deployment.reserve, "given" if deployment.reserve else "default", "bytes kept free"))
    return deployment


def validated(spec: type[Any], values: dict[str, Any]) -> Any:
    """A spec from flags; a wrong value is an `InputError` that names the flag and what is allowed."""
    try:
        return spec(**values)
    except ValidationError as error:
        detail = error.errors()[0]
        name = "-".join(str(part) for part in detail["loc"]).replace("_", "-")
        text = str(detail["msg"]).removeprefix("Value error, ").removeprefix("Input ")
        message = f"--{name} {text}" if text.startswith("should") else f"--{name}: {text}"
        if "unknown" not in text:
            message += f", not {detail['input']!r}"
        raise InputError(message) from None


def _workload(given: _Options, model: Model, deployment: Deployment, notes: list[Assumption]) -> Workload:
    segments = given.take("segments")
    output_len = given.take("output_len")
    output_len = None if output_len is None else parse_count(output_len, "output-len", minimum=1)
    phase = given.take("phase", "both")
    if phase not in PHASES:
        raise UnknownNameError("phase", phase, PHASES)
    named = {name: given.take(name) for name in ("batch", "input_len", "context")}
    if segments is not None:
        if clash := [name for name, value in named.items() if value is not None]:
            msg = f"--segments describes the whole step: leave out --{clash[0].replace('_', '-')}"
            raise InputError(msg)
        step = parse_segments(segments) if isinstance(segments, str) else segments
        longest = max(segment.cached + segment.new for segment in step)
        notes.append(Assumption("segments", ",".join(map(str, step)), "given", "COUNTxNEW@CACHED"))
        kind: PhaseName = _kind(step)
        workload = Workload(sequences(step), max(s.new for s in step), output_len, longest - 1, ((kind, step),))
    else:
        batch = parse_count(1 if named["batch"] is None else named["batch"], "batch", minimum=1)
        input_len = parse_count(1024 if named["input_len"] is None else named["input_len"], "input-len", minimum=1)
        context = input_len if named["context"] is None else parse_count(named["context"], "context")
        for name, value in (("batch", batch), ("input_len", input_len), ("context", context)):
            origin = "default" if named[name] is None else "given"
            why = {"batch": "sequences in the whole deployment", "input_len": "prompt tokens a sequence, nothing cached",
                   "context": "tokens cached before the decode step" + (" (= input-len)" if named[name] is None else "")}[name]  # fmt: skip
            notes.append(Assumption(name, value, origin, why))
        steps: list[tuple[PhaseName, Step]] = []
        if phase in ("prefill", "both"):
            steps.append(("prefill", prefill(batch, input_len)))
        if phase in ("decode", "both"):
            steps.append(("decode", decode(batch, context)))
        longest = max(segment.cached + segment.new for _, step in steps for segment in step)
        workload = Workload(batch, input_len, output_len, context, tuple(steps))
    _check_limits(workload, longest, model, deployment, notes)
    return workload


def _kind(step: Step) -> PhaseName:
    kinds = {segment.decode for segment in step}
    return "mixed" if len(kinds) > 1 else "decode" if True in kinds else "prefill"


def _check_limits(workload: Workload, longest: int, model: Model, deployment: Deployment, notes: list[Assumption]) -> None:
    seqs = (deployment.max_num_seqs or workload.batch) * deployment.data_parallel_size
    if workload.batch > seqs:
        msg = f"--batch {workload.batch} is more than --max-num-seqs allows at once ({seqs} in the whole deployment)"
        raise InputError(msg)
    if workload.output_len is not None:
        longest = max(longest, workload.input_len + workload.output_len - 1)
    if deployment.max_model_len is not None and longest > deployment.max_model_len:
        msg = f"a sequence of {longest:,} tokens is longer than --max-model-len {deployment.max_model_len:,}"
        raise InputError(msg)
    for _, step in workload.steps:
        if deployment.conventions.shared_prefix > min(segment.cached for segment in step) and _has_decode(step):
            shared = deployment.conventions.shared_prefix
            msg = f"--shared-prefix {shared} is more than the {min(segment.cached for segment in step)} cached tokens of a sequence"
            raise InputError(msg)
    if longest > model.max_position_embeddings:
        why = f"beyond the {model.max_position_embeddings:,} tokens that {model.name} was made for: the numbers hold, the model's answers may not"
        notes.append(Assumption("context_length", longest, "assumed", why))


def _has_decode(step: Step) -> bool:
    return any(segment.decode for segment in step)


_WHY = {
    "mask": {"causal": "only the pairs that the mask lets through", "full": "every query against every key that is read"},
    "attention": {"fused": "scores stay on chip", "eager": "scores are written to memory and read back"},
    "mla": {"auto": "prefill expands K and V, decode absorbs the projections", "expand": "K and V expanded", "absorb": "projections absorbed"},
    "logits": {"last": "the LM head runs on the last position of each sequence", "all": "the LM head runs on every position"},
}  # fmt: skip


def _conventions(deployment: Deployment, options: dict[str, Any]) -> list[Assumption]:
    notes = []
    for name in Conventions.model_fields:
        value = getattr(deployment.conventions, name)
        origin: Literal["given", "default"] = "default" if options.get(name) is None else "given"
        if name == "routing_skew":
            why = "expected distinct experts under independent routing" + (", uniform" if not value else f", popularity ~ rank^-{value:g}")
        elif name == "shared_prefix":
            why = "cached tokens that all sequences share, read and held once"
        else:
            why = _WHY[name][value]
        notes.append(Assumption(name, value, origin, why))
    return notes


def _facts(model: Model, hardware: Hardware, deployment: Deployment) -> list[Assumption]:
    """What the files do not say, or say with a warning."""
    notes = [
        Assumption(
            "fusion", "qkv, gate+up, residual+norm", "default",
            "projections that share an input are one product; the residual addition is part of the norm that follows; all else is apart",
        )
    ]  # fmt: skip
    accelerator = hardware.accelerator
    if "memory_bytes" not in hardware.overrides and accelerator.memory.reported is None:
        why = "no source for what the driver reports: the label is read as decimal"
        notes.append(Assumption("memory", hardware.memory_bytes, "assumed", why))
    if hardware.vector_peak is None:
        notes.append(Assumption("vector_flops", None, "assumed", "no source: vector FLOP are counted and take no time in the bound"))
    if weak := [name for name, fact in (("bandwidth", accelerator.memory.bandwidth), ("memory", accelerator.memory.label)) if fact.grade == "C"]:
        notes.append(Assumption("recalled", ", ".join(weak), "assumed", f"figures of {accelerator.name} from memory, not checked against a source"))
    for name in replicated_kv_heads(model, deployment):
        why = f"{name}: fewer KV heads than tensor-parallel devices, so several devices hold the same ones"
        notes.append(Assumption("kv_heads", "replicated", "default", why))
    if deployment.tensor_parallel_size > 1 and any(getattr(t.mixer, "kind", "") == "mla" for t in model.layer_types.values()):
        notes.append(Assumption("latent_cache", "replicated", "default", "the latent has no heads: every tensor-parallel device holds all of it"))
    if deployment.pipeline_parallel_size > 1:
        why = "one batch is in flight: a token passes the stages in turn; filling the stages with microbatches is not modelled here"
        notes.append(Assumption("pipeline", "one batch", "default", why))
    if deployment.devices > 1:
        notes.append(Assumption("collectives", "ring", "default", "bytes of ring algorithms over the link's bandwidth; latency of messages is not in the bound"))
    return notes


OPTION_NAMES = frozenset(
    {*Deployment.model_fields, *Conventions.model_fields, *OVERRIDES, *SHORT, *(f.name for f in fields(Workload)), "phase", "segments", "ignore_capacity"}
) - {"conventions", "steps"}  # fmt: skip
