"""Parameters of a model from its dimensions, after the inference chapter of "How to Scale Your Model"."""

from __future__ import annotations

from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

BOOK = (("scaling-book",),)


def problem(name: str) -> Problem:
    """The problem of a model that ties its two tables."""
    model, attention, inner = facts.model(name), facts.mixer(name), facts.mlp(name).intermediate_size
    hidden, layers, width = model.hidden_size, model.num_hidden_layers, attention.head_dim
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    total, table = facts.parameters(name).total, facts.parameters(name).embedding
    by_hand = table + layers * (2 * hidden * (queries + kv) * width + 3 * hidden * inner)
    return Problem(
        title="Parameters of a made-up model",
        text=(
            f"{facts.title(name)} has {facts.shape(name, 'layers', 'hidden', 'queries', 'kv', 'head', 'inner', 'vocabulary')}; "
            "feed-forward blocks are gated, and the LM head is the embedding. Mind the head width: "
            f"{queries} heads of {width} are wider than the residual stream. How many parameters does it have, within 1 %?"
        ),
        answer=Answer(value=total, kind="parameters"),
        mistakes=(
            Mistake(
                name="heads as wide as the stream",
                value=total - layers * 2 * hidden * (queries + kv) * (width - hidden // queries),
                hint=f"You took the hidden size over the query heads for the head width. A head is {width} wide here.",
            ),
            Mistake(
                name="gate forgotten",
                value=total - layers * hidden * inner,
                hint="You counted two matrices in a feed-forward block. A gated one has three.",
            ),
            Mistake(
                name="query heads for KV heads",
                value=total + layers * 2 * hidden * (queries - kv) * width,
                hint=f"You made K and V as wide as Q. There {'are' if kv > 1 else 'is'} {kv} of their heads.",
            ),
            Mistake(
                name="attention forgotten",
                value=total - layers * 2 * hidden * (queries + kv) * width,
                hint="Those are tables and feed-forward blocks. Attention has its four projections as well.",
            ),
        ),
        solution=(
            worked.formula(
                (
                    "One table; in each layer Q and O, K and V, and the three matrices of the feed-forward block; norms "
                    "are the rest:"
                ),
                "V * d_model + L * (2 * d_model * (n_q + n_kv) * d_head + 3 * d_model * d_ff) + N_norms",
                {
                    "V": (model.vocab_size, ""),
                    "L": (layers, ""),
                    "d_model": (hidden, ""),
                    "n_q": (queries, ""),
                    "n_kv": (kv, ""),
                    "d_head": (width, ""),
                    "d_ff": (inner, ""),
                    "N_norms": (total - by_hand, "weights of the norms"),
                },
                "parameters",
            ),
        ),
        source=facts.scaling_book("inference", "question 1 of Worked Problems", own=(name,) in BOOK),
    )


def draw(rng: Rng) -> Problem:
    """The book's model, with its KV heads or one, and as deep or not."""
    return problem(facts.of_other_depth(rng, rng.choice(tuple(facts.BOOK_MODELS))))


TEMPLATE = Template(id="scaling-book-parameters", topic="scaling-book", minutes=6, draw=draw)
