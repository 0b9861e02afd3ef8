"""One decoder layer: its operators along the residual stream, the shape of every tensor, and its matrices to scale."""

from __future__ import annotations

from dataclasses import dataclass

from roofline import formatting
from roofline.blocks.gqa import GroupedQueryAttention
from roofline.blocks.mlp import GatedMlp
from roofline.blocks.model_files import load_model
from roofline.blocks.moe import MixtureOfExperts
from roofline.errors import InputError
from roofline.teach.lessons.draw.canvas import Canvas, Drawing

_STREAM, _BACK = 36.0, 318.0
"""Heights of the residual stream, and of the way back to it below the operators."""
_HALVES, _WIDE = (6.0, 386.0), 166.0
"""Left sides of attention and of the MLP; width of an operator."""
_FLOW, _MATRICES, _RETURN = 16.0, 200.0, 356.0
"""In a half: what flows from operator to operator, the matrices, and the way back."""
_TALL = 26.0
"""Pixels of an operator."""
_SIDE, _LONGEST = 26.0, 91.0
"""Pixels of a matrix for the width of the residual stream, and of its longest side."""
_LETTER = 16.0
"""Pixels of a matrix that has space for a letter."""
_EXPERTS, _BEHIND = 4, 4.0
"""Experts of which an outline is drawn, at the most; how far each is behind the one before."""


class _Half:
    """A column of operators below the residual stream, which read it and add to it; beside them what they multiply with."""

    def __init__(self, canvas: Canvas, left: float) -> None:
        self.canvas, self.left, self.matrices = canvas, left, left + _MATRICES
        self.bottom = _STREAM

    def operator(self, name: str, tensor: str, top: float, *, weights: bool = False, cache: bool = False) -> None:
        """Draw an operator and what it makes; those with weights are green, those that use the cache pink."""
        canvas, x = self.canvas, self.left + _FLOW
        canvas.arrow((x, self.bottom), (x, top))
        canvas.box(self.left, top, _WIDE, _TALL, name, hue="green" if weights else "pink" if cache else "grey", size=12)
        self.bottom = top + _TALL
        middle = self.bottom + (13 if "\n" not in tensor else 21)
        canvas.label(tensor, x + 10, middle, size=12, at="middle")

    def join(self) -> None:
        """Add the last operator's result to the stream."""
        canvas, x, back = self.canvas, self.left + _FLOW, self.left + _RETURN
        canvas.arrow((x, self.bottom), (x, _BACK), (back, _BACK), (back, _STREAM + 11))
        canvas.circle(back, _STREAM, 11, "+", hue="ink", size=14)


@dataclass(frozen=True)
class _Layer:
    """The shapes of a decoder layer, and how many weights its matrices have."""

    wide: int
    heads: int
    groups: int
    head: int
    inner: int
    experts: int
    chosen: int

    @classmethod
    def of(cls, model: str) -> _Layer:
        spec = load_model(model)[0]
        layers = list(spec.layer_types.values())
        mixer, mlp = layers[0].mixer, layers[0].mlp
        if len(layers) > 1 or not isinstance(mixer, GroupedQueryAttention) or not isinstance(mlp, (GatedMlp, MixtureOfExperts)):
            raise InputError(
                f"{model}: drawn are models of equal layers with grouped-query attention and gated MLPs or experts"
            )
        inner, experts, chosen = (
            (mlp.moe_intermediate_size, mlp.num_experts, mlp.num_experts_per_tok)
            if isinstance(mlp, MixtureOfExperts)
            else (mlp.intermediate_size, 1, 1)
        )
        sizes = (spec.hidden_size, mixer.num_attention_heads, mixer.num_key_value_heads, mixer.head_dim, inner, experts, chosen)
        return cls(*map(int, sizes))

    @property
    def moe(self) -> bool:
        return self.experts > 1

    @property
    def attention(self) -> int:
        return self.wide * (2 * self.heads + 2 * self.groups) * self.head

    @property
    def expert(self) -> int:
        return 3 * self.wide * self.inner

    @property
    def router(self) -> int:
        return self.wide * self.experts if self.moe else 0

    def whole(self, experts: int) -> int:
        return self.attention + self.router + experts * self.expert

    @property
    def stream(self) -> str:
        return f"[T, {self.wide:,}]"

    @property
    def scale(self) -> float:
        """Pixels of one row or column of a matrix."""
        return min(_SIDE / self.wide, _LONGEST / self.inner)


def draw(model: str = "llama-3.1-8b") -> Drawing:
    """Draw a decoder layer; T is the number of tokens of a step. All layers of the model have to be alike.

    Args:
        model: whose layer: with grouped-query attention and a gated MLP, or experts of gated MLPs.

    Raises:
        InputError: a layer of another kind.
    """
    layer, spec = _Layer.of(model), load_model(model)[0]
    canvas = Canvas(height=352)
    canvas.label(f"x   {layer.stream}, the residual stream", _HALVES[0], 12, size=12)
    canvas.label(f"{layer.stream}, to the next layer", canvas.width - 2, 12, anchor="end", size=12)
    first, second = (_Half(canvas, left) for left in _HALVES)
    for start, end in ((_HALVES[0], first.left + _RETURN - 11), (first.left + _RETURN + 11, second.left + _RETURN - 11)):
        canvas.line((start, _STREAM), (end, _STREAM), hue="ink", wide=3)
    canvas.arrow((second.left + _RETURN + 11, _STREAM), (canvas.width - 1, _STREAM), hue="ink", wide=3)
    for half in (first, second):
        canvas.label("operators, tensors", half.left + _FLOW + 10, 50, size=12, hue="grey")
        canvas.label("weights, to scale", half.matrices, 50, size=12, hue="grey")
    _attention(first, layer)
    _feed_forward(second, layer)
    whole = layer.whole(layer.experts)
    parts = f"{_weights(whole)} in matrices: attention {formatting.percent(layer.attention / whole, 0)}"
    if layer.moe:
        parts += f"; a token uses {formatting.percent(layer.whole(layer.chosen) / whole, 0)}"
    else:
        parts += f", MLP {formatting.percent(layer.expert / whole, 0)}"
    canvas.label(parts, canvas.width / 2, 339, anchor="middle", size=12)
    kind = f"{layer.experts} experts of which a token takes {layer.chosen}" if layer.moe else "a gated MLP"
    return canvas.drawing(
        f"transformer-block-{model.replace('.', '-')}",
        f"One of {spec.num_hidden_layers} layers of {spec.title}",
        f"Attention and {kind} in turn read the residual stream of {layer.wide:,} elements per token through a norm, and add "
        f"their result to it. The matrices of attention have {layer.attention:,} weights, those of "
        f"{'an expert' if layer.moe else 'the MLP'} {layer.expert:,}; the layer has {whole:,} in matrices.",
        "T tokens pass at once: the whole prompt in prefill, one per sequence in decode.",
    )


def _attention(half: _Half, layer: _Layer) -> None:
    """The first half of the layer."""
    canvas, wide, queries, keys = half.canvas, layer.wide, layer.heads * layer.head, layer.groups * layer.head
    x, side = half.matrices, wide * layer.scale
    half.operator("norm", layer.stream, 62)
    tensors = f"Q [T, {layer.heads}, {layer.head}]\nK, V [T, {layer.groups}, {layer.head}] each"
    half.operator("Q, K, V projections", tensors, 116, weights=True)
    half.operator(f"attention, {layer.heads} heads", f"[T, {layer.heads}, {layer.head}]", 186, cache=True)
    half.operator("output projection", layer.stream, 240, weights=True)
    half.join()
    for name, outputs in (("Q", queries), ("K", keys), ("V", keys)):
        across = outputs * layer.scale
        canvas.box(x, 80, across, side, name if across > _LETTER else "", hue="green", size=12, round_=1)
        x += across + 5
    words = f"Q {wide:,} x {queries:,}\nK, V {wide:,} x {keys:,} each\n{_weights(wide * (queries + 2 * keys))}"
    canvas.label(words, half.matrices, 120, size=12)
    canvas.box(half.matrices, 186, 106, _TALL, "KV cache", hue="pink", filled=True, size=12)
    canvas.arrow((half.left + _WIDE, 199), (half.matrices, 199), hue="pink", both=True)
    canvas.label(f"2 x {layer.groups} x {layer.head} per new token", half.matrices, 223, size=12)
    tall = queries * layer.scale
    canvas.box(half.matrices, 268 - tall / 2, side, tall, "O" if side > _LETTER else "", hue="green", size=12, round_=1)
    words = f"O {queries:,} x {wide:,}\n{_weights(wide * queries)}".replace(" weights", "\nweights")
    canvas.label(words, half.matrices + side + 8, 268, size=12, at="middle")


def _feed_forward(half: _Half, layer: _Layer) -> None:
    """The second half: an MLP, or a router and experts."""
    canvas, wide, inner, x = half.canvas, layer.wide, layer.inner, half.matrices
    tokens = f"{layer.chosen} x [T, {inner:,}]" if layer.moe else f"[T, {inner:,}]"
    half.operator("norm", layer.stream, 62)
    tops = iter((114.0, 166.0, 218.0, 270.0) if layer.moe else (116.0, 178.0, 240.0))
    if layer.moe:
        half.operator("router", f"{layer.chosen} of {layer.experts} per token", next(tops), weights=True)
    half.operator("gate and up projections", f"gate, up {tokens}", next(tops), weights=True)
    half.operator("SiLU(gate) x up", tokens, next(tops))
    half.operator("down projection, sum" if layer.moe else "down projection", layer.stream, next(tops), weights=True)
    half.join()
    side, across = wide * layer.scale, inner * layer.scale
    top = 80.0
    if layer.moe:
        canvas.box(x, 67, max(layer.experts * layer.scale, 1.5), side, hue="green", round_=0)
        words = f"router {wide:,} x {layer.experts}\n{_weights(layer.router)}"
        canvas.label(words, x + 12, 67 + side / 2, size=12, at="middle")
        top = 116.0
    behind = _BEHIND * (min(layer.experts, _EXPERTS) - 1)
    for row, name in enumerate(("gate", "up")):
        _stack(canvas, x, top + row * (side + behind + 5), across, side, name if across > 3 * _LETTER else "", layer)
    _stack(canvas, x + across + behind + 10, top, side, across, "", layer)
    each, of = (f"each of {layer.experts} experts:\n", "in all") if layer.moe else ("", "weights")
    words = f"{each}gate, up {wide:,} x {inner:,}\n{_weights(2 * wide * inner * layer.experts)}"
    words += f"\ndown {inner:,} x {wide:,}\n{_weights(wide * inner * layer.experts)}"
    tall = max(across, 2 * side + behind + 5)
    canvas.label(words.replace("weights", of), x, top + tall + 15, size=12)


def _stack(canvas: Canvas, x: float, y: float, wide: float, tall: float, words: str, layer: _Layer) -> None:
    """A matrix, behind it outlines of those of other experts."""
    for back in range(min(layer.experts, _EXPERTS) - 1, 0, -1):
        canvas.box(x + _BEHIND * back, y - _BEHIND * back, wide, tall, empty=True, round_=1)
    canvas.box(x, y, wide, tall, words, hue="green", size=12, round_=1, strong=layer.moe)


def _weights(count: float) -> str:
    """A number of weights: in full below a million."""
    million = 1e6
    if count < million:
        return f"{count:,.0f} weights"
    return f"{count / million:,.4g} million weights"
