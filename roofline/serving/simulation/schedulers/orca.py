"""Orca: requests join and leave at every step, prompts whole; a request reserves the blocks of its last token when it is let
in.

NB: the length of an answer is taken to be known, the best case ("Orca (Oracle)" of arXiv:2309.06180, section 6.1).
"""

from __future__ import annotations

from roofline.serving.simulation.admission import by_length
from roofline.serving.simulation.forming import mixed
from roofline.serving.simulation.schedulers.base import Scheduler
from roofline.serving.simulation.victims import last_admitted

SCHEDULER = Scheduler(
    name="orca",
    about="whole prompts beside decodes; blocks reserved for the whole answer, nobody is preempted",
    form=mixed,
    admission=by_length,
    victim=last_admitted,
    reserves=True,
    source="Yu et al. 2022 (Orca), OSDI, algorithm 1",
)
