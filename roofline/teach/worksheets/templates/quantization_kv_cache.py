"""What a KV cache in fp8 does to the least time of a step."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("h100-sxm", "h200-sxm", "a100-sxm-80gb")


def draw(rng: Rng) -> Problem | None:
    """A batch and a context at which the cache is a good part of the bytes."""
    name, card = rng.choice(facts.DENSE), rng.choice(_CARDS)
    batch, context = rng.choice((4, 8, 16, 24, 32, 48, 64)), 1024 * rng.choice((2, 4, 8, 16, 32))
    if facts.max_batch(name, card, context) < batch:
        return None
    plain = facts.floor(name, card, batch, 1, context)
    small = facts.floor(name, card, batch, 1, context, kv_cache_dtype="fp8")
    if max(plain.compute_s / plain.memory_s, small.compute_s / small.memory_s) > 0.7 or plain.retained_bytes:
        return None
    if plain.cache_bytes < 0.1 * plain.weight_bytes:
        return None
    right, weights, cache = plain.seconds / small.seconds, plain.weight_bytes, plain.cache_bytes
    mistakes = (
        Mistake(name="weights forgotten", value=2, hint="The cache is half. The weights are read as before."),
        Mistake(
            name="one sequence's cache",
            value=(weights + cache / batch) / (weights + cache / batch / 2),
            hint=f"You read the cache of one sequence. There are {batch}.",
        ),
        Mistake(
            name="weights in fp8",
            value=(weights + cache) / (weights / 2 + cache),
            hint="You halved the weights. It is the cache that goes to fp8.",
        ),
        Mistake(name="the wrong way round", value=1 / right, hint="That is the time after over the time before."),
        Mistake(name="nothing", value=1, hint="The cache is read in every step: fewer bytes of it make the step shorter."),
    )
    token = facts.kv_bytes_per_token(name)
    return Problem(
        title="A cache in fp8",
        text=(
            f"A decode step of {facts.title(name)} reads {formatting.quantity(weights, 'B')} of weights. {batch} sequences "
            f"have {context:,} cached tokens each; a token takes {token:,} bytes in bf16. The {facts.card(card)} "
            "is bound by its "
            "memory bus. The cache goes to fp8, one byte per element, and the weights stay. How many times shorter is the "
            "least time of a step?"
        ),
        answer=Answer(value=right, kind="ratio"),
        mistakes=mistakes,
        solution=(
            "The bus decides, so that times are as bytes: those of the weights stay, those of the cache are halved.",
            worked.formula(
                "Before over after:",
                "(W + B * S_c * k_token) / (W + B * S_c * k_token / 2)",
                {
                    "W": (weights, "weights read [bytes]"),
                    "B": (batch, ""),
                    "S_c": (context, ""),
                    "k_token": (token, "cache of a token [bytes]"),
                },
                "1",
            ),
        ),
    )


TEMPLATE = Template(id="quantization-kv-cache", topic="quantization", minutes=5, draw=draw)
