"""The steps that a workload asks about, and the request that they serve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roofline.blocks.model import Model
from roofline.errors import InputError, UnknownNameError
from roofline.predict.flags import Options
from roofline.specs.assumption import Assumption, Origin
from roofline.specs.deployment import Deployment
from roofline.specs.workload import Segment, Step, decode, merged, parse_segments, prefill, sequences
from roofline.units import parse_count

PhaseName = Literal["prefill", "decode", "mixed"]
PHASES = ("prefill", "decode", "both")


@dataclass(frozen=True, slots=True)
class Workload:
    """What is asked of the deployment. Counts are those of the whole deployment; `steps` by the name of the phase."""

    batch: int
    input_len: int
    output_len: int | None
    context: int
    steps: tuple[tuple[PhaseName, Step], ...]
    segmented: bool = False
    """Whether the one step was given segment by segment: it has no batch or context that could be another."""


def workload(options: Options, model: Model, deployment: Deployment, notes: list[Assumption]) -> Workload:
    """The workload that the options describe, checked against the limits of the deployment."""
    segments, output_len, phase = options.take("segments"), options.take("output_len"), options.take("phase", "both")
    if output_len is not None:
        output_len = parse_count(output_len, "output-len", minimum=1)
    if phase not in PHASES:
        raise UnknownNameError("phase", phase, PHASES, list_all=True)
    named = {name: options.take(name) for name in ("batch", "input_len", "context")}
    if segments is None:
        found = _phases(named, phase, output_len, notes)
    else:
        if clash := [name for name, value in named.items() if value is not None]:
            raise InputError(f"--segments describes the whole step: leave out --{clash[0].replace('_', '-')}")
        if output_len is not None:
            raise InputError("--segments describes one step, not a request: leave out --output-len")
        found = _one_step(segments, notes)
    check(found, model, deployment, notes)
    return found


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


def _phases(named: dict[str, object], phase: str, output_len: int | None, notes: list[Assumption]) -> Workload:
    batch = parse_count(1 if named["batch"] is None else named["batch"], "batch", minimum=1)
    input_len = parse_count(1024 if named["input_len"] is None else named["input_len"], "input-len", minimum=1)
    context = input_len if named["context"] is None else parse_count(named["context"], "context")
    implied = " (= input-len)" if named["context"] is None else ""
    for name, value, why in (
        ("batch", batch, "sequences in the whole deployment"),
        ("input_len", input_len, "prompt tokens a sequence, nothing cached"),
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


def check(found: Workload, model: Model, deployment: Deployment, notes: list[Assumption]) -> None:
    """Refuse what is longer or larger than the deployment allows; on record what is longer than the model was made for."""
    most = (deployment.max_num_seqs or found.batch) * deployment.data_parallel_size
    if found.batch > most:
        raise InputError(f"--batch {found.batch} is more than --max-num-seqs allows at once ({most} in the whole deployment)")
    longest = max(segment.cached + segment.new for _, step in found.steps for segment in step)
    if found.output_len is not None:
        longest = max(longest, found.input_len + found.output_len - 1)
    if deployment.max_model_len is not None and longest > deployment.max_model_len:
        raise InputError(f"a sequence of {longest:,} tokens is longer than --max-model-len {deployment.max_model_len:,}")
    shared = deployment.conventions.shared_prefix
    for _, step in found.steps:
        cached = max(segment.cached for segment in step)
        if cached and shared > cached:
            raise InputError(f"--shared-prefix {shared:,} is more than the {cached:,} cached tokens of a sequence")
    if longest > model.max_position_embeddings:
        made_for = f"{model.max_position_embeddings:,} tokens that {model.name} was made for"
        why = f"beyond the {made_for}: the numbers hold, the model's answers may not"
        notes.append(Assumption("context_length", longest, "assumed", why))
