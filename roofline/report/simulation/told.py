"""What the page of a simulation holds: all that stands still, and the distributions, off which shares are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofline.report.figure import Mark, Table, View

Values = dict[str, Any]
"""What the controls hold, in milliseconds: `ttft`, `tpot`, as far as there are such."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The distribution of a latency: seconds, ascending, and the share that takes at most so long."""

    key: str
    name: str
    of: str
    """What is counted: requests, or tokens."""
    seconds: tuple[float, ...]
    share: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The view without its latencies, their table, their distributions, and the objectives that were given, as marks."""

    base: View
    latencies: tuple[Table, ...]
    curves: tuple[Curve, ...]
    objectives: tuple[Mark, ...]
    tail: bool
    """Whether there are requests enough to speak of the slowest."""
