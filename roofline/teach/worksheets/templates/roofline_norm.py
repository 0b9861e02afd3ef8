"""The least time of a norm, which no batch helps."""

from __future__ import annotations

from roofline.operators.norm import Norm
from roofline.predict.bounds import times
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem:
    """A norm over the tokens of a prompt, with the addition of the residual stream fused in front or without."""
    name, card = rng.choice(facts.DENSE), rng.choice(facts.CARDS)
    tokens, adds = rng.choice((1024, 2048, 4096, 8192, 16384)), rng.choice((0, 1))
    hidden, bandwidth = facts.model(name).hidden_size, facts.hardware(card).bandwidth
    operator = Norm(rows=tokens, width=hidden, adds=adds)
    right = times(operator, operator.cost(), facts.hardware(card)).bound
    tensors, tensor = 2 + 2 * adds, 2 * tokens * hidden / bandwidth
    mistakes = [
        Mistake(
            name="read alone",
            value=right * (1 + adds) / tensors,
            hint="What is read is there. What is written crosses the bus as well.",
        ),
        Mistake(name="elements for bytes", value=right / 2, hint="You counted elements. In bf16 each is two bytes."),
        Mistake(
            name="at the peak",
            value=(4 + adds) * tokens * hidden / facts.hardware(card).peak("bf16"),
            hint="You divided by the peak of the matrix units. A norm has no product of matrices: its bytes take longer.",
        ),
        Mistake(
            name="a matrix",
            value=2 * hidden * hidden / bandwidth,
            hint="You read a matrix. A norm has one weight per element of a vector; it moves the vectors themselves.",
        ),
    ]
    if adds:
        mistakes.append(
            Mistake(
                name="sum not written",
                value=3 * tensor,
                hint="The sum is the new residual stream, which later layers read: it is written beside the result.",
            )
        )
    else:
        mistakes.append(Mistake(name="one tensor", value=3 * tensor, hint="You moved three tensors: it reads one, writes one."))
    fused = (
        "reads the residual stream and what is added to it, and writes the sum and its normalised form"
        if adds
        else "reads the vectors and writes them normalised"
    )
    return Problem(
        title="A norm",
        text=(
            f"RMSNorm in {facts.title(name)} takes {tokens:,} vectors of {hidden:,} elements ($d_model$) in bf16; it {fused}. "
            f"The {facts.card(card)} has {facts.peak_and_bandwidth(card)}. The norm does about 4 FLOP per element, so that its "
            "intensity is near 1 FLOP/byte however many tokens there are. How long does it take at the least?"
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=tuple(mistakes),
        solution=(
            (
                f"With about 1 FLOP/byte it is bound by memory. {2 + 2 * adds} tensors of the tokens' vectors cross the bus; "
                "the weights are one vector."
            ),
            worked.formula(
                "Their bytes over the bandwidth:",
                "n_tensors * b_a * T * d_model / beta",
                {
                    "n_tensors": (tensors, "tensors that are moved"),
                    "b_a": (2, ""),
                    "T": (tokens, ""),
                    "d_model": (hidden, ""),
                    "beta": (bandwidth, ""),
                },
                "s",
            ),
        ),
        source="Zhang and Sennrich 2019, arXiv:1910.07467, eq. 4",
    )


TEMPLATE = Template(id="roofline-norm", topic="roofline", minutes=4, draw=draw)
