"""Find the mistakes: offloading over a link in both directions, of half the bytes."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("rtx-4090", "l40s", "a100-pcie-40gb", "h100-sxm", "a100-sxm-80gb")


def draw(rng: Rng) -> Problem:
    """A model whose weights come over the link to the host, in a post with two mistakes."""
    name, card = facts.of_other_depth(rng, rng.choice(facts.DENSE)), rng.choice(_CARDS)
    hardware, count = facts.hardware(card), facts.layer_weights(name)
    link = hardware.to_host()
    rate, bandwidth = link.within(2), hardware.bandwidth
    right = float(link.seconds(2 * count, 0, 2))
    one = count / bandwidth
    mistakes = (
        Mistake(
            name="both mistakes",
            value=one,
            hint="That is the number of the post. How many bytes is a weight, and over what do they come?",
        ),
        Mistake(
            name="device memory",
            value=2 * one,
            hint="The bytes are right now. The rate is not: the weights are in host memory, on the other side of the link.",
        ),
        Mistake(
            name="a byte for each weight",
            value=right / 2,
            hint="The rate is right now. The bytes are not: how many has a weight in bf16?",
        ),
        Mistake(
            name="read back too",
            value=2 * right,
            hint="Weights do not change: nothing goes back to the host.",
        ),
    )
    return Problem(
        title="Find the mistakes",
        text=(
            f"The layers of {facts.title(name)} have {count:,} weights in bf16. They are in host memory, and a decode step "
            "on an "
            f"{facts.card(card)} streams all of them through. A post says how long that takes at the least:\n\n"
            f"> {formatting.quantity(count, 'B')} / {formatting.quantity(bandwidth, 'B/s')} = "
            f"{formatting.quantity(one, 's')}\n\n"
            f"Device memory delivers {formatting.quantity(bandwidth, 'B/s')}, the link to the host "
            f"{formatting.quantity(rate, 'B/s')} in one direction. Find both mistakes. How long does it really take at the "
            "least?"
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=mistakes,
        solution=(
            "The post takes a byte for each weight, where bf16 has two, and device memory's bandwidth for that of the link.",
            worked.formula(
                "Put right:",
                "2 * N / R",
                {"N": (count, "weights"), "R": (rate, "rate of the link [bytes/s]")},
                "s",
            ),
        ),
    )


TEMPLATE = Template(id="memory-hierarchy-find-the-mistakes", topic="memory-hierarchy", minutes=4, draw=draw)
