"""The 95th percentile of twenty first tokens."""

from __future__ import annotations

from roofline.serving.simulation.histogram import Histogram
from roofline.teach.quantities import format_answer
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_REQUESTS = 20
_SHARES = (95, 90, 80)


def _percentile(milliseconds: list[int], share: int) -> int:
    """The smallest time within which the given percentage of requests are."""
    import numpy as np

    histogram = Histogram()
    histogram.add(np.array(milliseconds) / 1000)
    near = histogram.quantile(share / 100) or 0.0  # to 0.1 %: the time that it stands for is the nearest one
    return min(milliseconds, key=lambda time: abs(time / 1000 - near))


def draw(rng: Rng) -> Problem | None:
    """Most of them quick, a few of them slow."""
    share = rng.choice(_SHARES)
    slow = _REQUESTS * (100 - share) // 100 + 2
    times = [rng.integer(80, 300, 5) for _ in range(_REQUESTS - slow)] + [rng.integer(320, 2400, 20) for _ in range(slow)]
    order, listed = sorted(times), rng.shuffled(times)
    if len(set(order[-slow - 1 :])) <= slow:
        return None
    right, place = _percentile(times, share), _REQUESTS * share // 100
    mistakes = (
        Mistake(
            name="mean",
            value=sum(times) / _REQUESTS / 1000,
            hint="That is the mean, which says little of those who wait longest.",
        ),
        Mistake(
            name="next one",
            value=order[place] / 1000,
            hint="That is one too far: more requests are within it than required.",
        ),
        Mistake(
            name="one before",
            value=order[place - 2] / 1000,
            hint=f"That is one too few: count again how many of {_REQUESTS} have to be at most as long.",
        ),
        Mistake(
            name="share of the longest",
            value=share / 100 * order[-1] / 1000,
            hint="You took a share of the longest time. A percentile is a place in the order of the times.",
        ),
        Mistake(
            name="order of the list",
            value=listed[place - 1] / 1000,
            hint="You counted in the order of the list. Sort the times first.",
        ),
    )
    return Problem(
        title="A percentile",
        text=(
            f"{_REQUESTS} requests had their first tokens after (milliseconds) {', '.join(f'{time:,}' for time in listed)}. "
            f"What is the p{share} of TTFT: the shortest of these times that at least {share} % of the requests are within?"
        ),
        answer=Answer(value=right / 1000, kind="s"),
        # where the list happens to have the right time in that place there is nothing to say
        mistakes=tuple(one for one in mistakes if one.name != "order of the list" or listed[place - 1] != right),
        solution=(
            f"{share} % of {_REQUESTS} are {place}: the {place}th in the order of the times.",
            (
                f"The longest ones are {', '.join(f'{time:,}' for time in order[-slow:])} ms, so that it is the "
                f"{_REQUESTS - place + 1}{'nd' if _REQUESTS - place == 1 else 'rd' if _REQUESTS - place == 2 else 'th'} from "
                f"the end: {format_answer(right / 1000, 's')}."
            ),
        ),
    )


TEMPLATE = Template(id="serving-percentile", topic="serving", minutes=3, draw=draw)
