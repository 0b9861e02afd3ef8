"""The time of a prompt at a share of the peak, after "How to Scale Your Model"."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import percent
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

BOOK = (("llama-3.1-70b", "tpu-v5e", 16, 8192, 40), ("llama-3.1-70b", "tpu-v5e", 16, 8192, 100))
_NAMES = ("llama-3.1-70b", "llama-3.1-8b", "qwen3-32b", "llama-3.1-405b")


def problem(name: str, card: str, devices: int, tokens: int, share: int) -> Problem:
    """The problem of a model on a slice, a prompt, and the MFU in percent."""
    weights, peak, mfu = facts.parameters(name).total, facts.hardware(card).peak("bf16"), share / 100
    right = 2 * weights * tokens / (devices * peak * mfu)
    mistakes = [
        pitfalls.multiply_accumulates(right / 2),
        Mistake(name="one chip", value=right * devices, hint=f"That is one chip. The FLOP are divided over {devices} of them."),
        Mistake(
            name="one token", value=right / tokens, hint=f"That is one token. All {tokens:,} of the prompt have to be computed."
        ),
    ]
    if share < 100:
        mistakes += [
            Mistake(
                name="the whole peak",
                value=right * mfu,
                hint=f"You took all of the peak. The products reach {percent(mfu, 0)} of it.",
            ),
            Mistake(
                name="times the MFU",
                value=right * mfu**2,
                hint="You made it shorter by the MFU. With less of the peak it takes longer.",
            ),
        ]
    else:
        mistakes.append(
            Mistake(
                name="read once",
                value=2 * weights / devices / facts.hardware(card).bandwidth,
                hint="That is how long reading the weights takes. A long prompt is bound by compute.",
            )
        )
    setting = (name, card, devices, tokens, share)
    note = "The book has 0.91 s, with 70e9 parameters." if share == 40 else "At the whole peak it is 0.4 of the book's 0.91 s."
    return Problem(
        title="A prompt, from its FLOP",
        text=(
            f"A prompt of {tokens:,} tokens ($T$) is computed by {facts.title(name)} ({weights:,} parameters) in bf16 on "
            f"{devices} {facts.card(card)} with {formatting.quantity(peak, 'FLOP/s')} each ($P$), of which "
            f"{'all' if share == 100 else percent(mfu, 0)} is reached. Count every parameter once for each token and leave "
            "attention out. How long does it take?"
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=tuple(mistakes),
        solution=(
            *((note,) if setting in BOOK else ()),
            worked.formula(
                "Two FLOP for each parameter and token, over what all chips reach:",
                "2 * N * T / (n * P * u)",
                {
                    "N": (weights, "parameters"),
                    "T": (tokens, ""),
                    "n": (devices, "chips"),
                    "P": (peak, ""),
                    "u": (mfu, "share of the peak that is reached"),
                },
                "s",
            ),
        ),
        source=facts.scaling_book("applied-inference", "What about prefill?", own=setting in BOOK),
    )


def draw(rng: Rng) -> Problem:
    """A model, a slice, a prompt, and a share of the peak."""
    return problem(
        rng.choice(_NAMES), rng.choice(facts.TPUS), rng.choice((8, 16, 32)), rng.choice((2048, 8192, 8192, 32768)),
        rng.choice((40, 40, 50, 60, 100)),
    )  # fmt: skip


TEMPLATE = Template(id="scaling-book-prefill-time", topic="scaling-book", minutes=4, draw=draw)
