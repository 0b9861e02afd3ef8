"""Sarathi-Serve: a small budget of tokens a step, filled with decodes first and chunks of prompts after, so that no decode
waits."""

from __future__ import annotations

from roofline.serving.simulation.admission import by_prompt
from roofline.serving.simulation.forming import mixed
from roofline.serving.simulation.schedulers.base import Scheduler
from roofline.serving.simulation.victims import last_arrived

SCHEDULER = Scheduler(
    name="sarathi",
    about="decodes first, prompts in chunks within 512 tokens; blocks for whole prompts; the last arrived goes",
    form=mixed,
    admission=by_prompt,
    victim=last_arrived,
    chunked=True,
    watermark=0.01,
    budget=512,
    source="Agrawal et al. 2024, arXiv:2403.02310, algorithm 3",
)
