"""Goodput: requests that keep to both objectives."""

from __future__ import annotations

from roofline.teach.quantities import format_answer
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_REQUESTS = 8


def draw(rng: Rng) -> Problem | None:
    """Eight requests around the limits, some of which miss one, the other, or both."""
    ttft, tpot, seconds = rng.choice((300, 500, 800, 1000)), rng.choice((30, 40, 50)), rng.choice((2, 4, 5, 8, 10))
    rows = [
        (rng.integer(ttft // 4, ttft * 7 // 4, 10), rng.integer(tpot // 2, tpot * 3 // 2))
        for _ in range(_REQUESTS)
    ]  # fmt: skip
    if any(first == ttft or each == tpot for first, each in rows):
        return None
    quick, smooth = [first < ttft for first, _ in rows], [each < tpot for _, each in rows]
    good = sum(one and other for one, other in zip(quick, smooth, strict=True))
    either = sum(one or other for one, other in zip(quick, smooth, strict=True))
    if good < 2 or len({good, sum(quick), sum(smooth), either}) < 4:
        return None
    mistakes = (
        Mistake(
            name="throughput",
            value=_REQUESTS / seconds,
            hint="That is the throughput. Goodput counts the requests that keep to the objectives.",
        ),
        Mistake(
            name="TTFT alone", value=sum(quick) / seconds, hint="You looked at TTFT alone. Both objectives have to be kept."
        ),
        Mistake(
            name="TPOT alone", value=sum(smooth) / seconds, hint="You looked at TPOT alone. Both objectives have to be kept."
        ),
        Mistake(
            name="either",
            value=either / seconds,
            hint="You counted requests that keep to one of the two. Both have to be kept.",
        ),
        Mistake(name="a number", value=good, hint="That is how many requests were good. In how many seconds?"),
    )
    table = "\n".join(f"* request {row}: TTFT {first:,}, TPOT {each}" for row, (first, each) in enumerate(rows, 1))
    which = [str(row) for row in range(1, _REQUESTS + 1) if quick[row - 1] and smooth[row - 1]]
    return Problem(
        title="Goodput",
        text=(
            f"A server ends {_REQUESTS} requests in {seconds} s (milliseconds):\n\n"
            f"{table}\n\n"
            f"The objectives are a TTFT of at most {ttft:,} ms and a TPOT of at most {tpot} ms. What is the goodput, in "
            "requests per second?"
        ),
        answer=Answer(value=good / seconds, kind="requests/s"),
        mistakes=mistakes,
        solution=(
            f"Both objectives are kept by the requests {', '.join(which[:-1])} and {which[-1]}: {good} of {_REQUESTS}.",
            f"In {seconds} s that is {good} / {seconds} = {format_answer(good / seconds, 'requests/s')}.",
        ),
        source="Zhong et al. 2024 (DistServe), arXiv:2401.09670",
    )


TEMPLATE = Template(id="serving-goodput", topic="serving", minutes=4, draw=draw)
