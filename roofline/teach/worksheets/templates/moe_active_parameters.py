"""Total and active parameters of a mixture of experts."""

from __future__ import annotations

from roofline.predict.parameters import count_parameters
from roofline.teach.quantities import format_answer
from roofline.teach.worksheets import facts, pitfalls
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem:
    """A model with experts in every layer, as it is, or with another number of experts a token."""
    name = rng.choice(("mixtral-8x7b", facts.of_other_depth(rng, "qwen3-30b-a3b")))
    block, counted, model = facts.mlp(name), facts.parameters(name), facts.model(name)
    experts, used, layers = block.num_experts, rng.integer(1, 8), model.num_hidden_layers
    changed = model.model_copy(
        update={
            "layer_types": {
                key: layer.model_copy(update={"mlp": block.model_copy(update={"num_experts_per_tok": used})})
                for key, layer in model.layer_types.items()
            }
        }
    )
    right = count_parameters(changed).active
    one = (counted.total - right) // (experts - used) // layers if experts > used else 0
    rest = counted.total - one * experts * layers
    mistakes = (
        pitfalls.all_experts(counted.total, experts, used),
        Mistake(
            name="share of everything",
            value=counted.total * used / experts,
            hint="You took a share of all parameters. Attention, embeddings and routers are used by every token, whole.",
        ),
        Mistake(
            name="experts alone",
            value=one * used * layers,
            hint="Those are the experts. Everything else works on every token too.",
        ),
        Mistake(
            name="one expert",
            value=rest + one * layers,
            hint=f"That is with one expert a layer. A token goes through {used}.",
        ),
    )
    return Problem(
        title="Active parameters",
        text=(
            f"{facts.title(name)} has {counted.total:,} parameters: {layers} layers with {experts} experts of {one:,} "
            f"parameters each, "
            f"and all the rest. Say that every token is sent to {used} {'expert' if used == 1 else 'experts'} a layer. "
            f"How many parameters "
            "does a token use (embedding included)?"
        ),
        answer=Answer(value=right, kind="parameters"),
        mistakes=mistakes if used > 1 else mistakes[:3],
        solution=(
            f"What is not an expert: {counted.total:,} - {layers} x {experts} x {one:,} = {rest:,}.",
            (
                f"With {used} of {experts} experts in {layers} layers: {rest:,} + {layers} x {used} x {one:,} = "
                f"{format_answer(right, 'parameters')}."
            ),
        ),
        source="F20 and F21 of docs/published-figures.md" if name == "mixtral-8x7b" and used == 2 else "",
    )


TEMPLATE = Template(id="moe-active-parameters", topic="moe", minutes=4, draw=draw)
