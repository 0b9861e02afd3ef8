"""Requests of different lengths in the slots of a batch: static, where all wait for the longest, and continuous batching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from roofline import formatting
from roofline.formatting import plural
from roofline.teach.lessons.draw.canvas import Canvas, Drawing

Policy = Literal["static", "continuous"]
LENGTHS = (3, 9, 5, 2, 6, 4, 8, 3, 2, 4)
"""Steps of each request: one of prefill, and the rest of decode."""
_SIDE, _LEFT, _TOP = 30.0, 62.0, 42.0


@dataclass(frozen=True)
class Running:
    """A request in a slot from a step on; `released` is the step from which another may have the slot."""

    request: int
    slot: int
    start: int
    length: int
    released: int


def schedule(lengths: Sequence[int], slots: int, policy: Policy) -> list[Running]:
    """Return where each request runs. All are there at the beginning, and come in their order.

    Args:
        lengths: steps of each request.
        slots: requests that run at a time.
        policy: whether a slot is released with its request, or with the longest of the batch.
    """
    placed: list[Running] = []
    if policy == "static":
        start = 0
        for first in range(0, len(lengths), slots):
            batch = lengths[first : first + slots]
            end = start + max(batch)
            placed += [Running(first + slot, slot, start, length, end) for slot, length in enumerate(batch)]
            start = end
        return placed
    free = [0] * slots
    for request, length in enumerate(lengths):
        slot = free.index(min(free))
        placed.append(Running(request, slot, free[slot], length, free[slot] + length))
        free[slot] += length
    return placed


def draw(policy: Policy = "continuous", lengths: Sequence[int] = LENGTHS, slots: int = 4) -> Drawing:
    """Draw the slots of a batch, step by step.

    Args:
        policy: "static" or "continuous".
        lengths: steps of each request, at most 26 of them.
        slots: of the batch.
    """
    plan = schedule(lengths, slots, policy)
    steps = max(one.released for one in plan)
    columns = max(max(one.released for one in schedule(lengths, slots, kind)) for kind in ("static", "continuous"))
    side = min(_SIDE, (752 - _LEFT) / columns)
    canvas = Canvas(height=_TOP + slots * (side + 4) + 92)
    for step in range(columns):
        canvas.label(f"{step + 1}", _LEFT + (step + 0.5) * side, 20, anchor="middle", size=11, hue="grey")
    canvas.label("step", _LEFT - 10, 20, anchor="end", size=12, hue="grey")
    for slot in range(slots):
        y = _TOP + slot * (side + 4)
        canvas.label(f"slot {slot + 1}", _LEFT - 10, y + side / 2, anchor="end", size=12)
        for one in (item for item in plan if item.slot == slot):
            for step in range(one.length):
                canvas.box(_LEFT + (one.start + step) * side, y, side - 2, side, chr(ord("A") + one.request),
                           hue="orange" if step else "blue", filled=True, round_=2, size=12)  # fmt: skip
            if idle := one.released - one.start - one.length:
                canvas.box(
                    _LEFT + (one.start + one.length) * side,
                    y,
                    idle * side - 2,
                    side,
                    hue="grey",
                    idle=True,
                    dashed=True,
                    round_=2,
                )
        ends = max((item.released for item in plan if item.slot == slot), default=0)
        if ends < steps:
            canvas.box(_LEFT + ends * side, y, (steps - ends) * side - 2, side, hue="grey", idle=True, dashed=True, round_=2)
    used = sum(lengths)
    share = used / (slots * steps)
    bottom = _TOP + slots * (side + 4)
    canvas.line((_LEFT + steps * side - 1, _TOP - 8), (_LEFT + steps * side - 1, bottom + 6), hue="red", wide=2)
    canvas.label(f"all done after {steps} steps", _LEFT + steps * side - 8, bottom + 12, anchor="end", size=12, hue="red")
    x = _LEFT
    for words, kind in (("prefill", "blue"), ("decode, a token per step", "orange"), ("idle", "grey")):
        if kind == "grey":
            canvas.box(x, bottom + 34, 16, 16, hue="grey", idle=True, dashed=True, round_=2)
        else:
            canvas.box(x, bottom + 34, 16, 16, hue="blue" if kind == "blue" else "orange", filled=True, round_=2)
        canvas.label(words, x + 22, bottom + 42, size=12)
        x += 60 + 7 * len(words)
    canvas.label(f"{used} of {slots} x {steps} places are used: {formatting.percent(share, 0)}", _LEFT, bottom + 72)
    title = {"static": "Static batching: the next batch waits for the longest request",
             "continuous": "Continuous batching: a slot is free when its request is done"}[policy]  # fmt: skip
    return canvas.drawing(
        f"continuous-batching-{policy}",
        title,
        f"{plural(len(lengths), 'request')} of {min(lengths)} to {max(lengths)} steps in {slots} slots. With {policy} "
        f"batching all are done after {steps} steps, and {formatting.percent(share, 0)} of the slots' steps are used.",
        "Letters are requests, all there from the beginning; a square is a request in one step.",
    )
