"""Requests in flight, by Little's law."""

from __future__ import annotations

from roofline.teach.worksheets import worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem:
    """A rate, and the latencies of a request."""
    rate, out = rng.integer(2, 40) / 2, rng.integer(100, 600, 20)
    first, each = rng.integer(200, 2000, 100) / 1000, rng.integer(15, 60) / 1000
    seconds = first + (out - 1) * each
    right = rate * seconds
    mistakes = (
        Mistake(
            name="one token",
            value=rate * (first + each),
            hint=f"TPOT is the time of one further token. A request has {out} tokens.",
        ),
        Mistake(
            name="first token alone",
            value=rate * first,
            hint="After its first token per request stays until its last one.",
        ),
        Mistake(
            name="divided",
            value=seconds / rate,
            hint="More requests per second make more in flight: multiply the rate by the time that each stays.",
        ),
        Mistake(
            name="first token forgotten",
            value=rate * (out - 1) * each,
            hint="The time to the first token is missing: a request is there from when it arrives.",
        ),
    )
    return Problem(
        title="Requests in flight",
        text=(
            f"Requests arrive at {rate:g} a second. On average the first token of one comes after {first * 1000:,.0f} "
            f"ms (TTFT), each "
            f"further one after {each * 1000:g} ms (TPOT), and there are {out} of them in all. The server keeps up. How "
            f"many requests are in "
            "flight on average?"
        ),
        answer=Answer(value=right, kind="sequences"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "A request stays from its arrival to its last token:",
                "t_first + (n - 1) * t_each",
                {"t_first": (first, "TTFT [s]"), "n": (out, "output tokens"), "t_each": (each, "TPOT [s]")},
                "s",
            ),
            worked.formula(
                "In flight are those that arrive in that time (Little's law):",
                "R * t",
                {"R": (rate, "rate [1/s]"), "t": (seconds, "time that a request stays [s]")},
                "sequences",
            ),
        ),
        source='Little, "A Proof for the Queuing Formula L = λW", Operations Research 9(3), 1961',
    )


TEMPLATE = Template(id="serving-in-flight", topic="serving", minutes=3, draw=draw)
