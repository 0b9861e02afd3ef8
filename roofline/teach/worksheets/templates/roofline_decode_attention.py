"""The arithmetic intensity of attention at decode."""

from __future__ import annotations

from roofline.operators.attention import Attention
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem:
    """A model, a batch and a context, the last two of which do not matter."""
    name, batch, context = rng.choice(facts.DENSE), rng.choice((2, 8, 16, 32, 64)), 1024 * rng.choice((2, 4, 8, 16, 32))
    dtype = "bf16"
    attention = facts.mixer(name)
    queries, kv, width = attention.num_attention_heads, attention.num_key_value_heads, attention.head_dim
    cost = Attention(batch=batch, new=1, cached=context - 1, n_heads=queries, n_kv_heads=kv, head_dim=width).cost()
    right = cost.matrix_flops / cost.kv_read_bytes
    mistakes = (
        Mistake(
            name="batch",
            value=right * batch,
            hint=(
                "You let the batch reuse the cache. Each sequence has a cache of its own: work and bytes both grow "
                "with the batch."
            ),
        ),
        Mistake(
            name="keys and values for every query head",
            value=right * kv / queries,
            hint=(
                "You read keys and values for every query head. Query heads of a group share them, so that they are read once."
            ),
        ),
        pitfalls.multiply_accumulates(right / 2),
        Mistake(
            name="upside down",
            value=1 / right,
            hint="That is bytes a FLOP. Intensity is FLOP for each byte.",
        ),
    )
    return Problem(
        title="Attention at decode",
        text=(
            f"{batch} sequences of {context:,} cached tokens each decode one token with {facts.title(name)}, which has "
            f"{facts.shape(name, 'queries', 'kv', 'head')}; the cache is in {dtype}. Of the bytes count only the keys "
            f"and values that "
            "are read. What is the arithmetic intensity of attention?"
        ),
        answer=Answer(value=right, kind="flop/byte"),
        mistakes=mistakes,
        solution=(
            (
                "Of each cached token a query head takes a dot product and a weighted sum, 2 FLOP an element each; the "
                "token's key "
                "and value are read once for all query heads that share them."
            ),
            worked.of_operator(
                "The work:",
                Attention,
                "matrix_flops",
                {
                    "batch": ("B", batch),
                    "cached": ("S_c", context - 1),
                    "n_heads": ("n_q", queries),
                    "n_kv_heads": ("n_kv", kv),
                    "head_dim": ("d_head", width),
                },
                "FLOP",
                new=1,
            ),
            worked.of_operator(
                "The keys and values:",
                Attention,
                "kv_read_bytes",
                {
                    "batch": ("B", batch),
                    "cached": ("S_c", context - 1),
                    "n_heads": ("n_q", queries),
                    "n_kv_heads": ("n_kv", kv),
                    "head_dim": ("d_head", width),
                },
                "bytes",
                new=1,
            ),
            worked.formula(
                "All but the heads cancels, at two bytes per element:",
                "n_q / n_kv",
                {"n_q": (queries, ""), "n_kv": (kv, "")},
                "FLOP/byte",
            ),
        ),
        source="F14 to F16 of docs/published-figures.md",
    )


TEMPLATE = Template(id="roofline-decode-attention", topic="roofline", minutes=4, draw=draw)
