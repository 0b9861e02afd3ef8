"""Rates of generated tokens, and times between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from roofline.audit.claims.floor import floors
from roofline.audit.claims.kinds import steps
from roofline.audit.claims.kinds.base import Shape
from roofline.audit.claims.memory import MOST, largest_batch
from roofline.audit.claims.roof import Reach, Roof
from roofline.audit.claims.splits import Split
from roofline.numeric import ceil_div
from roofline.predict.request import Request
from roofline.specs.assumption import Assumption
from roofline.specs.workload import Segment, Step, decode, sequences

if TYPE_CHECKING:
    from roofline.audit.claims.case import Case

# With nothing said of lengths: the shortest that a decode step can follow.
SHORTEST = 1
# Batches beyond this are not estimated: nothing like them was measured.
_ESTIMATED = 2**14


def _context(case: Case) -> int:
    said = case.statement.cached
    return SHORTEST if said is None else said


def _one_sequence(case: Case) -> bool:
    """Whether the claim is about what one sequence sees."""
    return case.claim.is_time or case.claim.scope == "user"


def _roof(case: Case) -> Roof:
    return steps.boldest(case, (_divided(case, split, request) for split, request in case.requests()))


def _divided(case: Case, split: Split, request: Request) -> Roof:
    context, batch = _context(case), case.statement.batch
    if batch is None:
        # a total is largest with the largest batch, what one sequence sees with the smallest
        batch = 1 if _one_sequence(case) else largest_batch(request, context + 1)
        if case.ignore_memory and not _one_sequence(case):
            batch = MOST
        batch = max(batch, 1)
    new = case.twist.tokens_per_step
    step = (Segment(batch, new, context, decode=True),)
    if _one_sequence(case):
        # of a batch in several stages, a stage sees a part at a time
        seconds = (
            steps.through(floors(request, (Segment(ceil_div(batch, split["pp"]), new, context, decode=True),), case.twist))
            / new
        )
        value = seconds if case.claim.is_time else 1 / seconds
    else:
        seconds = steps.a_round(floors(request, step, case.twist)) / new
        value = batch / seconds / (case.devices if case.claim.scope == "gpu" else 1)
    return steps.roof(case, split, request, step, context, value=value, seconds=seconds)


def _reach(case: Case) -> Reach:
    def points() -> Iterator[tuple[Request, Step]]:
        context, stated = _context(case), case.statement.batch
        for _, request in case.requests():
            if stated is not None or _one_sequence(case):
                yield request, decode(stated or 1, context)
                continue
            most, batch = min(largest_batch(request, context + 1), _ESTIMATED), 1
            while batch <= most:
                yield request, decode(batch, context)
                batch *= 2

    def figure(seconds: float, step: Step) -> float:
        if case.claim.is_time:
            return seconds
        if case.claim.scope == "user":
            return 1 / seconds
        return float(sequences(step)) / seconds / (case.devices if case.claim.scope == "gpu" else 1)

    return steps.reach(case, points(), figure)


def _derive(case: Case, found: Roof) -> list[str]:
    lines = steps.derivation(found, "each step")
    if found.value is None or found.seconds is None:
        return lines
    end = f"so {'at least' if case.claim.is_time else 'at most'} {case.claim.written(found.value)}"
    if _one_sequence(case):
        return [*lines, f"{end} at batch {found.batch:,}"]
    shared = f" of all {found.devices} devices together" if case.claim.scope == "gpu" and found.devices > 1 else ""
    return [*lines, f"{end} with {found.batch:,} token{'s' * (found.batch > 1)} a step{shared}"]


def _assume(case: Case, found: Roof) -> list[Assumption]:
    said, notes = case.statement, []
    if said.batch is None:
        why = (
            "not stated: what one user sees is best alone"
            if _one_sequence(case)
            else "not stated: the largest that memory holds"
        )
        notes.append(Assumption("batch", found.batch, "assumed", why))
    else:
        notes.append(Assumption("batch", said.batch, "given", "sequences in the whole deployment"))
    if said.context is not None:
        notes.append(Assumption("context", said.context, "given", "tokens cached before the step"))
    elif said.input_len is not None:
        notes.append(Assumption("context", said.input_len, "given", "the prompt: a reply's first step, its fastest"))
    else:
        notes.append(Assumption("context", SHORTEST, "assumed", "not stated: the shortest is the fastest"))
    notes.append(Assumption("tokens_per_step", 1, "default", "one token a sequence and step: no speculative decoding"))
    return [*notes, *steps.setting(case, found)]


SHAPE = Shape(judges=(("tokens_per_s", "decode"), ("tpot", "decode")), roof=_roof, derive=_derive, assume=_assume, reach=_reach)
