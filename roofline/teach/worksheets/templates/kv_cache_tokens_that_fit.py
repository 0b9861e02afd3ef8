"""How many tokens of cache fit next to the weights."""

from __future__ import annotations

from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_GIB = 2**30


def draw(rng: Rng) -> Problem | None:
    """A model, and memory that is left."""
    name, free = rng.choice(facts.DENSE), rng.integer(6, 60, 2)
    token = facts.kv_bytes_per_token(name)
    attention, model = facts.mixer(name), facts.model(name)
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    tokens = free * _GIB // token
    mistakes = (
        Mistake(
            name="GB for GiB",
            value=free * 10**9 / token,
            hint="You took 1 GiB for 10^9 bytes. It is 1024^3 bytes, 7 % more.",
        ),
        pitfalls.k_without_v(2 * tokens),
        pitfalls.query_heads(tokens * kv / queries, queries, kv),
        pitfalls.hidden_size(tokens * kv * attention.head_dim / model.hidden_size, model.hidden_size),
        pitfalls.bits_for_bytes(tokens / 8, 16),
        pitfalls.one_layer(tokens * model.num_hidden_layers, model.num_hidden_layers),
    )
    return Problem(
        title="Tokens that fit",
        text=(
            f"An engine that serves {facts.title(name)} reports {free} GiB for the KV cache. The model has "
            f"{facts.shape(name, 'layers', 'hidden', 'queries', 'kv', 'head')}; the cache is in bf16. How many tokens "
            f"can it hold, "
            "of all sequences together?"
        ),
        answer=Answer(value=tokens, kind="tokens"),
        mistakes=mistakes,
        solution=(
            worked.explained("A token takes, over all layers:", name, "kv_bytes_per_token"),
            worked.formula(
                f"In {free} GiB = {free * _GIB:,} bytes ($M$) this number of whole tokens fits:",
                "M / k_token",
                {"M": (free * _GIB, ""), "k_token": (token, "cache of a token [bytes]")},
                "tokens",
            ),
        ),
    )


TEMPLATE = Template(id="kv-cache-tokens-that-fit", topic="kv-cache", minutes=4, draw=draw)
