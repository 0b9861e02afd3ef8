"""The link over which swapping costs as much as computing again."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import number, percent
from roofline.formulas import break_even_link
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "a100-pcie-40gb", "l40s")


def draw(rng: Rng) -> Problem | None:
    """A model, an accelerator that holds it, and the share of its peak that a prompt reaches."""
    name, card, share = rng.choice(facts.DENSE), rng.choice(_CARDS), rng.integer(40, 75, 5) / 100
    if facts.max_batch(name, card, 1024) < 1:
        return None
    token, weights, peak = facts.kv_bytes_per_token(name), facts.layer_weights(name), facts.hardware(card).peak("bf16")
    attention = facts.mixer(name)
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    right = float(break_even_link(token, peak, share, weights))
    mistakes = (
        Mistake(
            name="one way",
            value=right / 2,
            hint="You copied the cache one way. It has to go out and come back.",
        ),
        Mistake(
            name="at the peak",
            value=right / share,
            hint=f"That is at the full peak. The prompt reaches {percent(share, 0)} of it.",
        ),
        Mistake(
            name="one FLOP a weight",
            value=2 * right,
            hint="A token takes 2 FLOP for each weight: a product and its sum.",
        ),
        pitfalls.query_heads(right * queries / kv, queries, kv),
        pitfalls.bits_for_bytes(right * 8, 16),
    )
    return Problem(
        title="The break-even link",
        text=(
            f"An engine evicts sequences of {facts.title(name)} ({facts.shape(name, 'layers', 'queries', 'kv', 'head')}, cache "
            f"in bf16). To compute their tokens again, {number(weights)} weights multiply each of them; attention is left out. "
            f"On an {facts.card(card)} ({formatting.quantity(peak, 'FLOP/s')} dense in bf16, $P$) a prompt reaches "
            f"{percent(share, 0)} of the "
            "peak. Or their caches go to the host and come back, at the same rate both ways. At what rate do both take equally "
            "long?"
        ),
        answer=Answer(value=right, kind="bytes/s"),
        mistakes=mistakes,
        solution=(
            worked.explained("A token of the cache takes:", name, "kv_bytes_per_token"),
            (
                "Computing a token again takes 2 N / (u P), copying it out and in 2 k / R. Both are equal where R is k u P / "
                "N, however many tokens there are."
            ),
            worked.formula(
                "So the rate is:",
                "k_token * u * P / N",
                {
                    "k_token": (token, "cache of a token [bytes]"),
                    "u": (share, "share of the peak"),
                    "P": (peak, ""),
                    "N": (weights, "weights"),
                },
                "bytes/s",
            ),
        ),
        source="docs/preemption.md",
    )


TEMPLATE = Template(id="preemption-break-even-link", topic="preemption", minutes=5, draw=draw)
