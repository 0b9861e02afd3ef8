"""What one token adds to the KV cache."""

from __future__ import annotations

from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Problem, Rng, Template


def draw(rng: Rng) -> Problem:
    """A model with grouped queries, and the format of its cache."""
    name, dtype = rng.choice(facts.DENSE), rng.choice(("bf16", "bf16", "fp8"))
    size = facts.kv_bytes_per_token(name, dtype)
    attention, model = facts.mixer(name), facts.model(name)
    queries, kv, layers = attention.num_attention_heads, attention.num_key_value_heads, model.num_hidden_layers
    bits = round(facts.element_bytes(dtype) * 8)
    mistakes = (
        pitfalls.k_without_v(size / 2),
        pitfalls.query_heads(size * queries / kv, queries, kv),
        pitfalls.hidden_size(size * model.hidden_size / (kv * attention.head_dim), model.hidden_size),
        pitfalls.bits_for_bytes(size * 8, bits),
        pitfalls.one_layer(size / layers, layers),
        pitfalls.gb_for_gib(size),
    )
    return Problem(
        title="KV cache of a token",
        text=(
            f"{facts.title(name)} has {facts.shape(name, 'layers', 'hidden', 'queries', 'kv', 'head')}. Its cache is kept in "
            f"{dtype}. How much memory does **one token** take in it, over all layers?"
        ),
        answer=Answer(value=size, kind="bytes"),
        mistakes=mistakes,
        solution=(
            (
                f"A key and a value for every KV head and layer; an element of {dtype} takes {facts.element_bytes(dtype)} "
                f"{'byte' if bits == 8 else 'bytes'}."
            ),
            worked.explained("With the model's numbers:", name, "kv_bytes_per_token", kv_cache_dtype=dtype),
        ),
        source="F02 of docs/published-figures.md" if name == "llama-3.1-8b" and bits == 16 else "",
    )


TEMPLATE = Template(id="kv-cache-per-token", topic="kv-cache", minutes=4, draw=draw)
