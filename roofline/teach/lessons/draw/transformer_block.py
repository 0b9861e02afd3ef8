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

_STREAM, _LEFT, _WIDTH, _TENSOR, _GLYPH, _WORDS = 24.0, 60.0, 160.0, 236.0, 430.0, 566.0
"""Columns: the residual stream, operators and how wide they are, tensors, matrices, and their shapes in words."""
_SIDE = 32.0
"""Pixels of a matrix for the width of the residual stream."""
_LETTER = 16.0
"""Pixels of a matrix that has space for a letter."""
_EXPERTS = 4
"""Experts of which an outline is drawn, at the most."""


class _Flow:
    """A column of operators, each below the one before, with the tensor that it makes and what it multiplies with."""

    def __init__(self, canvas: Canvas, top: float) -> None:
        self.canvas, self.bottom, self.above = canvas, top, top

    def operator(
        self, name: str, tensor: str, top: float, height: float = 26, *, weights: bool = False, cache: bool = False
    ) -> None:
        """Draw an operator; those with weights are green, those that use the cache pink."""
        canvas, middle = self.canvas, _LEFT + _WIDTH / 2
        if self.bottom:
            canvas.arrow((middle, self.bottom), (middle, top))
        canvas.box(_LEFT, top, _WIDTH, height, name, hue="green" if weights else "pink" if cache else "grey", size=12)
        canvas.label(tensor, _TENSOR, top + height / 2 - tensor.count("\n") * 7.5, size=12)
        self.bottom = top + height

    def branch(self, top: float) -> None:
        """Leave the stream for the operator at `top`."""
        self.canvas.arrow((_STREAM, top + 13), (_LEFT, top + 13))
        self.bottom = 0.0

    def join(self, y: float, tensor: str) -> None:
        """Add the last operator's result to the stream."""
        canvas, middle = self.canvas, _LEFT + _WIDTH / 2
        canvas.arrow((middle, self.bottom), (middle, y), (_STREAM + 11, y))
        canvas.line((_STREAM, self.above), (_STREAM, y - 11), hue="ink", wide=3)
        canvas.circle(_STREAM, y, 11, "+", hue="ink", size=14)
        canvas.label(tensor, _TENSOR, y, size=12)
        self.above = y + 11


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
        return _SIDE / self.wide


def draw(model: str = "llama-3.1-8b") -> Drawing:
    """Draw a decoder layer; T is the number of tokens of a step. All layers of the model have to be alike.

    Args:
        model: whose layer: with grouped-query attention and a gated MLP, or experts of gated MLPs.

    Raises:
        InputError: a layer of another kind.
    """
    layer, spec = _Layer.of(model), load_model(model)[0]
    canvas = Canvas(height=604 if layer.moe else 560)
    for words, x in (("operators", _LEFT), ("the tensor after each", _TENSOR), ("weights, to scale", _GLYPH)):
        canvas.label(words, x, 12, size=12, hue="grey")
    canvas.label(f"x   {layer.stream}, the residual stream", _STREAM + 14, 36, size=12)
    flow = _Flow(canvas, 34)
    _attention(flow, layer)
    _feed_forward(flow, layer)
    canvas.arrow((_STREAM, flow.above), (_STREAM, flow.above + 20), hue="ink", wide=3)
    whole = layer.whole(layer.experts)
    parts = f"{_weights(whole)} in matrices: attention {formatting.percent(layer.attention / whole, 0)}"
    if layer.moe:
        parts += f"; a token uses {formatting.percent(layer.whole(layer.chosen) / whole, 0)}"
    else:
        parts += f", MLP {formatting.percent(layer.expert / whole, 0)}"
    canvas.label(parts, _TENSOR, flow.bottom + 58, size=12)
    kind = f"{layer.experts} experts of which a token takes {layer.chosen}" if layer.moe else "a gated MLP"
    return canvas.drawing(
        f"transformer-block-{model.replace('.', '-')}",
        f"One of {spec.num_hidden_layers} layers of {spec.title}",
        f"Attention and {kind} in turn read the residual stream of {layer.wide:,} elements per token through a norm, and add "
        f"their result to it. The matrices of attention have {layer.attention:,} weights, those of "
        f"{'an expert' if layer.moe else 'the MLP'} {layer.expert:,}; the layer has {whole:,} in matrices.",
        "T tokens pass at once: the whole prompt in prefill, one per sequence in decode.",
    )


def _attention(flow: _Flow, layer: _Layer) -> None:
    """The first half of the layer."""
    canvas, wide, queries, keys = flow.canvas, layer.wide, layer.heads * layer.head, layer.groups * layer.head
    flow.branch(62)
    flow.operator("norm", layer.stream, 62)
    tensors = f"Q [T, {layer.heads}, {layer.head}]\nK, V [T, {layer.groups}, {layer.head}] each"
    flow.operator("Q, K, V projections", tensors, 104, 34, weights=True)
    x = _GLYPH
    for name, outputs in (("Q", queries), ("K", keys), ("V", keys)):
        across = outputs * layer.scale
        canvas.box(x, 105, across, _SIDE, name if across > _LETTER else "", hue="green", size=12, round_=1)
        x += across + 5
    _words(canvas, 121, f"Q {wide:,} x {queries:,}", f"K, V {wide:,} x {keys:,} each", wide * (queries + 2 * keys))
    flow.operator(f"attention, {layer.heads} heads", f"[T, {layer.heads}, {layer.head}]\n", 154, 34, cache=True)
    canvas.box(_GLYPH, 158, 106, 26, "KV cache", hue="pink", filled=True, size=12)
    canvas.arrow((_LEFT + _WIDTH, 179), (_GLYPH, 179), hue="pink", both=True)
    canvas.label(f"2 x {layer.groups} x {layer.head} per new token", _WORDS, 171, size=12)
    flow.operator("output projection", layer.stream, 204, 34, weights=True)
    canvas.box(_GLYPH, 205, _SIDE, queries * layer.scale, "O", hue="green", size=12, round_=1)
    _words(canvas, 221, f"O {queries:,} x {wide:,}", "", wide * queries)
    flow.join(258, layer.stream)


def _feed_forward(flow: _Flow, layer: _Layer) -> None:
    """The second half: an MLP, or a router and experts."""
    canvas, wide, inner = flow.canvas, layer.wide, layer.inner
    flow.branch(284)
    flow.operator("norm", layer.stream, 284)
    y, tall, shift = 328.0, 2 * _SIDE + 6, 0.0
    if layer.moe:
        flow.operator("router", f"{layer.chosen} of {layer.experts} per token", 326, weights=True)
        canvas.box(_GLYPH, 323, max(layer.experts * layer.scale, 1.5), _SIDE, hue="green", round_=0)
        _words(canvas, 339, f"router {wide:,} x {layer.experts}", "", layer.router)
        y, shift = y + 44, 4.0
    each = f"each of {layer.experts} experts:" if layer.moe else ""
    tokens = f"{layer.chosen} x [T, {inner:,}]" if layer.moe else f"[T, {inner:,}]"
    across = inner * layer.scale
    flow.operator("gate and up projections", f"gate, up {tokens}", y, tall, weights=True)
    for row, name in enumerate(("gate", "up")):
        _stack(canvas, y + row * (_SIDE + 6) + shift, across, _SIDE, name if across > 3 * _LETTER else "", layer)
    _words(canvas, y + tall / 2, each, f"gate, up {wide:,} x {inner:,} each", 2 * wide * inner * layer.experts)
    y += tall + 16
    flow.operator("SiLU(gate) x up", tokens, y)
    flow.operator("down projection, sum" if layer.moe else "down projection", layer.stream, y + 42, 34, weights=True)
    _stack(canvas, y + 2 * shift, _SIDE, across, "", layer)
    _words(canvas, y + 48, each, f"down {inner:,} x {wide:,}", wide * inner * layer.experts)
    flow.join(y + 96, f"{layer.stream}, to the next layer")


def _stack(canvas: Canvas, y: float, wide: float, tall: float, words: str, layer: _Layer) -> None:
    """A matrix, behind it outlines of those of other experts."""
    for back in range(min(layer.experts, _EXPERTS) - 1, 0, -1):
        canvas.box(_GLYPH + 4 * back, y - 4 * back, wide, tall, empty=True, round_=1)
    canvas.box(_GLYPH, y, wide, tall, words, hue="green", size=12, round_=1, strong=layer.moe)


def _words(canvas: Canvas, y: float, first: str, second: str, count: float) -> None:
    total = _weights(count).replace(" weights", " in all" if first.endswith(":") else " weights")
    lines = [line for line in (first, second, total) if line]
    canvas.label("\n".join(lines), _WORDS, y - (len(lines) - 1) * 7.5, size=12)


def _weights(count: float) -> str:
    """A number of weights: in full below a million."""
    million = 1e6
    if count < million:
        return f"{count:,.0f} weights"
    return f"{count / million:,.4g} million weights"
