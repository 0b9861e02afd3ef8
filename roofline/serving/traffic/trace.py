"""Traces: requests that a server has seen, when they arrived, and how long prompts and answers were."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline import files
from roofline.serving.traffic.pairs import Pairs
from roofline.specs.library import Input

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(frozen=True)
class Trace:
    """Requests in the order of their arrival. Arrays are read-only."""

    name: str
    sha256: str
    path: str
    arrived: Array | None = field(repr=False)
    """Seconds, float64, ascending; None where the file has no such column."""
    prompts: Array = field(repr=False)
    """Tokens of the prompt, int64, at least 1."""
    answers: Array = field(repr=False)
    """Tokens of the answer, int64, at least 1."""
    skipped: int = 0
    """Broken rows that were left out."""
    reasons: tuple[str, ...] = ()
    """What was wrong with the first of them, with line."""
    notes: tuple[str, ...] = ()
    """What else a reader should know: columns under other names, rows that were sorted."""

    def __len__(self) -> int:
        return len(self.prompts)

    @property
    def input(self) -> Input:
        """The file, for the inputs of a result."""
        return Input("trace", self.name, self.path, self.sha256)

    @property
    def mean_prompt(self) -> float:
        """Tokens of a prompt, on average."""
        return float(self.prompts.mean())

    @property
    def mean_answer(self) -> float:
        """Tokens of an answer, on average."""
        return float(self.answers.mean())

    @property
    def duration(self) -> float | None:
        """Seconds from the first arrival to the last; None without arrivals."""
        return None if self.arrived is None else float(self.arrived[-1] - self.arrived[0])

    @property
    def rate(self) -> float | None:
        """Requests a second: intervals between arrivals over the duration; None without arrivals, or where all come at once."""
        return (len(self) - 1) / self.duration if self.duration else None

    @cached_property
    def interarrival_cv(self) -> float | None:
        """Standard deviation of the times between arrivals over their mean: 1 for Poisson arrivals, more for bursts. None
        where there is no rate."""
        if self.arrived is None or not self.duration:
            return None
        import numpy as np

        gaps = np.diff(self.arrived)
        return float(gaps.std() / gaps.mean())

    def lengths(self) -> Pairs:
        """Prompts with their answers, without the arrivals."""
        return Pairs(self.input, self.prompts, self.answers)


def read_trace(path: str | Path, skip_bad_rows: bool = False) -> Trace:
    """A trace from a CSV or Parquet file with the columns `arrived_at` (seconds; may be left out), `num_prefill_tokens` and
    `num_decode_tokens`, or as Azure and BurstGPT call them; other columns are passed by. Or from the folder of a measured run
    (`engine_run.py`).

    Args:
        path: the file, or the folder.
        skip_bad_rows: leave broken rows out, and count them, where else the first one is an error.

    Raises:
        SpecError: no such file, no table, a missing column, a broken row with its line, no row that is whole.
    """
    place = Path(path).expanduser()
    if files.is_folder(place):
        from roofline.serving.traffic.engine_run import read_run

        return read_run(place, skip_bad_rows).trace
    from roofline.serving.traffic.rows import read  # NumPy is for those who have a trace

    return read(place, skip_bad_rows)
