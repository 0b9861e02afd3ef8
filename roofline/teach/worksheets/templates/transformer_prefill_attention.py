"""FLOP of attention over a prompt, with a causal mask."""

from __future__ import annotations

from roofline.operators.attention import Attention
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem:
    """A model and the length of a prompt."""
    name, tokens = rng.choice(facts.DENSE), rng.integer(1024, 16384, 512)
    attention = facts.mixer(name)
    heads, kv, width = attention.num_attention_heads, attention.num_key_value_heads, attention.head_dim

    def flops(of_heads: int, **options: str) -> float:
        made = Attention(batch=1, new=tokens, cached=0, n_heads=of_heads, n_kv_heads=kv, head_dim=width, **options)  # type: ignore[arg-type]
        return float(made.cost().matrix_flops)

    right = flops(heads)
    mistakes = (
        pitfalls.causal_forgotten(flops(heads, mask="full")),
        Mistake(
            name="scores alone",
            value=right / 2,
            hint="Queries times keys are there. Scores times values are a product of the same size.",
        ),
        Mistake(
            name="KV heads",
            value=flops(kv),
            hint="Every query head does its own products. Sharing keys and values saves bytes, not FLOP.",
        ),
    )
    return Problem(
        title="Attention over a prompt",
        text=(
            f"A prompt of {tokens:,} tokens goes through **one** attention layer of {facts.title(name)}, which has "
            f"{facts.shape(name, 'queries', 'kv', 'head')}. How many FLOP do the products take, queries with keys and scores "
            "with values, if masked pairs are skipped?"
        ),
        answer=Answer(value=right, kind="flop"),
        mistakes=mistakes,
        solution=(
            (
                "Token i sees i keys, itself included. In each query head a pair costs a dot product of the head's "
                "width for its "
                "score, and as much for its part of the output."
            ),
            worked.of_operator(
                "With p = $S_q$ tokens:",
                Attention,
                "matrix_flops",
                {
                    "new": ("S_q", tokens),
                    "n_heads": ("n_q", heads),
                    "n_kv_heads": ("n_kv", kv),
                    "head_dim": ("d_head", width),
                },
                "FLOP",
                batch=1,
                cached=0,
            ),
        ),
        source="docs/conventions.md; F13 of docs/published-figures.md counts without the mask",
    )


TEMPLATE = Template(id="transformer-prefill-attention", topic="transformer", minutes=6, draw=draw)
