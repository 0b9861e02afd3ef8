"""Times to the first token, and rates of prompt tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from roofline.audit.claims.floor import floors
from roofline.audit.claims.kinds import steps
from roofline.audit.claims.kinds.base import Shape
from roofline.audit.claims.memory import largest_batch
from roofline.audit.claims.roof import Reach, Roof
from roofline.audit.claims.splits import Split
from roofline.errors import InputError
from roofline.predict.request import Request
from roofline.specs.assumption import Assumption
from roofline.specs.workload import Segment, Step, prefill, tokens

if TYPE_CHECKING:
    from roofline.audit.claims.case import Case

# Lengths of prompts, where none is stated: the best rate is that of one of them.
_LENGTHS = tuple(2**power for power in range(4, 14))
_TOKENS = 2**20
"""Tokens of a step beyond which a larger batch of prompts gains nothing."""


def _lengths(case: Case) -> tuple[int, ...]:
    said = case.statement.input_len
    if said is not None:
        return (said,)
    if case.claim.is_time:
        raise InputError('TTFT depends on the length of the prompt: state it, such as "for a 4k prompt" or --input-len 4k')
    return _LENGTHS


def _roof(case: Case) -> Roof:
    lengths = _lengths(case)
    found = (_divided(case, split, request, length) for length in lengths for split, request in case.requests())
    return steps.boldest(case, found)


def _batch(case: Case, request: Request, length: int) -> int:
    if case.claim.is_time:
        return 1  # a prompt is done soonest alone, and of a batch one may be first
    if case.statement.batch is not None:
        return case.statement.batch
    return max(min(largest_batch(request, length), _TOKENS // length), 1)


def _divided(case: Case, split: Split, request: Request, length: int) -> Roof:
    step = _step(case, _batch(case, request, length), length)
    parts = floors(request, step, case.twist)
    if case.claim.is_time:
        seconds = value = steps.through(parts)
    else:
        seconds = steps.a_round(parts)
        share = {"total": 1, "gpu": case.devices, "user": step[0].count}[case.claim.scope]
        value = step[0].count * length / seconds / share
    return steps.roof(case, split, request, step, length, value=value, seconds=seconds)


def _step(case: Case, batch: int, length: int) -> Step:
    return (Segment(batch, 1, length - 1),) if case.twist.reuse else prefill(batch, length)


def _reach(case: Case) -> Reach:
    def points() -> Iterator[tuple[Request, Step]]:
        for length in _lengths(case):
            for _, request in case.requests():
                # of a stated batch all prompts are expected at once, as `analyze` takes it
                batch = case.statement.batch if case.claim.is_time else None
                yield request, prefill(batch or _batch(case, request, length), length)

    def figure(seconds: float, step: Step) -> float:
        if case.claim.is_time:
            return seconds
        share = {"total": 1, "gpu": case.devices, "user": step[0].count}[case.claim.scope]
        return float(tokens(step) / share) / seconds

    return steps.reach(case, points(), figure)


def _derive(case: Case, found: Roof) -> list[str]:
    lines = steps.derivation(found, "for the prompt" if found.batch == 1 else "for the prompts")
    if found.value is None:
        return lines
    if case.claim.is_time:
        lines.append(f"so the first token after {found.length:,} comes in {case.claim.written(found.value)} at the soonest")
        if (batch := case.statement.batch or 1) > 1:
            lines.append(
                f"all {batch:,} prompts at once: at least {case.claim.written(_together(case, found, batch))} for the last"
            )
        return lines
    return [*lines, f"so at most {case.claim.written(found.value)} with {found.batch:,} x {found.length:,} tokens"]


def _together(case: Case, found: Roof, batch: int) -> float:
    """The least seconds until the last of several prompts has its token: each stage does all, and one prompt passes all."""
    step = prefill(batch, found.length)
    return max(found.value or 0.0, min(steps.a_round(floors(request, step, case.twist)) for _, request in case.requests()))


def _assume(case: Case, found: Roof) -> list[Assumption]:
    said, notes = case.statement, []
    why = "prompt tokens, nothing cached" if said.input_len is not None else "not stated: the length with the best rate"
    notes.append(Assumption("input_len", found.length, "given" if said.input_len is not None else "assumed", why))
    if case.claim.is_time and said.batch is not None:
        why = "the least is that of one of these prompts, the first; expected is that of all at once, the last of them"
        notes.append(Assumption("batch", said.batch, "given", why if said.batch > 1 else "one prompt; no queue"))
    elif case.claim.is_time:
        notes.append(Assumption("batch", 1, "assumed", "a prompt is done soonest when nothing else is; no queue"))
    else:
        origin, why = ("given", "prompts at once") if said.batch is not None else ("assumed", "not stated: as many as help")
        notes.append(Assumption("batch", found.batch, origin, why))  # type: ignore[arg-type]
    return [*notes, *steps.setting(case, found)]


SHAPE = Shape(
    judges=(("tokens_per_s", "prefill"), ("ttft", "decode"), ("ttft", "prefill")),
    roof=_roof,
    derive=_derive,
    assume=_assume,
    reach=_reach,
)
