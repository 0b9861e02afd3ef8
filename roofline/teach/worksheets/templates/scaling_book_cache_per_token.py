"""What a token takes in a quantized KV cache, after the inference chapters of "How to Scale Your Model"."""

from __future__ import annotations

from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

BOOK = (("llama-3.1-70b", "int8"), ("scaling-book", "int8"))
_NAMES = ("llama-3.1-70b", "scaling-book", "llama-3.1-8b", "qwen3-32b", "llama-3.1-405b")


def problem(name: str, dtype: str) -> Problem:
    """The problem of a model and of the format of its cache."""
    size, bits = facts.kv_bytes_per_token(name, dtype), round(8 * facts.element_bytes(dtype))
    attention, layers = facts.mixer(name), facts.model(name).num_hidden_layers
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    mine = "question 1 of Worked Problems" if name.startswith("scaling-book") else "the size of the caches"
    return Problem(
        title="A token of a quantized cache",
        text=(
            f"{facts.title(name)} has {facts.shape(name, 'layers', 'hidden', 'queries', 'kv', 'head')}. Keys and values are "
            f"stored in {dtype}, without scales. How much does one token add to the cache, all layers together?"
        ),
        answer=Answer(value=size, kind="bytes"),
        mistakes=(
            pitfalls.k_without_v(size / 2),
            Mistake(
                name="two bytes an element",
                value=size * 16 / bits,
                hint=f"That is the cache in bf16. An element of {dtype} has {bits} bits.",
            ),
            pitfalls.query_heads(size * queries / kv, queries, kv),
            pitfalls.bits_for_bytes(size * 8, bits),
            pitfalls.one_layer(size / layers, layers),
            pitfalls.gb_for_gib(size),
        ),
        solution=(
            "A key and a value, for every KV head and every layer.",
            worked.explained("With the model's numbers:", name, "kv_bytes_per_token", kv_cache_dtype=dtype),
        ),
        source=facts.scaling_book(
            "inference" if name.startswith("scaling-book") else "applied-inference", mine, own=(name, dtype) in BOOK
        ),
    )


def draw(rng: Rng) -> Problem:
    """A model, and a format of less than two bytes."""
    return problem(rng.choice(_NAMES), rng.choice(("int8", "int8", "fp8", "int4")))


TEMPLATE = Template(id="scaling-book-cache-per-token", topic="scaling-book", minutes=3, draw=draw)
