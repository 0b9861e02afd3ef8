"""The same weights with many rows and with few: what prefill multiplies, what decode does, and the time of each clock."""

from __future__ import annotations

from roofline import formatting
from roofline.blocks.model_files import load_model
from roofline.errors import InputError
from roofline.formatting import plural
from roofline.operators.gemm import Gemm
from roofline.specs.library import load_hardware
from roofline.teach.lessons.draw.canvas import Canvas, Drawing, Hue
from roofline.teach.worksheets import facts

_PATH = "layers/attention/o_proj"
_SIDE = 104.0
"""Pixels of the inputs of the matrix."""
_BAR = 250.0


def draw(model: str = "llama-3.1-8b", hardware: str = "a100-sxm-80gb", tokens: int = 2048, batch: int = 1) -> Drawing:
    """Draw the product of one layer's output projection in prefill and in a decode step.

    Args:
        model: whose projection.
        hardware: whose peak and bandwidth.
        tokens: rows in prefill, at most as many as the matrix has.
        batch: rows in decode, one per sequence.

    Raises:
        InputError: more rows than the matrix has.
    """
    whole = facts.step_operators(model, 1, 1, 1)[_PATH][0]
    if not isinstance(whole, Gemm) or max(tokens, batch) > whole.k:
        raise InputError(f"{model}: an output projection with {max(tokens, batch)} rows at least is needed")
    inputs, outputs = int(whole.k), int(whole.n)
    device = load_hardware(hardware)[0]
    peak, bandwidth = device.peak("bf16"), device.bandwidth
    scale = _SIDE / inputs
    canvas = Canvas(height=352)
    cases: tuple[tuple[str, int, Hue, str], ...] = (
        ("prefill", tokens, "blue", f"{tokens:,} tokens of a prompt"),
        ("decode", batch, "orange", "one token of one sequence" if batch == 1 else f"one token each of {batch:,} sequences"),
    )
    parts = []
    for number, (name, rows, hue, what) in enumerate(cases):
        top = 18 + number * 168
        cost = Gemm(m=rows, n=outputs, k=inputs).cost()
        times = {"compute": cost.matrix_flops / peak, "memory": cost.bytes / bandwidth}
        bound = max(times, key=lambda clock: times[clock])
        canvas.label(f"{name}: {what}", 8, top, hue=hue, size=14)
        high, middle = max(rows * scale, 2.0), top + 22 + _SIDE / 2
        columns: tuple[tuple[float, int, float, Hue, str], ...] = (
            (8, inputs, high, hue, "X"), (142, outputs, _SIDE, "pink", "W"), (276, outputs, high, hue, "Y"),
        )  # fmt: skip
        for x, wide, tall, colour, letter in columns:
            canvas.box(x, middle - tall / 2, wide * scale, tall, letter if tall > 20 else "", hue=colour, round_=1,
                       filled=tall <= 20)  # fmt: skip
        canvas.label("x", 127, middle, anchor="middle", size=14)
        canvas.label("=", 261, middle, anchor="middle", size=14)
        below = middle + _SIDE / 2 + 10
        for x, shape in ((60, f"{rows:,} x {inputs:,}"), (194, f"{inputs:,} x {outputs:,}"), (328, f"{rows:,} x {outputs:,}")):
            canvas.label(shape, x, below, anchor="middle", size=12, hue="grey")
        left = 420.0
        intensity = formatting.number(float(cost.arithmetic_intensity), 3)
        work = f"{formatting.quantity(cost.matrix_flops, 'FLOP', 3)} / {formatting.quantity(cost.bytes, 'B', 3)}"
        canvas.label(f"{work} = {intensity} FLOP/byte", left, top + 30)
        for row, (clock, seconds) in enumerate(times.items()):
            y = top + 52 + row * 30
            long = max(_BAR * seconds / max(times.values()), 1.5)
            words, inside = formatting.quantity(seconds, "s", 3), long > _BAR / 2
            canvas.label(clock, left, y + 10, size=12)
            canvas.box(
                left + 60,
                y,
                long,
                20,
                words if inside else "",
                hue="green" if clock == "compute" else "pink",
                filled=True,
                round_=1,
                size=12,
            )
            if not inside:
                canvas.label(words, left + 66 + long, y + 10, size=12)
        canvas.label(f"bound by {bound}", left + 60, top + 122, size=12)
        parts.append(f"{name.capitalize()} multiplies {plural(rows, 'row')}: {intensity} FLOP per byte, bound by {bound}")
    spec = load_model(model)[0]
    return canvas.drawing(
        "prefill-and-decode" + (f"-{batch}" if batch > 1 else ""),
        "The same matrix with many rows and with few" if batch > 1 else "The same matrix with many rows and with one",
        f"A matrix of {inputs:,} x {outputs:,} weights. {'. '.join(parts)}. Both read all weights.",
        f"The output projection of one layer of {spec.title} in bf16 on {device.title}; matrices are to scale. "
        f"Bars of a phase are in proportion. Computing is longer from {peak / bandwidth:.0f} FLOP/byte on, the ridge point.",
    )
