"""What quantised weights can gain at most, beside a cache."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("h100-sxm", "h200-sxm", "a100-sxm-80gb")


def draw(rng: Rng) -> Problem | None:
    """A batch whose cache weighs as much as the weights, or more."""
    name, card = rng.choice(facts.DENSE), rng.choice(_CARDS)
    batch, context = rng.choice((8, 16, 24, 32, 48, 64)), 1024 * rng.choice((4, 8, 16, 32))
    if facts.max_batch(name, card, context) < batch:
        return None
    floor = facts.floor(name, card, batch, 1, context)
    weights, cache = floor.weight_bytes, floor.cache_bytes
    if cache < 0.4 * weights or floor.compute_s > 0.5 * cache / floor.bandwidth or floor.retained_bytes:
        return None
    right = (weights + cache) / cache
    mistakes = (
        Mistake(
            name="weights over cache",
            value=weights / cache,
            hint="The cache is read before as well as after. Put all bytes before over all bytes after.",
        ),
        Mistake(
            name="cache for free",
            value=(weights + cache) / weights,
            hint="You left the weights and took the cache away. It is the weights that shrink.",
        ),
        Mistake(name="four bits", value=4, hint="That is 16 bits over 4, of the weights alone. The cache stays."),
        Mistake(
            name="one sequence's cache",
            value=(weights + cache / batch) / (cache / batch),
            hint=f"You read the cache of one sequence. There are {batch}.",
        ),
    )
    token = facts.kv_bytes_per_token(name)
    return Problem(
        title="However few bits",
        text=(
            f"A decode step of {facts.title(name)} reads {formatting.quantity(weights, 'B')} of weights in bf16. {batch} "
            f"sequences have {context:,} cached tokens each, of {token:,} bytes. The {facts.card(card)} is bound by its memory "
            "bus. Someone wants to quantise the weights further and further. How many times shorter can a step become **at the "
            "most**, whatever the number of bits, if the cache stays as it is?"
        ),
        answer=Answer(value=right, kind="ratio"),
        mistakes=mistakes,
        solution=(
            "With weights of no bytes at all the cache is left. That is the limit, as in Amdahl's law.",
            worked.formula(
                "All bytes over those of the cache:",
                "(W + B * S_c * k_token) / (B * S_c * k_token)",
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


TEMPLATE = Template(id="quantization-cache-dominates", topic="quantization", minutes=4, draw=draw)
