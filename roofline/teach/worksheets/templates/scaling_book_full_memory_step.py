"""A decode step of the largest batch that fits, after "How to Scale Your Model"."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

BOOK = (
    ("llama-3.1-70b", "tpu-v5e", 8, "int8"),
    ("llama-3.1-70b", "tpu-v5e", 16, "bf16"),
    ("llama-3.1-70b", "tpu-v5e", 4, "int4"),
)
_NAMES = ("llama-3.1-70b", "qwen3-32b", "llama-3.1-8b", "qwen2.5-72b")
_CARDS = (*facts.TPUS, "h100-sxm", "a100-sxm-80gb")


def problem(name: str, card: str, devices: int, dtype: str) -> Problem | None:
    """The problem of a model in a format on several devices; None if it fills too little or too much of them."""
    hardware, weights = facts.hardware(card), facts.parameters(name).total * facts.element_bytes(dtype)
    memory, bandwidth = hardware.memory_bytes, hardware.bandwidth
    if not 0.1 * devices * memory < weights < 0.9 * devices * memory:
        return None
    own = (name, card, devices, dtype) in BOOK
    return Problem(
        title="A step with full memory",
        text=(
            f"{facts.title(name)} ({facts.parameters(name).total:,} parameters in {dtype}) is divided over {devices} "
            f"{facts.card(card)}, each with {formatting.quantity(memory, 'B')} of memory and "
            f"{formatting.quantity(bandwidth, 'B/s')} of bandwidth ($beta$). The batch is the largest that fits: weights and "
            "caches fill all memory, and a decode step reads all of it. How long does it take at the least?"
        ),
        answer=Answer(value=memory / bandwidth, kind="s"),
        mistakes=(
            Mistake(
                name="weights alone",
                value=weights / devices / bandwidth,
                hint="That is a step of one short sequence. With full memory the caches are read as well.",
            ),
            Mistake(
                name="all memory over one bus",
                value=devices * memory / bandwidth,
                hint="You read the memory of all devices through one. Each reads its own, at the same time.",
            ),
            Mistake(
                name="caches alone",
                value=(memory - weights / devices) / bandwidth,
                hint="That is what the caches take. The weights are read in every step as well.",
            ),
        ),
        solution=(
            *(
                ("The book has 19 ms, with 8.2e11 B/s, whatever the format: the fuller memory is, the less it matters.",)
                if own
                else ()
            ),
            worked.formula(
                "Neither model nor format matters, and each device reads its own memory once:",
                "C / beta",
                {"C": (memory, "memory of a device [bytes]"), "beta": (bandwidth, "")},
                "s",
            ),
        ),
        source=facts.scaling_book("applied-inference", "the step of the largest batch", own=own),
    )


def draw(rng: Rng) -> Problem | None:
    """A model, devices and a format."""
    return problem(rng.choice(_NAMES), rng.choice(_CARDS), rng.choice((2, 4, 8, 16)), rng.choice(("bf16", "int8", "int4")))


TEMPLATE = Template(id="scaling-book-full-memory-step", topic="scaling-book", minutes=3, draw=draw)
