"""The share of the memory bandwidth that a measured decode step reached."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm")


def draw(rng: Rng) -> Problem | None:
    """A batch whose cache counts, and a time: so long as a share of the bandwidth that is drawn makes it, rounded."""
    name, card = rng.choice(facts.DENSE), rng.choice(_CARDS)
    batch, context = rng.choice((4, 8, 16, 32)), 1024 * rng.choice((2, 4, 8, 16))
    if facts.max_batch(name, card, context) < batch:
        return None
    floor = facts.floor(name, card, batch, 1, context)
    weights, one = floor.weight_bytes, context * facts.kv_bytes_per_token(name)
    if floor.compute_s > 0.6 * floor.memory_s or floor.retained_bytes or batch * one < 0.15 * weights:
        return None
    seconds = float(f"{floor.memory_s / (rng.integer(45, 88) / 100):.3g}")
    attention, could = facts.mixer(name), seconds * floor.bandwidth
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    mistakes = (
        Mistake(
            name="cache forgotten",
            value=weights / could,
            hint="You counted the weights alone. A step also reads the keys and values of every sequence.",
        ),
        Mistake(
            name="one sequence's cache",
            value=(weights + one) / could,
            hint="You counted the cache of one sequence. Each has its own.",
        ),
        Mistake(
            name="weights for every sequence",
            value=batch * (weights + one) / could,
            hint="You read the weights once for every sequence. A step reads them once for all of them.",
        ),
        pitfalls.k_without_v((weights + batch * one / 2) / could),
        pitfalls.query_heads((weights + batch * one * queries / kv) / could, queries, kv),
    )
    return Problem(
        title="Memory bandwidth utilisation",
        text=(
            f"On an {facts.card(card)} ({formatting.quantity(floor.bandwidth, 'B/s')}) a decode step of "
            f"{facts.title(name)} took "
            f"{formatting.quantity(seconds, 's')}, with {batch} sequences of {context:,} cached tokens each. It reads "
            f"{formatting.quantity(weights, 'B')} of weights, and the caches; the model has "
            f"{facts.shape(name, 'layers', 'queries', 'kv', 'head')}, all in bf16. What was its MBU, the share of the "
            "memory bandwidth that it reached?"
        ),
        answer=Answer(value=(weights + floor.cache_bytes) / could, kind="share"),
        mistakes=mistakes,
        solution=(
            worked.explained("A token of the cache takes:", name, "kv_bytes_per_token"),
            worked.formula(
                "What has to be read, over what the memory could have delivered in that time:",
                "(W + B * S_c * k_token) / (t * beta)",
                {
                    "W": (weights, "weights read [bytes]"),
                    "B": (batch, ""),
                    "S_c": (context, ""),
                    "k_token": (facts.kv_bytes_per_token(name), "cache of a token [bytes]"),
                    "t": (seconds, "time measured [s]"),
                    "beta": (floor.bandwidth, ""),
                },
                "1",
            ),
        ),
    )


TEMPLATE = Template(id="measured-mbu", topic="measured", minutes=5, draw=draw)
