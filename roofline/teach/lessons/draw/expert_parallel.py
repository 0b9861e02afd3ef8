"""Expert parallelism: tokens go to the devices of their experts and come back, and the device with most of them is last."""

from __future__ import annotations

import random

from roofline import formatting
from roofline.blocks.model_files import load_model
from roofline.blocks.moe import MixtureOfExperts
from roofline.errors import InputError
from roofline.teach.lessons.draw.canvas import DEVICE_HUES, Canvas, Drawing, Hue

_DEVICES = len(DEVICE_HUES)


def routes(experts: int, top_k: int, tokens: int, seed: int) -> list[list[int]]:
    """Return the experts of each token, drawn at random, all equally likely."""
    choice = random.Random(seed)  # noqa: S311 - an example
    return [sorted(choice.sample(range(experts), top_k)) for _ in range(tokens)]


def mixture(model: str) -> tuple[str, int, MixtureOfExperts]:
    """Return title, width and mixture of experts of a model.

    Raises:
        InputError: it has none.
    """
    read = load_model(model)[0]
    for layer in read.layer_types.values():
        if isinstance(layer.mlp, MixtureOfExperts):
            return read.title, int(read.hidden_size), layer.mlp
    raise InputError(f"{model} has no experts")


def draw(model: str = "mixtral-8x7b", tokens: int = 4, seed: int = 5) -> Drawing:
    """Draw the tokens of four devices on their way to experts and back.

    Args:
        model: with 8 experts at the most.
        tokens: on each device.
        seed: of the experts that they are sent to.

    Raises:
        InputError: the model has no experts, or too many to draw.
    """
    title, width, moe = mixture(model)
    if moe.num_experts > 2 * _DEVICES or tokens > 6:
        raise InputError(f"at most {2 * _DEVICES} experts and 6 tokens for each device can be drawn")
    per_device = moe.num_experts // _DEVICES
    chosen = routes(moe.num_experts, moe.num_experts_per_tok, tokens * _DEVICES, seed)
    arrived = [[token for token, experts in enumerate(chosen) if expert in experts] for expert in range(moe.num_experts)]
    loads = [sum(len(arrived[expert]) for expert in range(per_device * d, per_device * (d + 1))) for d in range(_DEVICES)]
    fullest, mean = loads.index(max(loads)), sum(loads) / _DEVICES
    flows = [
        [
            sum(expert // per_device == to for token in range(tokens * d, tokens * (d + 1)) for expert in chosen[token])
            for to in range(_DEVICES)
        ]
        for d in range(_DEVICES)
    ]
    canvas = Canvas(height=414)
    top, pitch, high, side = 54.0, 75.0, 62.0, 17.0
    for words, under, x in (
        ("tokens", "attention, router", 82.0),
        ("experts", "all tokens of an expert at once", 380),
        ("tokens", "weighted sums", 678),
    ):
        canvas.label(words, x, 14, anchor="middle", strong=True)
        canvas.label(under, x, 33, anchor="middle", size=11, hue="grey")
    for words, x in (("dispatch", 204), ("combine", 556)):
        canvas.label(words, x, 14, anchor="middle", hue="purple", strong=True)
        canvas.label("all-to-all", x, 33, anchor="middle", size=11, hue="purple")
    for source in range(_DEVICES):
        for to in range(_DEVICES):
            if flows[source][to]:
                start, end = top + source * pitch + high / 2, top + to * pitch + high / 2
                hue: Hue = "grey" if source == to else "purple"
                thick = 1.1 * flows[source][to]
                canvas.line((152, start), (258, end), hue=hue, wide=thick)
                canvas.line((502, end), (608, start), hue=hue, wide=thick)
    for device in range(_DEVICES):
        y = top + device * pitch
        for x in (12.0, 610.0):
            canvas.box(x, y, 138, high, hue=DEVICE_HUES[device], round_=6)
            canvas.label(f"device {device}", x + 69, y + 15, anchor="middle", size=12)
            canvas.cells(x + (138 - tokens * 20 + 3) / 2, y + 32, [[DEVICE_HUES[device]] * tokens], side, gap=3)
        canvas.box(260, y, 240, high, hue="red" if device == fullest else "grey", strong=device == fullest, round_=6)
        for number in range(per_device):
            expert = per_device * device + number
            row = y + 8 + number * (high - 16 + 9) / per_device
            canvas.label(f"expert {expert}", 270, row + side / 2, size=12)
            canvas.cells(338, row, [[DEVICE_HUES[token // tokens] for token in arrived[expert]]], side, gap=2)
    below = top + _DEVICES * pitch + 4
    canvas.label(
        f"Device {fullest} computes {loads[fullest]} of {sum(loads)} copies, {loads[fullest] / mean:.3g} times the mean: "
        "the others wait for it before tokens return",
        12,
        below,
        hue="red",
    )
    canvas.label(
        f"A vector of {title} has {formatting.quantity(2 * width, 'B', 3)}; on average {_DEVICES - 1} of "
        f"{_DEVICES} copies leave "
        "their device and come back",
        12,
        below + 24,
        size=12,
        hue="grey",
    )
    canvas.label(
        f"Each of {tokens * _DEVICES} tokens chooses {moe.num_experts_per_tok} of {moe.num_experts} experts, here at random",
        12,
        below + 46,
        size=12,
        hue="grey",
    )
    return canvas.drawing(
        f"expert-parallel-{seed}",
        f"Expert parallelism on {_DEVICES} devices: dispatch, compute, combine",
        f"{tokens} tokens on each of {_DEVICES} devices are sent to the devices of their "
        f"{moe.num_experts_per_tok} experts, computed "
        f"there together, and sent back to be summed. The devices get {', '.join(map(str, loads))} copies: device "
        f"{fullest} has most, "
        f"{loads[fullest] / mean:.3g} times the mean, and the others wait for it.",
        "Squares have the colour of the device that a token belongs to; lines are as wide as copies are many, "
        "grey ones stay at home.",
    )
