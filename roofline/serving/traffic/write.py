"""A trace as a file that `read_trace`, and others that know these columns, read again."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from roofline import files
from roofline.errors import InputError
from roofline.serving.traffic.columns import ANSWER, ARRIVED, PROMPT
from roofline.serving.traffic.trace import Trace


def as_csv(trace: Trace) -> str:
    """The requests as CSV: `arrived_at` (seconds to the microsecond, if there are arrivals), `num_prefill_tokens`,
    `num_decode_tokens`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = [trace.prompts.tolist(), trace.answers.tolist()]
    names = [PROMPT.name, ANSWER.name]
    if trace.arrived is not None:
        columns.insert(0, [f"{at:.6f}" for at in trace.arrived.tolist()])
        names.insert(0, ARRIVED.name)
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
    return out.getvalue()


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write a trace to a `.csv` file.

    Raises:
        InputError: another suffix, a place that cannot be written to.
    """
    place = Path(path)
    if place.suffix.lower() != ".csv":
        raise InputError(f"cannot write {place}: a trace is written as .csv")
    files.write_whole(place, as_csv(trace).encode())
