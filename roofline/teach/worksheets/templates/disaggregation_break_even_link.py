"""The link over which sending a cache takes as long as computing its prompt again."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import number, percent
from roofline.formulas import break_even_link
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "l40s")


def draw(rng: Rng) -> Problem | None:
    """A model, an accelerator that holds it, and the share of its peak that a prompt reaches."""
    name, card, share = rng.choice(facts.DENSE), rng.choice(_CARDS), rng.integer(40, 75, 5) / 100
    if facts.max_batch(name, card, 1024) < 1:
        return None
    token, weights, peak = facts.kv_bytes_per_token(name), facts.layer_weights(name), facts.hardware(card).peak("bf16")
    right = float(break_even_link(token, peak, share, weights)) / 2  # that of swapping goes there and back
    attention = facts.mixer(name)
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    mistakes = (
        Mistake(
            name="there and back",
            value=2 * right,
            hint="You sent the cache there and back. To a decode GPU it goes one way. Or a weight was one FLOP: it is two.",
        ),
        Mistake(
            name="at the peak",
            value=right / share,
            hint=f"That is at the full peak. The prompt reaches {percent(share, 0)} of it.",
        ),
        pitfalls.sparse_peak(2 * right, formatting.quantity(peak, "FLOP/s")),
        pitfalls.query_heads(right * queries / kv, queries, kv),
        pitfalls.k_without_v(right / 2),
        pitfalls.bits_for_bytes(right * 8, 16),
    )
    return Problem(
        title="A link that is worth it",
        text=(
            f"A decode GPU could get the cache of a prompt of {facts.title(name)} "
            f"({facts.shape(name, 'layers', 'queries', 'kv', 'head')}, cache in bf16) over a link, or compute the prompt "
            f"itself: {number(weights)} weights multiply each token; attention is left out. An {facts.card(card)} "
            f"({formatting.quantity(peak, 'FLOP/s')} dense in bf16, $P$) reaches {percent(share, 0)} of its peak with a "
            "prompt. At what rate of the link do both take equally long?"
        ),
        answer=Answer(value=right, kind="bytes/s"),
        mistakes=mistakes,
        solution=(
            worked.explained("A token of the cache takes:", name, "kv_bytes_per_token"),
            "Computing a token takes 2 N / (u P), sending its cache k / R. Both are equal where R is k u P / (2 N).",
            worked.formula(
                "So the rate is:",
                "k_token * u * P / (2 * N)",
                {
                    "k_token": (token, "cache of a token [bytes]"),
                    "u": (share, "share of the peak"),
                    "P": (peak, ""),
                    "N": (weights, "weights"),
                },
                "bytes/s",
            ),
        ),
        source="docs/preemption.md, one way",
    )


TEMPLATE = Template(id="disaggregation-break-even-link", topic="disaggregation", minutes=5, draw=draw)
