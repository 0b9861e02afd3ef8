"""Computing an evicted sequence again."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import number, percent
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm")


def draw(rng: Rng) -> Problem | None:
    """A long sequence, so that attention counts, and the share of the peak that a prompt reaches."""
    name, card, tokens = rng.choice(facts.DENSE), rng.choice(_CARDS), 1024 * rng.choice((8, 16, 24, 32))
    share = rng.integer(40, 70, 5) / 100
    if facts.max_batch(name, card, tokens) < 1:
        return None
    ((flops, peak),) = facts.floor(name, card, 1, tokens, 0).products.values()
    attention, layers = facts.mixer(name), facts.model(name).num_hidden_layers
    queries, width = attention.num_attention_heads, attention.head_dim
    weights = facts.layer_weights(name)
    pairs = 4 * layers * queries * width * tokens * (tokens + 1) / 2
    by_hand = 2 * weights * tokens + pairs
    right = flops / (share * peak)
    if abs(by_hand / flops - 1) > 0.003:  # what is not in the text has to be too little to matter
        return None
    mistakes = (
        Mistake(
            name="attention forgotten",
            value=2 * weights * tokens / (share * peak),
            hint="Those are the weights alone. Each token also attends to all before it.",
        ),
        pitfalls.causal_forgotten((by_hand + pairs) / (share * peak)),
        Mistake(
            name="at the peak",
            value=by_hand / peak,
            hint=f"That is at the full peak. The prompt reaches {percent(share, 0)} of it.",
        ),
        pitfalls.multiply_accumulates(right / 2),
        Mistake(name="training", value=3 * right, hint="6 FLOP a parameter is training. A prompt is a forward pass: 2."),
    )
    return Problem(
        title="Computed again",
        text=(
            f"A sequence of {tokens:,} tokens was evicted, and its cache dropped: all tokens go through {facts.title(name)} "
            f"again as a prompt ($S_q$). The layers have {number(weights)} weights that multiply every token "
            f"({facts.shape(name, 'layers', 'queries', 'head')}); attention is causal, and masked pairs are not computed. The "
            f"LM head, for one token, does not matter. On an {facts.card(card)} ({formatting.quantity(peak, 'FLOP/s')} "
            "dense in bf16) "
            f"such a prompt reaches {percent(share, 0)} of the peak. How long does it take?"
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "Attention takes 4 FLOP an element of a head for each pair of a token and one up to it:",
                "2 * L * n_q * d_head * S_q * (S_q + 1)",
                {"L": (layers, ""), "n_q": (queries, ""), "d_head": (width, ""), "S_q": (tokens, "")},
                "FLOP",
            ),
            worked.formula(
                "With 2 FLOP a weight and token, at that share of the peak:",
                "(2 * N * S_q + F) / (u * P)",
                {
                    "N": (weights, "weights"),
                    "S_q": (tokens, ""),
                    "F": (pairs, "attention [FLOP]"),
                    "u": (share, "share of the peak"),
                    "P": (peak, ""),
                },
                "s",
            ),
        ),
        source="docs/preemption.md",
    )


TEMPLATE = Template(id="preemption-recompute-time", topic="preemption", minutes=6, draw=draw)
