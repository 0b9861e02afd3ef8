"""How much longer a step of a batch takes than one of a single sequence."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm")


def draw(rng: Rng) -> Problem | None:
    """A batch and a context that fit, bound by memory."""
    name, card = rng.choice(facts.DENSE), rng.choice(_CARDS)
    batch, context = rng.choice((8, 16, 24, 32, 48, 64)), 1024 * rng.choice((1, 2, 4, 8, 16))
    if facts.max_batch(name, card, context) < batch:
        return None
    batched, one = facts.floor(name, card, batch, 1, context), facts.floor(name, card, 1, 1, context)
    if batched.compute_s > 0.7 * batched.memory_s or batched.retained_bytes or one.retained_bytes:
        return None
    if batched.cache_bytes < 0.08 * batched.weight_bytes:
        return None
    right = batched.seconds / one.seconds
    mistakes = (
        Mistake(
            name="as many times as sequences",
            value=batch,
            hint="You let every sequence read the weights. They are read once a step, whatever the batch.",
        ),
        Mistake(
            name="not at all",
            value=1,
            hint="The weights are read once, but the cache of every sequence has to be read too.",
        ),
        Mistake(
            name="gain in throughput",
            value=batch / right,
            hint="That is how many times more tokens per second there are. The answer is how many times longer a step takes.",
        ),
        pitfalls.k_without_v((batched.weight_bytes + batched.cache_bytes / 2) / (one.weight_bytes + one.cache_bytes / 2)),
    )
    token = facts.kv_bytes_per_token(name)
    return Problem(
        title="What a batch costs",
        text=(
            f"A decode step of {facts.title(name)} reads {formatting.quantity(batched.weight_bytes, 'B')} of weights, and of "
            f"each "
            f"cached token "
            f"{token:,} bytes. All sequences have {context:,} cached tokens. The {facts.card(card)} is bound by its "
            f"memory bus here. How "
            f"many times as long as a step of **one** sequence does a step of **{batch}** take at the least?"
        ),
        answer=Answer(value=right, kind="ratio"),
        mistakes=mistakes,
        solution=(
            (
                f"The weights are the same for both; of the cache there is {batch} times as much. All of them wait only so "
                f"much longer "
                f"for {batch} times as many tokens: that is why engines batch."
            ),
            worked.formula(
                "The bytes of both steps, one over the other:",
                "(W + B * S_c * k_token) / (W + S_c * k_token)",
                {
                    "W": (batched.weight_bytes, "weights read [bytes]"),
                    "B": (batch, ""),
                    "S_c": (context, ""),
                    "k_token": (token, "cache of a token [bytes]"),
                },
                "1",
            ),
        ),
    )


TEMPLATE = Template(id="batching-longer-step", topic="batching", minutes=4, draw=draw)
