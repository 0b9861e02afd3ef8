"""A roofline in characters: FLOP/s that an operator can reach against its FLOP per byte, both in powers of ten."""

from __future__ import annotations

import math

from roofline.predict.result import Analysis, Phase

_HEIGHT = 14
_DOTS = 5  # of each phase, the ones that take longest


def roofline_plot(result: Analysis, width: int) -> tuple[list[str], dict[str, dict[str, str]]]:
    """Lines of the plot, and the mark of each operator that is in it, by phase and path: upper case prefill (or mixed),
    lower case decode."""
    peak = result.hardware["peak_flops"].get(result.deployment["activation_dtype"])
    bandwidth, ridge = result.hardware["bandwidth"], result.hardware["ridge_point"]
    marks = {phase.name: _marks(phase) for phase in result.phases}
    dots = [
        (op.cost.flops / op.cost.bytes, op.cost.flops / op.times.bound, marks[phase.name][op.path])
        for phase in result.phases
        for op in phase.operators
        if op.path in marks[phase.name]
    ]
    columns = width - 14
    if not dots or peak is None or columns < 40:
        return [], {}
    left = math.floor(math.log10(min(0.1, *(x for x, _, _ in dots))))
    right = math.ceil(math.log10(max(10 * ridge, *(x for x, _, _ in dots))))
    top = math.ceil(math.log10(max(peak, *(y for _, y, _ in dots))) * 2) / 2
    bottom = min(math.log10(bandwidth) + left, *(math.log10(y) for _, y, _ in dots))

    def column(intensity: float) -> int:
        return min(max(round((math.log10(intensity) - left) / (right - left) * (columns - 1)), 0), columns - 1)

    def row(rate: float) -> int:
        return min(max(round((top - math.log10(rate)) / (top - bottom) * (_HEIGHT - 1)), 0), _HEIGHT - 1)

    grid = [[" "] * columns for _ in range(_HEIGHT)]
    for position in range(columns):
        intensity = 10 ** (left + position / (columns - 1) * (right - left))
        roof = min(peak, bandwidth * intensity)
        grid[row(roof)][position] = "─" if roof == peak else "╱"
    for intensity, rate, mark in dots:
        grid[row(rate)][column(intensity)] = mark
    lines = []
    for index, cells in enumerate(grid):
        rate = 10 ** (top - index / (_HEIGHT - 1) * (top - bottom))
        label = f"{_power(rate)}FLOP/s" if index % 3 == 0 else ""
        lines.append(f"{label:>12} │{''.join(cells)}")
    ticks = [" "] * (columns + 8)
    for exponent in range(left, right + 1):
        text = f"{10**exponent:g}"
        at = column(10**exponent)
        ticks[at : at + len(text)] = text
    lines.append(f"{'':>12} └{'─' * columns}")
    lines.append(f"{'FLOP/byte':>12}  {''.join(ticks)}".rstrip())
    return lines, marks


def _marks(phase: Phase) -> dict[str, str]:
    counted = [op for op in phase.operators if op.cost.flops and op.cost.bytes]
    chosen = sorted(counted, key=lambda op: -op.times.bound)[:_DOTS]
    first = "a" if phase.name == "decode" else "A"
    return {op.path: chr(ord(first) + index) for index, op in enumerate(chosen)}


def _power(value: float) -> str:
    prefix, scale = next((p, s) for p, s in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("", 1.0)) if value >= s)
    return f"{value / scale:.3g} {prefix}"
