"""The throughput of a closed loop of clients."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem:
    """Clients, and what each of their requests takes."""
    clients, out = rng.choice((8, 16, 32, 64, 128)), rng.integer(60, 300, 20)
    first, each = rng.integer(200, 3000, 100) / 1000, rng.integer(10, 50) / 1000
    seconds = first + (out - 1) * each
    right = clients * out / seconds
    mistakes = (
        Mistake(
            name="first token forgotten",
            value=clients / each,
            hint="You let each client have a token every TPOT. While it waits for a first token it has none.",
        ),
        Mistake(
            name="requests",
            value=clients / seconds,
            hint="Those are requests/s. Each of them brings all its output tokens.",
        ),
        Mistake(name="one client", value=out / seconds, hint=f"That is what one client gets. There are {clients} of them."),
        Mistake(
            name="first token for every token",
            value=clients / (first + each),
            hint="You waited for a first token before each token. It comes once a request.",
        ),
    )
    return Problem(
        title="A closed loop",
        text=(
            f"{clients} clients each send a request, wait for its response, and send the next one at once. Under this load a "
            f"first token takes {formatting.quantity(first, 's')} on average (TTFT) and each further one "
            f"{formatting.quantity(each, 's')} (TPOT); "
            f"all responses have {out} tokens. How many output tokens/s does the server produce in all?"
        ),
        answer=Answer(value=right, kind="tokens/s"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "A request takes:",
                "t_first + (n - 1) * t_each",
                {"t_first": (first, "TTFT [s]"), "n": (out, "output tokens"), "t_each": (each, "TPOT [s]")},
                "s",
            ),
            worked.formula(
                "In that time each client gets one response (Little's law, with all clients in flight):",
                "C * n / t",
                {
                    "C": (clients, "clients"),
                    "n": (out, "output tokens"),
                    "t": (seconds, "time of a request [s]"),
                },
                "tokens/s",
            ),
        ),
        source="docs/closed-loop.md",
    )


TEMPLATE = Template(id="serving-closed-loop", topic="serving", minutes=4, draw=draw)
