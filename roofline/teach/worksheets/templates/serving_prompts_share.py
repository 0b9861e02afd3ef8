"""TPOT under a stream of prompts."""

from __future__ import annotations

from roofline.serving.queueing.steady import PromptWork, cycles
from roofline.teach.worksheets import worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def _step(step: float, prompt: float, rate: float) -> float:
    """Mean seconds of a step with its prompts."""
    import numpy as np

    one = np.ones(1)
    work = PromptWork(rate * one, prompt * one, prompt**2 * one, prompt**3 * one, one, rate * prompt * one)
    return float(cycles(work, step * one, 0 * one, 1.0).mean[0])


def draw(rng: Rng) -> Problem:
    """Steps, prompts and a rate that keep a server half busy, or more."""
    step, rate = rng.integer(10, 40) / 1000, rng.integer(4, 40) / 2
    prompt = float(f"{rng.integer(20, 75) / 100 / rate:.2g}")
    share = rate * prompt
    right = _step(step, prompt, rate)
    mistakes = (
        Mistake(
            name="share added",
            value=step * (1 + share),
            hint="A longer step meets more prompts, which make it longer still. Of the time, only the rest is left to decode.",
        ),
        Mistake(
            name="a prompt in every step",
            value=step + prompt,
            hint="That step has a prompt in it. How often does one come?",
        ),
        Mistake(
            name="without prompts", value=step, hint="That is a step without prompts. In which share of the time is there none?"
        ),
        Mistake(
            name="divided by the share of prompts",
            value=step / share,
            hint="You divided by the share that prompts take. Decoding has the rest of the time.",
        ),
    )
    return Problem(
        title="Prompts on the way",
        text=(
            f"A server decodes its batch in steps of {step * 1000:g} ms. Prompts arrive at {rate:g} a second, and each makes "
            f"the step that it is computed in {prompt * 1000:g} ms longer; a step takes all prompts that came during the one "
            "before. The batch is always as large as now. How long is a step on average, prompts included (the TPOT of those "
            "that decode)?"
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "Of the time prompts take the share:",
                "r * t_prompt",
                {"r": (rate, "rate [1/s]"), "t_prompt": (prompt, "what a prompt adds [s]")},
                "1",
            ),
            worked.formula(
                "A step of C seconds meets r C prompts, so that C = t + C r t_prompt. Decoding has the rest:",
                "t / (1 - r * t_prompt)",
                {
                    "t": (step, "step without prompts [s]"),
                    "r": (rate, "rate [1/s]"),
                    "t_prompt": (prompt, "what a prompt adds [s]"),
                },
                "s",
            ),
        ),
        source="docs/capacity.md, the queueing model",
    )


TEMPLATE = Template(id="serving-prompts-share", topic="serving", minutes=4, draw=draw)
