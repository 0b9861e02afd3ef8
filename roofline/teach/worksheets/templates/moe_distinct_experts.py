"""How many experts a decode step meets."""

from __future__ import annotations

from roofline.formatting import number
from roofline.operators.grouped_gemm import expected_distinct
from roofline.teach.worksheets import facts
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_MODELS = ("mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3", "gpt-oss-20b", "deepseek-v2-lite")


def draw(rng: Rng) -> Problem | None:
    """A model with experts, and a batch that meets some of them."""
    name, batch = rng.choice(_MODELS), rng.integer(2, 64)
    block = facts.mlp(name)
    experts, used = block.num_experts, block.num_experts_per_tok
    right = expected_distinct(experts, used, batch)
    missed = (1 - used / experts) ** batch
    if not 0.03 < missed < 0.8 or len(number(right)) < 4:  # a round one might stand in the text by chance
        return None
    mistakes = [
        Mistake(
            name="all experts read",
            value=experts,
            hint="Those are all experts. Some are chosen by no token of the step.",
        ),
        Mistake(
            name="one token",
            value=used,
            hint="That is what one token meets. Other tokens of the step go to other experts.",
        ),
        Mistake(
            name="one expert a token",
            value=expected_distinct(experts, 1, batch),
            hint=f"You sent each token to one expert. It goes to {used} different ones.",
        ),
        Mistake(
            name="those that are missed",
            value=experts * missed,
            hint="That is how many no token goes to. The answer is the number of the others.",
        ),
    ]
    if used * batch <= 2 * experts:
        mistakes.append(
            Mistake(
                name="top-k times batch",
                value=used * batch,
                hint="You let no two tokens share an expert. Where they do, its weights are read once for both.",
            )
        )
    return Problem(
        title="Experts that a step meets",
        text=(
            f"In each layer of {facts.title(name)} a router sends every token to {used} of {experts} experts. {batch} "
            "sequences decode one token each. If all choices are equally likely, and tokens choose independently of each "
            "other, how many different experts of a layer does the step meet on average?"
        ),
        answer=Answer(value=right, kind="ratio"),
        mistakes=tuple(mistakes),
        solution=(
            f"A token does not choose a given expert with probability 1 - {used}/{experts} = {number(1 - used / experts)}.",
            f"All {batch} tokens pass it by with probability {number(1 - used / experts)}^{batch} = {number(missed)}.",
            (
                f"So each of the {experts} experts is met with probability 1 - {number(missed)}, and on average "
                f"{experts} x (1 - {number(missed)}) = {number(right)} of them are."
            ),
        ),
    )


TEMPLATE = Template(id="moe-distinct-experts", topic="moe", minutes=4, draw=draw)
