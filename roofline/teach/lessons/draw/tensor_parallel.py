"""Tensor parallelism of a layer: columns of the first matrices, rows of the last, and one all-reduce; heads in attention."""

from __future__ import annotations

from typing import Literal

import roofline
from roofline import formatting
from roofline.blocks.gqa import GroupedQueryAttention
from roofline.blocks.mlp import GatedMlp
from roofline.blocks.model_files import load_model
from roofline.errors import InputError
from roofline.teach.lessons.draw.canvas import DEVICE_HUES, Canvas, Drawing

_MOST = len(DEVICE_HUES)
_ROW = 82.0


def draw(
    part: Literal["mlp", "attention"] = "mlp",
    devices: int = 2,
    model: str = "llama-3.1-70b",
    tokens: int = 64,
    node: str = "dgx-h100",
) -> Drawing:
    """Draw what each device computes of a block.

    Args:
        part: the feed-forward block, or attention.
        devices: of the tensor-parallel group, 2 to 4.
        model: with grouped-query attention and a gated feed-forward block.
        tokens: in the step, one of each of as many sequences.
        node: hardware that joins the devices.

    Raises:
        InputError: another number of devices, or another kind of model.
    """
    read = load_model(model)[0]
    layer = next(iter(read.layer_types.values()))
    mixer, mlp = layer.mixer, layer.mlp
    if not isinstance(mixer, GroupedQueryAttention) or not isinstance(mlp, GatedMlp):
        raise InputError(f"{model} has no grouped-query attention, or no gated feed-forward block")
    if not 2 <= devices <= _MOST:
        raise InputError(f"2 to {_MOST} devices can be drawn")
    result = roofline.analyze(model, node, tp=devices, batch=tokens, context=1024, phase="decode", ignore_capacity=True)
    operators = {operator.path: operator for operator in (result.decode.operators if result.decode else ())}
    reduce = operators[f"layers/{part}/all_reduce"]
    wide = read.hidden_size
    if part == "mlp":
        n, k = operators["layers/mlp/gate_up_proj"].dims["n"], operators["layers/mlp/down_proj"].dims["k"]
        first, middle, last = (
            ("gate and up: columns", f"{wide:,} x {n // 2:,},\ntwice"),
            ("SiLU, product", f"{k:,} wide"),
            f"{k:,} x {wide:,}",
        )
        names = ("W gate, W up", "hidden", "W down")
    else:
        n, k = operators["layers/attention/qkv_proj"].dims["n"], operators["layers/attention/o_proj"].dims["k"]
        core = operators["layers/attention/core"].dims
        first = ("q, k, v: columns", f"{wide:,} x {n:,}")
        middle = ("heads", f"{core['n_heads']} q, {core['n_kv_heads']} KV")
        last, names = f"{k:,} x {wide:,}", ("W q, W k, W v", "attention", "W o")
    canvas = Canvas(height=58 + devices * _ROW - 14 + 26 + 36)
    top, high = 58.0, devices * _ROW - 14
    for words, x in (
        (f"{tokens} tokens in", 43),
        (names[0], 196),
        (names[1], 346),
        (names[2], 484),
        ("partial sums", 604),
        ("out", 718),
    ):
        canvas.label(words, x, 18, anchor="middle", size=12, strong=words.startswith("W"))
    for words, x in (
        ("split by columns", 196),
        ("split by heads" if part == "attention" else "split", 346),
        ("split by rows", 484),
    ):
        canvas.label(words, x, 36, anchor="middle", size=11, hue="grey")
    canvas.box(16, top, 54, high, f"{tokens} x\n{wide:,}", hue="grey", size=11)
    for device in range(devices):
        hue, y = DEVICE_HUES[device], top + device * _ROW
        tall = _ROW - 14
        middle_y = y + tall / 2
        canvas.arrow((72, middle_y), (134, middle_y))
        canvas.label(f"device {device}", 103, middle_y - 11, anchor="middle", size=11, hue=hue)
        canvas.box(136, y, 120, tall, first[1], hue=hue, strong=True, size=12)
        canvas.arrow((258, middle_y), (292, middle_y))
        canvas.box(294, y + 12, 104, tall - 24, middle[1], hue=hue, size=12)
        canvas.arrow((400, middle_y), (422, middle_y))
        canvas.box(424, y, 120, tall, last, hue=hue, strong=True, size=12)
        canvas.arrow((546, middle_y), (574, middle_y))
        canvas.box(576, y + 12, 56, tall - 24, f"{tokens} x\n{wide:,}", hue=hue, size=11)
        canvas.line((634, middle_y), (656, middle_y), hue="purple", wide=2)
    canvas.box(656, top, 22, high, "+", hue="purple", filled=True, size=16)
    canvas.arrow((680, top + high / 2), (690, top + high / 2), hue="purple", wide=2)
    canvas.box(692, top, 54, high, f"{tokens} x\n{wide:,}", hue="grey", size=11)
    sent = reduce.cost.link_bytes / reduce.repeat
    below = top + high + 26
    canvas.label(
        f"The only communication: one all-reduce of {tokens} x {wide:,} in bf16, of which each device sends "
        f"{formatting.quantity(sent, 'B', 3)}",
        16,
        below,
        hue="purple",
    )
    whole = {
        "mlp": f"{mlp.intermediate_size:,} inner elements",
        "attention": f"{mixer.num_attention_heads} query heads and {mixer.num_key_value_heads} KV heads",
    }[part]
    canvas.label(
        f"{read.title}: {whole}, divided by {devices}. Each device stays in its columns until the sum.",
        16,
        below + 22,
        size=12,
        hue="grey",
    )
    shape = first[1].replace("\n", " ")
    what = "The feed-forward block" if part == "mlp" else "Attention"
    return canvas.drawing(
        f"tensor-parallel-{part}-{devices}",
        f"{what} on {devices} tensor-parallel devices",
        f"{what} of {read.title} on {devices} devices. Each has columns of the first matrices ({shape}), computes its part "
        f"({middle[1]}), and multiplies with its rows of the last matrix ({last}). The partial sums are added by "
        "one all-reduce, of "
        f"which each device sends {formatting.quantity(sent, 'B', 3)}.",
    )
