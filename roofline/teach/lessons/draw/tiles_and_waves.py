"""A product's outputs cut into tiles, and the tiles dealt to compute units in waves, of which the last is partly idle."""

from __future__ import annotations

from roofline import formatting
from roofline.errors import InputError
from roofline.formatting import plural
from roofline.numeric import ceil_div
from roofline.specs.library import load_hardware
from roofline.teach.lessons.draw.canvas import Canvas, Drawing, Hue

_HUES: tuple[Hue, ...] = ("green", "blue", "orange", "purple", "pink", "gold")
_TILES = 800
"""More are too small to be seen."""
_COLUMNS = 18
"""Squares in a row of a wave."""


def draw(
    tokens: int = 1000, outputs: int = 4096, tile: tuple[int, int] = (128, 128), hardware: str = "a100-sxm-80gb"
) -> Drawing:
    """Draw the tiles of a product and their waves.

    Args:
        tokens: rows of the outputs.
        outputs: columns of the outputs.
        tile: rows and columns of a tile.
        hardware: whose compute units take a tile each.

    Raises:
        InputError: more tiles, or waves, than can be seen; or hardware without a known number of compute units.
    """
    device = load_hardware(hardware)[0]
    if device.accelerator.compute_units is None:
        raise InputError(f"{hardware}: its file has no compute_units")
    units = int(device.accelerator.compute_units.value)
    down, across = ceil_div(tokens, tile[0]), ceil_div(outputs, tile[1])
    tiles = down * across
    waves, last = ceil_div(tiles, units), tiles % units or units
    if tiles > _TILES or waves > len(_HUES):
        raise InputError(f"{tiles} tiles in {waves} waves: at most {_TILES} and {len(_HUES)} can be seen")
    useful = tokens * outputs / (waves * units * tile[0] * tile[1])

    scale = min(600 / (across * tile[1]), 200 / (down * tile[0]))
    wide, high = tile[1] * scale, tile[0] * scale
    left, top = 132.0, 34.0
    side = 10.0
    rows = ceil_div(units, _COLUMNS)
    in_a_row = 3
    tall = rows * (side + 2) + 54
    below = top + down * high + 60
    canvas = Canvas(height=below + ceil_div(waves, in_a_row) * tall + 16)
    canvas.label(f"{outputs:,} outputs: {across} columns of tiles", left + outputs * scale / 2, 16, anchor="middle", size=12)
    canvas.label(f"{tokens:,} tokens:\n{down} rows of tiles", left - 10, top + tokens * scale / 2 - 8, anchor="end", size=12)
    for number in range(tiles):
        row, column = divmod(number, across)
        canvas.box(left + column * wide, top + row * high, wide, high, hue=_HUES[number // units], filled=True, round_=0)
    edge, right = top + tokens * scale, left + outputs * scale
    canvas.line((left, edge), (right, edge), (right, top), hue="red", wide=2)
    canvas.line((left, edge), (left, top), (right, top), hue="red", wide=2)
    unused = 1 - tokens * outputs / (tiles * tile[0] * tile[1])
    edges = f"Outside the red frame, tiles compute nothing that is wanted: {formatting.percent(unused)} of their outputs."
    canvas.label(edges if unused else "All tiles are full.", left, top + down * high + 18, size=12)
    for wave in range(waves):
        x, y = 20 + (wave % in_a_row) * 246, below + (wave // in_a_row) * tall
        taken = min(units, tiles - wave * units)
        idle = f", {units - taken} idle" if taken < units else ""
        canvas.label(f"wave {wave + 1}: {taken} of {units} units{idle}", x, y, size=12, hue=_HUES[wave])
        for unit in range(units):
            at = x + unit % _COLUMNS * (side + 2), y + 14 + unit // _COLUMNS * (side + 2)
            canvas.box(*at, side, side, hue=_HUES[wave] if unit < taken else "grey", filled=unit < taken, empty=unit >= taken,
                       round_=1)  # fmt: skip
        if wave + 1 < waves and (wave + 1) % in_a_row:
            middle = y + 14 + rows * (side + 2) / 2
            canvas.arrow((x + _COLUMNS * (side + 2) + 4, middle), (x + 240, middle))
    canvas.label(
        f"Of the outputs that all units could compute in {plural(waves, 'wave')}, {formatting.percent(useful)} are wanted.",
        20,
        canvas.height - 18,
        size=13,
    )
    return canvas.drawing(
        f"tiles-and-waves-{tokens}-{outputs}",
        f"{tiles} tiles on {units} compute units: {plural(waves, 'wave')}",
        f"{tokens:,} x {outputs:,} outputs in tiles of {tile[0]} x {tile[1]} are {down} x {across} = {tiles} tiles. "
        f"{units} compute units take one each at a time: {plural(waves, 'wave')}, the last with {plural(last, 'tile')}. "
        f"{formatting.percent(useful)} of what the units could compute is wanted.",
        f"Tiles of {tile[0]} x {tile[1]}, {device.title}; each square below is a compute unit.",
    )
