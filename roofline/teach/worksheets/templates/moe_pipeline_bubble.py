"""How long a pipeline stands idle."""

from __future__ import annotations

from roofline.predict.timing import Pipeline
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_MODELS = ("mixtral-8x7b", "deepseek-v3", "qwen3-30b-a3b", "llama-3.1-70b")


def draw(rng: Rng) -> Problem:
    """Equal stages, and the microbatches that a batch of prompts is cut into."""
    name, stages, microbatches = rng.choice(_MODELS), rng.choice((2, 3, 4, 6, 8)), rng.choice((2, 3, 4, 6, 8, 12, 16))
    each = rng.integer(20, 120, 5) / 1000
    right = float(Pipeline((each,) * stages).bubble(microbatches))
    mistakes = (
        Mistake(
            name="over the work",
            value=(stages - 1) / microbatches,
            hint="That is the wait over the time of the work. The answer is its share of the whole time.",
        ),
        Mistake(
            name="one microbatch",
            value=(stages - 1) / stages,
            hint=f"That is with one microbatch: then one stage works at a time. Here there are {microbatches}.",
        ),
        Mistake(
            name="working share",
            value=1 - right,
            hint="That is the share in which a stage works. The answer is the rest.",
        ),
        Mistake(
            name="one stage too many",
            value=stages / (microbatches + stages),
            hint="Stages wait for the others, and not for themselves: how many others are there?",
        ),
    )
    return Problem(
        title="The bubble of a pipeline",
        text=(
            f"The layers of {facts.title(name)} are divided into {stages} pipeline stages that take equally long. A batch of "
            f"prompts is cut into {microbatches} microbatches, each of which spends {each * 1000:g} ms in a stage; messages "
            f"between "
            "stages take no time. From the first microbatch in the first stage to the last one out of the last, for what "
            "share of the time is a stage idle?"
        ),
        answer=Answer(value=right, kind="share"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "The last microbatch enters after all others, and passes all stages:",
                "(m + p - 1) * t",
                {"m": (microbatches, "microbatches"), "p": (stages, "stages"), "t": (each, "a microbatch in a stage [s]")},
                "s",
            ),
            worked.formula(
                "A stage works for m of these times, and is idle for p - 1:",
                "(p - 1) / (m + p - 1)",
                {"m": (microbatches, "microbatches"), "p": (stages, "stages")},
                "1",
            ),
        ),
        source="Huang et al. 2019 (GPipe), arXiv:1811.06965, section 2.3",
    )


TEMPLATE = Template(id="moe-pipeline-bubble", topic="moe", minutes=3, draw=draw)
