"""How a roofline is read: two ceilings, the ridge point, and points below them at the distance that time was lost."""

from __future__ import annotations

from math import log10

from roofline import formatting
from roofline.errors import InputError
from roofline.predict.analyze import analyze
from roofline.specs.library import load_hardware
from roofline.teach.lessons.draw.canvas import Canvas, Drawing, Hue

_LEFT, _RIGHT, _TOP, _BOTTOM = 114.0, 742.0, 30.0, 346.0


def draw(
    model: str = "llama-3.1-8b",
    hardware: str = "a100-sxm-80gb",
    operator: str = "layers/mlp/down_proj",
    tokens: int = 1000,
    batch: int = 1,
) -> Drawing:
    """Draw the roofline of an accelerator in bf16, with one operator in prefill and in decode.

    Args:
        model: whose operator.
        hardware: whose peak and bandwidth; its kernels were measured, or the points have estimates of others.
        operator: its path.
        tokens: of the prompt.
        batch: sequences that decode.

    Raises:
        InputError: no such operator in both phases, or one without matrix products.
    """
    device = load_hardware(hardware)[0]
    peak, bandwidth = device.peak("bf16"), device.bandwidth
    ridge = peak / bandwidth
    steps = analyze(model, hardware, input_len=tokens, context=tokens, batch=batch, ignore_capacity=True)
    points = {}
    for name, step in (("prefill", steps.prefill), ("decode", steps.decode)):
        one = next((op for op in step.operators if op.path == operator), None) if step else None
        if one is None or not one.cost.matrix_flops:
            raise InputError(f"{model} has no matrix products {operator!r} in {name}")
        points[name] = (one.cost.matrix_flops / one.cost.bytes, one.cost.matrix_flops / one.time.estimate)
    low_x, high_x = -0.5, max(log10(ridge), *(log10(x) for x, _ in points.values())) + 0.7
    low_y = log10(min(bandwidth * 10**low_x, *(y for _, y in points.values()))) - 0.3
    high_y = log10(peak) + 0.22

    def across(intensity: float) -> float:
        return _LEFT + (log10(intensity) - low_x) / (high_x - low_x) * (_RIGHT - _LEFT)

    def up(rate: float) -> float:
        return _BOTTOM - (log10(rate) - low_y) / (high_y - low_y) * (_BOTTOM - _TOP)

    canvas = Canvas(height=400)
    corner = (across(ridge), up(peak))
    canvas.line((_LEFT, _TOP), (_LEFT, _BOTTOM), (_RIGHT, _BOTTOM))
    for power in range(int(high_x) + 1):
        x = across(10**power)
        canvas.line((x, _BOTTOM), (x, _BOTTOM + 5))
        canvas.label(f"{10**power:,}", x, _BOTTOM + 15, anchor="middle", size=12)
    for power in range(int(low_y) + 1, int(high_y) + 1):
        y = up(10**power)
        canvas.line((_LEFT - 5, y), (_LEFT, y))
        canvas.label(formatting.quantity(10**power, "FLOP/s"), _LEFT - 8, y, anchor="end", size=12)
    canvas.label("arithmetic intensity, FLOP per byte", (_LEFT + _RIGHT) / 2, _BOTTOM + 38, anchor="middle")
    canvas.line((_LEFT, up(bandwidth * 10**low_x)), corner, hue="pink", wide=3)
    canvas.line(corner, (_RIGHT, corner[1]), hue="green", wide=3)
    canvas.line(corner, (corner[0], _BOTTOM), dashed=True)
    canvas.label(f"ridge point: {ridge:.0f} FLOP/byte", corner[0] + 8, _BOTTOM - 14, size=12)
    canvas.label("memory-bound", corner[0] - 12, _TOP - 12, anchor="end", hue="pink")
    canvas.label("compute-bound", corner[0] + 12, _TOP - 12, hue="green")
    canvas.label(f"peak {formatting.quantity(peak, 'FLOP/s', 3)}", _RIGHT, corner[1] - 12, anchor="end", hue="green", size=12)
    canvas.label(
        f"bandwidth {formatting.quantity(bandwidth, 'B/s', 3)} x intensity",
        across(ridge**0.7) - 22,
        up(bandwidth * ridge**0.7) - 14,
        anchor="end",
        hue="pink",
        size=12,
    )
    parts = []
    hues: dict[str, Hue] = {"prefill": "blue", "decode": "orange"}
    for name, (intensity, reached) in points.items():
        hue = hues[name]
        bound = min(peak, bandwidth * intensity)
        x, y, ceiling = across(intensity), up(reached), up(bound)
        canvas.line((x, ceiling), (x, y), hue=hue, wide=2)
        canvas.circle(x, ceiling, 4.5, hue="ink")
        canvas.circle(x, y, 5.5, hue=hue, filled=True)
        right = x > corner[0]
        share = formatting.percent(reached / bound, 0)
        words = f"{name}: {formatting.number(intensity, 3)} FLOP/byte\nestimate {share} of the bound"
        canvas.label(
            words,
            min(x + 110, _RIGHT) if right else x + 12,
            y + 18,
            anchor="end" if right else "start",
            size=12,
            hue=hue,
            halo=True,
        )
        parts.append(
            f"{name} the operator has {formatting.number(intensity, 3)} FLOP per byte, and its estimate is {share} of its bound"
        )
    return canvas.drawing(
        "roofline-anatomy" + (f"-{batch}" if batch > 1 else ""),
        f"A roofline: {device.title}",
        f"Both axes are logarithmic. Up to the ridge point at {ridge:.0f} FLOP per byte the bound rises with intensity, "
        f"beyond it it is the peak. In {'; in '.join(parts)}.",
        f"Hollow: the bound. Filled: the estimate of `{operator}` of {model}, {tokens:,} tokens and "
        f"{formatting.plural(batch, 'sequence')}. A distance of one decade is a factor of ten in time.",
    )
