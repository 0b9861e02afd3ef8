"""Limits of the batch over contexts: what memory holds, where a step becomes compute-bound, what an SLO allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Literal, Unpack

from roofline.blocks.model import Model
from roofline.documents import dump_json, envelope
from roofline.errors import InputError
from roofline.predict import request as requests
from roofline.predict.analyze import estimate_basis, estimate_notes, facts, run
from roofline.predict.batch_limits import critical_batch_linear, critical_batch_step, critical_batch_why, standard_contexts
from roofline.predict.drafts import resolve
from roofline.predict.duration import NO_TIMES, Duration
from roofline.predict.memory import UNLIMITED, MemoryModel
from roofline.predict.options import (
    DEPLOYMENT,
    OPTIONS,
    SPECULATION,
    Count,
    LimitsOptions,
    Number,
    Quantity,
    keywords,
    read_quantity,
)
from roofline.predict.request import ResolvedRequest, Workload, check_workload
from roofline.predict.result import Analysis, CriticalBatch, Rates, rates_of
from roofline.predict.slo import Allowed, Slo, allowed, next_token, prompt_step, without_estimate
from roofline.predict.speculation import Speculation
from roofline.predict.timing import pipeline
from roofline.predict.what_if import Variant, variants
from roofline.registry import Displayed
from roofline.specs.hardware import Hardware
from roofline.specs.source import Assumption
from roofline.specs.workload import Step, decode
from roofline.units import parse_count

Limit = Literal["memory", "compute", "slo"]
Contexts = int | str | Iterable[int | str]
# Options of `analyze` that say what is run: here the batch is what is looked for, and the contexts are a list.
_WORKLOAD = ("batch", "input_len", "output_len", "segments", "phase", "ignore_capacity")


@dataclass(frozen=True, slots=True)
class Row:
    """Limits at `context` tokens cached before the decode step. Batches are of the whole deployment, bytes of one device
    (of the pipeline stage with the least memory left), times and rates those of the limiting batch."""

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
    """Of a prompt of `context` tokens alone; None without a TTFT objective."""
    tpot: Duration | None
    """At the limiting batch; where that is 0, of one sequence in each replica."""
    kv_bytes_per_sequence: float
    """Allocated for the cache of one sequence, what it shares included."""
    state_bytes_per_sequence: float
    shared_bytes: float
    """Of the former, what all sequences hold together, once."""

    @property
    def max_batch_slo(self) -> int | None:
        """Return the largest batch that meets the SLO; None: no limit."""
        return self.allowed.batch

    @property
    def max_batch_slo_bound(self) -> int | None:
        """Return that batch if kernels reached the bound."""
        return self.allowed.bound

    @property
    def ttft_s(self) -> Duration | None:
        """Return TTFT in seconds."""
        return self.ttft

    @property
    def tpot_s(self) -> Duration | None:
        """Return TPOT in seconds at the limiting batch; None where that is 0 or there is none."""
        return self.tpot if self.batch else None

    @property
    def tokens_per_s(self) -> Rates:
        """Return tokens per second of the whole deployment at the limiting batch."""
        return rates_of(self.batch or 0, self.tpot_s or NO_TIMES) if self.batch else Rates(None, None, None)

    @property
    def usable(self) -> int:
        """Return the largest batch that fits and meets the SLO, in sequences of the whole deployment; 0: none."""
        limits = [limit for limit in (self.max_batch_memory, self.allowed.batch) if limit is not None]
        return min(limits, default=UNLIMITED)

    def rate(self, name: str) -> float | None:
        """Return tokens per second of the whole deployment at the limiting batch; None without a batch or a time.

        Args:
            name: the field of `tpot` to use, such as "bound" or "estimate".
        """
        seconds = None if self.tpot is None else getattr(self.tpot, name)
        return self.batch / seconds if seconds and self.batch else None

    @property
    def late(self) -> bool:
        """Return whether the prefill of one prompt alone exceeds the TTFT objective, so that no batch meets the SLO."""
        return self.slo.ttft is not None and self.ttft is not None and (self.ttft.best or 0.0) > self.slo.ttft

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain data, in the layout of `roofline limits --json`."""
        return {
            "context": self.context,
            "max_batch_memory": self.max_batch_memory,
            "critical_batch": self.critical_batch,
            "max_batch_slo": self.allowed.batch,
            "max_batch_slo_bound": self.allowed.bound,
            "max_batch_slo_interval": None if self.allowed.low is None else [self.allowed.low, self.allowed.high],
            "first": self.first,
            "batch": self.batch,
            "tpot_s": self.tpot.to_dict() if self.tpot is not None and self.batch else None,
            "ttft_s": None if self.ttft is None else self.ttft.to_dict(),
            # a slow step is a low rate
            "tokens_per_s": {
                "bound": self.rate("bound"),
                "estimate": self.rate("estimate"),
                "low": self.rate("high"),
                "high": self.rate("low"),
            },
            "kv_bytes_per_sequence": self.kv_bytes_per_sequence,
            "state_bytes_per_sequence": self.state_bytes_per_sequence,
            "shared_bytes": self.shared_bytes,
        }


@dataclass(frozen=True, slots=True)
class VariantRow:
    """One variant at one context. Bytes are per device, the batch is that of the whole deployment (None: memory sets no
    limit).
    """

    variant: str
    why: str
    context: int
    max_batch_memory: int | None
    kv_bytes_per_sequence: float
    """Allocated for one sequence; of what the sequences share, each has it all here."""

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain data, in the layout of `roofline limits --json`."""
        return {
            "variant": self.variant,
            "context": self.context,
            "max_batch_memory": self.max_batch_memory,
            "kv_bytes_per_sequence": self.kv_bytes_per_sequence,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True, repr=False)
class BatchLimits(Displayed):
    """Limits of the batch by context, and those of what-if variants."""

    inputs: dict[str, Any]
    model: dict[str, Any]
    hardware: dict[str, Any]
    deployment: dict[str, Any]
    slo: Slo
    rows: tuple[Row, ...]
    variants: tuple[VariantRow, ...]
    critical_batch_linear: float | None
    critical_batch_why: str
    """Why the whole decode step has no critical batch at the longest context; empty where it has one."""
    assumptions: tuple[Assumption, ...]
    estimate_basis: str | None = None
    """What the estimates rest on: "measured", "transferred", "published", "prior" or "given"; None without estimates."""
    unfit: Analysis | None = None
    """The analysis of one sequence at the shortest context, where not even that fits: it says what would."""

    @property
    def basis(self) -> str:
        """Return "estimate" if `max_batch_slo` is judged by estimates, "bound" if there are none."""
        spans = (row.tpot for row in self.rows if row.tpot is not None)
        return "bound" if all(span.estimate is None for span in spans) else "estimate"

    @property
    def critical_batch(self) -> CriticalBatch:
        """Return the critical batch of the linear operators, and of the whole step at the longest context."""
        return CriticalBatch(self.critical_batch_linear, self.rows[-1].critical_batch, self.critical_batch_why)

    @property
    def possible(self) -> bool:
        """Return whether at least one sequence fits and meets the SLO at any of the contexts."""
        return any(row.usable for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data, in the layout of `roofline limits --json`."""
        return {
            **envelope(self.inputs),
            "model": self.model,
            "hardware": self.hardware,
            "deployment": self.deployment,
            "slo": {"ttft_s": self.slo.ttft, "tpot_s": self.slo.tpot, "basis": self.basis if self.slo.given else None},
            "rows": [row.to_dict() for row in self.rows],
            "estimate_basis": self.estimate_basis,
            "variants": [row.to_dict() for row in self.variants],
            "critical_batch": {"linear": self.critical_batch_linear, "why": self.critical_batch_why},
            "assumptions": [
                {"name": note.name, "value": note.value, "origin": note.origin, "why": note.why} for note in self.assumptions
            ],
        }

    def to_json(self, indent: int | None = 2) -> str:
        """Return the result as JSON text; NaN and infinity are null."""
        return dump_json(self.to_dict(), indent)

    def flat(self) -> list[dict[str, Any]]:
        """Return one flat row per context; names of columns end in their units."""
        rows = []
        for row in self.rows:
            allowed, tpot, ttft = row.allowed, (row.tpot if row.batch else None) or NO_TIMES, row.ttft or NO_TIMES
            rows.append(
                {
                    "context": row.context, "max_batch_memory": row.max_batch_memory, "critical_batch": row.critical_batch,
                    "max_batch_slo": allowed.batch, "max_batch_slo_bound": allowed.bound, "max_batch_slo_low": allowed.low,
                    "max_batch_slo_high": allowed.high, "first": row.first, "batch": row.batch,
                    "tpot_bound_s": tpot.bound, "tpot_estimate_s": tpot.estimate, "tpot_low_s": tpot.low,
                    "tpot_high_s": tpot.high, "ttft_bound_s": ttft.bound, "ttft_estimate_s": ttft.estimate,
                    "tokens_per_s_bound": row.rate("bound"), "tokens_per_s_estimate": row.rate("estimate"),
                    "kv_bytes_per_sequence": row.kv_bytes_per_sequence,
                    "state_bytes_per_sequence": row.state_bytes_per_sequence, "shared_bytes": row.shared_bytes,
                }
            )  # fmt: skip
        return rows


@keywords(*DEPLOYMENT, SPECULATION)
def limits(
    model: str | PathLike[str] | Model,
    hardware: str | PathLike[str] | Hardware,
    *,
    context: Contexts | None = None,
    ttft: Quantity = None,
    tpot: Quantity = None,
    prefix_hit: Number = None,
    cached_prefix: Count = None,
    **options: Unpack[LimitsOptions],
) -> BatchLimits:
    """Return the limits of the batch at each context.

    Args:
        model: a shipped id, the path of a file, or a loaded model.
        hardware: a shipped id of an accelerator or node, the path of a file, or loaded hardware.
        context: tokens cached before the decode step: one number, a list, or a text such as "1k,4k,32k"; default: 1k, 2k,
            4k and so on to the longest context of the model.
        ttft: objective for the first token of a prompt of that many tokens alone: seconds, or a text with a unit.
        tpot: objective for the time between tokens of a sequence in the batch: seconds, or a text with a unit.
        prefix_hit: share of that prompt that is in the prefix cache; or
        cached_prefix: the same in tokens.
        **options: those of `roofline analyze` that describe the deployment, with underscores.

    Returns:
        The result, in base units; `.to_dict()` has the layout of `roofline limits --json`.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, a file that is not what it should be.
    """
    if clash := [name for name in _WORKLOAD if options.get(name) not in (None, False)]:
        raise InputError(f"{clash[0]} is no option of limits: the batch is what is looked for, at each --context")
    slo = Slo(
        None if ttft is None else read_quantity("ttft", ttft, "s"),
        None if tpot is None else read_quantity("tpot", tpot, "s"),
    )
    # the context is a placeholder, as long as what sequences share
    request, speculation = resolve(
        model, hardware, **{**options, "context": options.get("shared_prefix") or 0, "phase": "decode"}
    )
    notes: list[Assumption] = []
    hit = _prefix(prefix_hit, cached_prefix, slo, notes)
    contexts = _contexts(request, context, notes, _tokens(cached_prefix))
    steps = {length: None if slo.ttft is None else prompt_step(request, length, hit(length)) for length in contexts}
    rows = tuple(_limits_at(request, length, slo, steps[length], speculation) for length in contexts)
    never = [row.context for row in rows if row.critical_batch is None]
    linear = critical_batch_linear(request.memory, request.hardware)
    used = (*request.inputs, *request.estimator.fits.inputs.values())
    return BatchLimits(
        inputs={entry.role: {"name": entry.name, "path": entry.path, "sha256": entry.sha256} for entry in used},
        **facts(request),
        slo=slo,
        rows=rows,
        variants=tuple(_compared(request, contexts)),
        critical_batch_linear=linear,
        critical_batch_why=critical_batch_why(request.memory, request.hardware, linear, None, never[0]) if never else "",
        assumptions=(*_assumptions(request, slo, speculation), *notes, *estimate_notes(request, _steps(rows, steps))),
        estimate_basis=estimate_basis(request, _steps(rows, steps)),
        unfit=run(_at(request, contexts[0])) if rows[0].max_batch_memory == 0 else None,
    )


def first_of(memory: int | None, compute: int | None, slo: int | None) -> tuple[Limit, int] | None:
    """Return the limit that a growing batch reaches first, and its batch. Of equal ones compute is first: it is reached by
    that very
    batch, the others by the next.

    Args:
        memory: the largest batch that fits; None: no limit.
        compute: the critical batch; None: there is none.
        slo: the largest batch that meets the SLO; None: no limit.

    Returns:
        The name and the batch of the limit; None if there is no limit at all.

    >>> first_of(100, 153, 120), first_of(153, 153, None), first_of(0, 5, 0), first_of(None, None, None)
    (('memory', 100), ('compute', 153), ('memory', 0), None)
    """
    named: list[tuple[Limit, int | None]] = [("compute", compute), ("memory", memory), ("slo", slo)]
    limits = [(name, batch) for name, batch in named if batch is not None]
    return min(limits, key=lambda limit: limit[1], default=None)


def _limits_at(
    request: ResolvedRequest, context: int, slo: Slo, prompt: Step | None, speculation: Speculation | None = None
) -> Row:
    """The limits at one context, TTFT that of a prompt's step. With speculative decoding TPOT is that of its rounds, and
    prompts pass the draft too."""
    replicas, memory = request.deployment.data_parallel_size, request.memory
    held = memory.max_batch(context)
    most = None if held >= UNLIMITED else held
    critical = critical_batch_step(memory, request.hardware, context)
    tpot = bound = next_token(request, context) if speculation is None else speculation.by_batch(context)
    if speculation is None and slo.given:
        bound = next_token(without_estimate(request), context)
    ttft = None if prompt is None else pipeline(request, prompt) if speculation is None else speculation.prefill(prompt)
    batches = allowed(slo, ttft, tpot, bound, replicas)
    first = first_of(most, critical, batches.batch)
    part = memory.tightest(decode(max(replicas, min(held, batches.batch or held)), context))
    prefix = request.deployment.conventions.shared_prefix
    return Row(
        context=context,
        max_batch_memory=most,
        critical_batch=critical,
        slo=slo,
        allowed=batches,
        first=None if first is None else first[0],
        batch=None if first is None else first[1],
        ttft=ttft,
        tpot=None if first is None else tpot(first[1] or replicas),
        kv_bytes_per_sequence=float(part.kv_bytes(context + 1, allocated=True)),
        state_bytes_per_sequence=part.state_bytes(allocated=True),
        shared_bytes=float(part.layout.shared(prefix, context)),
    )


def _at(request: ResolvedRequest, context: int) -> ResolvedRequest:
    """The request with one sequence at a context."""
    step = decode(1, context)
    return replace(request, workload=Workload(1, context, None, context, (("decode", step),)))


def _tokens(cached_prefix: Count) -> int:
    """Tokens of every prompt in the prefix cache, where they are given as tokens."""
    return 0 if cached_prefix is None else int(OPTIONS["cached_prefix"].read(cached_prefix))


def _prefix(share: Number, tokens: Count, slo: Slo, notes: list[Assumption]) -> Callable[[int], int]:
    """Tokens in the prefix cache by the length of the prompt."""
    if share is not None or tokens is not None:
        name, value = ("prefix_hit", share) if tokens is None else ("cached_prefix", _tokens(tokens))
        why = "of each prompt in the prefix cache: its TTFT is that of the rest"
        notes.append(Assumption(name, value, "given", why if slo.ttft is not None else "of prompts: no effect without --ttft"))
    return lambda length: requests.cached_prefix(length, share, tokens) if length else 0


def _contexts(request: ResolvedRequest, given: Contexts | None, notes: list[Assumption], cached: int = 0) -> list[int]:
    """Cached tokens, in order, checked against the limits of the deployment; by default prompts are longer than what is
    cached of them."""
    deployment = request.deployment
    prefix, longest = deployment.conventions.shared_prefix, request.model.max_position_embeddings
    if given is None:
        if deployment.max_model_len is not None:
            longest = min(longest, deployment.max_model_len - 1)
        least = max(prefix, cached + 1 if cached else 0)
        contexts = [length for length in standard_contexts(longest) if length >= least] or [least]
    else:
        parts = given.split(",") if isinstance(given, str) else [given] if isinstance(given, int) else list(given)
        contexts = sorted({parse_count(part, "context") for part in parts if not isinstance(part, str) or part.strip()})
        if not contexts:
            raise InputError(f"no context in {given!r}: write tokens, such as 1k,4k,32k")
    why = "tokens cached before the decode step"
    listed = ", ".join(map(str, contexts))
    if given is None:
        notes.append(Assumption("context", listed, "default", f"{why}: 1k, 2k, 4k and so on, to the model's longest"))
    else:
        notes.append(Assumption("context", listed, "given", why))
        for length in (contexts[0], contexts[-1]):
            check_workload(_at(request, length).workload, request.model, deployment, notes if length == contexts[-1] else [])
    return contexts


def _compared(request: ResolvedRequest, contexts: list[int]) -> Iterable[VariantRow]:
    """What memory holds in the deployment and in each of its variants."""
    listed = [Variant("baseline", "", request.memory), *variants(request)]
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


def _assumptions(request: ResolvedRequest, slo: Slo, speculation: Speculation | None) -> list[Assumption]:
    """The choices of the request that matter here, and what is judged."""
    notes = [note for note in request.assumptions if note.name not in ("batch", "input_len", "context")]
    if slo.tpot is not None:
        why = "seconds of a decode step, in which every sequence of the batch gets one token"
        if speculation is not None:
            why = f"seconds of a round over the {speculation.tokens:.4g} tokens that it gives each sequence of the batch"
        notes.append(Assumption("tpot", slo.tpot, "given", why))
    if slo.ttft is not None:
        why = "seconds of the prefill of a prompt as long as the context, alone: nothing else runs or queues"
        notes.append(Assumption("ttft", slo.ttft, "given", why))
    if speculation is not None:
        why = "of a decode step without a draft; verification has more tokens, and meets compute at fewer sequences"
        notes.append(Assumption("critical_batch", "plain", "assumed", why))
    if request.deployment.max_num_seqs is not None:
        why = "sequences in one step of a replica: max_batch_memory is never more, whatever memory would hold"
        notes.append(Assumption("max_num_seqs", request.deployment.max_num_seqs, "given", why))
    return notes


def _steps(rows: Iterable[Row], prompts: Mapping[int, Step | None]) -> Iterator[Step]:
    """The steps whose times the rows have."""
    for row in rows:
        yield decode(row.batch or 1, row.context)
        if (prompt := prompts[row.context]) is not None:
            yield prompt
