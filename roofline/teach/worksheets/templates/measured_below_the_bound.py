"""Faster than possible: why?"""

from __future__ import annotations

from functools import cache

from roofline import formatting
from roofline.formatting import percent
from roofline.measure.validate import reasons
from roofline.operators.gemm import Gemm
from roofline.teach.quantities import format_answer
from roofline.teach.worksheets import facts
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "l40s")
_SHAPES = ((2048, 2048), (4096, 1024), (4096, 4096), (14336, 4096), (28672, 8192), (53248, 16384))
_TOKENS = (1, 8, 16)
# The time that was measured over the bound: a little less, clearly less, and a thousandth, as milliseconds are of seconds.
_FACTORS = (0.97, 0.98, 0.45, 0.6, 0.7, 0.0011, 0.0014)
_CHOICES = (
    "the bytes came from the L2 cache, not from memory",
    "the time, or a dimension, is in another unit than its label says",
    "nothing is wrong: clocks and timers are off by a few percent",
    "no reason is in sight: a count, a peak or the shape must be wrong",
)


@cache
def _place(card: str, n: int, k: int, tokens: int, factor: float, flushed: bool) -> int:
    """Which of the choices `roofline validate` gives as the reason."""
    import pandas as pd

    bound, moved, cached = _bound(card, n, k, tokens)
    row = {
        "measured_s": bound * factor, "bound_s": bound, "floor_s": bound, "bytes_moved": moved, "l2_bytes": cached,
        "binds": "memory", "cache": "cold" if flushed else "warm", "op": "gemm", "world": 1, "sums_in_switch": False,
    }  # fmt: skip
    why = reasons(pd.DataFrame([row])).iloc[0]
    return next((place for place, words in enumerate(("L2 cache", "another unit", "noise")) if words in why), 3)


@cache
def _bound(card: str, n: int, k: int, tokens: int) -> tuple[float, float, float]:
    """Seconds that the bytes take, the bytes, and the size of the cache."""
    moved, hardware = float(Gemm(m=tokens, n=n, k=k).cost().bytes), facts.hardware(card)
    l2 = hardware.accelerator.l2
    return moved / hardware.bandwidth, moved, l2.value if l2 else 0.0


def draw(rng: Rng) -> Problem | None:
    """A product of few tokens, a measured time that its bytes do not allow, and whether caches were flushed."""
    card, (n, k), tokens, factor = rng.choice(_CARDS), rng.choice(_SHAPES), rng.choice(_TOKENS), rng.choice(_FACTORS)
    flushed = rng.below(2) == 1
    bound, moved, l2 = _bound(card, n, k, tokens)
    place = _place(card, n, k, tokens, factor, flushed)
    if 0.8 < moved / l2 < 4.5:  # partly in the cache: not to be decided by a student
        return None
    if factor > 0.9 and place == 0:  # hardly faster than memory, though all of it fits: noise as well
        return None
    seconds = bound * factor
    before = (
        "Before each run another buffer, larger than the cache, was written."
        if flushed
        else "It was run a hundred times in a row on the same matrices, and the median taken."
    )
    hints = {
        0: "Do the bytes fit in the cache, and were they still there from the run before?",
        1: "That would make the time wrong by a thousand or so. By how much is it too short?",
        2: "Such errors are a few percent. By how much is the time too short?",
        3: (
            "Look at what the others would do: by how much is the time too short, do the bytes fit in "
            "the cache, was it flushed?"
        ),
    }
    return Problem(
        title="Faster than possible?",
        text=(
            f"A product of {tokens} {'token' if tokens == 1 else 'tokens'} with a matrix of {n:,} x {k:,} in bf16 moves "
            f"{format_answer(moved, 'bytes')}. On an {facts.card(card)} "
            f"({formatting.quantity(facts.hardware(card).bandwidth, 'B/s')}, an L2 cache of {l2 / 2**20:g} MiB) "
            f"a benchmark reports {formatting.quantity(seconds, 's')}. {before} "
            "What is the likeliest explanation?"
        ),
        answer=Answer(value=place, kind="choice", choices=_CHOICES),
        mistakes=tuple(
            Mistake(name=_CHOICES[other], value=other, hint=hints[other]) for other in range(len(_CHOICES)) if other != place
        ),
        solution=(
            (
                f"From memory its bytes take {formatting.quantity(bound, 's')}; reported is {percent(factor, 2)} of that. "
                f"They are {moved / l2:.2g} times the L2 cache, which was {'flushed' if flushed else 'not flushed'}."
            ),
            f"So {_CHOICES[place]}.",
        ),
        source="docs/validation.md",
    )


TEMPLATE = Template(id="measured-below-the-bound", topic="measured", minutes=4, draw=draw)
