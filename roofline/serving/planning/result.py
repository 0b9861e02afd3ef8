"""The answer to `roofline plan`: frozen values, and their form as JSON and as rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.predict.result import dump_json
from roofline.serving.planning.candidate import Candidate
from roofline.specs.assumption import Assumption
from roofline.version import envelope

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Plan:
    """Candidates, best first, with those that nothing beats in all of cost, TTFT and TPOT (`pareto`, indices)."""

    inputs: dict[str, Any]
    model: dict[str, Any]
    traffic: dict[str, Any]
    limits: dict[str, Any]
    rank: str
    candidates: tuple[Candidate, ...]
    pareto: tuple[int, ...]
    infeasible: dict[str, Any] | None
    considered: dict[str, int]
    """Deployments that were looked at: how many fit, meet the objectives, and are within the limits."""
    refused: tuple[dict[str, Any], ...]
    """Deployments that hold not one request, with the reason."""
    assumptions: tuple[Assumption, ...]
    asked: dict[str, Any] | None = None

    @property
    def best(self) -> Candidate | None:
        """The first."""
        return self.candidates[0] if self.candidates else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the documented layout."""
        return {
            **envelope(self.inputs),
            "model": self.model,
            "traffic": self.traffic,
            "limits": self.limits,
            "rank": self.rank,
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "pareto": list(self.pareto),
            "infeasible": self.infeasible,
            "considered": self.considered,
            "refused": list(self.refused),
            "assumptions": [
                {"name": note.name, "value": note.value, "origin": note.origin, "why": note.why} for note in self.assumptions
            ],
            **({"asked": self.asked} if self.asked is not None else {}),
        }

    def to_json(self, indent: int | None = 2) -> str:
        """JSON text; no NaN and no infinity."""
        return dump_json(self.to_dict(), indent)

    def flat(self) -> list[dict[str, Any]]:
        """One flat row a candidate; units in the names."""
        return [_flat(index, one, index in self.pareto) for index, one in enumerate(self.candidates)]

    def to_frame(self) -> pd.DataFrame:
        """A tidy table, one row a candidate."""
        import pandas as pd

        return pd.DataFrame(self.flat())


def _flat(index: int, one: Candidate, on_front: bool) -> dict[str, Any]:
    main = one.pools[-1].deployment
    times = {
        f"{name}_{key}_s": getattr(found, key if key != "pP" else "at")
        for name, found in (("ttft", one.expected.ttft), ("tpot", one.expected.tpot))
        for key in ("mean", "p50", "pP", "low", "high")
    }
    sizes = (
        "tensor_parallel",
        "pipeline_parallel",
        "data_parallel",
        "expert_parallel",
        "max_num_seqs",
        "max_num_batched_tokens",
    )
    return {
        "rank": index + 1, "hardware": one.hardware, "devices": one.devices, "replicas": one.replicas, "mode": one.mode,
        "precision": one.precision, **{name: main[name] for name in sizes}, **times,
        "requests_per_s": one.requests_per_s, "output_tokens_per_s": one.output_tokens_per_s,
        "utilisation": one.expected.utilisation, "cost_per_hour": one.cost.per_hour,
        "cost_per_million_tokens": one.cost.total, "cost_per_million_input_tokens": one.cost.input,
        "cost_per_million_output_tokens": one.cost.output, "currency": one.cost.currency, "binds": one.binds,
        "breaks_at_requests_per_s": one.breaks_at, "headroom": one.headroom, "pareto": on_front, "basis": one.basis,
    }  # fmt: skip
