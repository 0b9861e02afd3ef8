"""The memories of an accelerator from the registers to the network: sizes, bandwidths, and what a byte has to do there."""

from __future__ import annotations

from math import log10

from roofline import formatting
from roofline.specs.hardware import Hardware
from roofline.specs.library import load_hardware
from roofline.teach.lessons.draw.canvas import Canvas, Drawing

_UNITS = 4
"""Compute units that are drawn, the last one after a gap."""
_LEFT, _RIGHT, _TEXT, _RATE, _FLOP = 14.0, 306.0, 332.0, 604.0, 748.0
"""The memories, their names, and the right edges of the two columns of numbers."""
_PITCH, _TALL = 54.0, 36.0


def draw(hardware: str = "h100-sxm") -> Drawing:
    """Draw the memories of one accelerator; what its file does not know is left out.

    Args:
        hardware: an accelerator, or a node, which adds the network.
    """
    device = load_hardware(hardware)[0]
    chip = device.accelerator
    units = int(chip.compute_units.value) if chip.compute_units else 1
    on_unit = [(name, fact.value) for name, fact in (("registers", chip.registers), ("shared memory, L1", chip.shared_memory))
               if fact]  # fmt: skip
    outside = _links(device)
    inside = len(on_unit) + bool(chip.l2)
    top = 42.0
    canvas = Canvas(height=top + _PITCH * (inside + 1 + len(outside)) + 22)
    canvas.label("bandwidth", _RATE, 16, anchor="end", size=12, hue="grey")
    canvas.label("FLOP/byte at peak", _FLOP, 16, anchor="end", size=12, hue="grey")
    bottom = top + _PITCH * inside - 10
    canvas.box(4, 4, 312, bottom - 4, hue="grey", round_=6)
    canvas.label(f"{chip.title}: {units} units" if units > 1 else chip.title, _LEFT, 20, size=12)

    wide, gap = 58.0, 8.0
    lefts = [_LEFT + number * (wide + gap) + (36 if number == _UNITS - 1 else 0) for number in range(_UNITS)]
    canvas.label("...", (lefts[-2] + wide + lefts[-1]) / 2, top + _PITCH / 2 + 6, anchor="middle")
    for row, (name, value) in enumerate(on_unit):
        y = top + row * _PITCH
        for x in lefts:
            canvas.box(x, y, wide, _TALL, formatting.binary(value), hue="green", size=11)
            if row:
                canvas.arrow((x + wide / 2, y), (x + wide / 2, y - _PITCH + _TALL), hue="green", both=True)
        canvas.label(f"{name}\n{units} x {formatting.binary(value)} = {formatting.binary(units * value, 3)}", _TEXT, y + 10)
    words = [f"{plural} of {formatting.binary(units * value, 3)}" for plural, value in on_unit]
    peak = device.peak("bf16")

    def numbers(y: float, bandwidth: float) -> None:
        canvas.label(formatting.quantity(bandwidth, "B/s", 3), _RATE, y + _TALL / 2, anchor="end")
        canvas.label(formatting.number(peak / bandwidth, 3), _FLOP, y + _TALL / 2, anchor="end")

    y = top + len(on_unit) * _PITCH
    if chip.l2:
        canvas.box(_LEFT, y, _RIGHT - _LEFT, _TALL, formatting.binary(chip.l2.value), hue="green", strong=True)
        for x in lefts if on_unit else ():
            canvas.arrow((x + wide / 2, y), (x + wide / 2, y - _PITCH + _TALL), hue="green", both=True)
        canvas.label("L2 cache\nall compute units share it", _TEXT, y + 10)
        if chip.l2_bandwidth:
            numbers(y, chip.l2_bandwidth.value)
        words.append(f"an L2 cache of {formatting.binary(chip.l2.value)}")
        y += _PITCH
    memory = formatting.quantity(chip.memory.label.value, "B", 3)
    canvas.box(_LEFT + 60, y + 22, _RIGHT - _LEFT - 60, _TALL, memory, hue="pink", filled=True)
    canvas.arrow(
        ((_LEFT + _RIGHT) / 2 + 30, bottom),
        ((_LEFT + _RIGHT) / 2 + 30, y + 22),
        hue="pink",
        wide=_line(device.bandwidth),
        both=True,
    )
    canvas.label(f"device memory, {chip.memory.type}\nweights and KV cache", _TEXT, y + 32)
    numbers(y + 22, device.bandwidth)
    words.append(f"{memory} of {chip.memory.type} at {formatting.quantity(device.bandwidth, 'B/s', 3)}")
    for name, link, bandwidth in outside:
        y += _PITCH
        canvas.box(_LEFT + 60, y + 22, _RIGHT - _LEFT - 60, _TALL, name, hue="purple")
        canvas.arrow((_LEFT + 14, bottom), (_LEFT + 14, y + 22 + _TALL / 2), (_LEFT + 60, y + 22 + _TALL / 2), hue="purple",
                     wide=_line(bandwidth))  # fmt: skip
        canvas.label(f"over {link}\nin each direction", _TEXT, y + 32)
        numbers(y + 22, bandwidth)
        words.append(f"{name} over {link} at {formatting.quantity(bandwidth, 'B/s', 3)} in each direction")
    return canvas.drawing(
        f"gpu-memory-{hardware}",
        f"The memories of an {device.title}" if device.title[0] in "AEIO" else f"The memories of {device.title}",
        f"From the compute units outwards: {'; '.join(words)}.",
        f"FLOP per byte at peak: what each byte has to do to keep the matrix units at {formatting.quantity(peak, 'FLOP/s', 3)} "
        "(bf16).",
    )


def _links(device: Hardware) -> list[tuple[str, str, float]]:
    """What can be reached, over which link, at how many byte/s in one direction."""
    node, chip = device.node, device.accelerator
    among = node.links if node else chip.links
    links = {
        "other devices": among[0] if among else None,
        "host memory": (node.host_link if node else None) or chip.host_link,
        "other nodes": node.network if node else None,
    }
    return [(name, link.name, link.per_direction.value) for name, link in links.items() if link]


def _line(bandwidth: float) -> float:
    """Pixels of a line: more for more bandwidth, by orders of magnitude."""
    return max(1.1 * (log10(bandwidth) - 9.5), 1)
