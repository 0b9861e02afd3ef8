"""All clients at once: TTFT of the first wave."""

from __future__ import annotations

from roofline.numeric import ceil_div
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_MODELS = ("llama-3.1-8b", "qwen3-8b", "qwen2.5-7b", "mistral-nemo-12b")
_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm")


def draw(rng: Rng) -> Problem:
    """Clients that start together, prompts of which a step holds a few."""
    name, card, prompt = rng.choice(_MODELS), rng.choice(_CARDS), rng.choice((512, 1024, 2048))
    in_a_step, waves = rng.choice((2, 4, 8)), rng.choice((3, 4, 5, 6, 8))
    clients, budget = in_a_step * waves, in_a_step * prompt
    step = float(f"{facts.floor(name, card, in_a_step, prompt, 0).seconds / (rng.integer(45, 65) / 100):.2g}")
    right = sum(ceil_div(place, in_a_step) for place in range(1, clients + 1)) * step / clients
    mistakes = (
        Mistake(
            name="the last one",
            value=waves * step,
            hint="That is the TTFT of those who are served last. The answer is the mean of all.",
        ),
        Mistake(
            name="the first one",
            value=step,
            hint="That is the TTFT of those who are served first. The others wait for them.",
        ),
        Mistake(
            name="half of the last one",
            value=waves * step / 2,
            hint="That is as if a request were served at once. The first ones, too, get their token at the end of a step.",
        ),
        Mistake(
            name="one by one",
            value=(clients + 1) / 2 * step,
            hint=f"You computed one prompt a step. A step holds {in_a_step} of them.",
        ),
    )
    return Problem(
        title="All at once",
        text=(
            f"A benchmark lets {clients} clients send their first prompt, of {prompt:,} tokens, to {facts.title(name)} on an "
            f"{facts.card(card)} at the same moment. The engine computes at most {budget:,} tokens per step, prompts in the "
            f"order of their arrival; such a step takes {step * 1000:g} ms, and the tokens that are decoded next to the "
            f"prompts "
            "change little. First tokens come at the end of a prompt's step. What is the mean TTFT of these first requests?"
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=mistakes,
        solution=(
            (
                f"A step holds {budget:,} / {prompt:,} = {in_a_step} prompts, so that {clients} clients are served in {waves} "
                f"steps. Those of step i wait for i steps."
            ),
            worked.formula(
                "The mean of 1, 2, ... up to the number of steps is half of that number and one:",
                "(n + 1) * t / 2",
                {"n": (waves, "steps"), "t": (step, "a step of prompts [s]")},
                "s",
            ),
        ),
        source="docs/closed-loop.md",
    )


TEMPLATE = Template(id="serving-first-wave", topic="serving", minutes=4, draw=draw)
