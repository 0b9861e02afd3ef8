"""Prefill servers for each decode server, after "How to Scale Your Model"."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import percent
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

BOOK = (("llama-3.1-70b", "tpu-v5e", 16, 8192, 512, 32),)
_NAMES = ("llama-3.1-70b", "qwen3-32b", "llama-3.1-8b")
_MFU = 0.4


def problem(name: str, card: str, devices: int, prompt: int, output: int, batch: int) -> Problem | None:
    """The problem of a model, slices of one size, lengths, and the batch of decode; None if a server of either kind idles."""
    hardware, weights = facts.hardware(card), facts.parameters(name).total
    prefill = 2 * weights * prompt / (devices * hardware.peak("bf16") * _MFU)
    step = hardware.memory_bytes / hardware.bandwidth
    right = prefill * batch / (output * step)
    if not 0.3 < right < 30:
        return None
    setting = (name, card, devices, prompt, output, batch)
    return Problem(
        title="Prefill servers for a decode server",
        text=(
            f"{facts.title(name)} ({weights:,} parameters, bf16) is served by servers of {devices} {facts.card(card)} each: "
            f"{formatting.quantity(hardware.memory_bytes, 'B')}, {facts.peak_and_bandwidth(card)}. Some compute prompts of "
            f"{prompt:,} tokens, one at a time, at {percent(_MFU, 0)} of the peak (2 FLOP for each parameter and "
            "token); the others "
            f"decode {batch} sequences at a time ($B$), {output} tokens each, in steps that read all of their memory. How many "
            "prefill servers keep one decode server busy? Do not round to whole ones."
        ),
        answer=Answer(value=right, kind="ratio", tolerance=0.03),
        mistakes=(
            Mistake(
                name="upside down",
                value=1 / right,
                hint="Those are the decode servers for one prefill server.",
            ),
            Mistake(
                name="one sequence",
                value=right / batch,
                hint=f"A decode server finishes {batch} responses in the time of one. Each of them needs a prompt.",
            ),
            Mistake(
                name="one step",
                value=prefill / step,
                hint="You compared a prompt with one step. A response takes as many steps as it has tokens.",
            ),
            Mistake(
                name="the whole peak",
                value=right * _MFU,
                hint=f"You let prompts reach the peak. They reach {percent(_MFU, 0)} of it.",
            ),
        ),
        solution=(
            *(("The book has three, with 0.91 s for a prompt and 19 ms for a step.",) if setting in BOOK else ()),
            worked.formula(
                "A prefill server starts a response every:",
                "2 * N * S_q / (n * P * u)",
                {
                    "N": (weights, "parameters"),
                    "S_q": (prompt, ""),
                    "n": (devices, "chips of a server"),
                    "P": (hardware.peak("bf16"), ""),
                    "u": (_MFU, "share of the peak that is reached"),
                },
                "s",
            ),
            worked.formula(
                "A step of a decode server takes:",
                "C / beta",
                {"C": (hardware.memory_bytes, "memory of a chip [bytes]"), "beta": (hardware.bandwidth, "")},
                "s",
            ),
            worked.formula(
                "It ends B responses every n_out steps, each of which needs a prompt:",
                "t_prompt * B / (n_out * t_step)",
                {
                    "t_prompt": (prefill, "time of a prompt [s]"),
                    "B": (batch, ""),
                    "n_out": (output, "tokens of a response"),
                    "t_step": (step, "time of a step [s]"),
                },
                "1",
            ),
        ),
        source=facts.scaling_book("applied-inference", "the ratio of prefill to decode", own=setting in BOOK),
    )


def draw(rng: Rng) -> Problem | None:
    """A model, servers, lengths and a batch."""
    if rng.below(8) == 0:
        return problem(*BOOK[0])
    return problem(
        rng.choice(_NAMES), rng.choice(facts.TPUS), rng.choice((8, 16)), rng.choice((1024, 2048, 4096, 8192)),
        rng.choice((128, 256, 512, 1024)), rng.choice((16, 32, 64, 128)),
    )  # fmt: skip


TEMPLATE = Template(id="scaling-book-prefill-servers", topic="scaling-book", minutes=6, draw=draw)
