"""A flag was given in the place of what the log says."""

from __future__ import annotations

from roofline.audit.engine_logs.capacity import AIDED
from roofline.audit.engine_logs.case import CACHE, LATENCIES, RATES, Case
from roofline.audit.engine_logs.rows import Row

RANK = 0
QUANTITIES = ("weights_bytes", "activations_bytes", "graphs_bytes", AIDED, *CACHE, *LATENCIES, *RATES)


def _given(name: str) -> str:
    """An option as a command line has it."""
    return "MODEL" if name == "model" else f"--{name.replace('_', '-')}"


def reason(row: Row, case: Case) -> str:
    """Every flag that contradicts the log."""
    found = [f"{_given(note.name)} {note.value} was given {note.why}" for note in case.subject.notes
             if note.origin == "given" and note.why.startswith("in place of")]  # fmt: skip
    return ", ".join(found)
