"""Results of an analysis: frozen values, and their form as JSON, table and page.

All numbers are in base units. FLOP, bytes and memory are of one device (of the fullest pipeline stage); batches, token
rates and the tokens that the cache holds are of the whole deployment.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from roofline.cost import Cost
from roofline.documents import dump_json, envelope
from roofline.predict.bounds import Times
from roofline.predict.duration import Duration, total
from roofline.registry import RENDERER, Displayed
from roofline.specs.source import Assumption

if TYPE_CHECKING:
    import pandas as pd

    from roofline.predict.batch_limits import Limits


@dataclass(frozen=True, slots=True)
class Flops:
    """FLOP of matrix products, of everything else, and of both."""

    matrix: float
    vector: float
    total: float


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes of device memory by what they hold, and all together."""

    weights: float
    activations: float
    kv_read: float
    kv_write: float
    state_read: float
    state_write: float
    total: float


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates per second at the floor, the bound and the estimate of a time; None without that time."""

    floor: float | None
    bound: float | None
    estimate: float | None
    low: float | None = None
    """The low end of the rate's interval: at the high end of the time's."""
    high: float | None = None

    @property
    def best(self) -> float | None:
        """Return the rate at the estimate where there is one, else at the bound."""
        return self.bound if self.estimate is None else self.estimate


def rates_of(amount: float, span: Duration) -> Rates:
    """Return an amount per second of a duration."""
    floor, bound, estimate = _per(amount, span.floor), _per(amount, span.bound), _per(amount, span.estimate)
    return Rates(floor, bound, estimate, _per(amount, span.high), _per(amount, span.low))


class Costed:
    """What has a cost: FLOP and bytes under the names of JSON documents."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def cost(self) -> Cost:
            """FLOP, bytes and messages."""

    @property
    def flops(self) -> Flops:
        """Return FLOP."""
        return Flops(self.cost.matrix_flops, self.cost.vector_flops, self.cost.flops)

    @property
    def bytes(self) -> Bytes:
        """Return bytes of device memory."""
        cost = self.cost
        return Bytes(
            cost.weight_bytes, cost.activation_bytes, cost.kv_read_bytes, cost.kv_write_bytes, cost.state_read_bytes,
            cost.state_write_bytes, cost.bytes,
        )  # fmt: skip

    @property
    def link_bytes(self) -> float:
        """Return bytes sent over links."""
        sent: float = self.cost.link_bytes
        return sent

    @property
    def arithmetic_intensity(self) -> float | None:
        """Return FLOP per byte of device memory."""
        return _intensity(self.cost)


@dataclass(frozen=True, slots=True)
class OperatorResult(Costed):
    """One operator of a phase, all its repeats together, on one device."""

    path: str
    kind: str
    dims: dict[str, float]
    dtype: str
    repeat: int
    cost: Cost
    times: Times
    time: Duration

    @property
    def bound_by(self) -> str:
        """Return the resource that is busy longest: "compute", "memory" or "link"; "overhead" for what the engine adds."""
        return "overhead" if self.kind == "overhead" else self.times.bound_by

    @property
    def time_s(self) -> Duration:
        """Return the time in seconds."""
        return self.time

    @property
    def mfu(self) -> float | None:
        """Return the share of the matrix peak that is used while it runs, at the estimate, else at the bound."""
        return _per(self.times.matrix, self.time.best)

    @property
    def mbu(self) -> float | None:
        """Return the share of the memory bandwidth that is used, likewise."""
        return _per(self.times.memory, self.time.best)


@dataclass(frozen=True, slots=True)
class Phase(Costed):
    """One step on one device of the fullest pipeline stage."""

    name: str
    batch: int
    new_tokens: int
    cached_tokens: int
    cost: Cost
    produced_tokens: int
    """What `tokens_per_s` counts: prompt tokens at prefill, one a sequence at decode, all new ones when mixed."""
    bound_by: str | None
    time: Duration
    pipeline: Duration
    """Seconds in which a token passes all pipeline stages (= `time` with one stage)."""
    mfu: float | None
    mbu: float | None
    operators: tuple[OperatorResult, ...]
    estimate_basis: str | None = None
    """What the estimate rests on: "measured" on this card, "transferred" from another of the vendor, "published" speeds of its
    machines, "prior" or "given"."""

    @property
    def pipeline_s(self) -> float | None:
        """Return the seconds through all pipeline stages at the bound."""
        return self.pipeline.bound

    @property
    def phase(self) -> str:
        """Return the name of the step."""
        return self.name

    @property
    def time_s(self) -> Duration:
        """Return the time of the stage in seconds."""
        return self.time

    @property
    def tokens_per_s(self) -> Rates:
        """Return tokens per second of the whole deployment."""
        return rates_of(self.produced_tokens, self.pipeline)


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of one device's memory at the step that needs most of it, and what else would fit."""

    capacity_bytes: float
    budget_bytes: float
    weights_bytes: float
    """Of the language model."""
    tower_bytes: float
    """Of vision and audio towers and their projectors."""
    kv_bytes_per_token: float
    kv_bytes_per_sequence: dict[str, float]
    state_bytes_per_sequence: dict[str, float]
    activation_bytes: float
    reserved_bytes: float
    usable_bytes: float
    """Left for cache and state; 0 where weights, activations and reserve leave nothing."""
    needed_bytes: float
    """Of cache and state."""
    missing_bytes: float
    """By which it does not fit; 0 where it does."""
    fits: bool
    max_batch: int
    """Largest batch whose decode step at the context fits."""
    max_batch_of_steps: int | None
    """Largest batch with which every step looked at fits; None where the step was given in segments."""
    max_context: int | None
    kv_capacity_tokens: int
    step: str
    """The step with the least memory left, of which these figures are, with a replica's sequences and their longest."""
    sequences: int
    tokens_per_sequence: int
    would_fit: tuple[str, ...] = ()
    """What to change, where it does not fit."""

    @property
    def free_bytes(self) -> float:
        """Return the bytes of the budget that are left; negative by what is missing."""
        return -self.missing_bytes if self.missing_bytes else self.usable_bytes - self.needed_bytes


@dataclass(frozen=True, slots=True)
class Speculative:
    """Rounds of speculative decoding for a batch at a context. Times are None where the deployment does not fit; bytes are per
    device, batch and rates those of the whole deployment.
    """

    method: str
    draft: str
    num_speculative_tokens: int
    acceptance: float
    tokens_per_round: float
    accepted_share: float | None
    """Of the drafted tokens, as engines log it; None where none is drafted."""
    batch: int
    context: int
    drafting: Duration
    verifying: Duration
    round: Duration
    tpot: Duration
    plain: Duration
    """A decode step without a draft."""
    break_even_acceptance: float | None
    """From which a round gives tokens as fast as plain decoding; None: even with every token accepted it does not."""
    draft_weights_bytes: float
    draft_kv_bytes_per_token: float

    @property
    def tpot_s(self) -> Duration:
        """Return TPOT with the draft."""
        return self.tpot

    @property
    def plain_tpot_s(self) -> Duration:
        """Return TPOT without the draft."""
        return self.plain

    @property
    def tokens_per_s(self) -> Rates:
        """Return tokens per second of the whole deployment, with the draft."""
        return rates_of(self.batch, self.tpot)

    @property
    def basis(self) -> str:
        """Return whether speedup and break-even are judged at the "bound" or at the "estimate"."""
        return "bound" if self.tpot.estimate is None else "estimate"

    def speedup(self, name: str) -> float | None:
        """Return TPOT without the draft over TPOT with it, at the field `name` of durations; None without times."""
        before, after = getattr(self.plain, name), getattr(self.tpot, name)
        return before / after if before and after else None

    def rate(self, name: str) -> float | None:
        """Return tokens per second of the whole deployment, at the field `name` of durations; None without times."""
        seconds = getattr(self.tpot, name)
        return self.batch / seconds if seconds else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, in the layout of `roofline analyze --json`."""
        return {
            "method": self.method,
            "draft": self.draft,
            "num_speculative_tokens": self.num_speculative_tokens,
            "acceptance": self.acceptance,
            "tokens_per_round": self.tokens_per_round,
            "accepted_share": self.accepted_share,
            "batch": self.batch,
            "context": self.context,
            "round": {"draft": self.drafting.to_dict(), "verify": self.verifying.to_dict(), "total": self.round.to_dict()},
            "tpot_s": self.tpot.to_dict(),
            "plain_tpot_s": self.plain.to_dict(),
            # a slow round is a low rate
            "tokens_per_s": {
                "floor": self.rate("floor"),
                "bound": self.rate("bound"),
                "estimate": self.rate("estimate"),
                "low": self.rate("high"),
                "high": self.rate("low"),
            },
            "speedup": {"bound": self.speedup("bound"), "estimate": self.speedup("estimate")},
            "break_even_acceptance": self.break_even_acceptance,
            "basis": self.basis,
            "memory": {
                "draft_weights_bytes": self.draft_weights_bytes,
                "draft_kv_bytes_per_token": self.draft_kv_bytes_per_token,
            },
        }


@dataclass(frozen=True, slots=True)
class CriticalBatch:
    """The batch from which compute limits: of the linear operators alone, and of the whole decode step; None: there is none."""

    linear: float | None
    step: int | None
    why: str


@dataclass(frozen=True, slots=True)
class Encoder(Costed):
    """The vision tower on one device, for the images of a batch of prompts, before their prefill."""

    images: int
    """In each prompt."""
    tokens_per_image: int
    step: Phase
    """Its operators, their work and their time, as of a step: the batch is the number of images of the whole deployment, new
    tokens those that come out of it."""

    @property
    def cost(self) -> Cost:
        """Return its FLOP and bytes."""
        return self.step.cost

    @property
    def time(self) -> Duration:
        """Return the time."""
        return self.step.time

    @property
    def time_s(self) -> Duration:
        """Return the time in seconds."""
        return self.step.time

    @property
    def operators(self) -> tuple[OperatorResult, ...]:
        """Return its operators, all repeats of each together."""
        return self.step.operators

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, in the layout of `roofline analyze --json`."""
        return {
            "images": self.images,
            "tokens_per_image": self.tokens_per_image,
            "flops": _plain(self.flops),
            "bytes": _plain(self.bytes),
            "time_s": self.time.to_dict(),
            "bound_by": self.step.bound_by,
            "estimate_basis": self.step.estimate_basis,
            "operators": [_operator(op, self.step.produced_tokens) for op in self.operators],
        }


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """Times of a whole request."""

    ttft_s: Duration
    tpot_s: Duration
    e2e_s: Duration


@dataclass(frozen=True, slots=True, repr=False)
class Analysis(Displayed):
    """The result of `roofline analyze`."""

    inputs: dict[str, Any]
    model: dict[str, Any]
    hardware: dict[str, Any]
    deployment: dict[str, Any]
    memory: Memory
    phases: tuple[Phase, ...]
    request: RequestTimes | None
    limits: Limits
    assumptions: tuple[Assumption, ...]
    query: dict[str, Any] | None = None
    """`model`, `hardware` and `options` as they were given, from which a page can be made again; None of loaded specs."""
    encoder: Encoder | None = None
    """The vision tower's work on the images of the prompts, before prefill."""
    speculative: Speculative | None = None
    """Rounds of drafted and verified tokens, with speculative decoding."""

    @property
    def prefill(self) -> Phase | None:
        """Return the prefill step; None where the request has none."""
        return next((phase for phase in self.phases if phase.name == "prefill"), None)

    @property
    def decode(self) -> Phase | None:
        """Return the decode step; None where the request has none."""
        return next((phase for phase in self.phases if phase.name == "decode"), None)

    @property
    def steps(self) -> tuple[Phase, ...]:
        """Return the phases, with the encoder of images before them if prompts have any."""
        return self.phases if self.encoder is None else (self.encoder.step, *self.phases)

    @property
    def first_token(self) -> Duration | None:
        """Return TTFT of the batch of prompts: the encoder of their images, then prefill; None where there is no prefill."""
        prefill = self.prefill
        if prefill is None or self.encoder is None or prefill.pipeline.bound is None:
            return None if prefill is None else prefill.pipeline
        return total(self.encoder.time, prefill.pipeline)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data in base units, in the layout of `roofline analyze --json`."""
        served = None if self.request is None else {name: span.to_dict() for name, span in _plain(self.request).items()}
        return {
            **envelope(self.inputs),
            "model": self.model,
            "hardware": self.hardware,
            "deployment": self.deployment,
            "memory": _plain(self.memory),
            "phases": [_phase(phase) for phase in self.phases],
            **({"request": served} if served is not None else {}),
            "limits": {
                "critical_batch": {
                    "linear": self.limits.critical_batch_linear,
                    "step": self.limits.critical_batch_step,
                    "why": self.limits.critical_batch_why,
                },
                "max_batch_by_context": [list(pair) for pair in self.limits.max_batch_by_context],
            },
            **({"encoder": self.encoder.to_dict()} if self.encoder is not None else {}),
            **({"speculative": self.speculative.to_dict()} if self.speculative is not None else {}),
            "assumptions": [_plain(assumption) for assumption in self.assumptions],
            **({"asked": self.query} if self.query is not None else {}),
        }

    def to_json(self, indent: int | None = 2) -> str:
        """Return the result as JSON text; NaN and infinity are null."""
        return dump_json(self.to_dict(), indent)

    def to_frame(self, names: Literal["flat", "json"] = "flat") -> pd.DataFrame:
        """Return a tidy table, one row per operator and phase.

        Args:
            names: of the columns: "flat" as in sweeps, the unit last (`time_bound_s`), with `dims` as dictionaries; "json" as
                in documents and attributes (`time_s.bound`), with a column for each dimension (`dims.m`).
        """
        import pandas as pd

        if names == "flat":
            listed = [op.dims for phase in self.steps for op in phase.operators]
            return pd.DataFrame(operator_rows(self)).assign(dims=pd.Series(listed, dtype=object))
        rows = [{"phase": phase["phase"], **op} for phase in map(_phase, self.steps) for op in phase["operators"]]
        return pd.json_normalize(rows)

    def to_html(self) -> str:
        """Return the page of `roofline report` for this model, hardware and options; it needs no other file."""
        return RENDERER().page(self)


def operator_rows(result: Analysis) -> list[dict[str, Any]]:
    """Return one flat row per operator and phase (or encoder of images), in base units; names of times end in `_s`."""
    rows = []
    for phase in result.steps:
        for op in phase.operators:
            costs = {name: getattr(op.cost, name) for name in (f.name for f in fields(Cost))}
            rows.append(
                {
                    "phase": phase.name, "path": op.path, "kind": op.kind, "dtype": op.dtype, "repeat": op.repeat,
                    **{name: float(value) for name, value in costs.items()},
                    "bytes": float(op.cost.bytes), "arithmetic_intensity": _intensity(op.cost), "bound_by": op.bound_by,
                    "time_bound_s": op.time.bound, "time_sum_s": op.time.sum, "time_estimate_s": op.time.estimate,
                    "time_low_s": op.time.low, "time_high_s": op.time.high,
                    "dims": " ".join(f"{name}={value}" for name, value in op.dims.items()),
                }
            )  # fmt: skip
    return rows


def _intensity(cost: Cost) -> float | None:
    return cost.flops / cost.bytes if cost.bytes else None


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "flops": {"matrix": cost.matrix_flops, "vector": cost.vector_flops, "total": cost.flops},
        "bytes": bytes_by_content(cost),
        "link_bytes": cost.link_bytes,
        "arithmetic_intensity": _intensity(cost),
    }


def bytes_by_content(cost: Cost) -> dict[str, Any]:
    """Return the bytes of device memory by what they hold, and `total`, as JSON documents have them."""
    return {
        "weights": cost.weight_bytes, "activations": cost.activation_bytes, "kv_read": cost.kv_read_bytes,
        "kv_write": cost.kv_write_bytes, "state_read": cost.state_read_bytes, "state_write": cost.state_write_bytes,
        "total": cost.bytes,
    }  # fmt: skip


def _phase(phase: Phase) -> dict[str, Any]:
    return {
        "phase": phase.name,
        "batch": phase.batch,
        "new_tokens": phase.new_tokens,
        "cached_tokens": phase.cached_tokens,
        **_cost(phase.cost),
        "bound_by": phase.bound_by,
        "time_s": _plain(phase.time),
        "pipeline_s": phase.pipeline.bound,
        "pipeline": phase.pipeline.to_dict(),
        "estimate_basis": phase.estimate_basis,
        "tokens_per_s": {
            "floor": phase.tokens_per_s.floor,
            "bound": phase.tokens_per_s.bound,
            "estimate": phase.tokens_per_s.estimate,
        },
        "mfu": phase.mfu,
        "mbu": phase.mbu,
        "operators": [_operator(op, phase.produced_tokens) for op in phase.operators],
    }


def _operator(op: OperatorResult, produced: float) -> dict[str, Any]:
    return {
        "path": op.path,
        "kind": op.kind,
        "dims": op.dims,
        "dtype": op.dtype,
        "repeat": op.repeat,
        **_cost(op.cost),
        "bound_by": op.bound_by,
        "time_s": _plain(op.time),
        # the rate if the phase had no other operator; utilisation while this one runs
        "tokens_per_s": {"bound": _per(produced, op.time.bound), "estimate": _per(produced, op.time.estimate)},
        "mfu": op.mfu,
        "mbu": op.mbu,
    }


def _per(amount: float, seconds: float | None) -> float | None:
    return amount / seconds if seconds and seconds > 0 else None


def _plain(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in fields(value)}
