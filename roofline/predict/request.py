"""A resolved request: specs loaded, options read, defaults filled in, every choice recorded.

A wrong value of an option is one error that names its flag.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from os import PathLike
from typing import Any, Literal

from pydantic import ValidationError

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.blocks.precision import resolve_precision
from roofline.blocks.vision import VisionTower
from roofline.dtypes import Precision
from roofline.errors import InputError, UnknownNameError
from roofline.graph.sharding import cache_kinds, check_parallel, communication_groups
from roofline.numeric import Expr
from roofline.predict import assumptions
from roofline.predict.efficiency.estimate import Estimator
from roofline.predict.efficiency.fits import DEFAULT, HOST, Fits, fits_for
from roofline.predict.efficiency.form import SERVING, Conditions
from roofline.predict.memory import MemoryModel
from roofline.predict.options import ALIASES, DEPLOYMENT, HARDWARE, OPTIONS, PREFIX, of_groups, read_quantity, read_share
from roofline.specs.base import requirement
from roofline.specs.deployment import Conventions, Deployment
from roofline.specs.engine import MEMORY_OPTIONS, Engine, EngineSteps, MemoryShare
from roofline.specs.hardware import IN_A_SERVER, Hardware
from roofline.specs.library import (
    Input,
    load_engine,
    load_engine_steps,
    load_hardware,
    measured_engines,
    split_count,
)
from roofline.specs.source import Assumption, Origin
from roofline.specs.workload import Segment, Step, cached_tokens, decode, merged, parse_segments, prefill, sequences
from roofline.units import parse_count

DEFAULT_ENGINE, GGUF_ENGINE = "vllm", "llama.cpp"
"""The engine where none is given: of models in general, and of GGUF files, whose format is llama.cpp's."""
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
        """Return options under their long names; None means not given.

        Raises:
            InputError: an option is given under two names.
        """
        by_name: dict[str, Any] = {}
        for name, value in options.items():
            full = ALIASES.get(name, name)
            if value is not None and by_name.get(full) is not None:
                msg = f"{name} and {full} are the same option: give one of them"
                raise InputError(msg)
            by_name[full] = by_name.get(full) if value is None else value
        return cls(by_name)

    def take(self, name: str, default: Any = None) -> Any:
        """Return the value of an option (`default` if it is not given) and mark it as known. It can be taken once."""
        self.known.add(name)
        value = self.given.pop(name, None)
        return default if value is None else value

    def done(self) -> None:
        """Check that all options were taken.

        Raises:
            UnknownNameError: one was not.
        """
        if self.given:
            raise UnknownNameError("option", next(iter(self.given)), self.known | set(ALIASES))


_WHY_GIVEN = {
    "peak_flops": "for every dtype",
    "allreduce_bandwidth": "bytes that each device sends, over the time beyond the latency, in the estimate",
    "mfu": "estimate: matrix products at this share of the peak, instead of fitted kernels",
    "mbu": "estimate: bytes at this share of the bandwidth, instead of fitted kernels",
}
"""What is said of figures that do not just replace one of the file."""


def override_hardware(hardware: Hardware, options: Options, notes: list[Assumption]) -> Hardware:
    """Hardware with the figures that the options replace."""
    figures = {}
    for name, unit in OVERRIDES.items():
        if (value := options.take(name)) is not None:
            number = read_quantity(name, value, unit) if unit else read_share(name, value)
            figures["memory_bytes" if name == "memory" else name] = number
            why = _WHY_GIVEN.get(name, "in place of the file's")
            notes.append(Assumption(name, value, "given", why))
    return Hardware(hardware.accelerator, hardware.node, figures)


_OF_THE_ENGINE = ("conventions", "engine", "expert_exchange")
"""Fields of a deployment that are no options by themselves."""


def _read_deployment(options: Options, engine: Engine, engine_given: bool, notes: list[Assumption]) -> Deployment:
    """The deployment that the options describe; what the engine's defaults fill in is noted, but for its share of memory."""
    values = {name: options.take(name) for name in Deployment.model_fields if name not in _OF_THE_ENGINE}
    values = {name: value for name, value in values.items() if value is not None}
    conventions = {name: value for name in Conventions.model_fields if (value := options.take(name)) is not None}
    for read in (values, conventions):
        for name, least in COUNTS.items():
            if name in read:
                read[name] = parse_count(read[name], name.replace("_", "-"), minimum=least)
    if engine.name != DEFAULT and "backend" not in values and engine.name in measured_engines():
        values["backend"] = engine.name
        notes.append(Assumption("backend", engine.name, "default", "the engine's kernels"))
    deployment: Deployment = validated(
        Deployment, {**values, "engine": engine.name, "conventions": validated(Conventions, conventions)}
    )

    label = f"{engine.name}@{engine.version}"
    why = "its defaults, and its blocks for the allocated KV cache"
    notes.append(Assumption("engine", label, "given" if engine_given else "default", why))
    for name in ("block_size", "max_num_batched_tokens"):
        why = "maximum number of tokens for which activations are held at a time" if name == "max_num_batched_tokens" else ""
        given = getattr(deployment, name)
        if given is None:
            notes.append(Assumption(name, getattr(engine, name), "default", why))
        else:
            notes.append(Assumption(name, given, "given", why))
    notes.append(Assumption("reserve", deployment.reserve, "given" if deployment.reserve else "default", "bytes kept free"))
    return deployment


def _memory_share(
    model: Model, deployment: Deployment, engine: Engine, capacity: float
) -> tuple[MemoryShare, float, Assumption]:
    """What the share of memory is of, and the share: as the option that was given, else by the engine's rule."""
    given = {of: share for of, name in MEMORY_OPTIONS.items() if (share := getattr(deployment, name)) is not None}
    if len(given) > 1:
        flags = [f"--{MEMORY_OPTIONS[of].replace('_', '-')}" for of in given]
        raise InputError(f"{' and '.join(flags)} are shares of different memory: give one of them")
    for of, share in given.items():
        return of, share, Assumption(MEMORY_OPTIONS[of], share, "given", _SHARES[of])
    tensor = deployment.tensor_parallel_size
    share = engine.share(
        capacity,
        tensor * deployment.pipeline_parallel_size,
        tensor,
        deployment.max_num_batched_tokens,
        latent="latent" in cache_kinds(model),
    )
    of = engine.memory_share
    return of, share, Assumption(MEMORY_OPTIONS[of], share, "default", _SHARES[of])


_SHARES: dict[MemoryShare, str] = {
    "all": "",
    "static": "of all memory, for weights and cache; activations have to fit beside it",
    "free": "of what weights and activations leave, for the cache",
}


def validated(spec: type[Any], values: dict[str, Any]) -> Any:
    """Return a pydantic spec made of option values.

    Raises:
        InputError: a wrong value; the message names the flag and what is allowed.
    """
    try:
        return spec(**values)
    except ValidationError as error:
        detail = error.errors()[0]
        name = "-".join(str(part) for part in detail["loc"]).replace("_", "-")
        text = requirement(detail)
        message = f"--{name} {text}" if text.startswith("must") else f"--{name}: {text}"
        if "unknown" not in text:
            message += f", not {detail['input']!r}"
        raise InputError(message) from None


IMAGES_OR_CACHED = "--images are encoded, and images in a cached prefix are not: leave out one of them"
PhaseName = Literal["prefill", "decode", "mixed"]
PHASES = ("prefill", "decode", "both")


@dataclass(frozen=True, slots=True)
class Workload:
    """What is run: lengths in tokens, the batch in sequences of the whole deployment, and the steps by the name of their
    phase.
    """

    batch: int
    input_len: int
    output_len: int | None
    context: int
    steps: tuple[tuple[PhaseName, Step], ...]
    segmented: bool = False
    """Whether the one step was given segment by segment: it has no batch or context that could be another."""
    cached_prefix: int = 0
    """Tokens of each prompt that are in the prefix cache."""
    images: int = 0
    """Images in each prompt; their tokens are part of `input_len`."""
    image_tokens: int = 0
    """Of all images of a prompt."""

    @property
    def prompts(self) -> Step:
        """The step that processes the prompts of the batch."""
        return prefill(self.batch, self.input_len, self.cached_prefix)


def read_workload(options: Options, model: Model, deployment: Deployment, notes: list[Assumption]) -> Workload:
    """Return the workload that the options describe.

    Args:
        options: those of the workload are taken from it.
        model: gives the context length.
        deployment: gives the limits of the engine.
        notes: assumptions are added to it.

    Raises:
        InputError: a wrong value, options that exclude each other, or a workload beyond the limits of the deployment.
    """
    segments, output_len, phase = options.take("segments"), options.take("output_len"), options.take("phase", "both")
    if output_len is not None:
        output_len = parse_count(output_len, "output-len", minimum=1)
    if phase not in PHASES:
        raise UnknownNameError("phase", phase, PHASES, list_all=True)
    named = {name: options.take(name) for name in ("batch", "input_len", "context", *PREFIX)}
    images = _images(options.take("images"), model)
    if segments is None:
        wanted = _phase_steps(named, phase, output_len, notes, images and images * vision(model).tokens)
    else:
        if images:
            raise InputError("--segments describes the whole step, with the tokens of images: leave out --images")
        if clash := [name for name, value in named.items() if value is not None]:
            raise InputError(f"--segments describes the whole step: leave out --{clash[0].replace('_', '-')}")
        if output_len is not None:
            raise InputError("--segments describes one step, not a request: leave out --output-len")
        wanted = _one_step(segments, notes)
    if images:
        tower = vision(model)
        if wanted.cached_prefix:
            raise InputError(IMAGES_OR_CACHED)
        each = f"{tower.image_size[0]} x {tower.image_size[1]} pixels and {tower.tokens:,} tokens each"
        notes.append(Assumption("images", images, "given", f"per prompt, of {each}; marks around them are not counted"))
        wanted = replace(wanted, images=images, image_tokens=images * tower.tokens)
    check_workload(wanted, model, deployment, notes)
    return wanted


def _images(given: Any, model: Model) -> int:
    """The number of images of a prompt.

    Raises:
        InputError: a wrong number, or the work of the model's tower is not known from its config.
    """
    images = 0 if given is None else int(OPTIONS["images"].read(given))
    if images:
        vision(model)
    return images


def vision(model: Model) -> VisionTower:
    """Return the vision tower of a model.

    Raises:
        InputError: it has none, or its work on an image does not follow from its config.
    """
    if model.vision is None:
        why = "it has no vision tower"
        if model.towers or any(choice.name == "parts" for choice in model.assumptions):
            why = "its config does not say how many patches and tokens an image has, or how its encoder computes them"
        raise InputError(f"--images: the work on an image is not known of {model.name}: {why}. Add its tokens to --input-len")
    return model.vision


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


def _phase_steps(
    named: dict[str, object], phase: str, output_len: int | None, notes: list[Assumption], image_tokens: int = 0
) -> Workload:
    batch = parse_count(1 if named["batch"] is None else named["batch"], "batch", minimum=1)
    input_len = parse_count(1024 if named["input_len"] is None else named["input_len"], "input-len", minimum=1)
    input_len += image_tokens
    context = input_len if named["context"] is None else parse_count(named["context"], "context")
    cached = cached_prefix(input_len, named["prefix_hit"], named["cached_prefix"])
    implied = " (= input-len)" if named["context"] is None else ""
    pictured = f"{image_tokens:,} of them of images, " if image_tokens else ""
    for name, value, why in (
        ("batch", batch, "sequences in the whole deployment"),
        (
            "input_len",
            input_len,
            f"prompt tokens per sequence, {pictured}{f'{cached:,} of them' if cached else 'nothing'} cached",
        ),
        ("context", context, f"tokens cached before the decode step{implied}"),
    ):
        origin: Origin = "default" if named[name] is None else "given"
        notes.append(Assumption(name, value, origin, why))
    if cached:
        computed = f"prompt tokens per sequence in the prefix cache: prefill computes the other {input_len - cached:,}"
        notes.append(Assumption("cached_prefix", cached, "given", computed))
    steps: list[tuple[PhaseName, Step]] = []
    if phase in ("prefill", "both"):
        steps.append(("prefill", prefill(batch, input_len, cached)))
    if phase in ("decode", "both"):
        steps.append(("decode", decode(batch, context)))
    return Workload(batch, input_len, output_len, context, tuple(steps), cached_prefix=cached)


def cached_prefix(input_len: int, prefix_hit: Any = None, cached_prefix: Any = None) -> int:
    """Return the tokens of a prompt of `input_len` tokens that are in the prefix cache, by a share or in tokens.

    Raises:
        InputError: both are given, a wrong value, or no token is left to compute.
    """
    if cached_prefix is None:
        return 0 if prefix_hit is None else cached_tokens(input_len, OPTIONS["prefix_hit"].read(prefix_hit))
    if prefix_hit is not None:
        raise InputError("--prefix-hit and --cached-prefix say the same, as a share and in tokens: give one of them")
    cached = int(OPTIONS["cached_prefix"].read(cached_prefix))
    if cached >= input_len:
        raise InputError(
            f"--cached-prefix {cached:,} leaves nothing of a prompt of {input_len:,} tokens: at most {input_len - 1:,}"
        )
    return cached


def check_workload(workload: Workload, model: Model, deployment: Deployment, notes: list[Assumption]) -> None:
    """Check a workload against the limits of the deployment; add a note if sequences are longer than the model's context
    length.

    Raises:
        InputError: more sequences than `max_num_seqs`, longer ones than `max_model_len`, or a shared prefix longer than
            the cache.
    """
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
        if (cached or any(segment.decode for segment in step)) and shared > cached:
            raise InputError(f"--shared-prefix {shared:,} is more than the {cached:,} cached tokens of a sequence")
    if longest > model.max_position_embeddings:
        made_for = f"{model.max_position_embeddings:,} tokens that {model.name} was made for"
        why = f"beyond the {made_for}: the numbers hold, the model's answers may not"
        notes.append(Assumption("context_length", longest, "assumed", why))


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A model on hardware under a workload, with every default filled in. `inputs` are the files read, `assumptions` the
    choices made.
    """

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
    prefix_caching: bool | None = None
    """Whether prefix caching was switched on or off; None: as the engine does by itself."""

    def engine_seconds(self, sequences: Expr, stages: int | None = None) -> Expr:
        """Return the seconds that the engine adds to the kernels of a step.

        Args:
            sequences: of one replica, in a pipeline of a microbatch; a number or an array.
            stages: pipeline stages whose kernels they are added to; None: all.
        """
        if self.steps is None:
            return 0.0
        passed = self.deployment.pipeline_parallel_size if stages is None else stages
        added = self.steps.seconds(sequences, self.deployment.tensor_parallel_size, self.model.num_expert_layers)
        return added + passed * self.stage_seconds(sequences)

    def stage_seconds(self, sequences: Expr) -> Expr:
        """Return the seconds that the engine adds to the work of each pipeline stage on a microbatch; 0 without a pipeline.

        Args:
            sequences: of the microbatch in one replica; a number or an array.
        """
        if self.steps is None or self.deployment.pipeline_parallel_size == 1:
            return 0.0
        return self.steps.stage * sequences

    @property
    def eager_seconds(self) -> float:
        """Return the least seconds of a step with prompts, whose kernels the host launches one by one; 0 where it is not known.

        NB: `analyze` and closed forms leave it out: they are of kernels. A simulated server has it.
        """
        return 0.0 if self.steps is None else self.steps.eager * self.model.num_expert_layers

    @property
    def engine_band(self) -> tuple[float, float]:
        """Return the ends of measured over estimated step times, (at most 1, at least 1); (1, 1) where no whole steps were
        measured.
        """
        if self.steps is None:
            return 1.0, 1.0
        low, high = self.steps.band
        return min(low, 1.0), max(high, 1.0)

    def memory_steps(self) -> list[tuple[str, Step]]:
        """Return the steps that have to fit, with names: those of the workload, and the last decode step of a request with an
        output.
        """
        workload = self.workload
        steps: list[tuple[str, Step]] = list(workload.steps)
        if workload.output_len is not None and workload.output_len > 1:
            steps.append(("last decode", decode(workload.batch, workload.input_len + workload.output_len - 2)))
        return steps

    def all_fit(self, batch: int | None = None) -> bool:
        """Return whether every step of `memory_steps` fits.

        Args:
            batch: sequences of the whole deployment in each segment, instead of the workload's.
        """
        steps = [step for _, step in self.memory_steps()]
        if batch is not None:
            steps = [tuple(replace(segment, count=batch) for segment in step) for step in steps]
        return all(map(self.memory.fits, steps))


def _of_card(steps: EngineSteps, model: Model, fits: Fits) -> EngineSteps:
    """What an engine adds to the kernels of a step on this card.

    The time of a layer with experts is of kernels around the grouped products, as engines have them on the measured cards.
    Where experts are estimated by the prior it is left out: what such a card runs beside the products has not been measured.
    Such an estimate is of the products, and low for small batches of small experts: with that time H200 is at 3.8 bounds (one
    sequence of Qwen3-30B-A3B).
    """
    if not (steps.experts and model.num_expert_layers):
        return steps
    fit = fits.find("moe/bf16")
    return steps.model_copy(update={"experts": 0.0}) if fit is not None and fit.origin == "prior" else steps


def _query(model: object, hardware: object, options: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments of `analyze` as plain data."""
    if isinstance(model, Model) or isinstance(hardware, Hardware):
        return None
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    return {"model": str(model), "hardware": str(hardware), "options": given}


_DIVIDE = ("pipeline_parallel_size", "data_parallel_size", "context_parallel_size")


def sized(hardware: Any, options: dict[str, Any], replicas: int = 1) -> tuple[Any, dict[str, Any]]:
    """Return hardware without the number of devices that its name begins with (`8xh100-sxm`), and options that use them all:
    the tensor-parallel size is what the other sizes leave, where it is not given.

    Args:
        hardware: an id, a path, or loaded hardware.
        options: of the deployment, under any of their names.
        replicas: deployments on these devices.

    Raises:
        InputError: the sizes that are given use another number of devices, or do not divide it.
    """
    count, single = split_count(hardware)
    if count is None:
        return hardware, options
    node = load_hardware(single)[0].node
    devices = count * (node.count if node else 1)
    known = Options.of(options).given
    sizes = {name: parse_count(known[name], name.replace("_", "-"), 1) for name in _DIVIDE if known.get(name) is not None}
    stated = prod(sizes.values()) * replicas
    if (given := known.get("tensor_parallel_size")) is not None:
        stated *= parse_count(given, "tensor-parallel-size", 1)
        if stated != devices:
            raise InputError(f"hardware {hardware!r} is {devices:,} devices, and the sizes given use {stated:,}: leave one out")
        return single, options
    if devices % stated:
        raise InputError(f"hardware {hardware!r} is {devices:,} devices, which the sizes given ({stated:,}) do not divide")
    return single, {**options, "tensor_parallel_size": devices // stated}


def prepare(model: str | PathLike[str] | Model, hardware: str | PathLike[str] | Hardware, **options: Any) -> ResolvedRequest:
    """Resolve a request.

    Args:
        model: a shipped id, the path of a file, or a loaded model.
        hardware: a shipped id of an accelerator or node, the path of a file, or loaded hardware; `8xh100-sxm` is eight.
        **options: those of `roofline analyze`, with underscores or by their short names (`tp`, `pp`, `dp`, `ep`); without
            those of speculative decoding.

    Returns:
        The request, with what was assumed in `assumptions`.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, a file that is not what it should be.
    """
    query = _query(model, hardware, options)
    hardware, options = sized(hardware, options)
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
    engine, read = load_engine(engine_name or (GGUF_ENGINE if model.format == "gguf" else DEFAULT_ENGINE))
    inputs.append(read)
    deployment = _read_deployment(left, engine, engine_name is not None, notes)
    server = IN_A_SERVER if hardware.node is None else min(hardware.node.count, IN_A_SERVER)
    # of more devices than a server has, kernels that send tokens to their experts are usual
    if deployment.deepep_mode == "auto" and deployment.expert_devices <= server:
        deployment = deployment.model_copy(update={"expert_exchange": engine.expert_exchange})
    share_of, utilization, share_note = _memory_share(model, deployment, engine, hardware.memory_bytes)
    if (prefix_caching := left.take("enable_prefix_caching")) is not None:
        why = "--shared-prefix says how many cached tokens are common" if prefix_caching else "no prefix is kept for others"
        notes.append(Assumption("enable_prefix_caching", bool(prefix_caching), "given", why))
    place = next((index for index, note in enumerate(notes) if note.name == "block_size"), len(notes))
    notes.insert(place, share_note)
    workload = read_workload(left, model, deployment, notes)
    left.done()

    check_parallel(model, deployment)
    for group in communication_groups(deployment):
        hardware.connection(group)  # raises where no link joins a group of that size
    precision, chosen = resolve_precision(model, deployment, hardware.accelerator.peak_flops, engine)
    memory = MemoryModel(
        model=model,
        deployment=deployment,
        precision=precision,
        capacity=hardware.memory_bytes,
        utilization=utilization,
        share_of=share_of,
        block_size=deployment.block_size or engine.block_size,
        max_num_batched_tokens=deployment.max_num_batched_tokens or engine.max_num_batched_tokens,
        rules=engine.kv_cache.with_prefix_caching(prefix_caching),
    )
    fits = fits_for(hardware, deployment.backend)
    fits.check()
    # measured with graphs of kernels on accelerators: it says nothing of a processor
    nothing_added = hardware.accelerator.vendor == HOST or hardware.given_shares is not None
    measured = (
        None if nothing_added else load_engine_steps([*([deployment.backend] if deployment.backend else []), engine.name])
    )
    if measured is not None:
        measured = _of_card(measured[0], model, fits), measured[1]
        inputs.append(measured[1])
    noted = [
        *assumptions.shadowing(inputs),
        *assumptions.reading(model, encoded=workload.images > 0),
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
        estimator=Estimator(
            fits,
            Conditions(fused=measured[0].fused_quantization, popularity=measured[0].routing_skew) if measured else SERVING,
            hidden=measured[0].hidden if measured else 0.0,
        ),
        steps=measured[0] if measured else None,
        ignore_capacity=ignore_capacity,
        inputs=tuple(inputs),
        prefix_caching=None if prefix_caching is None else bool(prefix_caching),
        assumptions=tuple(noted),
        query=query,
    )
