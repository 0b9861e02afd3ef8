"""Bytes of attention with its scores in memory, over those of fused attention."""

from __future__ import annotations

from roofline.formatting import number
from roofline.operators.attention import Attention
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem | None:
    """A model and the length of a prompt."""
    name, tokens = rng.choice(facts.DENSE), rng.integer(1024, 16384, 512)
    attention = facts.mixer(name)
    queries, kv, width = attention.num_attention_heads, attention.num_key_value_heads, attention.head_dim

    def moved(*, eager: bool) -> float:
        made = Attention(batch=1, new=tokens, cached=0, n_heads=queries, n_kv_heads=kv, head_dim=width, eager=eager)
        return float(made.cost().bytes)

    fused, whole = moved(eager=False), moved(eager=True)
    right, scores = whole / fused, (whole - fused) / 4
    if len(number(right)) < 5:  # a rounder one might stand in the text by chance
        return None
    mistakes = (
        Mistake(
            name="written once",
            value=(fused + scores) / fused,
            hint="You counted the scores once. They are written, read for the softmax, written again, and read again.",
        ),
        Mistake(
            name="written and read once",
            value=(fused + 2 * scores) / fused,
            hint="You wrote the scores once and read them once. The softmax reads and writes them too.",
        ),
        Mistake(
            name="scores alone",
            value=4 * scores / fused,
            hint="Queries, keys, values and outputs cross the bus in both cases.",
        ),
        Mistake(
            name="scores of KV heads",
            value=(fused + 4 * scores * kv / queries) / fused,
            hint="Every query head has scores of its own, shared keys or not.",
        ),
        Mistake(
            name="no outputs",
            value=whole / (fused - 2 * tokens * queries * width),
            hint="Outputs are as many elements as queries. Did you count both?",
        ),
    )
    return Problem(
        title="What fusion saves",
        text=(
            f"One attention layer of {facts.title(name)} ({facts.shape(name, 'queries', 'kv', 'head')}) takes a prompt of "
            f"{tokens:,} tokens, everything in bf16. Fused attention reads queries, keys and values and writes outputs, each "
            "once. Without fusion the scores (every head, all pairs of tokens) also go through device memory: written, read by "
            "the softmax, written by it, and read by the product with the values. How many times the bytes of fused attention "
            "is that?"
        ),
        answer=Answer(value=right, kind="ratio"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "Fused: queries and outputs of all heads, keys and values of the KV heads, at two bytes:",
                "2 * S_q * d_head * (2 * n_q + 2 * n_kv)",
                {"S_q": (tokens, ""), "d_head": (width, ""), "n_q": (queries, ""), "n_kv": (kv, "")},
                "bytes",
            ),
            worked.formula(
                "The scores, four times:",
                "4 * 2 * n_q * S_q * S_q",
                {"S_q": (tokens, ""), "n_q": (queries, "")},
                "bytes",
            ),
            worked.formula(
                "Together over fused:",
                "(D_fused + D_scores) / D_fused",
                {"D_fused": (fused, "fused [bytes]"), "D_scores": (4 * scores, "scores [bytes]")},
                "1",
            ),
        ),
        source="Dao et al. 2022 (FlashAttention), arXiv:2205.14135, section 3.2",
    )


TEMPLATE = Template(id="memory-hierarchy-fused-attention", topic="memory-hierarchy", minutes=6, draw=draw)
