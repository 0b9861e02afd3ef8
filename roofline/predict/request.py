"""A resolved request: specs loaded, options read, defaults filled in, every choice recorded.

A wrong value of an option is one error that names its flag.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Literal

from pydantic import ValidationError

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.blocks.precision import resolve_precision
from roofline.dtypes import Precision
from roofline.errors import InputError, UnknownNameError
from roofline.graph.sharding import check_parallel, communicating
from roofline.numeric import Expr
from roofline.predict import assumptions
from roofline.predict.efficiency.estimate import Estimator
from roofline.predict.efficiency.fits import HOST, Fits
from roofline.predict.memory import MemoryModel
from roofline.predict.options import ALIASES, DEPLOYMENT, HARDWARE, of_groups, read_quantity
from roofline.specs.deployment import Conventions, Deployment
from roofline.specs.engine import Engine, EngineSteps
from roofline.specs.hardware import Hardware
from roofline.specs.library import Input, load_engine, load_engine_steps, load_hardware
from roofline.specs.source import Assumption, Origin
from roofline.specs.workload import Segment, Step, decode, merged, parse_segments, prefill, sequences
from roofline.units import parse_count

SHORT = {short: ALIASES[short] for short in ("tp", "pp", "dp", "ep")}
"""Names of parallel sizes by their short forms."""
COUNTS = {entry.name: int(entry.minimum) for entry in of_groups(DEPLOYMENT) if entry.kind == "count"}
"""The smallest value of each option of a deployment that is a whole number."""
OVERRIDES = {entry.name: entry.unit for entry in of_groups((HARDWARE,))}
"""Units of the figures of the hardware that a request can replace, by option."""


@dataclass
class Options:
    """Options by name, handed out once: what is left over at the end is unknown."""

    given: dict[str, Any]
    known: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, options: dict[str, Any]) -> Options:
        """Options under their long names; None means not given."""
        by_name: dict[str, Any] = {}
        for name, value in options.items():
            full = ALIASES.get(name, name)
            if value is not None and by_name.get(full) is not None:
                msg = f"{name} and {full} are the same option: give one of them"
                raise InputError(msg)
            by_name[full] = by_name.get(full) if value is None else value
        return cls(by_name)

    def take(self, name: str, default: Any = None) -> Any:
        """The value of an option, which is known from now on."""
        self.known.add(name)
        value = self.given.pop(name, None)
        return default if value is None else value

    def done(self) -> None:
        """Refuse options that were not taken."""
        if self.given:
            raise UnknownNameError("option", next(iter(self.given)), self.known | set(ALIASES))


def override_hardware(hardware: Hardware, options: Options, notes: list[Assumption]) -> Hardware:
    """Hardware with the figures that the options replace."""
    figures = {}
    for name, unit in OVERRIDES.items():
        if (value := options.take(name)) is not None:
            figures["memory_bytes" if name == "memory" else name] = read_quantity(name, value, unit)
            why = "for every dtype" if name == "peak_flops" else "in place of the file's"
            notes.append(Assumption(name, value, "given", why))
    return Hardware(hardware.accelerator, hardware.node, figures)


def read_deployment(options: Options, engine: Engine, engine_given: bool, notes: list[Assumption]) -> Deployment:
    """The deployment that the options describe; what the engine's defaults fill in is noted."""
    values = {name: options.take(name) for name in Deployment.model_fields if name not in ("conventions", "engine")}
    values = {name: value for name, value in values.items() if value is not None}
    conventions = {name: value for name in Conventions.model_fields if (value := options.take(name)) is not None}
    for read in (values, conventions):
        for name, least in COUNTS.items():
            if name in read:
                read[name] = parse_count(read[name], name.replace("_", "-"), minimum=least)
    deployment: Deployment = validated(
        Deployment, {**values, "engine": engine.name, "conventions": validated(Conventions, conventions)}
    )

    label = f"{engine.name}@{engine.version}"
    why = "its defaults, and its blocks for the allocated KV cache"
    notes.append(Assumption("engine", label, "given" if engine_given else "default", why))
    for name in ("gpu_memory_utilization", "block_size", "max_num_batched_tokens"):
        why = "maximum number of tokens for which activations are held at a time" if name == "max_num_batched_tokens" else ""
        given = getattr(deployment, name)
        if given is None:
            notes.append(Assumption(name, getattr(engine, name), "default", why))
        else:
            notes.append(Assumption(name, given, "given", why))
    notes.append(Assumption("reserve", deployment.reserve, "given" if deployment.reserve else "default", "bytes kept free"))
    if options.take("enable_prefix_caching"):
        notes.append(
            Assumption("enable_prefix_caching", True, "given", "--shared-prefix says how many cached tokens are common")
        )
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


PhaseName = Literal["prefill", "decode", "mixed"]
PHASES = ("prefill", "decode", "both")


@dataclass(frozen=True, slots=True)
class Workload:
    """What is run. Counts are those of the whole deployment; `steps` by the name of the phase."""

    batch: int
    input_len: int
    output_len: int | None
    context: int
    steps: tuple[tuple[PhaseName, Step], ...]
    segmented: bool = False
    """Whether the one step was given segment by segment: it has no batch or context that could be another."""


def read_workload(options: Options, model: Model, deployment: Deployment, notes: list[Assumption]) -> Workload:
    """The workload that the options describe, checked against the limits of the deployment."""
    segments, output_len, phase = options.take("segments"), options.take("output_len"), options.take("phase", "both")
    if output_len is not None:
        output_len = parse_count(output_len, "output-len", minimum=1)
    if phase not in PHASES:
        raise UnknownNameError("phase", phase, PHASES, list_all=True)
    named = {name: options.take(name) for name in ("batch", "input_len", "context")}
    if segments is None:
        wanted = _phase_steps(named, phase, output_len, notes)
    else:
        if clash := [name for name, value in named.items() if value is not None]:
            raise InputError(f"--segments describes the whole step: leave out --{clash[0].replace('_', '-')}")
        if output_len is not None:
            raise InputError("--segments describes one step, not a request: leave out --output-len")
        wanted = _one_step(segments, notes)
    check_workload(wanted, model, deployment, notes)
    return wanted


def _one_step(segments: str | Step, notes: list[Assumption]) -> Workload:
    step = parse_segments(segments) if isinstance(segments, str) else segments
    if not isinstance(step, tuple) or not step or not all(isinstance(segment, Segment) for segment in step):
        raise InputError(f"--segments must be COUNTxNEW@CACHED,... or a tuple of Segment, not {segments!r}")
    step = merged(step)
    longest = max(segment.cached + segment.new for segment in step)
    notes.append(Assumption("segments", ",".join(map(str, step)), "given", "COUNTxNEW@CACHED"))
    kinds = {segment.decode for segment in step}
    name: PhaseName = "mixed" if len(kinds) > 1 else "decode" if True in kinds else "prefill"
    return Workload(sequences(step), max(segment.new for segment in step), None, longest - 1, ((name, step),), segmented=True)


def _phase_steps(named: dict[str, object], phase: str, output_len: int | None, notes: list[Assumption]) -> Workload:
    batch = parse_count(1 if named["batch"] is None else named["batch"], "batch", minimum=1)
    input_len = parse_count(1024 if named["input_len"] is None else named["input_len"], "input-len", minimum=1)
    context = input_len if named["context"] is None else parse_count(named["context"], "context")
    implied = " (= input-len)" if named["context"] is None else ""
    for name, value, why in (
        ("batch", batch, "sequences in the whole deployment"),
        ("input_len", input_len, "prompt tokens per sequence, nothing cached"),
        ("context", context, f"tokens cached before the decode step{implied}"),
    ):
        origin: Origin = "default" if named[name] is None else "given"
        notes.append(Assumption(name, value, origin, why))
    steps: list[tuple[PhaseName, Step]] = []
    if phase in ("prefill", "both"):
        steps.append(("prefill", prefill(batch, input_len)))
    if phase in ("decode", "both"):
        steps.append(("decode", decode(batch, context)))
    return Workload(batch, input_len, output_len, context, tuple(steps))


def check_workload(workload: Workload, model: Model, deployment: Deployment, notes: list[Assumption]) -> None:
    """Refuse what is longer or larger than the deployment allows; note what is longer than the model was made for."""
    most = (deployment.max_num_seqs or workload.batch) * deployment.data_parallel_size
    if workload.batch > most:
        raise InputError(
            f"--batch {workload.batch} is more than --max-num-seqs allows at once ({most} in the whole deployment)"
        )
    longest = max(segment.cached + segment.new for _, step in workload.steps for segment in step)
    if workload.output_len is not None:
        longest = max(longest, workload.input_len + workload.output_len - 1)
    if deployment.max_model_len is not None and longest > deployment.max_model_len:
        raise InputError(f"a sequence of {longest:,} tokens is longer than --max-model-len {deployment.max_model_len:,}")
    shared = deployment.conventions.shared_prefix
    for _, step in workload.steps:
        cached = max(segment.cached for segment in step)
        if cached and shared > cached:
            raise InputError(f"--shared-prefix {shared:,} is more than the {cached:,} cached tokens of a sequence")
    if longest > model.max_position_embeddings:
        made_for = f"{model.max_position_embeddings:,} tokens that {model.name} was made for"
        why = f"beyond the {made_for}: the numbers hold, the model's answers may not"
        notes.append(Assumption("context_length", longest, "assumed", why))


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A model on hardware under a workload, with nothing left open. `inputs` are the files read, `assumptions` the choices
    made."""

    model: Model
    hardware: Hardware
    engine: Engine
    deployment: Deployment
    precision: Precision
    workload: Workload
    memory: MemoryModel
    estimator: Estimator
    steps: EngineSteps | None
    """What the engine adds to the kernels of a step; None where it was not measured."""
    ignore_capacity: bool
    inputs: tuple[Input, ...]
    assumptions: tuple[Assumption, ...]
    query: dict[str, Any] | None = None
    """`model`, `hardware` and `options` as they were given; None where loaded specs were."""

    def engine_seconds(self, sequences: Expr) -> Expr:
        """What the engine adds to the kernels of a step of that number of sequences of one replica."""
        return 0.0 if self.steps is None else self.steps.seconds(sequences, self.deployment.tensor_parallel_size)

    @property
    def engine_band(self) -> tuple[float, float]:
        """Measured over estimated, where whole steps were measured: at most 1, and at least 1."""
        if self.steps is None:
            return 1.0, 1.0
        low, high = self.steps.band
        return min(low, 1.0), max(high, 1.0)

    def memory_steps(self) -> list[tuple[str, Step]]:
        """The steps that have to fit, by name: those of the workload, and the last one of a request with an output."""
        workload = self.workload
        steps: list[tuple[str, Step]] = list(workload.steps)
        if workload.output_len is not None and workload.output_len > 1:
            steps.append(("last decode", decode(workload.batch, workload.input_len + workload.output_len - 2)))
        return steps

    def all_fit(self, batch: int | None = None) -> bool:
        """Whether every step fits, with another batch instead of theirs if one is given."""
        steps = [step for _, step in self.memory_steps()]
        return all(self.memory.fits(step if batch is None else with_batch(step, batch)) for step in steps)


def with_batch(step: Step, batch: int) -> Step:
    """A step with another number of sequences in each of its segments."""
    return tuple(replace(segment, count=batch) for segment in step)


def _query(model: object, hardware: object, options: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments of `analyze` as plain data."""
    if isinstance(model, Model) or isinstance(hardware, Hardware):
        return None
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    return {"model": str(model), "hardware": str(hardware), "options": given}


def prepare(model: str | PathLike[str] | Model, hardware: str | PathLike[str] | Hardware, **options: Any) -> ResolvedRequest:
    """Resolve a request.

    Args:
        model: a shipped id, the path of a file, or a loaded model.
        hardware: a shipped id of an accelerator or node, the path of a file, or loaded hardware.
        **options: those of `roofline analyze`, with underscores or by their short names (`tp`, `pp`, `dp`, `ep`); without
            those of speculative decoding.

    Returns:
        The request, with what was assumed on the way in `assumptions`.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, a file that is not what it should be.
    """
    query = _query(model, hardware, options)
    left = Options.of(options)
    notes: list[Assumption] = []
    inputs: list[Input] = []
    assume = left.take("assume")
    if not isinstance(model, Model):
        model, read = load_model(model, assume)
        inputs.append(read)
    elif assume is not None:
        raise InputError("assume says how to read a config.json; the model is none")
    if not isinstance(hardware, Hardware):
        hardware, files = load_hardware(hardware)
        inputs += files
    hardware = override_hardware(hardware, left, notes)
    ignore_capacity = bool(left.take("ignore_capacity"))
    engine_name = left.take("engine")
    if not isinstance(engine_name, str | None):
        msg = f"--engine must be NAME or NAME@VERSION, not {engine_name!r}"
        raise InputError(msg)
    engine, read = load_engine(engine_name or "vllm")
    inputs.append(read)
    deployment = read_deployment(left, engine, engine_name is not None, notes)
    workload = read_workload(left, model, deployment, notes)
    left.done()

    check_parallel(model, deployment)
    for group in communicating(deployment):
        hardware.connection(group)  # raises where no link joins a group of that size
    precision, chosen = resolve_precision(model, deployment, hardware.accelerator.peak_flops, engine)
    memory = MemoryModel(
        model=model,
        deployment=deployment,
        precision=precision,
        capacity=hardware.memory_bytes,
        utilization=deployment.gpu_memory_utilization or engine.gpu_memory_utilization,
        block_size=deployment.block_size or engine.block_size,
        max_num_batched_tokens=deployment.max_num_batched_tokens or engine.max_num_batched_tokens,
        rules=engine.kv_cache,
    )
    fits = Fits(hardware, deployment.backend)
    fits.check()
    # measured with graphs of kernels on accelerators: it says nothing of a processor
    on_host = hardware.accelerator.vendor == HOST
    measured = None if on_host else load_engine_steps([*([deployment.backend] if deployment.backend else []), engine.name])
    if measured is not None:
        inputs.append(measured[1])
    noted = [
        *assumptions.shadowing(inputs),
        *assumptions.reading(model),
        *chosen,
        *notes,
        *assumptions.state(model, deployment, precision, engine),
        *assumptions.conventions(model, deployment, options),
        *assumptions.allocated(memory, engine),
        *assumptions.gaps(hardware),
        *assumptions.parallelism(model, deployment, hardware),
    ]
    return ResolvedRequest(
        model=model,
        hardware=hardware,
        engine=engine,
        deployment=deployment,
        precision=precision,
        workload=workload,
        memory=memory,
        estimator=Estimator(fits, hidden=measured[0].hidden if measured else 0.0),
        steps=measured[0] if measured else None,
        ignore_capacity=ignore_capacity,
        inputs=tuple(inputs),
        assumptions=tuple(noted),
        query=query,
    )
