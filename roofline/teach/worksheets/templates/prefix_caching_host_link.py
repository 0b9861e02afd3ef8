"""The link from which on loading a prefix from the host beats computing it."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import number, percent
from roofline.formulas import break_even_link
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template
from roofline.teach.worksheets.templates.prefix_caching_ttft_saved import CARDS


def draw(rng: Rng) -> Problem:
    """A model, an accelerator, and the share of its peak that a prompt reaches."""
    name, card, share = rng.choice(facts.DENSE), rng.choice(CARDS), rng.integer(40, 75, 5) / 100
    token, weights, peak = facts.kv_bytes_per_token(name), facts.layer_weights(name), facts.hardware(card).peak("bf16")
    attention = facts.mixer(name)
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    right = float(break_even_link(token, peak, share, weights)) / 2  # one way: a prefix is loaded, and stays in the host too
    mistakes = (
        Mistake(name="both ways", value=2 * right, hint="You copied it twice. It is in the host already, and comes in once."),
        Mistake(
            name="at the peak",
            value=right / share,
            hint=f"That is at the full peak. A prompt reaches {percent(share, 0)} of it.",
        ),
        pitfalls.k_without_v(right / 2),
        pitfalls.query_heads(right * queries / kv, queries, kv),
        pitfalls.bits_for_bytes(right * 8, 16),
    )
    return Problem(
        title="Load or compute",
        text=(
            f"A prefix of {facts.title(name)} ({facts.shape(name, 'layers', 'queries', 'kv', 'head')}, cache in bf16) was "
            "evicted from the device, but a copy is in the memory of the host. Computing it again multiplies "
            f"{number(weights)} "
            f"weights with each token; attention is left out. A prompt reaches {percent(share, 0)} of the peak of an "
            f"{facts.card(card)}, {formatting.quantity(peak, 'FLOP/s')} dense in bf16. From which rate of the link on is "
            "loading the copy faster?"
        ),
        answer=Answer(value=right, kind="bytes/s"),
        mistakes=mistakes,
        solution=(
            worked.explained("A token of the cache takes:", name, "kv_bytes_per_token"),
            "Computing a token takes 2 N / (u P), loading it k / R. Both grow with the tokens, so that their number cancels.",
            worked.formula(
                "Both are equal where R is:",
                "k_token * u * P / (2 * N)",
                {
                    "k_token": (token, "cache of a token [bytes]"),
                    "u": (share, "share of the peak"),
                    "P": (peak, ""),
                    "N": (weights, "weights of the linear layers"),
                },
                "bytes/s",
            ),
        ),
    )


TEMPLATE = Template(id="prefix-caching-host-link", topic="prefix-caching", minutes=5, draw=draw)
