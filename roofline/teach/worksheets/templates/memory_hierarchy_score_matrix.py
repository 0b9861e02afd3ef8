"""The score matrix that FlashAttention never writes."""

from __future__ import annotations

from roofline.operators.attention import pairs
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem:
    """A model and the length of a prompt."""
    name, tokens = rng.choice(facts.DENSE), rng.integer(2048, 32768, 1024)
    attention, layers = facts.mixer(name), facts.model(name).num_hidden_layers
    queries, kv, width = attention.num_attention_heads, attention.num_key_value_heads, attention.head_dim
    right = 2 * queries * float(pairs(tokens, 0, None, "full"))
    mistakes = (
        Mistake(
            name="KV heads",
            value=right * kv / queries,
            hint="Every query head has scores of its own. Sharing keys makes the cache smaller, not the scores.",
        ),
        Mistake(
            name="one head",
            value=right / queries,
            hint=f"That is one head. There are {queries} of them.",
        ),
        Mistake(
            name="half of it",
            value=2 * queries * float(pairs(tokens, 0, None, "causal")),
            hint="You left out what the mask hides. The matrix is written whole here, masked scores as minus infinity.",
        ),
        Mistake(
            name="tokens by head width",
            value=2.0 * queries * tokens * width,
            hint="That is the size of the queries. Scores are tokens by tokens.",
        ),
        Mistake(
            name="all layers",
            value=right * layers,
            hint="You took all layers. Each is done before the next one: its scores are needed no more.",
        ),
        pitfalls.bits_for_bytes(right * 8, 16),
    )
    return Problem(
        title="The score matrix",
        text=(
            f"A prompt of {tokens:,} tokens goes through {facts.title(name)} ({facts.shape(name, 'layers', 'queries', 'kv')}). "
            "Attention without fusion writes the scores of **one layer**, all heads, whole to device memory in bf16, before "
            "the softmax; FlashAttention keeps them on the chip, a tile at a time. How large are they?"
        ),
        answer=Answer(value=right, kind="bytes"),
        mistakes=mistakes,
        solution=(
            "Each query head has a score for each pair of tokens, of two bytes.",
            worked.formula(
                "With $S_q$ tokens:",
                "2 * n_q * S_q * S_q",
                {"n_q": (queries, ""), "S_q": (tokens, "")},
                "bytes",
            ),
        ),
        source="Dao et al. 2022 (FlashAttention), arXiv:2205.14135, section 2.2",
    )


TEMPLATE = Template(id="memory-hierarchy-score-matrix", topic="memory-hierarchy", minutes=4, draw=draw)
