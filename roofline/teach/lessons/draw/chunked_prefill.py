"""What a long prompt does to sequences that decode: in a step of its own, and in chunks up to a token budget."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from roofline import formatting
from roofline.errors import InputError
from roofline.predict.analyze import phase_of
from roofline.predict.request import ResolvedRequest, prepare
from roofline.specs.workload import Segment, Step
from roofline.teach.lessons.draw.canvas import Canvas, Drawing, Hue

_LEFT, _RIGHT, _TALL = 70.0, 748.0, 108.0
_BEFORE, _AFTER = 2, 3
"""Steps of decode alone before and after the prompt."""


@dataclass(frozen=True)
class _Timed:
    """A step: sequences that decode, tokens of the prompt, and estimated seconds."""

    decodes: int
    prompt: int
    seconds: float


def chunks(prompt: int, running: int, budget: int) -> list[int]:
    """Return the tokens of each chunk: what the budget of a step leaves beside its sequences that decode.

    >>> chunks(1000, 12, 512)
    [500, 500]
    """
    size = budget - running
    if size <= 0:
        raise InputError(f"a budget of {budget} tokens leaves none for a prompt beside {running} sequences")
    return [min(size, prompt - at) for at in range(0, prompt, size)]


def draw(
    model: str = "llama-3.1-8b", hardware: str = "a100-sxm-80gb", prompt: int = 1500, running: int = 128, budget: int = 512,
    context: int = 1000,
) -> Drawing:  # fmt: skip
    """Draw both schedules on one axis of time.

    Args:
        model: what runs.
        hardware: on what.
        prompt: tokens of the prompt that arrives.
        running: sequences that decode.
        budget: tokens of a step, at most, with chunks.
        context: tokens that each of these has cached.

    Raises:
        InputError: the budget leaves no tokens for a prompt.
    """
    request = prepare(model, hardware)
    parts = chunks(prompt, running, budget)
    own = [0] * _BEFORE + [prompt] + [0] * (_AFTER + len(parts) - 1)
    shared = [0] * _BEFORE + parts + [0] * _AFTER
    without = [_timed(request, 0 if part else running, part, 0, context) for part in own]
    cached = [0] * _BEFORE + [sum(parts[:number]) for number in range(len(parts))] + [0] * _AFTER
    mixed = [_timed(request, running, part, done, context) for part, done in zip(shared, cached, strict=True)]
    longest = max(sum(step.seconds for step in steps) for steps in (without, mixed))
    across = (_RIGHT - _LEFT) / longest
    up = _TALL / max(prompt, budget)

    canvas = Canvas(height=410)
    pauses, firsts = [], []
    for top, title, steps in ((16.0, "without chunks", without), (210.0, f"with chunks, a budget of {budget:,} tokens", mixed)):
        canvas.label(title, 8, top, size=14)
        base = top + 24 + _TALL
        canvas.line((_LEFT, base - _TALL), (_LEFT, base), (_RIGHT, base))
        for tokens in (0, budget, prompt):
            canvas.label(f"{tokens:,}", _LEFT - 8, base - tokens * up, anchor="end", size=12, hue="grey")
        if steps is mixed:
            canvas.line((_LEFT, base - budget * up), (_RIGHT, base - budget * up), hue="red", dashed=True)
        x, ends = _LEFT, []
        for step in steps:
            wide = step.seconds * across
            low = step.decodes * up
            if step.decodes:
                canvas.box(x, base - low, wide - 1, low, hue="orange", filled=True, round_=0)
                ends.append(x + wide)
            if step.prompt:
                words = f"{step.prompt:,}" if wide > 40 else ""
                canvas.box(
                    x,
                    base - low - step.prompt * up,
                    wide - 1,
                    step.prompt * up,
                    words,
                    hue="blue",
                    filled=True,
                    round_=0,
                    size=12,
                )
            x += wide
        last = max(number for number, step in enumerate(steps) if step.prompt)
        prompt_ends = _LEFT + across * sum(step.seconds for step in steps[: last + 1])
        pause = max(pairwise(ends), key=lambda pair: pair[1] - pair[0])
        pauses.append((pause[1] - pause[0]) / across)
        arrival = _LEFT + across * sum(step.seconds for step in steps[:_BEFORE])
        firsts.append((prompt_ends - arrival) / across)
        canvas.brace((pause[0], base), (pause[1], base), f"longest ITL {formatting.quantity(pauses[-1], 's', 2)}", away=8)
        canvas.brace((arrival, base - _TALL), (prompt_ends, base - _TALL),
                     f"TTFT {formatting.quantity(firsts[-1], 's', 2)}", away=-6, hue="blue")  # fmt: skip
        canvas.label("tokens", 8, base - _TALL + 20, size=12, hue="grey")
    legend: tuple[tuple[float, Hue, str], ...] = (
        (_LEFT, "orange", f"{running} sequences decode"), (_LEFT + 220, "blue", "tokens of the prompt"),
    )  # fmt: skip
    for x, hue, words in legend:
        canvas.box(x, 388, 16, 16, hue=hue, filled=True, round_=2)
        canvas.label(words, x + 22, 396, size=12)
    times = [formatting.quantity(seconds, "s", 2) for seconds in (*pauses, *firsts)]
    return canvas.drawing(
        "chunked-prefill",
        "A prompt in one step, and in chunks",
        "Steps from left to right, as wide as they are long and as high as they have tokens. Without chunks the prompt "
        f"of {prompt:,} tokens takes a step of its own, and {running} sequences wait {times[0]} for their next token. "
        f"With a budget of {budget:,} tokens it comes in {len(parts)} chunks beside them: they wait at most {times[1]}, "
        f"and the prompt's first token comes after {times[3]} instead of {times[2]}.",
        f"Estimates for {model} on {hardware}; each sequence has {context:,} tokens cached.",
    )


def _timed(request: ResolvedRequest, decodes: int, tokens: int, done: int, context: int) -> _Timed:
    running = (Segment(decodes, 1, context, decode=True),) if decodes else ()
    step: Step = (*running, Segment(1, tokens, done)) if tokens else running
    return _Timed(decodes, tokens, float(phase_of(request, "prefill" if tokens else "decode", step).time.estimate or 0))
