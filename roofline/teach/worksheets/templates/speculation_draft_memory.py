"""Memory of a draft: its weights and its own cache."""

from __future__ import annotations

from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template
from roofline.teach.worksheets.templates.speculation_round_time import PAIRS


def draw(rng: Rng) -> Problem:
    """A draft that serves a batch."""
    name, draft = rng.choice(PAIRS)
    batch, length = rng.choice((8, 16, 32, 48, 64)), 1024 * rng.choice((2, 4, 8, 16))
    weights, own = facts.loaded_bytes(draft), facts.kv_bytes_per_token(draft)
    cache, attention = batch * facts.kv_bytes(draft, length), facts.mixer(draft)
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    right = weights + cache
    mistakes = (
        Mistake(
            name="weights alone",
            value=weights,
            hint="The draft is a transformer too: it keeps keys and values of every token.",
        ),
        Mistake(name="cache alone", value=cache, hint="That is its cache. Its weights are in memory as well."),
        Mistake(
            name="the model's cache",
            value=weights + batch * facts.kv_bytes(name, length),
            hint="That cache is of the model. The draft's own has the draft's layers and heads.",
        ),
        Mistake(
            name="one sequence",
            value=weights + cache / batch,
            hint=f"That is with one sequence. The draft keeps the tokens of all {batch}.",
        ),
        Mistake(
            name="K without V",
            value=weights + cache / 2,
            hint="The cache holds keys and values: two tensors per layer, not one.",
        ),
        pitfalls.query_heads(weights + cache * queries / kv, queries, kv),
        pitfalls.gb_for_gib(right),
    )
    return Problem(
        title="The memory of a draft",
        text=(
            f"{facts.title(name)} is served with drafts by {facts.title(draft)}, which has "
            f"{facts.parameters(draft).total:,} parameters, {facts.shape(draft, 'layers', 'queries', 'kv', 'head')}; weights "
            f"and cache are in bf16. {batch} sequences of {length:,} tokens are running. How much memory does the draft take, "
            "for all that it holds?"
        ),
        answer=Answer(value=right, kind="bytes"),
        mistakes=mistakes,
        solution=(
            "The draft reads the same tokens as the model, and caches them in layers of its own.",
            worked.explained("A token of its cache takes:", draft, "kv_bytes_per_token"),
            worked.formula(
                "Its weights and its cache:",
                "b_w * N + B * S_c * k_token",
                {
                    "b_w": (2, ""),
                    "N": (facts.parameters(draft).total, "parameters of the draft"),
                    "B": (batch, ""),
                    "S_c": (length, ""),
                    "k_token": (own, "cache of a token in the draft [bytes]"),
                },
                "bytes",
            ),
        ),
    )


TEMPLATE = Template(id="speculation-draft-memory", topic="speculation", minutes=5, draw=draw)
