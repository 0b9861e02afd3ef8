"""Several runs with other seeds: what they have in common, and how far it can be trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

CONFIDENCE = 0.95


def intervals(runs: Sequence[Mapping[str, float | None]]) -> dict[str, Any]:
    """Of each figure: mean over the runs, and between what its expectation lies with 95 % confidence, by Student's t
    distribution with one degree of freedom less than runs. A figure that some run does not have is left out.

    Source: Law 2015, Simulation Modeling and Analysis, 5th edition, section 9.4.1.
    """
    from scipy.special import stdtrit

    many = len(runs)
    factor = float(stdtrit(many - 1, (1 + CONFIDENCE) / 2)) / math.sqrt(many)
    found: dict[str, Any] = {}
    for name in runs[0]:
        values = [value for one in runs if (value := one[name]) is not None]
        if len(values) < many:
            continue
        mean = math.fsum(values) / many
        half = factor * math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (many - 1))
        found[name] = {"mean": mean, "low": mean - half, "high": mean + half}
    return {"runs": many, "confidence": CONFIDENCE, "figures": found}
