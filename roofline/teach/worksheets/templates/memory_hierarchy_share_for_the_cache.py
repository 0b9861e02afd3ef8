"""What weights and activations leave of device memory."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import percent
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "l40s", "a100-pcie-40gb")


def draw(rng: Rng) -> Problem | None:
    """A model that fits a card, the engine's share of memory, and its activations."""
    name, card, dtype = rng.choice(facts.DENSE), rng.choice(_CARDS), rng.choice(("bf16", "fp8"))
    memory, share = facts.hardware(card).memory_bytes, rng.integer(85, 95) / 100
    used = rng.integer(10, 80) / 10 * 2**30
    element = facts.element_bytes(dtype)
    weights = facts.parameters(name).total * element
    left = share * memory - weights - used
    right = left / memory
    if right < 0.05:
        return None
    mistakes = (
        Mistake(
            name="all of memory",
            value=1 - (weights + used) / memory,
            hint=f"You gave the engine all of memory. It takes {percent(share, 0)} of it.",
        ),
        Mistake(
            name="activations forgotten",
            value=share - weights / memory,
            hint="The activations of the largest step have to fit too.",
        ),
        Mistake(
            name="share of what is left",
            value=share * (1 - (weights + used) / memory),
            hint="You took the share of what weights and activations leave. It is a share of all of memory here.",
        ),
        Mistake(
            name="other format",
            value=share - (weights * (0.5 if element == 2 else 2) + used) / memory,
            hint=f"Count the bytes of a weight again: it is {dtype}.",
        ),
        Mistake(
            name="share of the engine's memory",
            value=left / (share * memory),
            hint="That is a share of the engine's memory. The question is one of all of it.",
        ),
    )
    return Problem(
        title="What is left for the cache",
        text=(
            f"An engine takes {percent(share, 0)} of the {memory / 2**30:.4g} GiB of an {facts.card(card)} "
            "(`gpu_memory_utilization` "
            f"of vLLM). The weights of {facts.title(name)}, {facts.parameters(name).total / 1e9:.4g} billion parameters in "
            f"{dtype}, "
            f"and {used / 2**30:.1f} GiB of activations have to fit in it; the rest is for the KV cache. Which share of all "
            "of the "
            "device's memory is that?"
        ),
        answer=Answer(value=right, kind="share"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "The weights take:",
                "N * b_w",
                {"N": (facts.parameters(name).total, "parameters"), "b_w": (element, "")},
                "bytes",
            ),
            f"The activations are {formatting.quantity(used, 'B')}, the memory {formatting.quantity(memory, 'B')}.",
            worked.formula(
                "For the cache, over all of memory:",
                "(u * C - W - A) / C",
                {
                    "u": (share, "share of the engine"),
                    "C": (memory, "device memory [bytes]"),
                    "W": (weights, "weights [bytes]"),
                    "A": (used, "activations [bytes]"),
                },
                "1",
            ),
        ),
        source="docs/conventions.md",
    )


TEMPLATE = Template(id="memory-hierarchy-share-for-the-cache", topic="memory-hierarchy", minutes=4, draw=draw)
