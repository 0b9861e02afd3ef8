"""The smallest slice that holds a model in a format, after "How to Scale Your Model"."""

from __future__ import annotations

from roofline import formatting
from roofline.numeric import ceil_div
from roofline.teach.quantities import format_answer
from roofline.teach.worksheets import facts
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

BOOK = tuple(("llama-3.1-70b", "tpu-v5e", dtype) for dtype in ("bf16", "int8", "int4"))
_NAMES = ("llama-3.1-70b", "llama-3.1-405b", "llama-3.1-8b", "qwen3-32b", "qwen2.5-72b")
_LENGTH = 8192


def problem(name: str, card: str, dtype: str) -> Problem | None:
    """The problem of a model, an accelerator, and a format of weights and cache; None if one chip is enough."""
    size, memory = facts.element_bytes(dtype), int(facts.hardware(card).memory_bytes)
    weights, one = int(facts.parameters(name).total * size), int(facts.kv_bytes(name, _LENGTH, dtype))
    needed = int(ceil_div(weights + one, memory))
    right = _slice(needed)
    if right == 1:
        return None
    mistakes = [
        Mistake(name="half the slice", value=right // 2, hint="Weights and a cache do not fit on so few chips."),
        Mistake(name="a slice too large", value=right * 2, hint="Half of those are enough, for one sequence."),
    ]
    if needed != right:
        mistakes.append(
            Mistake(
                name="not a slice",
                value=needed,
                hint="So many chips would hold it, but there is no slice of that size. Take the next one.",
            )
        )
    if dtype != "bf16" and (wide := _slice(ceil_div(2 * facts.parameters(name).total, memory))) > 2 * right:
        mistakes.append(
            Mistake(
                name="two bytes a weight",
                value=wide,
                hint=f"That is the slice for bf16. A weight in {dtype} takes {size:g} byte{'s' * (size != 1)}.",
            )
        )
    own = (name, card, dtype) in BOOK
    notes = (
        ("The book's table has 45 GB of weights in int4, which are 35 GB at half a byte each; the slice is the same.",)
        if own and dtype == "int4"
        else ()
    )
    return Problem(
        title="The smallest slice",
        text=(
            f"Slices of {facts.card(card)} have 1, 2, 4, 8, 16, 32 or more chips of {formatting.quantity(memory, 'B')}, always "
            f"a power of two. {facts.title(name)} ({facts.parameters(name).total:,} parameters; "
            f"{facts.shape(name, 'layers', 'kv', 'head')}) is kept in {dtype}, its cache as well. How many chips has the "
            f"smallest slice that holds it with one sequence of {_LENGTH:,} tokens?"
        ),
        answer=Answer(value=right, kind="devices", tolerance=0),
        mistakes=tuple(mistakes),
        solution=(
            f"The weights take {formatting.quantity(weights, 'B')}, the cache of the sequence {formatting.quantity(one, 'B')}.",
            *notes,
            (
                f"Over {formatting.quantity(memory, 'B')} that is {formatting.number((weights + one) / memory)} chips; "
                "the next "
                f"power of two is {format_answer(right, 'devices')}."
            ),
        ),
        source=facts.scaling_book("applied-inference", "the smallest slice", own=own),
    )


def _slice(chips: float) -> int:
    """The least power of two that is as large."""
    return 1 << max(int(chips) - 1, 0).bit_length()


def draw(rng: Rng) -> Problem | None:
    """A model, a TPU and a format."""
    return problem(rng.choice(_NAMES), rng.choice(facts.TPUS), rng.choice(("bf16", "int8", "int4")))


TEMPLATE = Template(id="scaling-book-smallest-slice", topic="scaling-book", minutes=4, draw=draw)
