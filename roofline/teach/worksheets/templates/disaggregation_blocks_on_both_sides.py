"""Blocks that are held twice while caches are on their way."""

from __future__ import annotations

from math import ceil

from roofline import formatting
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_BLOCK = 16


def draw(rng: Rng) -> Problem | None:
    """Prompts that fill no whole number of blocks, and a link that is not too busy."""
    name, tokens, rate = rng.choice(facts.DENSE), rng.integer(500, 4000, 50), rng.integer(2, 24)
    delay, link = rng.integer(20, 200, 10) / 1000, 1e9 * rng.choice((12.5, 25, 50))
    size = facts.kv_bytes_per_token(name)
    blocks = ceil(tokens / _BLOCK)
    sent = tokens * size / link
    if rate * sent > 0.7 or tokens % _BLOCK == 0:
        return None
    seconds = float(f"{delay + sent:.3g}")
    cache = blocks * _BLOCK * size
    right = 2 * rate * seconds * cache
    attention = facts.mixer(name)
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    mistakes = (
        Mistake(
            name="one side",
            value=right / 2,
            hint="Until a cache has arrived its blocks are taken on both sides: in the prefill pool and in the decode pool.",
        ),
        Mistake(
            name="one request",
            value=2 * cache,
            hint="That is one cache. How many are on their way at a time, on average? It is rate times time.",
        ),
        Mistake(
            name="a second of requests",
            value=2 * rate * cache,
            hint="Those are the caches of a second. Each is on its way for less, or more, than that.",
        ),
        pitfalls.query_heads(right * queries / kv, queries, kv),
        pitfalls.k_without_v(right / 2),
        pitfalls.bits_for_bytes(right * 8, 16),
    )
    return Problem(
        title="Blocks on both sides",
        text=(
            f"Prompts of {tokens:,} tokens for {facts.title(name)} ({facts.shape(name, 'layers', 'queries', 'kv', 'head')}, "
            f"cache in bf16) come out of the prefill pool at {rate} requests/s. From the moment at which the decode pool has "
            f"reserved blocks until the cache has arrived it takes {formatting.quantity(seconds, 's')}. Blocks have {_BLOCK} "
            "tokens. How much memory, in both pools together, is taken on average by caches on their way?"
        ),
        answer=Answer(value=right, kind="bytes"),
        mistakes=mistakes,
        solution=(
            worked.explained("A token of the cache takes:", name, "kv_bytes_per_token"),
            (
                f"A prompt takes {blocks} blocks, rounded up. By Little's law rate times time is how many caches are on their "
                "way; each is held twice."
            ),
            worked.formula(
                "So:",
                "2 * r * t_transfer * n_blocks * n_block * k_token",
                {
                    "r": (rate, "requests per second"),
                    "t_transfer": (seconds, "transfer [s]"),
                    "n_blocks": (blocks, "blocks of a prompt"),
                    "n_block": (_BLOCK, "tokens of a block"),
                    "k_token": (size, "cache of a token [bytes]"),
                },
                "bytes",
            ),
        ),
        source="docs/simulation.md",
    )


TEMPLATE = Template(id="disaggregation-blocks-on-both-sides", topic="disaggregation", minutes=6, draw=draw)
