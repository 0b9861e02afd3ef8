"""Tokens per second of a batch, at the most."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm")


def draw(rng: Rng) -> Problem | None:
    """A batch and a context that fit, bound by memory."""
    name, card = rng.choice(facts.DENSE), rng.choice(_CARDS)
    batch, context = rng.choice((8, 16, 32, 48, 64)), 1024 * rng.choice((1, 2, 4, 8, 16))
    if facts.max_batch(name, card, context) < batch:
        return None
    floor = facts.floor(name, card, batch, 1, context)
    weights, cache = floor.weight_bytes, floor.cache_bytes
    if floor.compute_s > 0.7 * floor.memory_s or floor.retained_bytes or cache < 0.1 * weights:
        return None
    attention, bandwidth = facts.mixer(name), floor.bandwidth
    right = batch / floor.seconds
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    mistakes = (
        Mistake(
            name="one user",
            value=1 / floor.seconds,
            hint=f"That is what each sequence gets. The batch gives {batch} tokens per step.",
        ),
        Mistake(
            name="cache forgotten",
            value=batch * bandwidth / weights,
            hint="You read the weights alone. A step also reads the cache of every sequence.",
        ),
        Mistake(
            name="weights for every sequence",
            value=bandwidth / (weights + cache / batch),
            hint="You read the weights once for every sequence. A step reads them once for all.",
        ),
        Mistake(
            name="one sequence's cache",
            value=batch * bandwidth / (weights + cache / batch),
            hint="You read the cache of one sequence. Each has its own.",
        ),
        pitfalls.k_without_v(batch * bandwidth / (weights + cache / 2)),
        pitfalls.query_heads(batch * bandwidth / (weights + cache * queries / kv), queries, kv),
    )
    return Problem(
        title="Tokens per second, at the most",
        text=(
            f"A decode step of {facts.title(name)} reads {formatting.quantity(weights, 'B')} of weights in bf16. The model has "
            f"{facts.shape(name, 'layers', 'queries', 'kv', 'head')}, its cache is in bf16. {batch} sequences with "
            f"{context:,} cached "
            f"tokens each are decoded on one {facts.card(card)} with {formatting.quantity(bandwidth, 'B/s')}. How many "
            "tokens a "
            f"second can "
            "**all of them together** get at the most? Count weights and cache."
        ),
        answer=Answer(value=right, kind="tokens/s"),
        mistakes=mistakes,
        solution=(
            worked.explained("A token of the cache takes:", name, "kv_bytes_per_token"),
            "A step reads the weights once, and the cache of every sequence; it gives one token to each of them.",
            worked.formula(
                "So at most:",
                "B * beta / (W + B * S_c * k_token)",
                {
                    "B": (batch, ""),
                    "beta": (bandwidth, ""),
                    "W": (weights, "weights read [bytes]"),
                    "S_c": (context, ""),
                    "k_token": (facts.kv_bytes_per_token(name), "cache of a token [bytes]"),
                },
                "tokens/s",
            ),
        ),
    )


TEMPLATE = Template(id="batching-decode-rate", topic="batching", minutes=6, draw=draw)
