"""The KV cache of one sequence as prefill fills it and each decode step adds a column."""

from __future__ import annotations

from roofline import formatting
from roofline.predict.explain import explain
from roofline.teach.lessons.draw.canvas import Canvas, Drawing


def draw(model: str = "llama-3.1-8b", prompt: int = 6, steps: int = 4) -> Drawing:
    """Draw prefill and some decode steps, one row each.

    Args:
        model: whose bytes a column is.
        prompt: tokens of the prompt.
        steps: decode steps after it.
    """
    each = float(explain(model, "kv_bytes_per_token").value or 0)
    canvas = Canvas(height=64 + 44 * (steps + 1))
    left, side, gap = 130.0, 34.0, 3.0
    for row in range(steps + 1):
        y = 40 + 44 * row
        cached, new = (0, prompt) if row == 0 else (prompt + row - 1, 1)
        canvas.label("prefill" if row == 0 else f"decode step {row}", 8, y + side / 2, hue="blue" if row == 0 else "orange")
        for column in range(prompt + steps):
            x = left + column * (side + gap)
            if column < cached:
                canvas.box(x, y, side, side, hue="pink", filled=True)
            elif column < cached + new:
                canvas.box(x, y, side, side, "new", hue="blue" if row == 0 else "orange", strong=True, size=11)
            else:
                canvas.box(x, y, side, side, empty=True, dashed=True)
        read = formatting.quantity(cached * each, "B", 3) if cached else "nothing"
        end = left + (prompt + steps) * (side + gap) + 14
        canvas.label(f"reads {read}, adds {formatting.quantity(new * each, 'B', 3)}", end, y + side / 2)
    canvas.label("keys and values of one token, all layers, a square", left, 18, size=12)
    return canvas.drawing(
        "cache-growth",
        "The cache grows by one column a step",
        f"Prefill writes the keys and values of {prompt} prompt tokens at once. Each of {steps} decode steps reads all columns "
        "that are there and adds one.",
        f"A column of {model} is {formatting.quantity(each, 'B', 3)}.",
    )
