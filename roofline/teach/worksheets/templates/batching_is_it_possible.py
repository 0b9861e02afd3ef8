"""Is this claim possible? Many users at once."""

from __future__ import annotations

from functools import cache

from roofline import formatting
from roofline.audit.claims import judge
from roofline.audit.claims.result import Judgement
from roofline.teach.quantities import format_answer
from roofline.teach.worksheets import facts
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_MODELS = ("llama-3.1-8b", "qwen3-32b")
_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm")
_BATCHES = ((16, 2048), (32, 4096), (64, 8192), (128, 8192))
_FACTORS = (0.35, 2.0)
_CHOICES = ("possible", "impossible: a step takes longer", "impossible: weights and caches do not fit")


@cache
def _judged(name: str, card: str, batch: int, context: int, rate: float) -> Judgement:
    """What the toolkit says of it."""
    return judge(
        model=facts.model(name), hardware=facts.hardware(card), tokens_per_s=rate, per_user=True, batch=batch, context=context,
        dtype="bf16",
    )  # fmt: skip


def draw(rng: Rng) -> Problem | None:
    """A model, an accelerator, a batch with its context, and a rate for each user."""
    name, card, (batch, context) = rng.choice(_MODELS), rng.choice(_CARDS), rng.choice(_BATCHES)
    floor = facts.floor(name, card, batch, 1, context)
    rate = float(f"{rng.choice(_FACTORS) / floor.seconds:.2g}")
    judged = _judged(name, card, batch, context, rate)
    need, memory = floor.weight_bytes + floor.cache_bytes, facts.hardware(card).memory_bytes
    if judged.verdict == "implausible" or 0.85 < need / memory < 1.15:
        return None
    worst = judged.worst
    place = 0 if judged.verdict == "possible" else 2 if worst.fits is False else 1
    hints = {
        0: "Add up the weights and all caches. Do they fit? And how long does the bus take to read all of it once?",
        1: "A step is quick enough for that: weights and all caches, over the bandwidth, against one token each.",
        2: "They fit: two bytes per parameter, and the cache of each user, against the memory of the card.",
    }
    if place == 2:
        hints[1] = "First see whether it is all there: the weights, and a cache for each user, against the memory of the card."
    return Problem(
        title="Is this claim possible?",
        text=(
            f"> One {facts.card(card)} serves {batch} users of {facts.title(name)} in bf16 at once, each with "
            f"{context:,} tokens of "
            f"context and {rate:g} tokens/s.\n\n"
            f"Weights: {formatting.quantity(floor.weight_bytes, 'B')}. Cache: {facts.kv_bytes_per_token(name):,} bytes "
            "a token. Memory: "
            f"{memory / 2**30:.3g} GiB with {formatting.quantity(facts.hardware(card).bandwidth, 'B/s')}. Is it possible?"
        ),
        answer=Answer(value=place, kind="choice", choices=_CHOICES),
        mistakes=tuple(
            Mistake(name=_CHOICES[other], value=other, hint=hints[other]) for other in range(len(_CHOICES)) if other != place
        ),
        solution=(
            (
                f"Weights and caches together are {format_answer(need, 'bytes')}, "
                f"the memory is {format_answer(memory, 'bytes')}. "
                f"Read once, they take {formatting.quantity(floor.memory_s, 's')}, "
                f"so that no user gets more than {1 / floor.seconds:.3g} tokens/s."
            ),
            f"{worst.headline}.",
        ),
        source="`roofline claim` judges such claims (docs/claims.md)",
    )


TEMPLATE = Template(id="batching-is-it-possible", topic="batching", minutes=4, draw=draw)
