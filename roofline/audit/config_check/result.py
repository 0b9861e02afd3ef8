"""The answer to `roofline plan --check`: a verdict with its reasons, and the deployment as it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from roofline.predict.result import dump_json
from roofline.serving.planning.result import Candidate, Plan

if TYPE_CHECKING:
    import pandas as pd

Verdict = Literal["met", "at risk", "missed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One objective or limit.

    Attributes:
        objective: `memory` (bytes of a device that one request of --max-model-len needs), `start` (tokens of a step), `gpus`
            (of a replica), `length` (share of the requests that are longer than --max-model-len), `utilisation` (of the rate
            that saturates), `ttft` and `tpot` (seconds, at the percentile), `max_gpus`, `inventory`, `max_cost` (an hour).
        of: the class of requests; None: of all.
        limit: what it may be at most.
        expected: what it is; None: without end, or not known.
        low: the same with every step at the quick end of its interval.
        high: and at the slow end.
        verdict: met with the whole interval, at risk where only the expected value keeps to the limit, or missed.
        percentile: of times.
        replicas: the fewest with which this is not missed, where that is known.
    """

    objective: str
    of: str | None
    limit: float | None
    expected: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    percentile: float | None = None
    replicas: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "objective": self.objective, "class": self.of, "percentile": self.percentile, "limit": self.limit,
            "expected": self.expected, "low": self.low, "high": self.high, "verdict": self.verdict, "replicas": self.replicas,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Source:
    """The file: its form, the engine, and the line on which each option stands."""

    path: str
    form: str
    engine: str
    line: int
    lines: dict[str, int]


@dataclass(frozen=True, slots=True)
class Check:
    """A deployment, judged.

    Attributes:
        passed: whether nothing is missed; what is at risk passes, and is said.
        reasons: sentences, what is missed first, with the flag to change.
        findings: every objective and limit.
        replicas: how many there are.
        replicas_needed: the fewest that meet every objective; None where no number of them does, or the engine does not start.
        unmodelled: flags that change performance and are not in the times, in words.
        not_understood: flags that are not known.
        source: the file.
        plan: the deployment in the layout of a plan.
    """

    passed: bool
    reasons: tuple[str, ...]
    findings: tuple[Finding, ...]
    replicas: int
    replicas_needed: int | None
    unmodelled: tuple[str, ...]
    not_understood: tuple[str, ...]
    source: Source
    plan: Plan

    @property
    def candidate(self) -> Candidate | None:
        """The deployment as it stands; None where it does not start."""
        return self.plan.best

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the layout of a plan with this one candidate, and `check`."""
        return {
            **self.plan.to_dict(),
            "check": {
                "passed": self.passed,
                "reasons": list(self.reasons),
                "findings": [finding.to_dict() for finding in self.findings],
                "replicas": self.replicas,
                "replicas_needed": self.replicas_needed,
                "unmodelled": list(self.unmodelled),
                "not_understood": list(self.not_understood),
                "file": self.source.path,
                "form": self.source.form,
                "engine": self.source.engine,
                "line": self.source.line,
                "lines": self.source.lines,
            },
        }

    def to_json(self, indent: int | None = 2) -> str:
        """JSON text; no NaN and no infinity."""
        return dump_json(self.to_dict(), indent)

    def flat(self) -> list[dict[str, Any]]:
        """One flat row a finding."""
        return [finding.to_dict() for finding in self.findings]

    def to_frame(self) -> pd.DataFrame:
        """A tidy table, one row a finding."""
        import pandas as pd

        return pd.DataFrame(self.flat())
