"""The answer to `roofline limits`: frozen values, and their form as JSON and as rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofline.predict.limits.row import Row
from roofline.predict.limits.slo import Slo
from roofline.predict.result import Analysis, Duration, dump_json
from roofline.specs.assumption import Assumption
from roofline.version import envelope


@dataclass(frozen=True, slots=True)
class VariantRow:
    """One comparison at one context: bytes of one device, the batch of the whole deployment (None: no limit)."""

    variant: str
    why: str
    context: int
    max_batch_memory: int | None
    kv_bytes_per_sequence: float
    """Allocated for one sequence; of what the sequences share, each has it all here."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the batch over contexts, and what they would be if one thing were another way."""

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
        """What `max_batch_slo` goes by."""
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
            "rows": [_row(row) for row in self.rows],
            "variants": [_variant(row) for row in self.variants],
            "critical_batch": {"linear": self.critical_batch_linear, "why": self.critical_batch_why},
            "assumptions": [
                {"name": note.name, "value": note.value, "origin": note.origin, "why": note.why} for note in self.assumptions
            ],
        }

    def to_json(self, indent: int | None = 2) -> str:
        """JSON text; no NaN and no infinity."""
        return dump_json(self.to_dict(), indent)

    def flat(self) -> list[dict[str, Any]]:
        """One flat row a context; units in the names."""
        found = []
        for row in self.rows:
            nothing, allowed = Duration(None, None), row.allowed
            tpot, ttft = (row.tpot if row.batch else None) or nothing, row.ttft or nothing
            found.append(
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
        return found


def _row(row: Row) -> dict[str, Any]:
    return {
        "context": row.context,
        "max_batch_memory": row.max_batch_memory,
        "critical_batch": row.critical_batch,
        "max_batch_slo": row.allowed.batch,
        "max_batch_slo_bound": row.allowed.bound,
        "max_batch_slo_interval": None if row.allowed.low is None else [row.allowed.low, row.allowed.high],
        "first": row.first,
        "batch": row.batch,
        "tpot_s": _span(row.tpot if row.batch else None),
        "ttft_s": _span(row.ttft),
        # a slow step is a low rate
        "tokens_per_s": {
            "bound": row.rate("bound"),
            "estimate": row.rate("estimate"),
            "low": row.rate("high"),
            "high": row.rate("low"),
        },
        "kv_bytes_per_sequence": row.kv_bytes_per_sequence,
        "state_bytes_per_sequence": row.state_bytes_per_sequence,
        "shared_bytes": row.shared_bytes,
    }


def _span(value: Duration | None) -> dict[str, float | None] | None:
    if value is None:
        return None
    return {"bound": value.bound, "estimate": value.estimate, "low": value.low, "high": value.high}


def _variant(row: VariantRow) -> dict[str, Any]:
    return {
        "variant": row.variant,
        "context": row.context,
        "max_batch_memory": row.max_batch_memory,
        "kv_bytes_per_sequence": row.kv_bytes_per_sequence,
        "why": row.why,
    }
