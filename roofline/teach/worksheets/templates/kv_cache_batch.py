"""The KV cache of a batch of sequences."""

from __future__ import annotations

from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem:
    """A model, a length and a batch."""
    name, tokens, batch = (
        rng.choice(facts.DENSE),
        1024 * rng.choice((2, 4, 6, 8, 12, 16, 24, 32)),
        rng.choice((4, 6, 8, 12, 16)),
    )
    one = facts.kv_bytes(name, tokens)
    attention, model = facts.mixer(name), facts.model(name)
    queries, kv, layers = attention.num_attention_heads, attention.num_key_value_heads, model.num_hidden_layers
    size = one * batch
    mistakes = (
        pitfalls.k_without_v(size / 2),
        pitfalls.gb_for_gib(size),
        pitfalls.query_heads(size * queries / kv, queries, kv),
        pitfalls.hidden_size(size * model.hidden_size / (kv * attention.head_dim), model.hidden_size),
        Mistake(
            name="one sequence",
            value=one,
            hint=f"That is one sequence. Each of the {batch} has a cache of its own.",
        ),
        pitfalls.bits_for_bytes(size * 8, 16),
        pitfalls.one_layer(size / layers, layers),
    )
    return Problem(
        title="KV cache of a batch",
        text=(
            f"{batch} sequences of {tokens:,} tokens each are being served by {facts.title(name)}, which has "
            f"{facts.shape(name, 'layers', 'hidden', 'queries', 'kv', 'head')}. The cache is in bf16. How much memory do their "
            "keys and values take? Mind the prefix of your unit."
        ),
        answer=Answer(value=size, kind="bytes"),
        mistakes=mistakes,
        solution=(
            worked.explained("A token takes, over all layers:", name, "kv_bytes_per_token"),
            worked.formula(
                f"There are {batch} sequences ($B$) of {tokens:,} tokens ($S_c$):",
                "B * S_c * k_token",
                {
                    "B": (batch, ""),
                    "S_c": (tokens, ""),
                    "k_token": (facts.kv_bytes_per_token(name), "cache of a token [bytes]"),
                },
                "bytes",
            ),
        ),
        source="F03 to F06 of docs/published-figures.md" if name == "llama-3.1-8b" else "",
    )


TEMPLATE = Template(id="kv-cache-batch", topic="kv-cache", minutes=4, draw=draw)
