"""Attention that writes its scores to memory, and FlashAttention, whose scores never leave the chip; the bytes of both."""

from __future__ import annotations

from dataclasses import replace

from roofline import formatting
from roofline.blocks.gqa import GroupedQueryAttention
from roofline.blocks.model_files import load_model
from roofline.errors import InputError
from roofline.operators.attention import Attention
from roofline.teach.lessons.draw.canvas import Canvas, Drawing, Hue

_WIDE = 368.0
"""Pixels of a panel."""
_CHIP, _MEMORY, _BELOW = 44.0, 186.0, 328.0
"""Tops of the chip and of memory, and the height of what is written below them."""


def draw(model: str = "llama-3.1-8b", context: int = 4096) -> Drawing:
    """Draw both ways for the prompt of one sequence.

    Args:
        model: one layer of which attends.
        context: tokens of the prompt.

    Raises:
        InputError: the model has no grouped-query attention.
    """
    spec = load_model(model)[0]
    mixer = next(iter(spec.layer_types.values())).mixer
    if not isinstance(mixer, GroupedQueryAttention):
        raise InputError(f"{model} has no grouped-query attention")
    heads = int(mixer.num_attention_heads)
    fused = Attention(
        batch=1, new=context, cached=0, n_heads=heads, n_kv_heads=mixer.num_key_value_heads, head_dim=mixer.head_dim
    )
    eager = replace(fused, eager=True, mask="full")
    with_scores, without = float(eager.cost().bytes), float(fused.cost().bytes)

    canvas = Canvas(height=_BELOW + 66)
    for left, title in ((4.0, "scores in memory"), (388.0, "FlashAttention")):
        canvas.label(title, left, 14, size=14)
        canvas.box(left, _CHIP - 12, _WIDE, 104, hue="green", round_=6)
        canvas.label("on chip", left + 8, _CHIP + 1, size=12, hue="green")
        canvas.box(left, _MEMORY - 12, _WIDE, 132, hue="pink", round_=6)
        canvas.label("device memory", left + 8, _MEMORY + 107, size=12, hue="pink")
    _eager(canvas, 4, context)
    _fused(canvas, 388)
    scores = 4 * heads * context * context * 2
    eager_words = f"{heads} x {context:,} x {context:,} scores, four times over the bus:\n"
    eager_words += f"{formatting.quantity(scores, 'B', 3)}; in all {formatting.quantity(with_scores, 'B', 3)}"
    fused_words = f"Q, K, V and O once: {formatting.quantity(without, 'B', 3)} in all,\n"
    fused_words += f"{formatting.number(with_scores / without, 3)} times less"
    for left, words in ((4, eager_words), (388, fused_words)):
        canvas.label(words, left, _BELOW + 16)
    return canvas.drawing(
        "flash-attention",
        "Attention with its scores in memory, and without",
        "On the left the product of Q and K is written to memory, read by the softmax, written again, and read for the "
        "product with V. On the right tiles of K and V stream to the chip, where a tile of scores, a running maximum and "
        f"a running sum are enough. For {context:,} tokens: {formatting.quantity(with_scores, 'B', 3)} against "
        f"{formatting.quantity(without, 'B', 3)}.",
        f"One layer of {spec.title}, a prompt of {context:,} tokens in bf16. K and V count once: what other tiles of Q "
        "read again comes from the cache.",
    )


def _eager(canvas: Canvas, left: float, context: int) -> None:
    boxes: tuple[tuple[str, float, float, float, float, Hue, bool], ...] = (
        ("Q", 14, 4, 26, 52, "grey", False), ("K", 46, 4, 26, 52, "grey", False),
        ("scores\nS", 92, 0, 76, 76, "red", True), ("softmax\nP", 190, 0, 76, 76, "red", True),
        ("V", 284, 4, 26, 52, "grey", False), ("O", 324, 4, 26, 52, "grey", False),
    )  # fmt: skip
    for words, x, y, wide, high, hue, strong in boxes:
        canvas.box(left + x, _MEMORY + y, wide, high, words, hue=hue, strong=strong, size=12)
    y, top, bottom = _CHIP + 26, _CHIP + 60, _MEMORY
    for words, x, wide in (("Q x K", 40, 84), ("softmax", 142, 84), ("P x V", 252, 84)):
        canvas.box(left + x, y, wide, 34, words, hue="green", size=12)
    up, down = True, False
    for start, end, way in (
        (27, 50, up), (59, 68, up), (112, 106, down), (148, 160, up), (208, 212, down), (248, 264, up), (297, 294, up),
        (337, 326, down),
    ):  # fmt: skip
        low = bottom + (4 if start in (27, 59, 297, 337) else 0)
        points = ((left + start, low), (left + end, top))
        canvas.arrow(*(points if way else points[::-1]), hue="pink", wide=1.6)
    canvas.label(f"each S and P: {context:,} x {context:,}", left + 179, _MEMORY + 90, anchor="middle", size=12)


def _fused(canvas: Canvas, left: float) -> None:
    tiles = 5
    high = 16.0
    for x, letter, tile in ((24, "Q", 1), (112, "K", 2), (168, "V", 2), (300, "O", 1)):
        for number in range(tiles):
            chosen = number == tile
            canvas.box(left + x, _MEMORY + 4 + number * (high + 1), 44, high, letter if chosen else "", round_=1, size=11,
                       hue="gold" if chosen else "grey", strong=chosen)  # fmt: skip
    y = _CHIP + 26
    for words, x in (("Q", 24), ("K", 112), ("V", 168), ("O", 300)):
        canvas.box(left + x, y + 34, 44, 22, words, hue="gold", strong=True, size=12)
    canvas.box(left + 64, y - 8, 66, 30, "S tile", hue="green", size=12)
    canvas.box(left + 160, y - 8, 96, 30, "max, sum", hue="green", size=12)
    canvas.arrow((left + 50, y + 34), (left + 72, y + 22))
    canvas.arrow((left + 132, y + 34), (left + 118, y + 22))
    canvas.arrow((left + 130, y + 7), (left + 160, y + 7))
    canvas.arrow((left + 256, y + 7), (left + 322, y + 7), (left + 322, y + 34))
    canvas.arrow((left + 212, y + 45), (left + 300, y + 45))
    top, bottom = y + 56, _MEMORY
    canvas.arrow((left + 46, bottom + 4), (left + 46, top), hue="pink", wide=1.6)
    for x in (134, 190):
        for shift in (-8, 0, 8):
            canvas.arrow((left + x + shift, bottom + 4), (left + x + shift, top), hue="pink", wide=1.6)
    canvas.arrow((left + 322, top), (left + 322, bottom + 4), hue="pink", wide=1.6)
    canvas.label("tile after tile", left + 178, _MEMORY + 107, anchor="middle", size=12)
