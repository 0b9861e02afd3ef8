"""What a transfer adds that is hidden behind prefill."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import percent
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm")


def draw(rng: Rng) -> Problem | None:
    """A prompt whose layers each take longer to compute than their cache takes on the link."""
    name, card, tokens = rng.choice(facts.DENSE), rng.choice(_CARDS), 1024 * rng.choice((2, 4, 8, 12, 16))
    share, rate = rng.integer(40, 70, 5) / 100, 1e9 * rng.choice((12.5, 25, 50))
    if facts.max_batch(name, card, tokens) < 1:
        return None
    layers, attention = facts.model(name).num_hidden_layers, facts.mixer(name)
    prefill = float(f"{facts.floor(name, card, 1, tokens, 0).compute_s / share:.3g}")
    size = facts.kv_bytes(name, tokens)
    whole = size / rate
    right = whole / layers
    if whole > 0.8 * prefill or abs(prefill / layers / right - 1) < 0.05:
        return None
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    mistakes = (
        Mistake(
            name="whole cache",
            value=whole,
            hint="You sent all of it after the prompt. All layers but the last are on their way while later ones are computed.",
        ),
        Mistake(
            name="a layer of prefill",
            value=prefill / layers,
            hint="That is the time to compute a layer. What is left to send when the last one is done?",
        ),
        Mistake(
            name="all but one layer",
            value=whole - right,
            hint="Those are the layers that are hidden. The question is what is left.",
        ),
        pitfalls.query_heads(right * queries / kv, queries, kv),
        pitfalls.k_without_v(right / 2),
        pitfalls.bits_for_bytes(right * 8, 16),
    )
    return Problem(
        title="Hidden behind prefill",
        text=(
            f"A prompt of {tokens:,} tokens of {facts.title(name)} ({facts.shape(name, 'layers', 'queries', 'kv', 'head')}, "
            f"cache in bf16) takes {formatting.quantity(prefill, 's')} on an {facts.card(card)}, at {percent(share, 0)} of its "
            f"peak, equally long in each layer. Its cache goes to a decode GPU at {formatting.quantity(rate, 'B/s')}. The "
            "cache of a layer is sent as soon as the layer is computed, while the next one is. How long after the end of the "
            "prompt has all of the cache arrived?"
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "A layer takes to compute:",
                "t_prefill / L",
                {"t_prefill": (prefill, "prefill [s]"), "L": (layers, "")},
                "s",
            ),
            worked.explained("A token of the cache takes, over all layers:", name, "kv_bytes_per_token"),
            "Sending a layer takes less than computing one: each has arrived before the next is computed. The last remains.",
            worked.formula(
                f"The cache of {tokens:,} tokens ($S_c$) in the last layer:",
                "S_c * k_token / (L * R)",
                {
                    "S_c": (tokens, ""),
                    "k_token": (facts.kv_bytes_per_token(name), "cache of a token [bytes]"),
                    "L": (layers, ""),
                    "R": (rate, "rate of the link [bytes/s]"),
                },
                "s",
            ),
        ),
        source="Patel et al. 2024 (Splitwise), arXiv:2311.18677, section 4.2",
    )


TEMPLATE = Template(id="disaggregation-layer-by-layer", topic="disaggregation", minutes=6, draw=draw)
