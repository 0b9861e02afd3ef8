"""Swapping an evicted sequence out and in, at the link's rate."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "l40s")


def draw(rng: Rng) -> Problem | None:
    """A model, a length, and an accelerator that holds both, with its link to the host."""
    name, card, tokens = rng.choice(facts.DENSE), rng.choice(_CARDS), 1024 * rng.choice((2, 4, 8, 12, 16, 24, 32))
    if facts.max_batch(name, card, tokens) < 1:
        return None
    joined, size = facts.hardware(card).to_host(), facts.kv_bytes(name, tokens)
    one_way = float(joined.seconds(size, 0, 2))
    attention = facts.mixer(name)
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    rate, bandwidth = size / one_way, facts.hardware(card).bandwidth
    mistakes = (
        Mistake(
            name="one way",
            value=one_way,
            hint="That is one way. What was swapped out has to come back in before the sequence goes on.",
        ),
        Mistake(
            name="device memory",
            value=2 * size / bandwidth,
            hint="That is the bandwidth of device memory. To the host everything goes over the link.",
        ),
        pitfalls.query_heads(2 * one_way * queries / kv, queries, kv),
        pitfalls.bits_for_bytes(16 * one_way, 16),
    )
    return Problem(
        title="Out and in",
        text=(
            f"A sequence of {tokens:,} tokens is evicted from an engine that serves {facts.title(name)} "
            f"({facts.shape(name, 'layers', 'queries', 'kv', 'head')}, cache in bf16) on an {facts.card(card)}. Its "
            f"link to the host carries "
            f"{formatting.quantity(rate, 'B/s')} in one direction, device memory "
            f"{formatting.quantity(bandwidth, 'B/s')}. How long do "
            f"swapping out and "
            "swapping in take together at the least?"
        ),
        answer=Answer(value=2 * one_way, kind="s"),
        mistakes=mistakes,
        solution=(
            worked.explained("A token of the cache takes:", name, "kv_bytes_per_token"),
            worked.formula(
                f"{tokens:,} of them ($S_c$) cross the link out and in:",
                "2 * S_c * k_token / R",
                {
                    "S_c": (tokens, ""),
                    "k_token": (facts.kv_bytes_per_token(name), "cache of a token [bytes]"),
                    "R": (rate, "rate of the link [bytes/s]"),
                },
                "s",
            ),
        ),
        source="docs/preemption.md",
    )


TEMPLATE = Template(id="preemption-swap-time", topic="preemption", minutes=4, draw=draw)
