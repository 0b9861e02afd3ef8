"""The result of `roofline limits`: frozen values, and their form as JSON and as rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from roofline.predict.duration import NO_TIMES, Duration
from roofline.predict.limits.slo import Allowed, Slo
from roofline.predict.memory import UNLIMITED
from roofline.predict.result import Analysis, dump_json
from roofline.specs.assumption import Assumption
from roofline.version import envelope

Limit = Literal["memory", "compute", "slo"]


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
    def usable(self) -> int:
        """The largest batch that fits and is quick enough; 0: none."""
        limits = [limit for limit in (self.max_batch_memory, self.allowed.batch) if limit is not None]
        return min(limits, default=UNLIMITED)

    def rate(self, name: str) -> float | None:
        """Tokens per second of the whole deployment at the limiting batch, by one of the names of a duration."""
        seconds = None if self.tpot is None else getattr(self.tpot, name)
        return self.batch / seconds if seconds and self.batch else None

    @property
    def late(self) -> bool:
        """Whether a prompt alone takes longer than its SLO, so that no batch is quick enough."""
        return self.slo.ttft is not None and self.ttft is not None and (self.ttft.best or 0.0) > self.slo.ttft

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the documented layout."""
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
    """One variant at one context: bytes of one device, the batch of the whole deployment (None: no limit)."""

    variant: str
    why: str
    context: int
    max_batch_memory: int | None
    kv_bytes_per_sequence: float
    """Allocated for one sequence; of what the sequences share, each has it all here."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the documented layout."""
        return {
            "variant": self.variant,
            "context": self.context,
            "max_batch_memory": self.max_batch_memory,
            "kv_bytes_per_sequence": self.kv_bytes_per_sequence,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the batch over contexts, and of what-if variants."""

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
    unfit: Analysis | None = None
    """The analysis of one sequence at the shortest context, where not even that fits: it says what would."""

    @property
    def basis(self) -> str:
        """Whether `max_batch_slo` is at the bound or at the estimate."""
        spans = (row.tpot for row in self.rows if row.tpot is not None)
        return "bound" if all(span.estimate is None for span in spans) else "estimate"

    @property
    def possible(self) -> bool:
        """Whether at any of the contexts a sequence fits and is quick enough."""
        return any(row.usable for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the documented layout."""
        return {
            **envelope(self.inputs),
            "model": self.model,
            "hardware": self.hardware,
            "deployment": self.deployment,
            "slo": {"ttft_s": self.slo.ttft, "tpot_s": self.slo.tpot, "basis": self.basis if self.slo.given else None},
            "rows": [row.to_dict() for row in self.rows],
            "variants": [row.to_dict() for row in self.variants],
            "critical_batch": {"linear": self.critical_batch_linear, "why": self.critical_batch_why},
            "assumptions": [
                {"name": note.name, "value": note.value, "origin": note.origin, "why": note.why} for note in self.assumptions
            ],
        }

    def to_json(self, indent: int | None = 2) -> str:
        """JSON text; no NaN and no infinity."""
        return dump_json(self.to_dict(), indent)

    def flat(self) -> list[dict[str, Any]]:
        """One flat row per context; units in the names."""
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
