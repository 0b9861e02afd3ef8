"""Memory that requests save by sharing a system prompt."""

from __future__ import annotations

from roofline.serving.preemption.costs import sequence_cache
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem:
    """Running requests with the same system prompt, which fills whole blocks."""
    name, block = rng.choice(facts.DENSE), rng.choice((16, 32, 64))
    requests, system, own = rng.choice((8, 16, 24, 32, 64)), block * rng.integer(16, 96), block * rng.integer(4, 40)
    held = sequence_cache(facts.request(name, "h200-sxm", block_size=block, gpu_memory_utilization=0.95).memory.fullest_stage)
    token, attention = facts.kv_bytes_per_token(name), facts.mixer(name)
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    # each sequence has what comes after the prefix, which is there once
    right = float(held.bytes(system)) + requests * float(held.bytes(own, system))
    mistakes = (
        Mistake(
            name="not shared",
            value=requests * (system + own) * token,
            hint="That is without sharing. The system prompt is in memory once.",
        ),
        Mistake(
            name="system prompt alone",
            value=system * token,
            hint="That is the system prompt. Each request has tokens of its own as well.",
        ),
        Mistake(
            name="own tokens alone",
            value=requests * own * token,
            hint="Those are the requests' own tokens. The system prompt is in memory too, once.",
        ),
        Mistake(
            name="own tokens once",
            value=(system + own) * token,
            hint=f"Only the system prompt is shared. All {requests} requests have their own tokens.",
        ),
        pitfalls.k_without_v(right / 2),
        pitfalls.query_heads(right * queries / kv, queries, kv),
        pitfalls.gb_for_gib(right),
    )
    return Problem(
        title="One system prompt for all",
        text=(
            f"{requests} running requests for {facts.title(name)} ({facts.shape(name, 'layers', 'queries', 'kv', 'head')}, "
            f"cache in bf16) have the same system prompt of {system:,} tokens, and each {own:,} tokens of its "
            "own; both fill whole "
            "blocks. How much memory do their caches take together, with prefix caching?"
        ),
        answer=Answer(value=right, kind="bytes"),
        mistakes=mistakes,
        solution=(
            worked.explained("A token of the cache takes:", name, "kv_bytes_per_token"),
            worked.formula(
                "The system prompt once, and the tokens of all requests:",
                "(S + R * O) * k_token",
                {
                    "S": (system, "tokens of the system prompt"),
                    "R": (requests, "requests"),
                    "O": (own, "tokens of a request's own"),
                    "k_token": (token, "cache of a token [bytes]"),
                },
                "bytes",
            ),
        ),
    )


TEMPLATE = Template(id="prefix-caching-shared-memory", topic="prefix-caching", minutes=5, draw=draw)
