"""All-reduce over a ring of devices: reduce-scatter, then all-gather, a chunk over each link in each step."""

from __future__ import annotations

from roofline import formatting
from roofline.blocks.model_files import load_model
from roofline.errors import InputError
from roofline.operators.collectives import AllReduce
from roofline.teach.lessons.draw.canvas import Canvas, Drawing

_NARROW, _MOST = 3, 6
_LETTERS = "ABCDEF"


def contributions(devices: int, step: int) -> tuple[list[list[int]], list[int | None]]:
    """Return how many devices' values each chunk of each device has after a step, and the chunk that each sends in it.

    In steps 1 to n - 1, reduce-scatter, a device adds what arrives; in n to 2(n - 1), all-gather, it takes it.
    """
    held = [[1] * devices for _ in range(devices)]
    sent: list[int | None] = [None] * devices
    for number in range(1, step + 1):
        gather = number >= devices
        sent = [(device - number + 1) % devices for device in range(devices)]
        before = [list(chunks) for chunks in held]
        for device in range(devices):
            chunk = sent[device]
            after = (device + 1) % devices
            arrived = before[device][chunk or 0]
            held[after][chunk or 0] = arrived if gather else before[after][chunk or 0] + arrived
    return held, sent


def draw(devices: int = 4, step: int = 2, model: str = "llama-3.1-70b", tokens: int = 2048) -> Drawing:
    """Draw the chunks on each device after a step.

    Args:
        devices: in the ring, 2 to 6.
        step: 0 (before the first) to 2 (devices - 1).
        model: whose tokens' vectors are summed, after a row-split matrix.
        tokens: in the step.

    Raises:
        InputError: another number of devices or of the step.
    """
    steps = 2 * (devices - 1)
    if not 2 <= devices <= _MOST or not 0 <= step <= steps:
        raise InputError(f"a ring of 2 to {_MOST} devices has steps 0 to 2 (devices - 1)")
    elements = tokens * load_model(model)[0].hidden_size
    cost = AllReduce(elements=elements, world=devices).cost()
    held, sent = contributions(devices, step)
    canvas = Canvas(height=366)
    _progress(canvas, devices, step)
    side, gap = 26.0, 3.0
    across, high = devices * (side + gap) - gap + 24, 78.0
    upper = -(-devices // 2)
    columns = [380 + (column - (upper - 1) / 2) * min(760 / upper, across + 130) for column in range(upper)]
    tops = (84.0, 216.0)
    places = [(columns[d], tops[0]) if d < upper else (columns[upper - 1 - (d - upper)], tops[1]) for d in range(devices)]
    for device, (x, y) in enumerate(places):
        canvas.box(x - across / 2, y, across, high, hue="grey", round_=6)
        canvas.label(f"device {device}", x, y + 12, anchor="middle", size=12)
        for chunk in range(devices):
            left = x - across / 2 + 12 + chunk * (side + gap)
            canvas.label(_LETTERS[chunk], left + side / 2, y + 30, anchor="middle", size=11, hue="grey")
            arrived = sent[(device - 1) % devices] == chunk and step > 0
            whole = held[device][chunk] == devices
            canvas.box(
                left,
                y + 40,
                side,
                side,
                str(held[device][chunk]),
                hue="purple" if arrived else "green" if whole else "grey",
                filled=whole,
                strong=arrived and not whole,
                size=12,
            )
            if arrived and whole:
                canvas.box(left - 2, y + 38, side + 4, side + 4, hue="purple", strong=True)
        _link(canvas, places, device, (across, high), "" if sent[device] is None or step == 0 else _LETTERS[sent[device] or 0])
    each = cost.link_bytes / steps
    canvas.label(
        f"Sent by each device so far: {step} of {steps} chunks of S/{devices} = {formatting.quantity(each, 'B', 3)}, "
        f"{formatting.quantity(step * each, 'B', 3)} in all",
        380,
        322,
        anchor="middle",
    )
    canvas.label(
        f"After all steps: 2 ({devices} - 1)/{devices} x S = {formatting.quantity(cost.link_bytes, 'B', 3)}, "
        f"S = {formatting.quantity(elements * 2, 'B', 3)}: vectors of {tokens:,} tokens of {model}",
        380,
        346,
        anchor="middle",
        size=12,
        hue="grey",
    )
    complete = sum(count == devices for chunks in held for count in chunks)
    phase = "Before the first step" if step == 0 else f"After step {step} of {steps}, {_phase(devices, step)}"
    return canvas.drawing(
        f"ring-all-reduce-{devices}-{step}",
        f"Ring all-reduce over {devices} devices, {'before the first step' if step == 0 else f'step {step} of {steps}'}",
        f"{devices} devices in a ring, each with {devices} chunks. {phase}, {complete} of {devices * devices} "
        "chunks are sums over "
        f"all devices. In each step every device sends one chunk to the next; in all {steps} steps it sends "
        f"{formatting.quantity(cost.link_bytes, 'B', 3)}.",
        "The number in a square: of how many devices the values are summed. Reduce-scatter adds what arrives, "
        "all-gather copies it.",
    )


def _phase(devices: int, step: int) -> str:
    return "reduce-scatter" if step < devices else "all-gather"


def _progress(canvas: Canvas, devices: int, step: int) -> None:
    """The steps in a row, with the one that is shown."""
    side, gap, steps = 26.0, 6.0, 2 * (devices - 1)
    left = 380 - ((steps + 1) * (side + gap) + 24) / 2
    for number in range(steps + 1):
        x = left + number * (side + gap) + (12 if number else 0) + (12 if number >= devices else 0)
        canvas.box(x, 28, side, 20, str(number), hue="gold" if number == step else "grey", strong=number == step, size=11)
    half = (devices - 1) * (side + gap)
    first = left + side + gap + 12
    if devices == _NARROW:  # the names are wider than the steps
        canvas.label("reduce-scatter", first + half - gap, 12, anchor="end", size=12)
        canvas.label("all-gather", first + half + 12, 12, size=12)
        return
    canvas.label("reduce-scatter", first + half / 2 - gap / 2, 12, anchor="middle", size=12)
    if devices > _NARROW:
        canvas.label("all-gather", first + half * 1.5 + 12 - gap / 2, 12, anchor="middle", size=12)


def _link(canvas: Canvas, places: list[tuple[float, float]], device: int, size: tuple[float, float], chunk: str) -> None:
    """The arrow from a device to the next, with the chunk that it sends."""
    (x, y), (to_x, to_y) = places[device], places[(device + 1) % len(places)]
    across, high = size
    if y == to_y:
        way = 1 if to_x > x else -1
        middle = y + high / 2
        canvas.arrow((x + way * (across / 2 + 8), middle), (to_x - way * (across / 2 + 8), middle), hue="purple", wide=2)
        if chunk:
            canvas.label(chunk, (x + to_x) / 2, middle - 13, anchor="middle", hue="purple", strong=True)
        return
    down = to_y > y
    shift = 0.0 if len(places) > 2 else (14 if down else -14)
    start, end = (y + high + 8, to_y - 8) if down else (y - 8, to_y + high + 8)
    canvas.arrow((x + shift, start), (to_x + shift, end), hue="purple", wide=2)
    if chunk:
        canvas.label(
            chunk, (x + to_x) / 2 + shift + (12 if down else -12), (start + end) / 2, anchor="middle", hue="purple", strong=True
        )
