"""Up to which batch, by context: what memory holds, where compute binds, and what the objectives allow."""

from __future__ import annotations

from roofline import formatting
from roofline.predict.batch_limits import critical_batch_step
from roofline.predict.limits.row import first_of
from roofline.predict.limits.slo import Slo, first_token, next_token, within
from roofline.predict.memory import UNLIMITED
from roofline.predict.request import Request
from roofline.predict.result import Analysis
from roofline.report.figure import Axis, Cell, Figure, Series
from roofline.report.view.cells import table, whole, words
from roofline.report.view.points import spread

_CONTEXTS = 5
"""At most so many: each takes some ten decode steps to find what the objectives allow."""


def batch_limits(request: Request, result: Analysis, slo: Slo) -> Figure:
    """The limits over contexts, each a line."""
    contexts = spread([context for context, _ in result.limits.max_batch_by_context if context], _CONTEXTS)
    memory = [_finite(request.memory.max_batch(context)) for context in contexts]
    compute = [critical_batch_step(request.memory, request.hardware, context) for context in contexts]
    allowed = [_allowed(request, context, slo) for context in contexts]
    drawn = [
        _line("memory", "what memory holds", contexts, memory),
        _line("compute", "compute binds from", contexts, compute),
        _line("slo", "what the objectives allow", contexts, allowed),
    ]
    rows: list[tuple[Cell, ...]] = []
    for context, held, critical, most in zip(contexts, memory, compute, allowed, strict=True):
        first = first_of(held, critical, most)
        name = "none" if first is None else {"memory": "memory", "compute": "compute", "slo": "objectives"}[first[0]]
        rows.append((whole(context), whole(held), whole(critical), whole(most), words(name)))
    names = ("cached tokens", "memory", "compute", "objectives", "reached first")
    return Figure(
        key="batch-limits",
        title="Batch limits",
        note=_note(slo, estimated=request.estimator.applies),
        x=Axis(title="cached tokens", scale="log", unit="tokens"),
        y=Axis(title="largest batch, sequences", scale="log", unit="sequences"),
        series=tuple(series for series in drawn if len(series.x) > 0),
        table=table("batch-limits-rows", "Batch limits", "in sequences of the whole deployment", names, rows),
    )


def _finite(batch: int) -> int | None:
    return None if batch >= UNLIMITED else batch


def _allowed(request: Request, context: int, slo: Slo) -> int | None:
    """What the objectives allow by the estimate, or by the bound where there is none; None: no limit."""
    name = "estimate" if request.estimator.applies else "bound"
    ttft = None if slo.ttft is None else first_token(request, context)
    return within(slo, ttft, next_token(request, context), name, request.deployment.data_parallel_size)


def _line(role: str, name: str, contexts: list[int], batches: list[int | None]) -> Series:
    """A limit; none of it where there is no limit, or where not one sequence is within it."""
    kept = [(context, batch) for context, batch in zip(contexts, batches, strict=True) if batch]
    return Series(
        name=name,
        kind="line",
        role=role,
        x=tuple(context for context, _ in kept),
        y=tuple(batch for _, batch in kept),
        labels=tuple(f"{context:,} cached tokens, {name}: {batch:,} sequences" for context, batch in kept),
        short=tuple(f"{batch:,}" for _, batch in kept),
    )


def _note(slo: Slo, estimated: bool) -> str:
    """What is drawn, and what it goes by."""
    asked = []
    if slo.tpot is not None:
        asked.append(f"a decode step within {formatting.seconds(slo.tpot)}")
    if slo.ttft is not None:
        asked.append(f"a prompt alone within {formatting.seconds(slo.ttft)}")
    text = "The lowest line is reached first as the batch grows. "
    if asked:
        text += f"Objectives: {' and '.join(asked)}, by the {'estimate' if estimated else 'bound'}. "
    return text + "From the compute line on, a larger batch is no longer nearly free; where there is none, memory always binds."
