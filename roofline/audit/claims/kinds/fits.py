"""Claims that a model fits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from roofline.audit.claims.kinds import steps
from roofline.audit.claims.kinds.base import Shape
from roofline.audit.claims.memory import engine_holds, need
from roofline.audit.claims.roof import Roof
from roofline.specs.assumption import Assumption
from roofline.specs.workload import decode

if TYPE_CHECKING:
    from roofline.audit.claims.case import Case


def _tokens(case: Case) -> int:
    """Tokens that a sequence has in the end."""
    said = case.statement
    if said.context is not None:
        return max(said.context, 1)
    return max((said.input_len or 0) + (said.output_len or 0), 1)


def _roof(case: Case) -> Roof:
    """The value is the capacity of a device; `need` is what it has to hold."""
    batch, length = case.statement.batch or 1, _tokens(case)

    def divided() -> Iterator[Roof]:
        for split, request in case.requests():
            held = need(request, batch, length, scale=case.twist.cache, weights=case.twist.weights)
            fits = engine_holds(request, decode(batch, length - 1), case.twist.cache)
            yield Roof(
                value=held.capacity, devices=case.devices, split=split, request=request, batch=batch, length=length,
                need=held, engine_fits=fits,
            )  # fmt: skip

    def lack(found: Roof) -> tuple[float, bool]:
        assert found.need is not None  # noqa: S101 - narrows the type
        return found.need.bytes / found.need.capacity, not found.engine_fits

    return min(divided(), key=lack)


def _derive(case: Case, found: Roof) -> list[str]:
    return [] if found.need is None else steps.memory_lines(found.need, case.devices)


def _assume(case: Case, found: Roof) -> list[Assumption]:
    said = case.statement
    tokens_said = said.context is not None or said.input_len is not None
    notes = [
        Assumption("batch", found.batch, *(("given", "") if said.batch else ("assumed", "not stated: one sequence"))),
        Assumption(
            "context", found.length, "given" if tokens_said else "assumed",
            "tokens of a sequence" if tokens_said else "not stated: one token",
        ),
        Assumption("memory_use", "all of it", "assumed", "nothing reserved, no activations, no offloading to the host"),
    ]  # fmt: skip
    return [*notes, *(note for note in steps.setting(case, found) if note.name != "overlap")]


SHAPE = Shape(judges=(("fits", "decode"), ("fits", "prefill")), roof=_roof, derive=_derive, assume=_assume)
