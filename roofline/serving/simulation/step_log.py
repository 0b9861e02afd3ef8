"""The log of a run, as plain numbers in long rows: sums are taken later, of many at once (`metrics.py`)."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from struct import Struct

from roofline.serving.simulation.request import Request

FLUSH = 1 << 13
"""Requests that have ended, after which the log is read and emptied."""

RUN = (
    "begins", "ends", "lead", "steps", "sequences", "cached", "prompt_tokens", "prompts", "running", "waiting", "blocks",
    "seconds", "more", "stalled", "grown", "tokens",
)  # fmt: skip
"""Columns of a run of steps: its times; seconds of copies before the first; steps; sequences that decode, and their cached
tokens before the first step; new tokens of prompts, and prompts that end; requests that run, and that wait; blocks taken, on
average; seconds of the first step, and what each takes more than the one before; sequences whose last token is older than the
last step; blocks allocated from the first step to the last; output tokens per decode step."""
CHUNK = ("new", "before")
"""Columns of a chunk of a prompt: its new tokens, and those computed before."""
GAP = ("seconds", "count")
"""Columns of gaps between tokens that are not the time of one step."""
RECOMPUTED = ("begins", "ends", "tokens", "seconds")
"""Columns of a step with tokens that had been dropped: its times; those tokens; seconds that it takes more for them."""
END = ("index", "arrived", "prompt", "output", "first", "ended", "preemptions", "class", "replica", "cached", "passed")
"""Columns of a request that has ended; `cached`: prompt tokens found in the prefix cache, or a tier, when it was first
admitted; `passed`: requests that came later and were admitted before it, at least."""
LOAD = ("index", "tier", "tokens")
"""Columns of what a request loads when it is first admitted: its number, the place of the tier, prompt tokens."""
SHED = ("index", "arrived", "class", "shed")
"""Columns of a request that was shed; `shed`: when."""
pack_run, pack_chunk, pack_end = (Struct(f"{len(columns)}d").pack for columns in (RUN, CHUNK, END))
"""Return the bytes of a row, for `frombytes`. NB: there are so many that lists of objects would not fit caches."""


class StepLog:
    """Rows of runs, chunks of prompts, gaps between tokens, preemptions, and requests that have ended.

    Args:
        read: called with the log after every `FLUSH` requests; it empties the log.
    """

    __slots__ = (
        "chunks", "dropped", "ends", "failed", "gap_ends", "gaps", "loads", "num_accepted_tokens", "num_ended", "num_failed",
        "num_preemptions", "num_rounds", "num_shed", "on_end", "read", "recomputed", "runs", "sheds", "swapped",
    )  # fmt: skip

    def __init__(self, read: Callable[[StepLog], None] | None = None) -> None:
        self.read = read
        self.on_end: Callable[[Request, float], None] | None = None
        """Called with a request that ends, or is shed, and when."""
        self.num_ended = self.num_failed = self.num_preemptions = self.num_shed = 0
        self.num_rounds = self.num_accepted_tokens = 0
        """With speculative decoding: rounds of the sequences that no longer decode, and drafted tokens accepted in them."""
        self.runs, self.chunks, self.ends = array("d"), array("d"), array("d")
        self.gaps: list[float] = []
        self.gap_ends: list[float] = []
        """Of each row of `gaps`: when it ends."""
        self.failed: list[float] = []
        """Of each request that failed with its replica for good: its number, and its class."""
        self.sheds: list[float] = []
        self.swapped: list[float] = []
        """Of each cache that moved to the host: when, and its tokens."""
        self.dropped: list[float] = []
        """When caches were dropped."""
        self.recomputed: list[float] = []
        self.loads: list[float] = []

    def clear(self) -> None:
        """Empty all rows, in place; counts stay."""
        for row in (
            self.runs, self.chunks, self.gaps, self.gap_ends, self.ends, self.failed, self.sheds, self.swapped, self.dropped,
            self.recomputed, self.loads,
        ):  # fmt: skip
            del row[:]

    def end(self, request: Request, time: float, replica: int) -> None:
        """Log a request that ends at `time`, in seconds, on the replica with a number."""
        self.num_ended += 1
        self.ends.frombytes(pack_end(
            request.index, request.arrival_time, request.num_prompt_tokens, request.max_tokens, request.first_token_time, time,
            request.num_preemptions, request.class_index, replica, request.num_hit_tokens, request.num_passed,
        ))  # fmt: skip
        if self.on_end is not None:
            self.on_end(request, time)
        if self.read is not None and not self.num_ended % FLUSH:
            self.read(self)

    def fail(self, request: Request) -> None:
        """Log a request that has failed for good."""
        self.num_failed += 1
        self.failed.extend((request.index, request.class_index))

    def shed(self, request: Request, time: float) -> None:
        """Log a request that is turned away, or dropped while it waits, at `time`, in seconds."""
        self.note_shed(request, time)
        if self.on_end is not None:
            self.on_end(request, time)

    def note_shed(self, request: Request, time: float) -> None:
        """Log a request that does not reach a replica, of which whoever sent it knows."""
        self.num_shed += 1
        self.sheds.extend((request.index, request.arrival_time, request.class_index, time))
        if self.read is not None and not self.num_shed % FLUSH:
            self.read(self)
