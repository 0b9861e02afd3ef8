"""Tiers of the KV cache, from device memory to a store over the network, and what bringing a sequence back takes."""

from __future__ import annotations

import math

import roofline
from roofline import formatting
from roofline.errors import InputError
from roofline.predict.request import prepare
from roofline.serving.kv_transfer import cache_bytes
from roofline.serving.preemption.costs import Preemption
from roofline.teach.lessons.draw.canvas import Canvas, Drawing, Hue
from roofline.units import parse_quantity

_Row = tuple[str, str, float | None, float, float, Hue]
"""Name of a tier, its memory or link, bytes for caches (None: not known), bytes/s, seconds of the sequence, hue."""


def draw(tokens: int = 8192, model: str = "llama-3.1-8b", node: str = "dgx-h100", disk: str = "") -> Drawing:
    """Draw the tiers with their sizes and rates, and the time to bring a sequence back.

    Args:
        tokens: of the sequence.
        model: whose cache it is.
        node: gives sizes and rates.
        disk: rate of a local disk with a unit, such as "12 GB/s", for a tier of its own; hardware files have none.
    """
    request = prepare(model, node)
    hardware = request.hardware
    if hardware.node is None:
        raise InputError(f"{node} is no node: its file has neither host nor network")
    size = cache_bytes(request, tokens)
    result = roofline.analyze(model, node, batch=1, context=tokens, phase="decode")
    each = result.memory.kv_bytes_per_token
    costs = Preemption.of(request, coalesced=True)
    choice = costs.choice(tokens)
    host, link, network = hardware.node.host, hardware.node.links[0], hardware.node.network
    count = hardware.node.count
    rows: list[_Row] = [
        (
            "device memory",
            hardware.accelerator.memory.type,
            result.memory.usable_bytes,
            hardware.bandwidth,
            size / hardware.bandwidth,
            "pink",
        ),
        ("another device", link.name.split(" +")[0], None, link.per_direction.value, size / link.per_direction.value, "purple"),
    ]
    if host is not None and host.memory is not None:
        rows.append(
            ("host memory", "PCIe, pinned", host.memory.value / count, costs.swap.copies.curves.back.rate, choice.in_s, "blue")
        )
    if network is not None:
        rows.append(
            ("a shared store", network.name, None, network.per_direction.value, size / network.per_direction.value, "orange")
        )
    if disk:
        rate = float(parse_quantity(disk, "byte/s"))
        rows.append(("local disk", "as given", None, rate, size / rate, "grey"))
    times = [row[4] for row in rows] + [choice.recompute_s]
    low, high = 10 ** math.floor(math.log10(min(times))), 10 ** math.ceil(math.log10(max(times)))
    left, wide, pitch, top = 420.0, 308.0, 52.0, 56.0
    bottom = top + len(rows) * pitch

    def place(seconds: float) -> float:
        return left + wide * math.log(seconds / low) / math.log(high / low)

    canvas = Canvas(height=bottom + 96)
    _table(canvas, rows, each, top, pitch)
    canvas.label(f"time to bring back {tokens:,} tokens", left, 24, size=12, strong=True)
    decade = low
    while decade <= high * 1.01:
        x = place(decade)
        canvas.line((x, top - 6), (x, bottom), wide=0.6)
        canvas.label(formatting.seconds(decade, 1), x, bottom + 12, anchor="middle", size=11, hue="grey")
        decade *= 10
    for number, (_, _, _, _, seconds, hue) in enumerate(rows):
        y, end = top + number * pitch, place(seconds)
        canvas.box(left, y + 8, end - left, 24, hue=hue, filled=True, round_=0)
        canvas.label(formatting.seconds(seconds, 2), end + 6, y + 20, size=12)
    x = place(choice.recompute_s)
    canvas.line((x, top - 8), (x, bottom + 24), hue="red", wide=2, dashed=True)
    again = f"compute again: {formatting.about(choice.recompute_s)}"
    canvas.label(again, x, bottom + 36, anchor="middle" if x < 660 else "end", hue="red")
    canvas.label(
        f"{tokens:,} tokens of {request.model.title} are {formatting.quantity(size, 'B', 3)}; from device memory: "
        "the time to read them once",
        8,
        bottom + 74,
        size=12,
        hue="grey",
    )
    listed = "; ".join(f"{row[0]} {formatting.quantity(row[3], 'B/s', 3)}, {formatting.seconds(row[4], 2)}" for row in rows)
    return canvas.drawing(
        f"kv-tiers-{tokens}",
        f"Tiers of the KV cache, and the time to bring back {tokens:,} tokens",
        f"Tiers with their rates and the time for {formatting.quantity(size, 'B', 3)}: {listed}. To compute the "
        "tokens again takes "
        f"{formatting.about(choice.recompute_s)}. The axis of times is logarithmic.",
        f"Rates of links are those of {hardware.title}, per device and direction; a store may be slower than the network.",
    )


def _table(canvas: Canvas, rows: list[_Row], each: float, top: float, pitch: float) -> None:
    """Names, sizes and rates; `each` is the bytes of a token."""
    for words, x in (("KV cache in", 8.0), ("for caches", 158.0), ("rate", 292.0)):
        canvas.label(words, x, 24, size=12, strong=True)
    for number, (name, how, held, rate, _, hue) in enumerate(rows):
        y = top + number * pitch
        canvas.box(8, y, 130, 40, hue=hue, strong=number == 0)
        canvas.label(name, 18, y + 13, size=12)
        canvas.label(how, 18, y + 29, size=11, hue="grey")
        if held is not None:
            canvas.label(formatting.quantity(held, "B", 3), 158, y + 13, size=12)
            canvas.label(f"{formatting.about_number(held / each)} tokens", 158, y + 29, size=11, hue="grey")
        else:
            canvas.label("–", 158, y + 20, size=12, hue="grey")
        canvas.label(formatting.quantity(rate, "B/s", 3), 292, y + 20, size=12)
