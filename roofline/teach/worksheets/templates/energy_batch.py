"""What a larger batch does to the energy of a token."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import number
from roofline.serving.planning.candidates import watts
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm")


def draw(rng: Rng) -> Problem | None:
    """A batch and a context that fit, bound by memory, whose cache counts."""
    name, card = rng.choice(facts.DENSE), rng.choice(_CARDS)
    batch, context = rng.choice((8, 16, 32, 64)), 1024 * rng.choice((1, 2, 4, 8))
    power = watts(facts.hardware(card))
    if power is None or facts.max_batch(name, card, context) < batch:
        return None
    alone, full = facts.floor(name, card, 1, 1, context), facts.floor(name, card, batch, 1, context)
    if full.compute_s > 0.7 * full.memory_s or full.retained_bytes or alone.retained_bytes:
        return None
    weights, cache = full.weight_bytes, full.cache_bytes
    if cache < 0.05 * weights:
        return None
    right = alone.seconds / (full.seconds / batch)
    if len(number(right)) < 4:  # a rounder one might stand in the text by chance
        return None
    mistakes = (
        Mistake(
            name="cache forgotten",
            value=float(batch),
            hint="You shared everything. The weights are read once for all; each sequence reads a cache of its own.",
        ),
        Mistake(
            name="a step for a step",
            value=full.seconds / alone.seconds,
            hint="You compared the steps. The larger one gives a token to every sequence.",
        ),
        Mistake(
            name="upside down",
            value=1 / right,
            hint="That is large over small. The question is how many times less it is.",
        ),
    )
    return Problem(
        title="A batch and its joules",
        text=(
            f"A decode step of {facts.title(name)} on an {facts.card(card)} reads {formatting.quantity(weights, 'B')} of "
            "weights "
            f"and, for each sequence, {formatting.quantity(cache / batch, 'B')} of cache, at "
            f"{formatting.quantity(full.bandwidth, 'B/s')}; reading is all that takes time. The board draws "
            f"{formatting.quantity(power, 'W')} in both cases. How many times less energy does a token take with {batch} "
            "sequences than with one?"
        ),
        answer=Answer(value=right, kind="ratio"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "A token alone takes:",
                "P_board * (W + k_seq) / beta",
                {
                    "P_board": (power, "power [W]"),
                    "W": (weights, "weights read [bytes]"),
                    "k_seq": (cache / batch, "cache of a sequence [bytes]"),
                    "beta": (full.bandwidth, ""),
                },
                "J",
            ),
            worked.formula(
                "In a batch a step gives a token to each sequence:",
                "P_board * (W + B * k_seq) / (B * beta)",
                {
                    "P_board": (power, "power [W]"),
                    "W": (weights, "weights read [bytes]"),
                    "B": (batch, ""),
                    "k_seq": (cache / batch, "cache of a sequence [bytes]"),
                    "beta": (full.bandwidth, ""),
                },
                "J",
            ),
            worked.formula(
                "The one over the other:",
                "e_one / e_batch",
                {
                    "e_one": (power * alone.seconds, "alone [J]"),
                    "e_batch": (power * full.seconds / batch, "in the batch [J]"),
                },
                "1",
            ),
        ),
        source="docs/capacity.md, costs and energy",
    )


TEMPLATE = Template(id="energy-batch", topic="energy", minutes=5, draw=draw)
