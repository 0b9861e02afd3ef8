"""The least time of a decode step on several chips, after the inference chapters of "How to Scale Your Model"."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

BOOK = (
    ("scaling-book", "tpu-v5e", 16, 0, 0),
    ("llama-3.1-70b", "tpu-v5e", 8, 32, 8192),
    ("llama-3.1-70b", "tpu-v5e", 16, 32, 8192),
)
_NAMES = ("scaling-book", "llama-3.1-70b", "llama-3.1-8b", "qwen3-32b")
_NOTES = {
    BOOK[0]: "The book asks for it of the parameters alone.",
    BOOK[1]: "The book has 17 ms, with 70e9 parameters, 160 kB a token and 8.1e11 B/s.",
    BOOK[2]: "The book has 8.5 ms, half of what eight chips take.",
}


def problem(name: str, card: str, devices: int, batch: int, length: int) -> Problem | None:
    """The problem of a model in int8 on a slice, with sequences or (batch 0) without; None if it does not fit."""
    weights, bandwidth = facts.parameters(name).total, facts.hardware(card).bandwidth
    one = facts.kv_bytes(name, length, "int8") if batch else 0
    if weights + batch * one > devices * facts.hardware(card).memory_bytes:
        return None
    right = (weights + batch * one) / (devices * bandwidth)
    mistakes = [
        Mistake(
            name="one chip",
            value=right * devices,
            hint="That is the time of one chip that reads everything. Each reads its share, all at once.",
        ),
        Mistake(
            name="bf16",
            value=2 * right,
            hint="You took two bytes for a weight and an element of the cache. In int8 each is one.",
        ),
        pitfalls.bits_for_bytes(8 * right, 8),
    ]
    setting = (name, card, devices, batch, length)
    if batch:
        mistakes += [
            Mistake(name="weights alone", value=weights / devices / bandwidth, hint="A step reads the caches as well."),
            Mistake(name="caches alone", value=batch * one / devices / bandwidth, hint="A step reads the weights as well."),
            Mistake(
                name="weights for each sequence",
                value=batch * (weights + one) / devices / bandwidth,
                hint="The weights are read once a step, for all sequences together.",
            ),
            Mistake(
                name="one cache",
                value=(weights + one) / devices / bandwidth,
                hint=f"That is with the cache of one sequence. Each of the {batch} has its own.",
            ),
        ]
    task = (
        f"Each of {batch} sequences has {length:,} tokens in the cache, also in int8 and divided over all chips. How "
        "long does a "
        "decode step take at the least, if memory is all that counts"
        if batch
        else "How long does it take at the least to read them all once, which every decode step does"
    )
    return Problem(
        title="A step, at the least",
        text=(
            f"{facts.title(name)} ({weights:,} parameters; {facts.shape(name, 'layers', 'queries', 'kv', 'head')}) is "
            "divided over "
            f"{devices} {facts.card(card)}, each with {formatting.quantity(bandwidth, 'B/s')} of memory bandwidth "
            "($beta$), its "
            f"weights in int8. {task}?"
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=tuple(mistakes),
        solution=(
            *((_NOTES[setting],) if setting in _NOTES else ()),
            worked.formula(
                "Bytes over the bandwidth of all chips:",
                "(N + B * K) / (n * beta)" if batch else "N / (n * beta)",
                {
                    "N": (weights, "weights [bytes]"),
                    **({"B": (batch, ""), "K": (one, "cache of a sequence [bytes]")} if batch else {}),
                    "n": (devices, "chips"),
                    "beta": (bandwidth, ""),
                },
                "s",
            ),
        ),
        source=facts.scaling_book(
            "applied-inference" if batch else "inference",
            "a step with 32 sequences" if batch else "question 3 of Worked Problems",
            own=setting in BOOK,
        ),
    )


def draw(rng: Rng) -> Problem | None:
    """A model, a slice, and sequences, or none."""
    batch = rng.choice((0, 16, 32, 64))
    length = rng.choice((2048, 8192, 16384)) if batch else 0
    return problem(rng.choice(_NAMES), rng.choice(facts.TPUS), rng.choice((4, 8, 16)), batch, length)


TEMPLATE = Template(id="scaling-book-decode-bound", topic="scaling-book", minutes=4, draw=draw)
