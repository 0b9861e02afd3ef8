"""One request from its arrival to its last token, with the latencies that are measured on the way."""

from __future__ import annotations

from roofline import formatting
from roofline.errors import InputError
from roofline.predict.analyze import phase_of
from roofline.predict.request import prepare
from roofline.specs.workload import Segment
from roofline.teach.lessons.draw.canvas import Canvas, Drawing

_LEFT, _RIGHT, _Y, _TALL = 30.0, 730.0, 92.0, 40.0


def draw(
    model: str = "llama-3.1-8b", hardware: str = "a100-sxm-80gb", prompt: int = 1000, tokens: int = 7, queue: float = 0.035,
    other: int = 300,
) -> Drawing:  # fmt: skip
    """Draw a request whose steps are estimated; in one of them another request's prompt is computed, and it takes longer.

    Args:
        model: what runs.
        hardware: on what.
        prompt: tokens of the prompt.
        tokens: that are generated, at least 4.
        queue: seconds that the request waits.
        other: tokens of another request's prompt that share the step of the fourth token.

    Raises:
        InputError: fewer than 4 tokens.
    """
    if tokens < 4:
        raise InputError("at least 4 tokens are generated: one waits for another request's prompt")
    request = prepare(model, hardware)

    def seconds(*step: Segment) -> float:
        return float(phase_of(request, "decode", step).time.estimate or 0)

    first = seconds(Segment(1, prompt, 0))
    gaps = [seconds(Segment(1, 1, prompt + number, decode=True), *([Segment(1, other, 0)] if number == 2 else []))
            for number in range(tokens - 1)]  # fmt: skip
    ttft, e2e = queue + first, queue + first + sum(gaps)
    tpot = (e2e - ttft) / (tokens - 1)
    across = (_RIGHT - _LEFT) / e2e

    def at(time: float) -> float:
        return _LEFT + time * across

    def amount(time: float) -> str:
        return formatting.quantity(time, "s", 3)

    canvas = Canvas(height=268)
    canvas.box(_LEFT, _Y, queue * across, _TALL, "queue", hue="grey", idle=True, size=12)
    canvas.box(at(queue), _Y, first * across, _TALL, f"prefill, {prompt:,} tokens", hue="blue", filled=True, round_=1, size=12)
    time, times = ttft, [ttft]
    for gap in gaps:
        canvas.box(at(time), _Y, gap * across, _TALL, hue="orange", filled=True, round_=1)
        time += gap
        times.append(time)
    for number, moment in enumerate(times):
        canvas.arrow((at(moment), _Y), (at(moment), _Y - 20), hue="orange" if number else "blue")
        canvas.label(f"{number + 1}", at(moment), _Y - 30, anchor="middle", size=12)
    canvas.label("tokens", at(ttft) - 14, _Y - 30, anchor="end", size=12, hue="grey")
    canvas.arrow((_LEFT, _Y - 20), (_LEFT, _Y), hue="ink")
    canvas.label("arrival", _LEFT - 8, _Y - 30, size=12)
    below = _Y + _TALL
    canvas.brace((_LEFT, below), (at(ttft), below), f"TTFT, time to first token: {amount(ttft)}", away=10, hue="blue")
    canvas.brace((at(times[2]), below), (at(times[3]), below), f"longest ITL: {amount(gaps[2])}", away=10, hue="orange")
    canvas.brace((_LEFT, below + 52), (_RIGHT, below + 52), f"E2E: {amount(e2e)}", away=10, hue="ink")
    canvas.label(
        f"TPOT, the mean over {tokens - 1} tokens after the first: "
        f"({amount(e2e)} - {amount(ttft)}) / {tokens - 1} = {amount(tpot)}",
        _LEFT,
        250,
    )
    canvas.label(f"also computes {other} tokens of another prompt", at((times[2] + times[3]) / 2), 16, anchor="middle", size=12)
    canvas.line((at((times[2] + times[3]) / 2), 26), (at((times[2] + times[3]) / 2), _Y), dashed=True)
    return canvas.drawing(
        "request-timeline",
        "The life of a request: TTFT, ITL, TPOT and E2E",
        f"A request waits {amount(queue)}, its prompt takes {amount(first)}, and {tokens} tokens come one by one. TTFT is "
        f"{amount(ttft)}. The gaps between tokens (ITL) are about {amount(gaps[0])}, but {amount(gaps[2])} where another "
        f"prompt shares the step. TPOT, their mean, is {amount(tpot)}, and E2E {amount(e2e)}.",
        f"Steps are estimates for {model} on {hardware}; the {amount(queue)} in the queue are an example.",
    )
