"""Quantized weights: a group of them, the scale and the zero point that it has, and the bits of each."""

from __future__ import annotations

from roofline import formatting
from roofline.blocks.model_files import load_model
from roofline.errors import InputError
from roofline.formatting import plural
from roofline.operators.gemm import Gemm
from roofline.specs.quantization import SCHEMES
from roofline.teach.lessons.draw.canvas import Canvas, Drawing, Hue
from roofline.teach.worksheets import facts

_LEFT, _RIGHT = 16.0, 744.0
_SQUARES = 12
"""Weights of a group that are drawn at the most."""


def draw(scheme: str = "awq", model: str = "llama-3.1-8b") -> Drawing:
    """Draw how a scheme with groups or blocks stores one matrix, the output projection of a layer.

    Args:
        scheme: a quantization scheme with its defaults: "awq", "mxfp4", "nvfp4", "fp8_block", ...
        model: whose matrix.

    Raises:
        InputError: the scheme has no scale per group of a row, or per block.
    """
    layout = SCHEMES[scheme](name=scheme).format
    grouped = [one for one in layout.metadata if one.columns not in (None, 1) and one.rows is not None]
    if not grouped:
        raise InputError(f"{scheme} has no scale per group of a row, or per block: nothing to draw")
    product = facts.step_operators(model, 1, 1, 1)["layers/attention/o_proj"][0]
    if not isinstance(product, Gemm):
        raise InputError(f"{model} has no output projection of one matrix")
    outputs, inputs = int(product.n), int(product.k)
    rows, columns = int(grouped[0].rows or 1), int(grouped[0].columns or 1)
    size, bits = rows * columns, float(layout.bytes) * 8
    # what is packed with those of other rows has its share of an entry
    entries = [(_name(one.name), 8 * one.bytes * rows / int(one.rows or 1)) for one in grouped]
    weights = size * bits
    whole = weights + sum(each for _, each in entries)
    stored = outputs * inputs * float(layout.bytes) + float(layout.metadata_bytes([(outputs, inputs)]))

    canvas = Canvas(height=316)
    what = f"blocks of {rows} x {columns}" if rows > 1 else f"groups of {columns}"
    canvas.label(f"a matrix of {outputs:,} outputs x {inputs:,} inputs, in {what} weights", _LEFT, 14, size=14)
    wide, bottom = _matrix(canvas, outputs // rows, inputs // columns, blocks=rows > 1)

    top, side = 134.0, 30.0
    drawn = min(size, _SQUARES)
    end = _LEFT + drawn * (side + 2) + 22
    canvas.line((_LEFT + 2 * wide, bottom), (_LEFT, top - 6), hue="gold")
    canvas.line((_LEFT + 3 * wide - 2, bottom), (end, top - 6), hue="gold")
    for number in range(drawn):
        canvas.box(_LEFT + number * (side + 2), top, side, side, f"{bits:g}", hue="gold", size=12)
    canvas.label("...", end - 10, top + side / 2, anchor="middle")
    canvas.label(f"{size:,} weights of {bits:g} bits", _LEFT, top + side + 16, size=12)
    x = end + 28
    hues: tuple[Hue, ...] = ("pink", "purple")
    for (name, each), hue in zip(entries, hues, strict=False):
        canvas.label("+", x - 16, top + side / 2, anchor="middle", size=14)
        canvas.box(x, top, 104, side, f"{each:g} bits", hue=hue, strong=True, size=12)
        canvas.label(f"one {name}", x, top + side + 16, size=12)
        x += 138

    bar = top + side + 46
    scale = (_RIGHT - _LEFT) / whole
    canvas.box(_LEFT, bar, weights * scale, 24, f"{weights:,.0f} bits of weights", hue="gold", filled=True, round_=0, size=12)
    at = _LEFT + weights * scale
    for (_, each), hue in zip(entries, hues, strict=False):
        canvas.box(at, bar, max(each * scale, 1), 24, hue=hue, filled=True, round_=0)
        at += each * scale
    canvas.label("to scale", _RIGHT, bar + 36, anchor="end", size=12, hue="grey")
    terms = " + ".join(f"{term:,.0f}" for term in (weights, *(each for _, each in entries)))
    canvas.label(f"({terms}) / {size:,} = {formatting.number(whole / size)} bits = {whole / size / 8:.4f} bytes per weight",
                 _LEFT, bar + 56)  # fmt: skip
    canvas.label(
        f"the matrix: {formatting.quantity(stored, 'B', 3)}, in bf16 {formatting.quantity(2 * outputs * inputs, 'B', 3)}",
        _LEFT,
        bar + 80,
    )
    names = " and ".join(f"a {name} of {each:g} bits" for name, each in entries)
    return canvas.drawing(
        f"quantized-group-{scheme.replace('_', '-')}",
        f"{scheme}: {plural(size, 'weight')}, {' and '.join(f'one {name}' for name, _ in entries)}",
        f"A matrix in {what} weights. Each has {size:,} weights of {bits:g} bits, and {names}: "
        f"{formatting.number(whole / size)} bits per weight.",
        f"The output projection of a layer of {load_model(model)[0].title}, as the scheme `{scheme}` stores it.",
    )


def _matrix(canvas: Canvas, rows: int, columns: int, *, blocks: bool) -> tuple[float, float]:
    """The first groups, or blocks, of a matrix, the third of the last row chosen. Returns its width, and its lower edge."""
    across = min(columns, 16)
    wide = (_RIGHT - _LEFT) / across
    tall, lines = (16.0, 3) if blocks else (24.0, 2)
    for line in range(lines):
        for number in range(across):
            chosen = (line, number) == (lines - 1, 2)
            canvas.box(_LEFT + number * wide, 32 + line * (tall + 2), wide - 2, tall, hue="gold" if chosen else "grey",
                       filled=chosen, round_=1)  # fmt: skip
    bottom = 32 + lines * (tall + 2) - 2
    first = f"the first {across} of {columns} in a row" if columns > across else f"all {across} in a row"
    canvas.label(f"{first}, {lines} of {rows:,} rows", _RIGHT, bottom + 14, anchor="end", size=12, hue="grey")
    return wide, bottom


def _name(metadata: str) -> str:
    """What a stored tensor holds."""
    return "zero point" if "zero" in metadata else "offset" if "bias" in metadata else "scale"
