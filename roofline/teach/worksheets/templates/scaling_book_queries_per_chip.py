"""Queries that a chip answers in a second, after "How to Scale Your Model"."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

BOOK = (("tpu-v5e", 16, 43, 512), ("tpu-v5e", 8, 52, 512), ("tpu-v5e", 4, 67, 512))


def problem(card: str, devices: int, batch: int, tokens: int) -> Problem:
    """The problem of a batch that fills the memory of a slice, and of the tokens of a response."""
    memory, bandwidth = facts.hardware(card).memory_bytes, facts.hardware(card).bandwidth
    step = memory / bandwidth
    right = batch / (step * tokens * devices)
    own = (card, devices, batch, tokens) in BOOK
    note = (
        f"The book takes 19 ms for a step, which makes it {batch / (0.019 * tokens * devices):.2g}"
        f"{'' if batch == BOOK[0][2] else '; its own formula gives another number of sequences that fit'}."
    )
    return Problem(
        title="Queries of a chip",
        text=(
            f"A slice of {devices} {facts.card(card)}, each with {formatting.quantity(memory, 'B')} and "
            f"{formatting.quantity(bandwidth, 'B/s')} ($beta$), decodes {batch} sequences at a time ($B$), which with "
            "the weights "
            f"fill its memory, so that each step reads all of it. A response has {tokens} tokens, and a new one begins "
            "wherever "
            "one ends. How many responses a second is that **per chip**, decode alone?"
        ),
        answer=Answer(value=right, kind="requests/s"),
        mistakes=(
            Mistake(name="the slice", value=right * devices, hint="That is the whole slice. Divide it by its chips."),
            Mistake(
                name="one sequence",
                value=right / batch,
                hint=f"A step gives a token to each of the {batch} sequences, not to one.",
            ),
            Mistake(
                name="tokens",
                value=right * tokens,
                hint=f"Those are tokens per second and chip. A response has {tokens} of them.",
            ),
            Mistake(
                name="memory of the slice over one chip",
                value=right / devices,
                hint="You let one chip read the memory of all. Each reads its own, so that a step is as long as on one.",
            ),
        ),
        solution=(
            *((note,) if own else ()),
            worked.formula(
                "A step reads the memory of a chip:",
                "C / beta",
                {"C": (memory, "memory of a chip [bytes]"), "beta": (bandwidth, "")},
                "s",
            ),
            worked.formula(
                "In it each sequence gets one of its tokens, on all chips together:",
                "B / (t_step * n_out * n)",
                {
                    "B": (batch, ""),
                    "t_step": (step, "time of a step [s]"),
                    "n_out": (tokens, "tokens of a response"),
                    "n": (devices, "chips"),
                },
                "requests/s",
            ),
        ),
        source=facts.scaling_book("applied-inference", "queries per second and chip", own=own),
    )


def draw(rng: Rng) -> Problem:
    """A slice, a batch and responses."""
    if rng.below(5) == 0:
        return problem(*rng.choice(BOOK))
    return problem(rng.choice(facts.TPUS), rng.choice((4, 8, 16)), rng.integer(20, 240, 4), rng.choice((128, 256, 512, 1024)))


TEMPLATE = Template(id="scaling-book-queries-per-chip", topic="scaling-book", minutes=4, draw=draw)
