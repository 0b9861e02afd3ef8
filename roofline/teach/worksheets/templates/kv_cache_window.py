"""What a sliding window does to the cache."""

from __future__ import annotations

from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_NAME = "mistral-7b-v0.1"


def draw(rng: Rng) -> Problem:
    """A length beyond the window, and a format of the cache."""
    window = facts.mixer(_NAME).sliding_window
    tokens, dtype, batch = rng.integer(window + 2048, 32768, 512), rng.choice(("bf16", "fp8")), rng.choice((1, 2, 4, 8))
    size = facts.kv_bytes(_NAME, tokens, dtype) * batch
    attention, layers = facts.mixer(_NAME), facts.model(_NAME).num_hidden_layers
    token = facts.kv_bytes_per_token(_NAME, dtype)
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    mistakes = (
        Mistake(
            name="window forgotten",
            value=token * tokens * batch,
            hint="You kept every token. No query looks back further than the window, so that older tokens may be dropped.",
        ),
        Mistake(
            name="what the window drops",
            value=token * (tokens - window) * batch,
            hint="Those are the tokens that are dropped. The answer is what has to be kept.",
        ),
        pitfalls.k_without_v(size / 2),
        pitfalls.query_heads(size * queries / kv, queries, kv),
        pitfalls.one_layer(size / layers, layers),
        pitfalls.gb_for_gib(size),
        pitfalls.bits_for_bytes(size * 8, round(8 * facts.element_bytes(dtype))),
    )
    subject = "A sequence has" if batch == 1 else f"{batch} sequences have"
    return Problem(
        title="A sliding window",
        text=(
            f"{facts.title(_NAME)} has {facts.shape(_NAME, 'layers', 'queries', 'kv', 'head')}, and every layer a window of "
            f"{window:,} tokens ($w$). {subject} grown to {tokens:,} tokens{'' if batch == 1 else ' each'}. How much "
            f"memory do the "
            f"keys and values take that still have to be kept, in {dtype}?"
        ),
        answer=Answer(value=size, kind="bytes"),
        mistakes=mistakes,
        solution=(
            "Tokens beyond the window are seen by no query any more: a layer keeps the newest $w$ tokens at most.",
            worked.explained("A token takes, over all layers:", _NAME, "kv_bytes_per_token", kv_cache_dtype=dtype),
            worked.formula(
                f"Of {tokens:,} tokens ($S_c$) only the window is kept, in each of the sequences ($B$):",
                "B * min(S_c, w) * k_token",
                {
                    "B": (batch, ""),
                    "S_c": (tokens, ""),
                    "w": (window, ""),
                    "k_token": (token, "cache of a token [bytes]"),
                },
                "bytes",
            ),
        ),
        source="F25 of docs/published-figures.md",
    )


TEMPLATE = Template(id="kv-cache-window", topic="kv-cache", minutes=4, draw=draw)
