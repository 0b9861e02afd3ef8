"""What a server writes down while it runs, as plain numbers in long rows: sums are taken later, of many at once."""

from __future__ import annotations

from collections.abc import Callable

from roofline.serving.simulation.job import Job

FLUSH = 1 << 13
"""Requests that have ended, after which the book is read and begun anew."""

RUN = (
    "begins", "ends", "lead", "steps", "sequences", "cached", "prompt_tokens", "prompts", "running", "waiting", "blocks",
    "seconds", "more", "late", "grown",
)  # fmt: skip
"""Of a run of steps: its times; seconds of copies before the first; steps; sequences that decode, and what they have cached
before the first; new tokens of prompts, and prompts that end; requests that hold a seat, and that wait; blocks taken, on
average; seconds of the first step, and what each takes more than the one before; sequences whose last token is older than the
last step; blocks that are taken from the first step to the last."""
CHUNK = ("new", "before")
GAP = ("seconds", "many")
AGAIN = ("begins", "ends", "tokens", "seconds")
"""Of a step with tokens that had been computed and dropped: its times; those tokens; seconds that it takes more for them."""
END = ("index", "arrived", "prompt", "answer", "first", "ended", "preemptions", "kind", "replica")


class Book:
    """Rows of runs, chunks of prompts, gaps between tokens, and requests that have ended. `read` is called with the book when
    it is full, and empties it."""

    __slots__ = ("again", "chunks", "dropped", "ended", "ends", "gaps", "moved", "preemptions", "read", "runs", "tell")

    def __init__(self, read: Callable[[Book], None] | None = None) -> None:
        self.read = read
        self.tell: Callable[[Job, float], None] | None = None
        """Who is told when a request ends."""
        self.ended = 0
        self.preemptions = 0
        self.moved: list[float] = []
        """Tokens that moved to the host, each after the time."""
        self.dropped: list[float] = []
        """When a cache was dropped."""
        self.again: list[float] = []
        self.runs: list[float] = []
        self.chunks: list[float] = []
        self.gaps: list[float] = []
        self.ends: list[float] = []

    def clear(self) -> None:
        """Begin anew, in the same rows."""
        for row in (self.runs, self.chunks, self.gaps, self.ends, self.moved, self.dropped, self.again):
            del row[:]

    def end(self, job: Job, at: float, replica: int) -> None:
        """A request has ended."""
        self.ended += 1
        self.ends.extend((job.index, job.arrived, job.prompt, job.answer, job.first, at, job.preemptions, job.kind, replica))
        if self.tell is not None:
            self.tell(job, at)
        if self.read is not None and not self.ended % FLUSH:
            self.read(self)
