"""A preempted sequence over time: its cache computed again, or copied out and back, block by block or gathered."""

from __future__ import annotations

from roofline import formatting
from roofline.predict.request import prepare
from roofline.serving.preemption.costs import Preemption
from roofline.teach.lessons.draw.canvas import Canvas, Drawing, Hue


def draw(tokens: int = 8192, model: str = "llama-3.1-8b", hardware: str = "h100-sxm") -> Drawing:
    """Draw three ways to preempt a sequence, with their times to scale.

    Args:
        tokens: that the sequence has in the cache.
        model: that is served.
        hardware: of one device.
    """
    request = prepare(model, hardware)
    each, gathered = Preemption.of(request), Preemption.of(request, coalesced=True)
    blocks, whole = each.choice(tokens), gathered.choice(tokens)
    size = each.device_bytes(tokens)
    calls = float(sum(each.swap.calls(stage, tokens) for stage in each.swap.stages))
    rows = (
        ("recompute", "drop the blocks", 0.0, blocks.recompute_s, "prefill again"),
        ("swap", f"{calls:,.0f} calls each way", blocks.out_s, blocks.in_s, "in"),
        ("swap, gathered", "one call each way", whole.out_s, whole.in_s, "in"),
    )
    left, row, top, high = 164.0, 92.0, 58.0, 40.0
    runs, waits = 62.0, 84.0
    scale = (744 - left - 2 * runs - waits) / max(out + back for _, _, out, back, _ in rows)
    canvas = Canvas(height=top + 3 * row + 54)
    canvas.label("blocks are needed", left + runs, 16, anchor="middle", size=12, hue="red")
    canvas.line((left + runs, 26), (left + runs, top + 3 * row - 30), hue="red", wide=1.4, dashed=True)
    ways = []
    for number, (name, how, out, back, does) in enumerate(rows):
        y = top + number * row
        canvas.label(name, 8, y + 12, strong=True)
        canvas.label(how, 8, y + 31, size=11, hue="grey")
        x = left
        canvas.box(x, y, runs - 1, high, "decode", hue="orange", filled=True, size=11, round_=0)
        x += runs
        if out:
            canvas.box(
                x + 1,
                y,
                max(out * scale - 1, 2),
                high,
                "out" if out * scale > 36 else "",
                hue="purple",
                filled=True,
                size=12,
                round_=0,
            )
            canvas.label(f"out {formatting.about(out)}", x + 4, y + high + 14, size=12, hue="purple")
            x += out * scale
        canvas.box(x + 2, y + 8, waits - 4, high - 16, "waits", hue="grey", empty=True, dashed=True, size=12)
        x += waits
        hue: Hue = "purple" if out else "blue"
        canvas.box(
            x,
            y,
            max(back * scale - 1, 2),
            high,
            does if back * scale > 90 or (out and back * scale > 30) else "",
            hue=hue,
            filled=True,
            size=12,
            round_=0,
        )
        says = (
            f"in {formatting.about(back)}, {formatting.about(out + back)} both" if out else f"prefill {formatting.about(back)}"
        )
        canvas.label(says, x + 4 if x < 560 else x, y + high + 14, size=12, hue=hue)
        x += back * scale
        canvas.box(x + 1, y, runs - 1, high, "decode", hue="orange", filled=True, size=11, round_=0)
        ways.append((name, out + back))
    best = min(ways, key=lambda way: way[1])
    canvas.label(
        f"{tokens:,} tokens, {formatting.quantity(size, 'B', 3)}: {best[0]} takes least. Bars are to scale, "
        "without the wait for memory",
        8,
        top + 3 * row + 8,
        strong=True,
    )
    canvas.label(
        f"{request.model.title} on {request.hardware.title}, blocks of {request.memory.block_size} tokens; estimates",
        8,
        top + 3 * row + 32,
        size=12,
        hue="grey",
    )
    listed = ", ".join(f"{name} {formatting.about(seconds)}" for name, seconds in ways)
    return canvas.drawing(
        f"recompute-or-swap-{tokens}",
        f"A sequence of {tokens:,} tokens is preempted: three ways back",
        "Three timelines of a sequence that decodes, loses its blocks, waits, and comes back. Recompute drops "
        "the blocks and computes "
        f"prefill again; swap copies them out and later in. They take: {listed}. {best[0].capitalize()} takes least.",
    )
