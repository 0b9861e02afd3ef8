"""A flag was given in the place of what the log says."""

from __future__ import annotations

from roofline.comparison.capacity import AIDED
from roofline.comparison.case import CACHE, LATENCIES, RATES, Case
from roofline.comparison.rows import Row

RANK = 0
QUANTITIES = ("weights_bytes", "activations_bytes", "graphs_bytes", AIDED, *CACHE, *LATENCIES, *RATES)


def reason(row: Row, case: Case) -> str:
    """Every flag that contradicts the log."""
    found = [f"--{note.name.replace('_', '-')} {note.value} was given {note.why}" for note in case.subject.notes
             if note.origin == "given" and note.why.startswith("in place of")]  # fmt: skip
    return ", ".join(found)
