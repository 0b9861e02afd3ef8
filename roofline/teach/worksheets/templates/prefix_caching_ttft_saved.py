"""Time to first token that a cached prefix saves."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import percent
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "l40s")


def draw(rng: Rng) -> Problem:
    """A prompt, of which a part is cached."""
    name, card, share = rng.choice(facts.DENSE), rng.choice(CARDS), rng.integer(40, 75, 5) / 100
    cached, own = 1024 * rng.integer(2, 12), rng.integer(300, 6000, 100)
    peak, weights = facts.hardware(card).peak("bf16"), facts.layer_weights(name)
    right = facts.layer_flops(name, cached) / (share * peak)
    mistakes = (
        Mistake(
            name="what is left",
            value=right * own / cached,
            hint="That is the time that is left. What is saved is the time of the cached tokens.",
        ),
        Mistake(
            name="all tokens",
            value=right * (cached + own) / cached,
            hint="The prompt's own tokens are computed as before.",
        ),
        Mistake(
            name="at the peak", value=right * share, hint=f"That is at the full peak. The prompt reaches {percent(share, 0)}."
        ),
        pitfalls.multiply_accumulates(right / 2),
        pitfalls.sparse_peak(right / 2, formatting.quantity(peak, "FLOP/s")),
    )
    return Problem(
        title="A first token sooner",
        text=(
            f"A prompt for {facts.title(name)} has {cached:,} tokens whose keys and values are cached, and {own:,} more. "
            f"{weights:,} weights multiply each token that is computed; attention is left out. The {facts.card(card)} "
            f"({formatting.quantity(peak, 'FLOP/s')} dense in bf16) reaches {percent(share, 0)} of its peak. How much time "
            "does the cache save before the first token?"
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=mistakes,
        solution=(
            "The cached tokens are not computed: two FLOP for each weight and token of them are saved.",
            worked.formula(
                "Over the peak that is reached:",
                "2 * N * S_c / (u * P)",
                {
                    "N": (weights, "weights of the linear layers"),
                    "S_c": (cached, ""),
                    "u": (share, "share of the peak"),
                    "P": (peak, ""),
                },
                "s",
            ),
        ),
    )


TEMPLATE = Template(id="prefix-caching-ttft-saved", topic="prefix-caching", minutes=4, draw=draw)
