"""The largest batch whose step keeps a promise to users."""

from __future__ import annotations

from roofline import formatting
from roofline.predict.slo import largest_within
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm")


def draw(rng: Rng) -> Problem | None:
    """A promise of some milliseconds per token, and the length of the contexts."""
    name, card = rng.choice(facts.DENSE), rng.choice(_CARDS)
    context, promise = 1024 * rng.choice((2, 4, 8, 16)), rng.choice((10, 15, 20, 25, 30, 40, 50)) / 1000
    fitting = facts.max_batch(name, card, context)
    one = facts.floor(name, card, 1, 1, context)
    if fitting < 8 or one.seconds >= promise or one.retained_bytes:
        return None
    right = largest_within(lambda batch: facts.floor(name, card, batch, 1, context).seconds, promise, fitting)
    at = facts.floor(name, card, right, 1, context)
    weights, token, bandwidth = one.weight_bytes, facts.kv_bytes_per_token(name), one.bandwidth
    spare = promise * bandwidth - weights
    # as worked out by hand, bound by memory, and below what fits
    if right < 4 or right == fitting or at.compute_s > 0.7 * at.memory_s or int(spare / (context * token)) != right:
        return None
    attention = facts.mixer(name)
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    mistakes = (
        Mistake(
            name="weights forgotten",
            value=int(promise * bandwidth / (context * token)),
            hint="The weights are read in every step. Take their time off first.",
        ),
        Mistake(
            name="weights for every sequence",
            value=int(promise * bandwidth / (weights + context * token)),
            hint="You let every sequence read the weights. They are read once for all.",
        ),
        pitfalls.k_without_v(int(2 * spare / (context * token))),
        pitfalls.query_heads(int(spare / (context * token) * kv / queries), queries, kv),
        Mistake(name="one too many", value=right + 1, hint="Rounded up, the step takes a little longer than promised."),
        Mistake(name="what fits", value=fitting, hint="So many fit in memory. Their step takes longer than promised."),
    )
    return Problem(
        title="A promise to users",
        text=(
            f"Users of {facts.title(name)} are promised a token every {promise * 1000:g} ms. A decode step reads "
            f"{formatting.quantity(weights, 'B')} of weights; the model has "
            f"{facts.shape(name, 'layers', 'queries', 'kv', 'head')}, the cache is in bf16, and sequences have {context:,} "
            f"cached tokens. On one {facts.card(card)}, with {formatting.quantity(bandwidth, 'B/s')}, the memory bus binds. "
            "What is the largest batch that could keep the promise?"
        ),
        answer=Answer(value=right, kind="sequences", tolerance=0),
        mistakes=tuple(one for one in mistakes if one.value != right),
        solution=(
            worked.explained("A token of the cache takes:", name, "kv_bytes_per_token"),
            worked.formula(
                "What the bus carries in that time, less the weights, over the cache of a sequence; whole sequences count:",
                "(t * beta - W) / (S_c * k_token)",
                {
                    "t": (promise, "promised time of a token [s]"),
                    "beta": (bandwidth, ""),
                    "W": (weights, "weights read [bytes]"),
                    "S_c": (context, ""),
                    "k_token": (token, "cache of a token [bytes]"),
                },
                "sequences",
            ),
        ),
    )


TEMPLATE = Template(id="batching-promise", topic="batching", minutes=6, draw=draw)
