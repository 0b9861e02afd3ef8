"""Little's law: requests in flight as the area between arrivals and departures."""

from __future__ import annotations

import random

import roofline
from roofline import formatting
from roofline.errors import InputError
from roofline.teach.lessons.draw.canvas import Canvas, Drawing, Hue

_FRAME = 46.0, 560.0, 34.0, 296.0
"""Left, right, upper and lower edge of the plot."""


def draw(
    rate: float = 2.0,
    requests: int = 12,
    model: str = "llama-3.1-8b",
    hardware: str = "a100-sxm-80gb",
    prompt: int = 1024,
    output: int = 211,
    seed: int = 4,
) -> Drawing:
    """Draw arrivals and departures of some requests, each with its time in the system.

    Args:
        rate: of arrivals, per second, which are random.
        requests: number of them, at most 16.
        model: that is served.
        hardware: that serves it.
        prompt: tokens of each prompt.
        output: tokens of a response on average; each has between a half and one and a half of it.
        seed: of arrivals and outputs.

    Raises:
        InputError: the model does not fit.
    """
    result = roofline.analyze(model, hardware, batch=4, input_len=prompt, output_len=output)
    times = result.request
    ttft, tpot = (times.ttft_s.best, times.tpot_s.best) if times is not None else (None, None)
    if ttft is None or tpot is None:
        raise InputError(f"{model} does not fit on {hardware}")
    chance, time = random.Random(seed), 0.0  # noqa: S311 - an example
    spans = []
    for _ in range(requests):
        spans.append((time, time + ttft + tpot * (output * chance.uniform(0.5, 1.5) - 1)))
        time += chance.expovariate(rate)
    end = max(leaves for _, leaves in spans)
    departures = sorted(leaves for _, leaves in spans)
    area = sum(leaves - arrives for arrives, leaves in spans)
    mean_time, arrivals, in_flight = area / requests, requests / end, area / end
    left, right, top, bottom = _FRAME
    canvas = Canvas(height=396)
    row = (bottom - top) / requests

    def x(seconds: float) -> float:
        return left + (right - left) * seconds / end

    def y(number: float) -> float:
        return bottom - number * row

    for number, (arrives, leaves) in enumerate(spans):
        canvas.box(x(arrives), y(number + 1) + 1.5, x(leaves) - x(arrives), row - 3, hue="orange", round_=2)
    stairs = [(x(0.0), y(0))]
    for number, (arrives, _) in enumerate(spans):
        stairs += [(x(arrives), y(number)), (x(arrives), y(number + 1))]
    canvas.line(*stairs, (x(end), y(requests)), hue="blue", wide=2.4)
    stairs = [(x(0.0), y(0))]
    for number, leaves in enumerate(departures):
        stairs += [(x(leaves), y(number)), (x(leaves), y(number + 1))]
    canvas.line(*stairs, hue="green", wide=2.4)
    canvas.line((left, top - 6), (left, bottom), (right, bottom))
    _axes(
        canvas,
        [(x(second), str(second)) for second in range(int(end) + 1)],
        [(y(n), str(n)) for n in range(0, requests + 1, 4)],
    )
    legend: tuple[tuple[str, Hue, float], ...] = (("arrived so far", "blue", 60.0), ("left so far", "green", 84.0))
    for words, hue, at in legend:
        canvas.line((586, at), (606, at), hue=hue, wide=2.4)
        canvas.label(words, 612, at, size=12)
    canvas.box(586, 100, 20, 14, hue="orange")
    canvas.label("one request,", 612, 107, size=12)
    canvas.label("from arrival to end", 612, 123, size=12)
    at = max(range(requests), key=lambda number: sum(a <= spans[number][0] < b for a, b in spans))
    moment = spans[at][0]
    running = [number for number, (arrives, leaves) in enumerate(spans) if arrives <= moment < leaves]
    canvas.line((x(moment), top - 10), (x(moment), bottom), hue="red", dashed=True)
    canvas.label(f"{len(running)} in flight here", x(moment), 14, anchor="middle", size=12, hue="red")
    canvas.label(f"Area of all bars: {requests} requests x {mean_time:.3g} s = {area:.3g} request-seconds", 8, 336)
    canvas.label(
        f"L = λ W: {arrivals:.3g} per second x {mean_time:.3g} s = {in_flight:.3g} requests in flight on average",
        8,
        360,
        strong=True,
    )
    canvas.label(
        f"{model} on {hardware}: TTFT {formatting.about(ttft)}, TPOT {formatting.about(tpot)}", 8, 384, size=12, hue="grey"
    )
    return canvas.drawing(
        f"littles-law-{requests}",
        "Little's law: bars of requests, added up two ways",
        f"{requests} requests as bars from arrival to end. The upper stairs count arrivals, the lower ones "
        "departures; what lies between "
        f"them at a time is in flight. All bars together are {area:.3g} request-seconds: {arrivals:.3g} requests "
        "per second times "
        f"{mean_time:.3g} s each is {in_flight:.3g} requests in flight on average, over {end:.3g} s.",
        "Arrivals and lengths are drawn at random; the law holds for any.",
    )


def _axes(canvas: Canvas, seconds: list[tuple[float, str]], requests: list[tuple[float, str]]) -> None:
    """Marks of both axes, with their places."""
    left, right, _, bottom = _FRAME
    for place, words in seconds:
        canvas.line((place, bottom), (place, bottom + 4))
        canvas.label(words, place, bottom + 14, anchor="middle", size=11, hue="grey")
    for place, words in requests:
        canvas.label(words, left - 8, place, anchor="end", size=11, hue="grey")
    canvas.label("seconds", right + 14, bottom + 14, size=11, hue="grey")
    canvas.label("requests", left - 38, 14, size=11, hue="grey")
