"""The judgement of a statement: frozen values, and their form as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from roofline.audit.claims.claim import Claim
from roofline.specs.source import Assumption
from roofline.version import envelope

Verdict = Literal["possible", "implausible", "impossible"]
_WORST_FIRST: tuple[Verdict, ...] = ("impossible", "implausible", "possible")


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelyMistake:
    """A reading under which the number would be what it is.

    Attributes:
        name: of the mistake.
        why: a sentence.
        figure: the ceiling (or the figure) of that reading, in the claim's unit.
        closeness: the claim over that figure; 1 is an exact match.
    """

    name: str
    why: str
    figure: float | None
    closeness: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One claim, judged. Figures are in the claim's unit, which is a base unit (`claim.unit`).

    Attributes:
        claim: what was judged.
        verdict: possible, implausible or impossible.
        headline: the verdict in a line.
        claimed: the claimed figure; of `fits`, the bytes that a device has to hold.
        ceiling: the best figure that is possible; None where the model does not fit and the number alone would be possible.
        ratio: how far the claim goes beyond the ceiling: above 1, it is beyond it.
        bound: what operators one after another achieve.
        estimate: what kernels and engines are expected to achieve; None where nothing was measured.
        best: the better end of the estimate's interval.
        fits: whether the model fits; None of a peak.
        derivation: lines that say where the ceiling comes from.
        likely_mistakes: what would give the number, the closest first.
        assumptions: what was read into the claim.
    """

    claim: Claim
    verdict: Verdict
    headline: str
    claimed: float | None
    ceiling: float | None
    ratio: float | None
    bound: float | None
    estimate: float | None
    best: float | None
    fits: bool | None
    derivation: tuple[str, ...]
    likely_mistakes: tuple[LikelyMistake, ...]
    assumptions: tuple[Assumption, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "claim": {"kind": self.claim.kind, "scope": self.claim.scope, "phase": self.claim.phase, "title": self.claim.title},
            "verdict": self.verdict,
            "headline": self.headline,
            "claimed": self.claimed,
            "ceiling": self.ceiling,
            "unit": self.claim.unit,
            "ratio": self.ratio,
            "bound": self.bound,
            "estimate": self.estimate,
            "best": self.best,
            "fits": self.fits,
            "likely_mistakes": [
                {"name": one.name, "why": one.why, "figure": one.figure, "closeness": one.closeness}
                for one in self.likely_mistakes
            ],
            "derivation": list(self.derivation),
            "assumptions": [
                {"name": note.name, "value": note.value, "origin": note.origin, "why": note.why} for note in self.assumptions
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A statement, judged: the verdict is that of the claim that goes furthest beyond its ceiling."""

    inputs: dict[str, Any]
    claims: tuple[Judged, ...]

    @property
    def worst(self) -> Judged:
        """The claim that decides."""
        return min(self.claims, key=lambda one: (_WORST_FIRST.index(one.verdict), -(one.ratio or 0.0)))

    @property
    def verdict(self) -> Verdict:
        """possible, implausible or impossible."""
        return self.worst.verdict

    @property
    def ceiling(self) -> float | None:
        """The ceiling of the claim that decides, in its unit."""
        return self.worst.ceiling

    @property
    def ratio(self) -> float | None:
        """How far the claim that decides goes beyond its ceiling."""
        return self.worst.ratio

    @property
    def likely_mistakes(self) -> tuple[LikelyMistake, ...]:
        """What would give the number, the closest first."""
        return self.worst.likely_mistakes

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the documented layout; `claims` has each of several."""
        several = {"claims": [one.to_dict() for one in self.claims]} if len(self.claims) > 1 else {}
        return {
            **envelope(self.inputs),
            **self.worst.to_dict(),
            **several,
        }
