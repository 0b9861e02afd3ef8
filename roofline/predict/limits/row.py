"""One context: its limits, which is met first, and what the deployment gives there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roofline.predict.batch_limits import critical_batch_step
from roofline.predict.limits.slo import Allowed, Slo, allowed, next_token, prompt_step, without_estimate
from roofline.predict.memory import UNLIMITED
from roofline.predict.request import Request
from roofline.predict.result import Duration
from roofline.predict.speculative.speculation import Speculation
from roofline.predict.timing import pipeline
from roofline.specs.workload import decode

Limit = Literal["memory", "compute", "slo"]


@dataclass(frozen=True, slots=True)
class Row:
    """Limits at `context` tokens cached before the decode step. Batches are of the whole deployment, bytes of one device
    (of the pipeline stage that has least room), times and rates those of the limiting batch."""

    context: int
    max_batch_memory: int | None
    """The largest batch that fits; None: memory sets no limit."""
    critical_batch: int | None
    """The smallest from which the decode step spends more time bound by compute than by memory; None: there is none."""
    slo: Slo
    allowed: Allowed
    first: Limit | None
    """The limit that is met first as the batch grows. Compute is met by the critical batch itself, memory and the SLO by
    the one after their largest."""
    batch: int | None
    """The batch of that limit."""
    ttft: Duration | None
    """Of a prompt of `context` tokens alone; None where no TTFT was asked for."""
    tpot: Duration | None
    """At the limiting batch; where that is 0, of one sequence in each replica."""
    kv_bytes_per_sequence: float
    """Allocated for the cache of one sequence, what it shares included."""
    state_bytes_per_sequence: float
    shared_bytes: float
    """Of the former, what all sequences hold together, once."""

    @property
    def usable(self) -> int:
        """The largest batch that fits and is quick enough; 0: none."""
        limits = [limit for limit in (self.max_batch_memory, self.allowed.batch) if limit is not None]
        return min(limits, default=UNLIMITED)

    def rate(self, name: str) -> float | None:
        """Tokens a second of the whole deployment at the limiting batch, by one of the names of a duration."""
        seconds = None if self.tpot is None else getattr(self.tpot, name)
        return self.batch / seconds if seconds and self.batch else None

    @property
    def late(self) -> bool:
        """Whether a prompt alone takes longer than its SLO, so that no batch is quick enough."""
        return self.slo.ttft is not None and self.ttft is not None and (best(self.ttft) or 0.0) > self.slo.ttft


def first_of(memory: int | None, compute: int | None, slo: int | None) -> tuple[Limit, int] | None:
    """The limit that a growing batch meets first, and its batch; of equal ones compute, which is met by that very batch.

    >>> first_of(100, 153, 120), first_of(153, 153, None), first_of(0, 5, 0), first_of(None, None, None)
    (('memory', 100), ('compute', 153), ('memory', 0), None)
    """
    named: list[tuple[Limit, int | None]] = [("compute", compute), ("memory", memory), ("slo", slo)]
    limits = [(name, batch) for name, batch in named if batch is not None]
    return min(limits, key=lambda limit: limit[1], default=None)


def row(request: Request, context: int, slo: Slo, speculation: Speculation | None = None) -> Row:
    """The limits at one context; with speculative decoding TPOT is that of its rounds, and a prompt goes through the draft
    too."""
    replicas, memory = request.deployment.data_parallel_size, request.memory
    held = memory.max_batch(context)
    most = None if held >= UNLIMITED else held
    critical = critical_batch_step(memory, request.hardware, context)
    tpot = bound = next_token(request, context) if speculation is None else speculation.by_batch(context)
    if speculation is None and slo.given:
        bound = next_token(without_estimate(request), context)
    prompt = prompt_step(request, context) if slo.ttft is not None else None
    ttft = None if prompt is None else pipeline(request, prompt) if speculation is None else speculation.prefill(prompt)
    found = allowed(slo, ttft, tpot, bound, replicas)
    first = first_of(most, critical, found.batch)
    part = memory.tightest(decode(max(replicas, min(held, found.batch or held)), context))
    prefix = request.deployment.conventions.shared_prefix
    return Row(
        context=context,
        max_batch_memory=most,
        critical_batch=critical,
        slo=slo,
        allowed=found,
        first=None if first is None else first[0],
        batch=None if first is None else first[1],
        ttft=ttft,
        tpot=None if first is None else tpot(first[1] or replicas),
        kv_bytes_per_sequence=float(part.kv_bytes(context + 1, allocated=True)),
        state_bytes_per_sequence=part.state_bytes(allocated=True),
        shared_bytes=float(part.layout.shared(prefix, context)),
    )


def best(span: Duration) -> float | None:
    """The estimate where there is one, else the bound."""
    return span.bound if span.estimate is None else span.estimate
