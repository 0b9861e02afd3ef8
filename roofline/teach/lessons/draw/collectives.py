"""What all-reduce, reduce-scatter, all-gather and all-to-all do to the data of four devices."""

from __future__ import annotations

from typing import Any

from roofline import formatting
from roofline.blocks.model_files import load_model
from roofline.operators.collectives import AllGather, AllReduce, AllToAll, ReduceScatter
from roofline.teach.lessons.draw.canvas import DEVICE_HUES, Canvas, Drawing, Hue

_DEVICES = 4
_LETTERS = "abcd"
_SIDE, _GAP = 25.0, 2.0
_Cell = tuple[Hue | None, str]
_EMPTY: _Cell = (None, "")


def _own(device: int, chunk: int) -> _Cell:
    return DEVICE_HUES[device], f"{_LETTERS[device]}{chunk}"


def _sum(chunk: int) -> _Cell:
    return "ink", f"Σ{chunk}"


_WHOLE = [[_own(device, chunk) for device in range(_DEVICES)] for chunk in range(_DEVICES)]
_PIECES = [[_own(device, chunk) if chunk == device else _EMPTY for device in range(_DEVICES)] for chunk in range(_DEVICES)]
_OPERATIONS: tuple[tuple[str, type[Any], str, str, list[list[_Cell]], list[list[_Cell]]], ...] = (
    (
        "All-reduce",
        AllReduce,
        "all get the whole sum",
        "2 (n-1)/n",
        _WHOLE,
        [[_sum(chunk)] * _DEVICES for chunk in range(_DEVICES)],
    ),
    (
        "Reduce-scatter",
        ReduceScatter,
        "each gets a piece of the sum",
        "(n-1)/n",
        _WHOLE,
        [[_sum(chunk) if chunk == device else _EMPTY for device in range(_DEVICES)] for chunk in range(_DEVICES)],
    ),
    (
        "All-gather",
        AllGather,
        "all get the pieces of all",
        "(n-1)/n",
        _PIECES,
        [[_own(chunk, chunk)] * _DEVICES for chunk in range(_DEVICES)],
    ),
    (
        "All-to-all",
        AllToAll,
        "each gets its piece of all",
        "(n-1)/n",
        _WHOLE,
        [[_own(chunk, device) for device in range(_DEVICES)] for chunk in range(_DEVICES)],
    ),
)
"""Name, operator, what it does, what of a tensor S a device sends, and cells [row][device] before and after."""


def draw(model: str = "llama-3.1-70b", tokens: int = 64) -> Drawing:
    """Draw the data of four devices before and after each collective, and what a device sends.

    Args:
        model: whose tokens' vectors are the tensor.
        tokens: in the step.
    """
    elements = tokens * load_model(model)[0].hidden_size
    canvas = Canvas(height=402)
    sent = []
    for number, (name, operator, does, share, before, after) in enumerate(_OPERATIONS):
        left, top = 16.0 + 390 * (number % 2), 14.0 + 196 * (number // 2)
        cost = operator(elements=elements, world=_DEVICES).cost()
        canvas.label(name, left, top, size=14, strong=True)
        canvas.label(does, left + 130, top, size=12, hue="grey")
        wide = _DEVICES * (_SIDE + _GAP) - _GAP
        for x, table in ((left, before), (left + 210, after)):
            for device in range(_DEVICES):
                canvas.label(
                    str(device), x + device * (_SIDE + _GAP) + _SIDE / 2, top + 25, anchor="middle", size=11, hue="grey"
                )
            canvas.cells(
                x,
                top + 35,
                [[hue for hue, _ in row] for row in table],
                _SIDE,
                gap=_GAP,
                words=[[words for _, words in row] for row in table],
            )
        middle = top + 35 + wide / 2
        canvas.arrow((left + wide + 18, middle), (left + 192, middle), hue="purple", wide=2.4)
        canvas.label(
            f"sends {share} S = {formatting.quantity(cost.link_bytes, 'B', 3)}",
            left,
            top + 35 + wide + 18,
            hue="purple",
            size=12,
        )
        sent.append(f"{name}: {does}; each device sends {formatting.quantity(cost.link_bytes, 'B', 3)}")
    size = formatting.quantity(elements * 2, "B", 3)
    canvas.label(
        f"Columns are n = {_DEVICES} devices, Σ is their sum. S = {size}: vectors of {tokens} tokens of {model}.",
        16,
        390,
        size=12,
        hue="grey",
    )
    return canvas.drawing(
        "collectives",
        "Four collectives over four devices, before and after",
        f"The data of {_DEVICES} devices as columns of {_DEVICES} chunks, before and after. {'. '.join(sent)}.",
        "For all-to-all S is what one device holds, for the others the whole tensor.",
    )
