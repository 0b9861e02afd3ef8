"""The share of the peak that a measured prompt reached."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm")
_MODELS = ("llama-3.1-8b", "qwen3-8b", "mistral-nemo-12b")


def draw(rng: Rng) -> Problem:
    """A prompt that was measured: so long as a share of the peak that is drawn makes it, rounded."""
    name, card, tokens = rng.choice(_MODELS), rng.choice(_CARDS), 1024 * rng.choice((2, 4, 6, 8))
    floor = facts.floor(name, card, 1, tokens, 0)
    ((flops, peak),) = floor.products.values()
    seconds = float(f"{floor.compute_s / (rng.integer(32, 72) / 100):.3g}")
    share = flops / (seconds * peak)
    mistakes = (
        pitfalls.sparse_peak(share / 2, formatting.quantity(peak, "FLOP/s")),
        Mistake(name="training", value=3 * share, hint="6 FLOP a parameter is training. A prompt is a forward pass: 2."),
        Mistake(
            name="upside down",
            value=1 / share,
            hint="That is how many times longer it took than at the peak. The answer is the share.",
        ),
    )
    return Problem(
        title="Model FLOP utilisation",
        text=(
            f"A prompt of {tokens:,} tokens took {facts.title(name)} {formatting.quantity(seconds, 's')} on an "
            f"{facts.card(card)}. Its products of "
            f"matrices are {formatting.quantity(flops, 'FLOP')}, masked pairs not counted; the datasheet says "
            f"{formatting.quantity(2 * peak, 'FLOP/s')} in bf16 "
            "with sparsity. What was its MFU, the share of the (dense) peak?"
        ),
        answer=Answer(value=share, kind="share"),
        mistakes=mistakes,
        solution=(
            "The dense peak is half of the sparse one.",
            worked.formula(
                "Work over what the peak would have done in that time:",
                "F / (t * P)",
                {"F": (flops, "work [FLOP]"), "t": (seconds, "time measured [s]"), "P": (peak, "")},
                "1",
            ),
        ),
    )


TEMPLATE = Template(id="measured-mfu", topic="measured", minutes=4, draw=draw)
