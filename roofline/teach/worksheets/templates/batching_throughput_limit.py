"""The throughput that no batch exceeds, however large."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "a100-pcie-40gb")


def draw(rng: Rng) -> Problem | None:
    """A model and a card, and contexts so long that the step stays bound by memory."""
    name, card, context = rng.choice(facts.DENSE), rng.choice(_CARDS), 1024 * rng.integer(4, 32, 2)
    large = 4096
    floor = facts.floor(name, card, large, 1, context)
    if floor.compute_s > 0.7 * floor.memory_s:
        return None
    token, bandwidth, weights = facts.kv_bytes_per_token(name), floor.bandwidth, floor.weight_bytes
    right = large * bandwidth / (floor.cache_bytes - large * token)  # the token that is written comes on top of those read
    attention = facts.mixer(name)
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    mistakes = (
        Mistake(
            name="one sequence",
            value=bandwidth / (weights + context * token),
            hint="That is one sequence. In a large batch the weights hardly count for each of them.",
        ),
        Mistake(
            name="weights alone",
            value=bandwidth / weights,
            hint="That is one sequence with an empty cache. In a large batch the caches are read, not weights, most of all.",
        ),
        Mistake(
            name="cached tokens",
            value=bandwidth / token,
            hint=f"So many cached tokens are read per second. Each new token reads {context:,} of them.",
        ),
        pitfalls.k_without_v(2 * right),
        pitfalls.query_heads(right * kv / queries, queries, kv),
    )
    return Problem(
        title="The limit of throughput",
        text=(
            f"{facts.title(name)} has {facts.shape(name, 'layers', 'queries', 'kv', 'head')}; its cache is in bf16, and a step "
            f"reads {formatting.quantity(weights, 'B')} of weights. All sequences have {context:,} cached tokens. On a "
            f"{facts.card(card)} with {formatting.quantity(bandwidth, 'B/s')} the step is bound by memory at every batch. If "
            "memory were large enough for any batch, which throughput would be approached, and never exceeded?"
        ),
        answer=Answer(value=right, kind="tokens/s"),
        mistakes=mistakes,
        solution=(
            worked.explained("A token of the cache takes:", name, "kv_bytes_per_token"),
            (
                "A step of a batch B takes (W + B S k) / $beta$ and gives B tokens. As B grows, the weights are shared by more "
                "and more, and the cache of a sequence for each token is left."
            ),
            worked.formula(
                "So the limit is:",
                "beta / (S_c * k_token)",
                {"beta": (bandwidth, ""), "S_c": (context, ""), "k_token": (token, "cache of a token [bytes]")},
                "tokens/s",
            ),
        ),
    )


TEMPLATE = Template(id="batching-throughput-limit", topic="batching", minutes=4, draw=draw)
