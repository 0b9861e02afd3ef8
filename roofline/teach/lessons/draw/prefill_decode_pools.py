"""Disaggregation: one pool of replicas computes prompts, another generates, and the KV cache crosses a link between them."""

from __future__ import annotations

from typing import Any

import roofline
from roofline import formatting
from roofline.errors import InputError
from roofline.predict.request import prepare
from roofline.serving.kv_transfer import cache_bytes, cache_link
from roofline.teach.lessons.draw.canvas import Canvas, Drawing, Hue

_STEPS = 12


def draw(prompt: int = 4096, model: str = "llama-3.1-70b", node: str = "dgx-h100", tp: int = 4, batch: int = 16) -> Drawing:
    """Draw both pools and the time of a prompt's first steps.

    Args:
        prompt: tokens.
        model: that is served.
        node: hardware of both pools.
        tp: devices of a replica.
        batch: sequences that a replica of the second pool decodes at once; fewer where they do not fit.

    Raises:
        InputError: no link is known, or the prompt does not fit.
    """
    request = prepare(model, node, tp=tp)
    link = cache_link(request.hardware)
    if link is None:
        raise InputError(f"{node} has no link that caches could go over")
    name, rate = link
    size = cache_bytes(request, prompt)
    first = roofline.analyze(model, node, tp=tp, batch=1, input_len=prompt, phase="prefill").prefill
    options: dict[str, Any] = {"context": prompt, "phase": "decode", "tp": tp}
    batch = min(batch, roofline.analyze(model, node, batch=1, **options).memory.max_batch)
    later = roofline.analyze(model, node, batch=batch, **options).decode
    filled, step = (part.time.best if part is not None else None for part in (first, later))
    if filled is None or step is None:
        raise InputError(f"a prompt of {prompt:,} tokens does not fit")
    sent = size / rate
    canvas = Canvas(height=384)
    pools: tuple[tuple[float, Hue, str, str], ...] = (
        (120.0, "blue", "prefill pool", "limited by compute"),
        (482.0, "orange", "decode pool", f"by memory; {batch} sequences"),
    )
    for x, hue, title, limits in pools:
        canvas.box(x, 34, 196, 172, hue=hue, round_=8)
        canvas.label(title, x + 98, 16, anchor="middle", hue=hue, strong=True)
        for replica in range(2):
            y = 48.0 + replica * 62
            for device in range(tp):
                wide = 168 / tp
                canvas.box(x + 14 + device * wide, y, wide - 5, 36, "GPU" if wide > 36 else "", hue=hue, strong=True, size=11)
            canvas.label(f"replica {replica}", x + 14, y + 47, size=11, hue="grey")
        canvas.label(limits, x + 98, 194, anchor="middle", size=11)
    canvas.box(8, 96, 70, 46, f"prompt\n{prompt:,}", hue="grey", size=12)
    canvas.arrow((80, 119), (116, 119), wide=2)
    canvas.arrow((320, 119), (478, 119), hue="purple", wide=4)
    canvas.label("KV cache", 398, 62, anchor="middle", hue="purple", strong=True)
    canvas.label(f"{formatting.quantity(size, 'B', 3)} per GPU", 398, 82, anchor="middle", hue="purple", size=12)
    canvas.label(f"{formatting.quantity(size * tp, 'B', 3)} in all", 398, 100, anchor="middle", hue="purple", size=12)
    canvas.label(f"{formatting.quantity(rate, 'B/s', 3)} per GPU", 398, 138, anchor="middle", size=12)
    canvas.label(name.split(" between")[0], 398, 156, anchor="middle", size=11, hue="grey")
    canvas.arrow((680, 119), (700, 119), wide=2)
    canvas.label("tokens", 728, 119, anchor="middle", size=12)
    left, wide, y = 8.0, 744.0, 262.0
    scale = wide / (filled + sent + _STEPS * step)
    canvas.label("One request over time, drawn to scale:", 8, 236, strong=True)
    canvas.box(left, y, filled * scale, 34, "prefill", hue="blue", filled=True, size=12, round_=0)
    canvas.box(left + filled * scale, y, max(sent * scale, 2), 34, hue="purple", filled=True, round_=0)
    start = left + (filled + sent) * scale
    for number in range(_STEPS):
        canvas.box(start + number * step * scale, y, max(step * scale - 1, 1), 34, hue="orange", filled=True, round_=0)
    canvas.label(f"prefill {formatting.about(filled)}", left, y + 50, hue="blue")
    at = left + filled * scale
    says = f"transfer {formatting.seconds(sent, 2)}, {formatting.percent(sent / filled, digits=2)} of prefill"
    canvas.label(says, min(at, left + wide), y + 50, hue="purple", anchor="start" if at < 500 else "end")
    canvas.label(f"{_STEPS} decode steps of {formatting.about(step)}", left + wide, y + 72, anchor="end", hue="orange")
    canvas.label(
        f"{request.model.title} on {request.hardware.title}, TP {tp}; the whole cache is sent after prefill",
        8,
        y + 98,
        size=12,
        hue="grey",
    )
    return canvas.drawing(
        f"prefill-decode-pools-{prompt}",
        f"A prefill pool, a decode pool, and the cache of {prompt:,} tokens between them",
        f"A prompt of {prompt:,} tokens is computed in one pool in {formatting.about(filled)}. Its KV cache, "
        f"{formatting.quantity(size, 'B', 3)} on each of {tp} GPUs, goes over {name} in "
        f"{formatting.seconds(sent, 2)} to another pool, "
        f"which generates: a step of {batch} sequences takes {formatting.about(step)}.",
    )
