"""Is this claim possible? A rate of one user."""

from __future__ import annotations

from functools import cache

from roofline import formatting
from roofline.audit.claims import judge
from roofline.audit.claims.result import Judgement
from roofline.teach.worksheets import facts
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_MODELS = ("llama-3.1-8b", "qwen3-8b", "mistral-nemo-12b", "llama-3.1-70b")
_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "a100-pcie-40gb")
_CHOICES = ("possible", "impossible: the weights cannot be read so often", "impossible: the weights do not fit")
_FACTORS = (0.2, 0.4, 1.6, 2.5)


@cache
def _judged(name: str, card: str, rate: float) -> Judgement:
    """What the toolkit says of it."""
    return judge(model=facts.model(name), hardware=facts.hardware(card), tokens_per_s=rate, batch=1, dtype="bf16", context=0)


@cache
def _claimed(name: str, card: str, factor: float) -> float:
    """A rate of two digits, `factor` times what the bus allows."""
    floor = facts.floor(name, card, 1, 1, 0)
    return float(f"{factor / floor.memory_s:.2g}")


def draw(rng: Rng) -> Problem | None:
    """A model, an accelerator and a rate."""
    name, card = rng.choice(_MODELS), rng.choice(_CARDS)
    rate = _claimed(name, card, rng.choice(_FACTORS))
    judged = _judged(name, card, rate)
    if judged.verdict == "implausible":
        return None
    worst = judged.worst
    place = 0 if judged.verdict == "possible" else 2 if worst.fits is False else 1
    weights, memory = facts.floor(name, card, 1, 1, 0).weight_bytes, facts.hardware(card).memory_bytes
    hints = {
        0: "Do the weights fit? And how long does the bus take to read them once, which every token needs?",
        1: "They can be read that often: divide the bandwidth by the bytes of the weights, and compare with the rate.",
        2: "They fit: two bytes per parameter, against the memory of the card.",
    }
    if place == 2:
        hints[1] = "Before they are read they have to be there: two bytes per parameter, against the memory of the card."
    return Problem(
        title="Is this claim possible?",
        text=(
            f"> {facts.title(name)} in bf16 writes {rate:g} tokens/s for a single user on one {facts.card(card)}.\n\n"
            f"The model has {facts.parameters(name).total / 1e9:.3g} billion parameters. The card has "
            f"{memory / 2**30:.3g} GiB of memory and {formatting.quantity(facts.hardware(card).bandwidth, 'B/s')} of "
            "bandwidth. No "
            f"tricks: no "
            "speculative decoding, no quantisation. Is it possible?"
        ),
        answer=Answer(value=place, kind="choice", choices=_CHOICES),
        mistakes=tuple(
            Mistake(name=_CHOICES[other], value=other, hint=hints[other]) for other in range(len(_CHOICES)) if other != place
        ),
        solution=(
            f"A step reads {formatting.quantity(weights, 'B')} of weights; the memory is {formatting.quantity(memory, 'B')}.",
            f"{worst.headline}.",
        ),
        source="`roofline claim` judges such claims (docs/claims.md)",
    )


TEMPLATE = Template(id="roofline-is-it-possible", topic="roofline", minutes=4, draw=draw)
