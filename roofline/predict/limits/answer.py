"""`limits`: one model on one hardware, over contexts: up to which batch, and why no further."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from os import PathLike
from typing import Any

from roofline.blocks.model import Model
from roofline.errors import InputError
from roofline.graph import build
from roofline.predict import flags, record
from roofline.predict.analyze import facts, run
from roofline.predict.batch_limits import critical_batch_linear, critical_batch_why, standard_contexts
from roofline.predict.efficiency.kernels import Kernel, kernels
from roofline.predict.limits.result import Limits, VariantRow
from roofline.predict.limits.row import Row, row
from roofline.predict.limits.slo import Slo
from roofline.predict.limits.variants import variants
from roofline.predict.limits.variants.base import Variant
from roofline.predict.memory import UNLIMITED, MemoryModel
from roofline.predict.request import Request
from roofline.predict.speculative.speculation import Speculation, prepared
from roofline.predict.steps import Workload, check
from roofline.specs.assumption import Assumption
from roofline.specs.hardware import Hardware
from roofline.specs.workload import Step, decode, prefill
from roofline.units import parse_count

Contexts = int | str | Iterable[int | str]

# Options of `analyze` that say what is run: here the batch is what is looked for, and the contexts are a list.
_WORKLOAD = ("batch", "input_len", "output_len", "segments", "phase", "ignore_capacity")


def limits(
    model: str | PathLike[str] | Model,
    hardware: str | PathLike[str] | Hardware,
    *,
    context: Contexts | None = None,
    ttft: str | float | None = None,
    tpot: str | float | None = None,
    **options: Any,
) -> Limits:
    """The limits of the batch at each context.

    Args:
        model: a shipped id, the path of a file, or a loaded model.
        hardware: a shipped id of an accelerator or node, the path of a file, or loaded hardware.
        context: tokens cached before the decode step: one number, a list, or a text such as "1k,4k,32k"; default: 1k, 2k,
            4k and so on to the longest context of the model.
        ttft: seconds, or a text with a unit, in which a prompt of that many tokens that is alone has its first token.
        tpot: the same between the tokens of a sequence in the batch.
        **options: those of `roofline analyze` that describe the deployment, with underscores.

    Returns:
        The result, in base units; `.to_dict()` has the layout of `roofline limits --json`.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, a file that is not what it should be.
    """
    if clash := [name for name in _WORKLOAD if options.get(name) not in (None, False)]:
        raise InputError(f"{clash[0]} is no option of limits: the batch is what is looked for, at each --context")
    slo = Slo(
        None if ttft is None else flags.quantity("ttft", ttft, "s"), None if tpot is None else flags.quantity("tpot", tpot, "s")
    )
    request, speculation = prepared(model, hardware, {**options, "context": 0, "phase": "decode"})
    notes: list[Assumption] = []
    contexts = _contexts(request, context, notes)
    rows = tuple(row(request, length, slo, speculation) for length in contexts)
    longest = contexts[-1]
    linear = critical_batch_linear(request.memory, request.hardware)
    used = (*request.inputs, *request.estimator.fits.inputs.values())
    return Limits(
        inputs={entry.role: {"name": entry.name, "path": entry.path, "sha256": entry.sha256} for entry in used},
        **facts(request),
        slo=slo,
        rows=rows,
        variants=tuple(_compared(request, contexts)),
        critical_batch_linear=linear,
        critical_batch_why=""
        if rows[-1].critical_batch is not None
        else critical_batch_why(request.memory, request.hardware, linear, None, longest),
        assumptions=(*_assumptions(request, slo, speculation), *notes, *_stands_on(request, rows, slo)),
        unfit=run(_at(request, contexts[0])) if rows[0].max_batch_memory == 0 else None,
    )


def _at(request: Request, context: int) -> Request:
    """The question to `analyze` about one sequence."""
    step = decode(1, context)
    return replace(request, workload=Workload(1, context, None, context, (("decode", step),)))


def _contexts(request: Request, given: Contexts | None, notes: list[Assumption]) -> list[int]:
    """Cached tokens, in order, checked against the limits of the deployment."""
    deployment = request.deployment
    prefix, longest = deployment.conventions.shared_prefix, request.model.max_position_embeddings
    if given is None:
        if deployment.max_model_len is not None:
            longest = min(longest, deployment.max_model_len - 1)
        standard = [length for length in standard_contexts(longest) if length >= prefix]
        found = standard or [prefix]
    else:
        parts = given.split(",") if isinstance(given, str) else [given] if isinstance(given, int) else list(given)
        found = sorted({parse_count(part, "context") for part in parts if not isinstance(part, str) or part.strip()})
        if not found:
            raise InputError(f"no context in {given!r}: write tokens, such as 1k,4k,32k")
    why = "tokens cached before the decode step"
    listed = ", ".join(map(str, found))
    if given is None:
        notes.append(Assumption("context", listed, "default", f"{why}: 1k, 2k, 4k and so on, to the model's longest"))
    else:
        notes.append(Assumption("context", listed, "given", why))
        for length in (found[0], found[-1]):
            check(_at(request, length).workload, request.model, deployment, notes if length == found[-1] else [])
    return found


def _compared(request: Request, contexts: list[int]) -> Iterable[VariantRow]:
    """What memory holds as it is, and with one thing another way."""
    listed = [Variant("as it is", "", request.memory), *variants(request)]
    for variant in listed:
        for length in contexts:
            yield _held(variant, variant.memory, length)


def _held(variant: Variant, memory: MemoryModel, context: int) -> VariantRow:
    most = memory.max_batch(context)
    part = memory.tightest(decode(max(most, 1), context))
    return VariantRow(
        variant=variant.name,
        why=variant.why,
        context=context,
        max_batch_memory=None if most >= UNLIMITED else most,
        kv_bytes_per_sequence=float(part.kv_bytes(context + 1, allocated=True)),
    )


def _assumptions(request: Request, slo: Slo, speculation: Speculation | None) -> list[Assumption]:
    """The choices of the request that matter here, and what is judged."""
    found = [note for note in request.assumptions if note.name not in ("batch", "input_len", "context")]
    if slo.tpot is not None:
        why = "seconds of a decode step, in which every sequence of the batch gets one token"
        if speculation is not None:
            why = f"seconds of a round over the {speculation.tokens:.4g} tokens that it gives each sequence of the batch"
        found.append(Assumption("tpot", slo.tpot, "given", why))
    if slo.ttft is not None:
        why = "seconds of the prefill of a prompt as long as the context, alone: nothing else runs, and nobody queues"
        found.append(Assumption("ttft", slo.ttft, "given", why))
    if speculation is not None:
        why = "of a decode step without a draft; verification has more tokens, and meets compute at fewer sequences"
        found.append(Assumption("critical_batch", "plain", "assumed", why))
    if request.deployment.max_num_seqs is not None:
        why = "sequences in one step of a replica: max_batch_memory is never more, whatever memory would hold"
        found.append(Assumption("max_num_seqs", request.deployment.max_num_seqs, "given", why))
    return found


def _stands_on(request: Request, rows: Iterable[Row], slo: Slo) -> list[Assumption]:
    """What the estimates stand on, where there are any."""
    if not request.estimator.applies:
        return record.no_estimate(request.deployment.backend)
    launched: list[Kernel] = []
    for found in rows:
        steps: list[Step] = [decode(found.batch or 1, found.context)]
        if slo.ttft is not None and found.context:
            steps.append(prefill(1, found.context))
        for step in steps:
            launched += kernels(build(request.model, request.deployment, request.precision, step, request.memory.stage))
    return [*record.estimates(request.estimator, launched), *record.engine_steps(request.steps)]
