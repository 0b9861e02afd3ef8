"""Bytes that a decode step of one sequence has to read."""

from __future__ import annotations

from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem | None:
    """A model, and a long context."""
    name, context = rng.choice(facts.DENSE), 1024 * rng.choice((8, 16, 24, 32, 48, 64))
    floor = facts.floor(name, "h200-sxm", 1, 1, context)
    counted, token = facts.parameters(name), facts.kv_bytes_per_token(name)
    cache = context * token
    right = floor.weight_bytes + cache
    mistakes = (
        Mistake(
            name="weights alone",
            value=floor.weight_bytes,
            hint="Those are the weights. Attention also reads the keys and values of all cached tokens.",
        ),
        Mistake(
            name="the whole embedding",
            value=right + 2 * counted.embedding,
            hint="You read every parameter. Of the embedding a step reads one row.",
        ),
        Mistake(
            name="LM head left out",
            value=right - 2 * counted.embedding,
            hint="You left both tables out. The LM head is a matrix that is multiplied by: all of it is read.",
        ),
        Mistake(
            name="K without V",
            value=floor.weight_bytes + cache / 2,
            hint="The cache holds keys and values: two tensors per layer, not one.",
        ),
        Mistake(name="a byte a weight", value=right / 2, hint="Those are elements. In bf16 each is two bytes."),
        pitfalls.gb_for_gib(right),
    )
    return Problem(
        title="The bytes of a token",
        text=(
            f"{facts.title(name)} has {counted.total:,} parameters in bf16, of which {counted.embedding:,} are the embedding "
            f"and as many the LM head; {facts.shape(name, 'layers', 'kv', 'head')}, cache in bf16. One sequence "
            f"with {context:,} "
            "cached tokens is decoded. How many bytes of weights and cache does the step read for the next token?"
        ),
        answer=Answer(value=right, kind="bytes"),
        mistakes=mistakes,
        solution=(
            worked.explained("A token of the cache takes:", name, "kv_bytes_per_token"),
            "Every matrix is read once, the LM head too; of the embedding one row is.",
            worked.formula(
                "Weights without the embedding, and the cache:",
                "b_w * (N - M_e) + S_c * k_token",
                {
                    "b_w": (2, ""),
                    "N": (counted.total, "parameters"),
                    "M_e": (counted.embedding, "parameters of the embedding"),
                    "S_c": (context, ""),
                    "k_token": (token, "cache of a token [bytes]"),
                },
                "bytes",
            ),
        ),
    )


TEMPLATE = Template(id="transformer-token-bytes", topic="transformer", minutes=5, draw=draw)
