"""A mixture of experts: scores, top k, gates and the weighted sum of one token; and the tokens of a batch by expert."""

from __future__ import annotations

import math
import random
from typing import Literal

from roofline import formatting
from roofline.errors import InputError
from roofline.operators.grouped_gemm import expected_distinct
from roofline.teach.lessons.draw.canvas import Canvas, Drawing
from roofline.teach.lessons.draw.expert_parallel import mixture, routes

_MOST = 8


def gates(scores: list[float], top_k: int) -> tuple[list[float], dict[int, float]]:
    """Return the softmax of scores, and of the best `top_k` their shares of the sum of theirs, by place."""
    powers = [math.exp(score) for score in scores]
    shares = [power / sum(powers) for power in powers]
    best = sorted(range(len(scores)), key=lambda place: -shares[place])[:top_k]
    whole = sum(shares[place] for place in best)
    return shares, {place: shares[place] / whole for place in sorted(best)}


def draw(view: Literal["token", "batch"] = "token", model: str = "mixtral-8x7b", tokens: int = 8, seed: int = 3) -> Drawing:
    """Draw one token's way through a layer of experts, or how a batch is sorted by expert.

    Args:
        view: one token, or a batch.
        model: with at most 8 experts.
        tokens: of the batch, at most 8.
        seed: of the scores.

    Raises:
        InputError: no experts, or too much to draw.
    """
    title, width, moe = mixture(model)
    if moe.num_experts > _MOST or tokens > _MOST:
        raise InputError(f"at most {_MOST} experts and {_MOST} tokens can be drawn")
    experts, top_k, inner = moe.num_experts, moe.num_experts_per_tok, moe.moe_intermediate_size
    if view == "batch":
        return _batch(title, width, inner, routes(experts, top_k, tokens, seed), experts, top_k)
    scores = [random.Random(f"{seed}-{expert}").gauss(0, 1) for expert in range(experts)]  # noqa: S311 - an example
    shares, chosen = gates(scores, top_k)
    canvas = Canvas(height=74 + 36 * experts + 12)
    top, row = 58.0, 36.0
    middle = top + (experts * row - 8) / 2
    canvas.box(10, middle - 32, 70, 64, f"token\n{width:,}", hue="grey", size=12)
    canvas.arrow((82, middle), (104, middle))
    canvas.box(106, middle - 44, 84, 88, f"router\n{width:,} x {experts}", hue="green", strong=True, size=12)
    for words, x in (("score", 262), ("softmax", 342), ("gate", 446), (f"top {top_k} of {experts} experts", 562), ("sum", 680)):
        canvas.label(words, x, 16, anchor="middle", size=12, strong=True)
    canvas.label("of the chosen", 446, 34, anchor="middle", size=11, hue="grey")
    widest = max(shares)
    for expert in range(experts):
        y = top + expert * row
        center, used = y + 14, expert in chosen
        canvas.line((192, middle), (212, center), hue="gold" if used else "grey", wide=2 if used else 1)
        canvas.label(str(expert), 224, center, anchor="middle", size=12, hue="grey")
        canvas.label(f"{scores[expert]:.2f}", 280, center, anchor="end", size=12)
        canvas.box(300, y + 4, 68 * shares[expert] / widest, 20, hue="gold" if used else "grey", filled=used)
        canvas.label(f"{shares[expert]:.2f}", 374, center, size=12)
        if used:
            canvas.label(f"{chosen[expert]:.2f}", 446, center, anchor="middle", strong=True, hue="gold")
            canvas.arrow((410, center), (424, center), hue="gold")
            canvas.arrow((468, center), (484, center), hue="gold")
            canvas.line((640, center), (664, middle), hue="gold", wide=2)
        canvas.box(
            486,
            y,
            152,
            28,
            f"expert {expert}" + (f": inner {inner:,}" if used else ": not read"),
            hue="green" if used else "grey",
            strong=used,
            empty=not used,
            dashed=not used,
            size=11,
        )
    canvas.circle(680, middle, 15, "+", hue="green", filled=True, size=16)
    canvas.arrow((696, middle), (712, middle))
    canvas.label("out", 734, middle, anchor="middle", size=12)
    listed = ", ".join(f"expert {place} with gate {gate:.2f}" for place, gate in chosen.items())
    return canvas.drawing(
        f"moe-routing-token-{seed}",
        f"One token chooses {top_k} of {experts} experts",
        f"The router of {title} scores {experts} experts for a token. Of the softmax of the scores the best "
        f"{top_k} are taken, and their "
        f"shares are divided by their sum: {listed}. The output is the sum of these experts' outputs, times their gates.",
        "Scores are an example; widths are the model's.",
    )


def _batch(title: str, width: int, inner: int, chosen: list[list[int]], experts: int, top_k: int) -> Drawing:
    tokens = len(chosen)
    counts = [sum(expert in each for each in chosen) for expert in range(experts)]
    met, expected = sum(count > 0 for count in counts), expected_distinct(experts, top_k, tokens)
    canvas = Canvas(height=72 + 34 * max(experts, tokens) + 40)
    top, side, left = 64.0, 34.0, 92.0
    canvas.label("each token chooses", left + experts * side / 2 - 2, 14, anchor="middle", strong=True)
    canvas.label("sorted by expert: one grouped product", 470, 14, strong=True)
    for expert in range(experts):
        canvas.label(str(expert), left + expert * side + 15, 46, anchor="middle", size=12, hue="grey")
        for token in range(tokens):
            used = expert in chosen[token]
            canvas.box(
                left + expert * side,
                top + token * side,
                side - 4,
                side - 4,
                hue="gold" if used else "grey",
                filled=used,
                empty=not used,
            )
        y = top + expert * side
        canvas.label(f"expert {expert}", 470, y + 15, size=12)
        if counts[expert]:
            for number in range(counts[expert]):
                canvas.box(534 + number * 22, y + 6, 18, 18, hue="gold", filled=True)
            canvas.label(f"{counts[expert]} x {width:,}", 750, y + 15, anchor="end", size=12)
        else:
            canvas.label("not read", 750, y + 15, anchor="end", size=12, hue="grey")
    canvas.label("expert", 84, 46, anchor="end", size=12, hue="grey")
    for token in range(tokens):
        canvas.label(f"token {token}", 84, top + token * side + 15, anchor="end", size=12)
    middle = top + (max(experts, tokens) * side - 4) / 2
    canvas.arrow((left + experts * side + 16, middle), (456, middle), hue="purple", wide=2.4)
    matrix = 3 * width * inner * 2
    canvas.label(
        f"{tokens} tokens meet {met} of {experts} experts (expected {expected:.3g}), whose weights are read: {met} x "
        f"{formatting.quantity(matrix, 'B', 3)} a layer",
        10,
        canvas.height - 18,
    )
    return canvas.drawing(
        f"moe-routing-batch-{tokens}",
        f"{tokens} tokens, {top_k} of {experts} experts each: what an expert computes together",
        f"A table of {tokens} tokens and {experts} experts, {top_k} chosen in each row. Sorted by expert, they are products of "
        f"{', '.join(map(str, counts))} rows. {met} experts are met, and {expected:.3g} expected; each has "
        f"{formatting.quantity(matrix, 'B', 3)} of weights in a layer of {title}.",
        "Choices are at random, all experts equally likely.",
    )
