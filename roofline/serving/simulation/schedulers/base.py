"""A scheduler: parts that others use too, and a few numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline.serving.simulation.queues import Arrival, Queue

if TYPE_CHECKING:
    from roofline.serving.simulation.job import Job
    from roofline.serving.simulation.replica import Replica


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """Who is computed in a step, who waits, who has to go.

    `form`: makes a step (`forming.py`). `admission`: blocks that a request has to find (`admission.py`). `victim`: who goes
    when a block is missing (`victims.py`). `queue`: who is next (`queues.py`).
    """

    name: str
    about: str
    form: Callable[[Replica], None]
    admission: Callable[[Replica, Job, int], int]
    victim: Callable[[Replica], Job]
    queue: Callable[[], Queue] = Arrival
    whole: bool = False
    """Whether a request is let in only where the blocks of its whole prompt are free, however few its first part takes."""
    chunked: bool = False
    """Whether a prompt may be computed in several steps."""
    reserves: bool = False
    """Whether a request has all blocks of its last step from the first, so that nobody is ever preempted."""
    closed: bool = False
    """Whether nobody is let in before all that run have ended; blocks and seats are kept until then."""
    ahead: bool = False
    """Whether a step is formed while the one before runs: of requests that came, and blocks and seats that became free, since
    that one began, it knows nothing."""
    watermark: float = 0.0
    """Share of the blocks that stays free when a request is let in."""
    budget: int | None = None
    """New tokens a step, where the scheduler has a figure of its own; else the engine's."""
    source: str = ""
