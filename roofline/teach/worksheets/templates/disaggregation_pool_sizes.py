"""GPUs of both pools, by the rates of their work."""

from __future__ import annotations

from math import ceil

from roofline.formatting import number, percent
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm")
_MODELS = ("llama-3.1-8b", "qwen3-8b", "mistral-nemo-12b")
_BATCH, _SHARE = 32, 0.6


def draw(rng: Rng) -> Problem | None:
    """A load, and what a GPU of each pool does: a share of what the toolkit's bound allows, to two digits."""
    name, card = rng.choice(_MODELS), rng.choice(_CARDS)
    prompt, out = 1024 * rng.choice((1, 2, 4)), rng.integer(100, 600, 50)
    context = prompt + out // 2
    if facts.max_batch(name, card, context) < _BATCH:
        return None
    fill = float(f"{_SHARE * prompt / facts.floor(name, card, 1, prompt, 0).seconds:.2g}")
    decode = float(f"{_SHARE * _BATCH / facts.floor(name, card, _BATCH, 1, context).seconds:.2g}")
    rate = rng.integer(5, 80)
    exact_fill, exact_decode = rate * prompt / fill, rate * out / decode
    first, second = ceil(exact_fill), ceil(exact_decode)
    right = first + second
    if min(first, second) < 2 or any(abs(one - round(one)) < 0.03 for one in (exact_fill, exact_decode)):
        return None
    mistakes = (
        Mistake(
            name="rounded down",
            value=int(exact_fill) + int(exact_decode),
            hint="Rounded down, each pool is a little too slow for what arrives, and its queue grows for ever.",
        ),
        Mistake(
            name="rounded together",
            value=ceil(exact_fill + exact_decode),
            hint="You rounded the sum. A GPU is in one pool: round each pool up on its own.",
        ),
        Mistake(name="prefill pool", value=first, hint="That is the prefill pool. The other pool needs GPUs too."),
        Mistake(name="decode pool", value=second, hint="That is the decode pool. The other pool needs GPUs too."),
        Mistake(
            name="rates swapped",
            value=ceil(rate * prompt / decode) + ceil(rate * out / fill),
            hint="You put the prompts through the decode GPUs. Prompt tokens go with the prefill rate, output with the other.",
        ),
    )
    return Problem(
        title="Two pools",
        text=(
            f"{rate} requests per second arrive for {facts.title(name)}, with prompts of {prompt:,} tokens and {out} output "
            f"tokens. An {facts.card(card)} that only computes prompts does {number(fill)} tokens/s, one that only decodes, "
            f"with {_BATCH} sequences, {number(decode)} tokens/s ({percent(_SHARE, 0)} of the bounds). Count every output "
            "token as decoded. How many GPUs do both pools need together at the least?"
        ),
        answer=Answer(value=right, kind="devices", tolerance=0),
        mistakes=tuple(one for one in mistakes if one.value != right),
        solution=(
            worked.formula(
                f"The prompts need, rounded up to {first}:",
                "r * n_in / R_prefill",
                {
                    "r": (rate, "requests per second"),
                    "n_in": (prompt, "prompt tokens"),
                    "R_prefill": (fill, "rate of a prefill GPU [tokens/s]"),
                },
                "devices",
            ),
            worked.formula(
                f"The output needs, rounded up to {second}:",
                "r * n_out / R_decode",
                {
                    "r": (rate, "requests per second"),
                    "n_out": (out, "output tokens"),
                    "R_decode": (decode, "rate of a decode GPU [tokens/s]"),
                },
                "devices",
            ),
            worked.formula(
                "Together:",
                "n_prefill + n_decode",
                {"n_prefill": (first, "prefill GPUs"), "n_decode": (second, "decode GPUs")},
                "devices",
            ),
        ),
        source="Zhong et al. 2024 (DistServe), arXiv:2401.09670, section 4",
    )


TEMPLATE = Template(id="disaggregation-pool-sizes", topic="disaggregation", minutes=5, draw=draw)
