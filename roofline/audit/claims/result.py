"""The judgement of a statement: frozen values, and their form as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from roofline.audit.claims.claim import Claim
from roofline.documents import envelope
from roofline.specs.source import Assumption

Verdict = Literal["possible", "implausible", "impossible"]
_WORST_FIRST: tuple[Verdict, ...] = ("impossible", "implausible", "possible")


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelyMistake:
    """A mistaken reading under which the stated number would be possible.

    Attributes:
        name: of the mistake.
        why: a sentence for the user.
        figure: the ceiling under that reading, in the claim's unit (of `fits`: bytes needed).
        closeness: how far the claim reaches up to that figure; 1 is an exact match.
    """

    name: str
    why: str
    figure: float | None
    closeness: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimJudgement:
    """The judgement of one claim. Figures are in the claim's unit, a base unit (`claim.unit`).

    Attributes:
        claim: what was judged.
        about: the model and the hardware, in words.
        verdict: possible, implausible or impossible.
        headline: the verdict in one sentence.
        claimed: the claimed figure; of `fits`, the bytes that a device has to hold.
        ceiling: the best figure that is possible; None where the model does not fit and the number alone would be possible.
        ratio: how far the claim goes beyond the ceiling: above 1, it is beyond it.
        bound: the figure at the bound of `analyze`, operators one after another; None where there is none.
        estimate: the figure that kernels and engines are expected to achieve; None where nothing was measured.
        best: the better end of the estimate's interval, likewise.
        fits: whether the model fits; None of a peak.
        derivation: lines that say where the ceiling comes from.
        likely_mistakes: mistakes that would give the number, the closest first.
        assumptions: what was read into the claim.
    """

    claim: Claim
    about: str
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
        """Plain data in the layout of `roofline claim --json`, without the header."""
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
    """The judgement of a statement: its verdict is the worst of its claims.

    Attributes:
        inputs: name, path and SHA-256 of the files that were read, by role.
        claims: the judgement of each claim.
    """

    inputs: dict[str, Any]
    claims: tuple[ClaimJudgement, ...]

    @property
    def worst(self) -> ClaimJudgement:
        """The claim with the worst verdict; of several, the one that exceeds its ceiling most."""
        return min(self.claims, key=lambda one: (_WORST_FIRST.index(one.verdict), -(one.ratio or 0.0)))

    @property
    def verdict(self) -> Verdict:
        """`possible`, `implausible` or `impossible`: that of the worst claim."""
        return self.worst.verdict

    @property
    def ceiling(self) -> float | None:
        """The ceiling of the worst claim, in its unit; None where the model does not fit."""
        return self.worst.ceiling

    @property
    def ratio(self) -> float | None:
        """How far the worst claim exceeds its ceiling; above 1 it is beyond."""
        return self.worst.ratio

    @property
    def likely_mistakes(self) -> tuple[LikelyMistake, ...]:
        """Mistakes that would give the number of the worst claim, the closest first."""
        return self.worst.likely_mistakes

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the layout of `roofline claim --json`: the worst claim, and under `claims` each of several."""
        several = {"claims": [one.to_dict() for one in self.claims]} if len(self.claims) > 1 else {}
        return {
            **envelope(self.inputs),
            **self.worst.to_dict(),
            **several,
        }
