"""TPOT of a request, as benchmarks report it."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem:
    """A short response, so that the first token is a good part of it."""
    tokens = rng.integer(6, 30)
    first, each = rng.integer(100, 1200, 20) / 1000, rng.integer(12, 60) / 1000
    whole = round(first + (tokens - 1) * each, 3)
    right = (whole - first) / (tokens - 1)
    mistakes = (
        Mistake(
            name="all tokens",
            value=(whole - first) / tokens,
            hint="You divided by all tokens. TTFT is the time of the first one: what is left is the time of the others.",
        ),
        Mistake(
            name="first token not taken off",
            value=whole / tokens,
            hint="TTFT is still in it. TPOT is of the tokens after the first.",
        ),
        Mistake(
            name="first token not taken off, one token less",
            value=whole / (tokens - 1),
            hint="You left out one token, but not the time that it took: TTFT is still in it.",
        ),
        Mistake(
            name="time of all of them",
            value=whole - first,
            hint="That is the time of all tokens after the first, together.",
        ),
    )
    return Problem(
        title="Time per output token",
        text=(
            f"A request arrives at a server. Its first token comes after {formatting.quantity(first, 's')} (TTFT), its "
            "last one "
            f"{formatting.quantity(whole, 's')} after it arrived (E2E); the response has {tokens} tokens. What is its "
            "TPOT, as vLLM's "
            "benchmark reports it?"
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=mistakes,
        solution=(
            "TPOT is the mean time of a token after the first.",
            worked.formula(
                "Each of the others has its share of what is left:",
                "(t_E2E - t_first) / (n - 1)",
                {
                    "t_E2E": (whole, "arrival to last token [s]"),
                    "t_first": (first, "TTFT [s]"),
                    "n": (tokens, "output tokens"),
                },
                "s",
            ),
        ),
        source="vLLM, `vllm bench serve`",
    )


TEMPLATE = Template(id="serving-tpot", topic="serving", minutes=3, draw=draw)
