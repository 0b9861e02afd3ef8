"""How a chunk of a prompt delays the sequences that decode."""

from __future__ import annotations

from functools import cache

from roofline import formatting
from roofline.formatting import number
from roofline.predict.floor import Floor, floors
from roofline.specs.workload import Segment
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm")


@cache
def _mixed(name: str, card: str, batch: int, context: int, chunk: int) -> Floor:
    """The lower bound of a step with a chunk of a prompt."""
    step = (Segment(batch, 1, context, decode=True), Segment(1, chunk, 0))
    (mixed,) = floors(facts.request(name, card), step)
    return mixed


def draw(rng: Rng) -> Problem | None:
    """A batch that is bound by memory, and a chunk that makes the step bound by compute."""
    name, card = rng.choice(facts.DENSE), rng.choice(_CARDS)
    batch, context, chunk = rng.choice((8, 16, 32, 64)), 1024 * rng.choice((1, 2, 4)), 512 * rng.choice((1, 2, 3, 4, 8))
    if facts.max_batch(name, card, context) < batch + chunk // context:
        return None
    plain, mixed = facts.floor(name, card, batch, 1, context), _mixed(name, card, batch, context, chunk)
    read = plain.weight_bytes + plain.cache_bytes
    ((flops, peak),) = mixed.products.values()
    ((decoded, _),) = plain.products.values()
    before, after = read / plain.bandwidth, flops / peak
    if plain.compute_s > 0.8 * before or after < 1.15 * before or plain.retained_bytes or mixed.retained_bytes:
        return None
    right = after / before
    if len(number(right)) < 5:  # a rounder one might stand in the text by chance
        return None
    mistakes = (
        Mistake(
            name="one after the other",
            value=(before + after) / before,
            hint="You added both times. The weights are read while the products are computed: the longer time counts.",
        ),
        pitfalls.sparse_peak(max(right / 2, 1.0), formatting.quantity(peak, "FLOP/s")),
        Mistake(
            name="chunk on its own",
            value=(before + (flops - decoded) / peak) / before,
            hint="You computed the chunk in a step of its own. Here it rides in the same step, which takes the longer time.",
        ),
        Mistake(
            name="over compute",
            value=flops / decoded,
            hint="You compared the work. The step without a chunk is bound by the bytes that it reads.",
        ),
    )
    return Problem(
        title="A chunk in the step",
        text=(
            f"A decode step of {facts.title(name)} with {batch} sequences of {context:,} cached tokens reads "
            f"{formatting.quantity(read, 'B')} of weights and caches; its {formatting.quantity(decoded, 'FLOP')} take "
            "less time than reading. Now "
            f"a chunk of {chunk:,} tokens of a prompt rides in the step: it is {formatting.quantity(flops, 'FLOP')} "
            "then, and hardly "
            f"more is read. On an {facts.card(card)}, with {facts.peak_and_bandwidth(card)}, how many times as long does the "
            "step take with the chunk as without, at the roofline's bound?"
        ),
        answer=Answer(value=right, kind="ratio"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "Without the chunk the bytes decide:",
                "Q / beta",
                {"Q": (read, "weights and caches [bytes]"), "beta": (plain.bandwidth, "")},
                "s",
            ),
            worked.formula(
                "With it the work does, which takes longer than the bytes:",
                "F / P",
                {"F": (flops, "decode and chunk [FLOP]"), "P": (peak, "")},
                "s",
            ),
            worked.formula(
                "So the next token of every sequence takes this many times as long:",
                "t_with / t_without",
                {"t_with": (after, "with the chunk [s]"), "t_without": (before, "without [s]")},
                "1",
            ),
        ),
        source="Agrawal et al. 2024 (Sarathi-Serve), arXiv:2403.02310, section 3",
    )


TEMPLATE = Template(id="serving-longer-steps", topic="serving", minutes=5, draw=draw)
