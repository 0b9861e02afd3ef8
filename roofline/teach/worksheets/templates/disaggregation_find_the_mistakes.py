"""Find the mistakes: a transfer in bits, of a cache of query heads."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

# Query heads are not eight times the KV heads: each mistake has a factor of its own.
_MODELS = ("llama-3.1-8b", "qwen3-8b", "mistral-nemo-12b", "qwen2.5-7b")


def draw(rng: Rng) -> Problem:
    """A model, a prompt, and a port whose rate is in bits."""
    name = facts.of_other_depth(rng, rng.choice(_MODELS))
    tokens, gbit = 1024 * rng.choice((2, 4, 8, 16)), rng.choice((100, 200, 400))
    attention, layers = facts.mixer(name), facts.model(name).num_hidden_layers
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    rate = gbit * 1e9 / 8
    right = facts.kv_bytes(name, tokens) / rate
    wide = queries / kv
    stated = right * wide / 8
    mistakes = (
        Mistake(
            name="both mistakes",
            value=stated,
            hint="That is the number of the post. Look at its heads, and at the unit of the port's rate.",
        ),
        Mistake(
            name="bits for bytes of the port",
            value=right / 8,
            hint="The heads are right now. The rate is not: a port is sold by bits per second, and 8 bits are a byte.",
        ),
        Mistake(
            name="query heads for KV heads",
            value=right * wide,
            hint="The rate is right now. The heads are not: which ones does a cache hold?",
        ),
        pitfalls.k_without_v(right / 2),
        pitfalls.one_layer(right / layers, layers),
    )
    size = 4 * layers * queries * attention.head_dim * tokens
    return Problem(
        title="Find the mistakes",
        text=(
            f"A post works out how long the cache of a prompt of {tokens:,} tokens in bf16 takes to the decode pool, for "
            f"{facts.title(name)} over a port of {gbit} Gbit/s:\n\n"
            f"> 2 x {layers} layers x {queries} heads x {attention.head_dim} x 2 bytes x {tokens:,} tokens = "
            f"{formatting.quantity(size, 'B')}; over {gbit} GB/s: {formatting.quantity(stated, 's')}\n\n"
            f"The model has {facts.shape(name, 'layers', 'queries', 'kv', 'head')}. Find both mistakes. How long does the "
            "transfer really take at the least?"
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=mistakes,
        solution=(
            (
                f"The post takes the {queries} query heads for the {kv} KV heads, and {gbit} Gbit/s for as many GB/s. "
                f"{gbit} Gbit/s are {gbit / 8:g} GB/s."
            ),
            worked.explained("A token really takes:", name, "kv_bytes_per_token"),
            worked.formula(
                f"{tokens:,} of them ($S_c$) over the port:",
                "S_c * k_token / R",
                {
                    "S_c": (tokens, ""),
                    "k_token": (facts.kv_bytes_per_token(name), "cache of a token [bytes]"),
                    "R": (rate, "rate of the port [bytes/s]"),
                },
                "s",
            ),
        ),
    )


TEMPLATE = Template(id="disaggregation-find-the-mistakes", topic="disaggregation", minutes=5, draw=draw)
