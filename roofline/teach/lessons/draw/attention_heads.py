"""Which query heads share keys and values: multi-head, grouped-query, multi-query and latent attention."""

from __future__ import annotations

from typing import Literal

from roofline.blocks.gqa import GroupedQueryAttention
from roofline.blocks.model_files import load_model
from roofline.errors import InputError
from roofline.formatting import plural
from roofline.teach.lessons.draw.canvas import Canvas, Drawing

Kind = Literal["mha", "gqa", "mqa", "mla"]
_NAMES = {"mha": "Multi-head attention", "gqa": "Grouped-query attention", "mqa": "Multi-query attention",
          "mla": "Latent attention"}  # fmt: skip
_DRAWN = 16
"""Query heads that are drawn at the most: of more, each that is drawn stands for several."""


def draw(kind: Kind = "gqa", model: str = "llama-3.1-8b", latent: int = 576) -> Drawing:
    """Draw the heads of one layer, and what each token leaves in the cache.

    Args:
        kind: who shares; "gqa" with the groups of the model.
        model: gives the numbers of heads and their width; its attention is grouped-query attention.
        latent: elements of the latent and the rotated key together, with "mla".

    Raises:
        InputError: the model has another attention.
    """
    mixer = next(iter(load_model(model)[0].layer_types.values())).mixer
    if not isinstance(mixer, GroupedQueryAttention):
        raise InputError(f"{model} has no grouped-query attention")
    heads, width = int(mixer.num_attention_heads), int(mixer.head_dim)
    kv_heads = {"mha": heads, "gqa": int(mixer.num_key_value_heads), "mqa": 1, "mla": 0}[kind]
    elements = 2 * kv_heads * width if kind != "mla" else latent
    each = max(heads // _DRAWN, 1)
    drawn = heads // each
    groups = max(kv_heads // each, 1)
    canvas = Canvas(height=250)
    left, right, side = 124.0, 748.0, 30.0
    pitch = (right - left) / drawn
    places = [left + pitch * (number + 0.5) for number in range(drawn)]
    rows = {"queries": 40.0, "keys": 118.0, "values": 152.0}
    canvas.label(f"{heads} query heads", 8, rows["queries"] + side / 2, size=13)
    for x in places:
        canvas.box(x - side / 2, rows["queries"], side, side, "Q", hue="green", size=12)
    if each > 1:
        canvas.label(f"{each} a square", 8, rows["queries"] + side / 2 + 18, size=12, hue="grey")
    shared = drawn // groups
    if kind == "mla":
        canvas.box(left, rows["keys"], right - left, side, f"one latent of {latent} elements: keys and values of all heads "
                   "come from it", hue="pink", strong=True)  # fmt: skip
        for x in places:
            canvas.line((x, rows["queries"] + side), (x, rows["keys"]), hue="pink")
        canvas.label("1 latent", 8, rows["keys"] + side / 2)
    else:
        canvas.label(f"{kv_heads} KV {'head' if kv_heads == 1 else 'heads'}", 8, (rows["keys"] + rows["values"] + side) / 2)
        for group in range(groups):
            members = places[group * shared : (group + 1) * shared]
            middle = sum(members) / shared
            for x in members:
                canvas.line((x, rows["queries"] + side), (middle, rows["keys"]), hue="pink")
            for row, letter in (("keys", "K"), ("values", "V")):
                canvas.box(middle - side / 2, rows[row], side, side, letter, hue="pink", strong=True, size=12)
    per = f"2 x {kv_heads} x {width} = " if kind != "mla" else ""
    ratio = 2 * heads * width / elements
    versus = "" if kind == "mha" else f", {ratio:.3g} times less than multi-head attention"
    canvas.label(f"In the cache, a token and layer: {per}{elements:,} elements{versus}", 8, 222)
    stands = {
        "mha": "each query head has keys and values of its own",
        "gqa": f"{heads // max(kv_heads, 1)} query heads share each head of keys and values",
        "mqa": "all query heads share one head of keys and values",
        "mla": f"all heads compute keys and values from one latent of {latent} elements",
    }[kind]
    return canvas.drawing(
        f"attention-heads-{kind}",
        f"{_NAMES[kind]}: {plural(heads, 'query head')}, {'a latent' if kind == 'mla' else plural(kv_heads, 'KV head')}",
        f"{plural(heads, 'query head')} in a row; {stands}. A token leaves {elements:,} elements in the cache of each layer.",
    )
