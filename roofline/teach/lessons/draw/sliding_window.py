"""Which keys a query sees under the causal mask and under a window, and what of the cache stays."""

from __future__ import annotations

from roofline import formatting
from roofline.blocks.gqa import GroupedQueryAttention
from roofline.blocks.model_files import load_model
from roofline.errors import InputError
from roofline.teach.lessons.draw.canvas import Canvas, Drawing

_SIDE = 19.0
_BYTES = 2
"""Of a cached element, in bf16."""


def draw(model: str = "gemma-3-12b", context: int = 32768, tokens: int = 12, window: int = 4) -> Drawing:
    """Draw both masks of a short sequence, and the cached bytes of a layer of each kind of a model.

    Args:
        model: with a sliding window in some of its layers, or in all.
        context: tokens for which bytes are given.
        tokens: of the drawn sequence.
        window: of the drawn mask: the token itself and those before it.

    Raises:
        InputError: the model has no layer of grouped-query attention with a window.
    """
    spec = load_model(model)[0]
    mixers = [layer.mixer for layer in spec.layer_types.values() if isinstance(layer.mixer, GroupedQueryAttention)]
    local = next((mixer for mixer in mixers if mixer.sliding_window), None)
    if local is None:
        raise InputError(f"{model} has no layer with a sliding window")
    width = int(local.sliding_window or 0)
    each = 2 * int(local.num_key_value_heads) * int(local.head_dim) * _BYTES
    full, cut = context * each, min(context, width) * each

    grid = tokens * _SIDE
    top = 66.0
    canvas = Canvas(height=top + grid + 104)
    canvas.label("queries", 8, top + grid / 2 - 8, size=12, hue="grey")
    canvas.label("down", 8, top + grid / 2 + 8, size=12, hue="grey")
    for left, seen, title, held in (
        (84.0, tokens, "causal mask: all keys before", full),
        (450.0, window, f"window of {window}: the last {window} keys", cut),
    ):
        canvas.label(title, left, 16, size=14)
        canvas.label("keys across", left, 40, size=12, hue="grey")
        for query in range(tokens):
            for key in range(tokens):
                sees = query - seen < key <= query
                canvas.box(left + key * _SIDE, top + query * _SIDE, _SIDE - 2, _SIDE - 2, hue="green" if sees else "grey",
                           filled=sees, empty=not sees, round_=2)  # fmt: skip
        below = top + grid + 22
        canvas.label("cache", left - 10, below + _SIDE / 2, anchor="end", size=12)
        for key in range(tokens):
            stays = key >= tokens - seen
            canvas.box(
                left + key * _SIDE,
                below,
                _SIDE - 2,
                _SIDE - 2,
                hue="pink",
                filled=stays,
                empty=not stays,
                dashed=not stays,
                round_=2,
            )
        canvas.label(f"{min(seen, tokens)} of {tokens} tokens stay", left, below + 34, size=12)
        canvas.label(f"at {context:,} tokens: {formatting.quantity(held, 'B', 3)}", left, below + 54, size=12)
    return canvas.drawing(
        "sliding-window",
        "The causal mask, and a sliding window",
        f"Two masks of {tokens} queries and {tokens} keys. Under the causal mask each query sees its own key and all "
        f"before it. Under a window of {window} it sees its own and {window - 1} before it, and the cache holds {window} "
        "tokens.",
        f"Bytes: one layer of {spec.title} in bf16, whose window is {width:,} tokens.",
    )
