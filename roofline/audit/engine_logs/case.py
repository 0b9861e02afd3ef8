"""Everything that a rule may look at when it asks why a prediction and a measurement differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline.audit.engine_logs.benches import Bench
from roofline.audit.engine_logs.engine_log import EngineLog
from roofline.audit.engine_logs.rows import Row
from roofline.audit.engine_logs.subject import Subject
from roofline.predict.request import Request

if TYPE_CHECKING:
    from roofline.audit.engine_logs.loaded import Served

CACHE = ("kv_cache_bytes", "kv_capacity_tokens", "max_concurrency")
"""Rows that say how large the cache is, from model and hardware alone."""
LATENCIES = ("ttft_s", "tpot_s", "itl_s", "e2e_s")
RATES = ("requests_per_s", "output_tokens_per_s", "total_tokens_per_s")
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Case:
    """A comparison before its reasons are known."""

    request: Request
    subject: Subject
    log: EngineLog | None
    bench: Bench | None
    served: Served | None
    rows: tuple[Row, ...]

    def row(self, quantity: str) -> Row | None:
        """The row of a quantity."""
        return next((row for row in self.rows if row.quantity == quantity), None)

    def argument(self, name: str) -> str | None:
        """An argument of the engine, where the log prints it."""
        return None if self.log is None else self.log.argument(name)

    def assumed(self, name: str) -> bool:
        """Whether nobody said what an option was: neither the log nor who asks."""
        return any(
            note.name == name and note.origin in ("assumed", "default")
            for note in (*self.subject.notes, *self.request.assumptions)
        )


def slower(row: Row) -> bool:
    """Whether a server was slower than predicted: its times longer, or its rates lower."""
    if row.ratio is None:
        return False
    return row.ratio < 1 if row.quantity in LATENCIES else row.ratio > 1
