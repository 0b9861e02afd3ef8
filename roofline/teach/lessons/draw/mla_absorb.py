"""Multi-head latent attention: what is cached, and what decode absorbs so that it works on the latents themselves."""

from __future__ import annotations

from typing import Literal

from roofline.blocks.mla import LatentAttentionBlock
from roofline.blocks.model_files import load_model
from roofline.errors import InputError
from roofline.teach.lessons.draw.canvas import Canvas, Drawing


def draw(form: Literal["expanded", "absorbed"] = "absorbed", model: str = "deepseek-v3") -> Drawing:
    """Draw the projections of one layer.

    Args:
        form: as in prefill, with keys and values of all heads, or as in decode, on the latents.
        model: with latent attention and compressed queries.

    Raises:
        InputError: the model has another attention.
    """
    read = load_model(model)[0]
    mixer = next(iter(read.layer_types.values())).mixer
    if not isinstance(mixer, LatentAttentionBlock) or mixer.q_lora_rank is None:
        raise InputError(f"{model} has no latent attention with compressed queries")
    heads, latent, rotated = mixer.num_attention_heads, mixer.kv_lora_rank, mixer.qk_rope_head_dim
    plain, value, queries, wide = mixer.qk_nope_head_dim, mixer.v_head_dim, mixer.q_lora_rank, read.hidden_size
    absorbed = form == "absorbed"
    canvas = Canvas(height=424)
    canvas.box(8, 150, 66, 60, f"token\n{wide:,}", hue="grey", size=12)
    canvas.box(110, 48, 88, 46, f"latent of q\n{queries:,}", hue="green", size=12)
    canvas.box(110, 214, 88, 46, f"latent c\n{latent}", hue="pink", strong=True, size=12)
    canvas.box(110, 290, 88, 46, f"rotated k\n{rotated}", hue="pink", strong=True, size=12)
    canvas.arrow((74, 166), (108, 80))
    canvas.arrow((74, 186), (108, 230))
    canvas.arrow((74, 200), (108, 304))
    canvas.box(100, 204, 108, 142, hue="pink", dashed=True, round_=8)
    canvas.label(
        f"cached: {latent} + {rotated} = {latent + rotated}", 154, 364, anchor="middle", size=12, hue="pink", strong=True
    )
    canvas.label("elements per token, for all heads", 154, 381, anchor="middle", size=11, hue="grey")
    canvas.box(262, 24, 112, 46, f"q, plain\n{heads} x {plain}", hue="green", size=12)
    canvas.box(262, 90, 112, 46, f"q, rotated\n{heads} x {rotated}", hue="green", size=12)
    canvas.arrow((200, 64), (260, 47))
    canvas.arrow((200, 76), (260, 112))
    _attention(canvas, mixer, absorbed=absorbed)
    middle = 232 if absorbed else 180
    canvas.arrow((660 if absorbed else 538, middle), (684, middle))
    canvas.box(686, middle - 32, 66, 64, f"W_O\nout\n{wide:,}", hue="grey", size=12)
    per_head = 2 * (latent + rotated + latent) if absorbed else 2 * (plain + rotated + value)
    expand = 2 * latent * heads * (plain + value)
    canvas.label(
        "As in decode: absorbed" if absorbed else "As in prefill: expanded",
        752,
        12,
        anchor="end",
        strong=True,
        hue="orange" if absorbed else "blue",
    )
    if absorbed:
        text = (
            f"Per cached token {per_head * heads:,} FLOP and {2 * (latent + rotated):,} bytes read: keys and values "
            "of heads are never made"
        )
    else:
        text = f"Per cached token {per_head * heads:,} FLOP for each query, after {expand:,} to make its keys and values, once"
    canvas.label(text, 8, 410)
    stands = (
        f"In decode W_UK is absorbed into the queries ({heads} x {latent}) and W_UV into the output, so attention "
        "works on the latents"
        if absorbed
        else f"In prefill keys and values of {heads} heads are expanded from the latent, and attention is that of {heads} heads"
    )
    return canvas.drawing(
        f"mla-absorb-{form}",
        f"Latent attention of {read.title}, {form}",
        f"A token becomes a latent of {latent} elements and a rotated key of {rotated}, which are all that is "
        f"cached. {stands}. Each query does {per_head * heads:,} FLOP per cached token.",
        "Both forms give the same result.",
    )


def _attention(canvas: Canvas, mixer: LatentAttentionBlock, *, absorbed: bool) -> None:
    """From queries, latent and rotated key to the sums of the heads."""
    heads, latent, rotated = mixer.num_attention_heads, mixer.kv_lora_rank, mixer.qk_rope_head_dim
    plain, value = mixer.qk_nope_head_dim, mixer.v_head_dim
    if absorbed:
        canvas.box(424, 24, 112, 46, f"q W_UK\n{heads} x {latent}", hue="gold", strong=True, size=12)
        canvas.arrow((376, 47), (422, 47), hue="gold", wide=2)
        canvas.box(
            424,
            128,
            112,
            208,
            f"attention\non latents\n\nscores over\n{latent} + {rotated}\n\nsums of\n{heads} x {latent}",
            hue="green",
            strong=True,
            size=12,
        )
        canvas.arrow((480, 72), (480, 126), hue="gold", wide=2)
        canvas.arrow((376, 122), (422, 146))
        canvas.arrow((200, 237), (422, 237), hue="pink", wide=2)
        canvas.arrow((200, 313), (422, 313), hue="pink", wide=2)
        canvas.box(586, 209, 72, 46, f"x W_UV\n{heads} x {value}", hue="gold", strong=True, size=11)
        canvas.arrow((538, 232), (584, 232))
    else:
        canvas.box(262, 190, 112, 46, f"k = c W_UK\n{heads} x {plain}", hue="blue", strong=True, size=12)
        canvas.box(262, 250, 112, 46, f"v = c W_UV\n{heads} x {value}", hue="blue", strong=True, size=12)
        canvas.arrow((200, 230), (260, 213), hue="blue", wide=2)
        canvas.arrow((200, 244), (260, 272), hue="blue", wide=2)
        canvas.box(
            424,
            24,
            112,
            312,
            f"attention\nof {heads} heads\n\nscores over\n{plain} + {rotated}\n\nsums of\n{heads} x {value}",
            hue="green",
            strong=True,
            size=12,
        )
        for y in (47, 113, 213, 273):
            canvas.arrow((376, y), (422, y))
        canvas.arrow((200, 318), (422, 318), hue="pink", wide=2)
