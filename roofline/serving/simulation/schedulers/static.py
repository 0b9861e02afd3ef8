"""Static batching: a batch is let in, and nobody else until its longest answer has ended; blocks reserved, and kept, as
long."""

from __future__ import annotations

from roofline.serving.simulation.admission import by_length
from roofline.serving.simulation.forming import in_batches
from roofline.serving.simulation.schedulers.base import Scheduler
from roofline.serving.simulation.victims import last_admitted

SCHEDULER = Scheduler(
    name="static",
    about="a batch runs until all its answers have ended",
    form=in_batches,
    admission=by_length,
    victim=last_admitted,
    reserves=True,
    closed=True,
    source="Yu et al. 2022 (Orca), OSDI, section 2: what it is compared with",
)
