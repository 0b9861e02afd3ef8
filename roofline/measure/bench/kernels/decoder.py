"""A decoder layer and a whole step of a model, with random weights: a real pass, from token ids to drawn tokens."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch.nn import functional

from roofline.blocks.base import Block
from roofline.blocks.gqa import GroupedQueryAttention
from roofline.blocks.mlp import GatedMlp, Mlp
from roofline.blocks.model import LayerType, Model
from roofline.blocks.model_files import load_model
from roofline.blocks.moe import MixtureOfExperts
from roofline.measure.bench.kernels.attention import attend, mask_of
from roofline.measure.bench.kernels.base import Kernel, NotRunnableError, TensorFactory
from roofline.measure.bench.kernels.operators import draw, experts, rms_norm, rope, route
from roofline.measure.bench.point import LOOP

Weights = dict[str, Any]

# Keys that a pass knows; a model that sets another one is not run.
_MIXER = {
    "kind", "num_attention_heads", "num_key_value_heads", "head_dim", "sliding_window", "qkv_bias", "o_bias", "qk_norm",
    "rotary_dim",
}  # fmt: skip
_EXPERTS = {"kind", "num_experts", "num_experts_per_tok", "moe_intermediate_size", "gated"}


def _has_only(block: Block, known: set[str]) -> bool:
    return set(block.model_dump(exclude_defaults=True)) <= known


def unsupported(model: Model) -> str | None:
    """The reason why a model cannot be run here; None where it can. NB: a pass is written for the commonest design alone:
    pre-norm, grouped-query attention, dense or routed feed-forward."""
    for layer in model.layer_types.values():
        mixer, mlp = layer.mixer, layer.mlp
        if (
            not isinstance(mixer, GroupedQueryAttention)
            or not _has_only(mixer, _MIXER)
            or mixer.qk_norm not in ("none", "head")
        ):
            return "its attention is not plain grouped-query attention"
        if isinstance(mlp, MixtureOfExperts):
            if not _has_only(mlp, _EXPERTS):
                return "its experts are more than a router and the experts' matrices"
        elif not isinstance(mlp, (GatedMlp, Mlp)):
            return "it has layers without a feed-forward block"
        if layer.norms != "pre" or layer.parallel:
            return "its layers are not pre-norm, one block after the other"
        if mixer.rotary_dim not in (None, 0, mixer.head_dim):
            return "it rotates a part of each head only"
    if not (model.final_norm and model.norm.weight) or model.lm_head_bias:
        return "it has no final norm, norms without weights, or a bias on its LM head"
    if model.embedding_norm or model.word_embed_proj_dim or model.hidden_size_per_layer_input:
        return "its embeddings are more than a table of the stream's width"
    return None


class Decoder:
    """The parts of a model as functions of weights and caches.

    Args:
        model: whose layers are run.
        factory: makes the tensors.
        dtype: of weights, activations and caches.
        attention: the backend of attention.
        expert_backend: "grouped" (one grouped GEMM) or "loop" (one GEMM per expert).
        unmasked: attention without a mask, for counters of FLOP.

    Raises:
        NotRunnableError: if the model has parts that are not written here.
    """

    def __init__(
        self, model: Model, factory: TensorFactory, dtype: str, *, attention: str, expert_backend: str, unmasked: bool = False
    ) -> None:
        if (why := unsupported(model)) is not None:
            raise NotRunnableError(f"{model.name}: {why}")
        self.model, self.factory, self.dtype = model, factory, dtype
        self.attention, self.expert_backend, self.unmasked = attention, expert_backend, unmasked

    def _weight(self, *shape: int) -> Any:
        return self.factory.random(*shape, dtype=self.dtype, scale=0.02)

    def _linear(self, outputs: int, inputs: int, *, bias: bool) -> tuple[Any, Any]:
        return self._weight(outputs, inputs), self._weight(outputs) if bias else None

    def _norm_weights(self, width: int) -> tuple[Any, Any]:
        return self._weight(width), self._weight(width) if self.model.norm.bias else None

    def _norm(self, x: Any, weights: tuple[Any, Any]) -> Any:
        if self.model.norm.function == "rmsnorm":
            return rms_norm(x, weights[0])
        return functional.layer_norm(x, (x.shape[-1],), *weights)

    def layer_weights(self, layer: LayerType) -> Weights:
        """Make random weights of a layer, by name."""
        mixer, mlp, d = _gqa(layer), layer.mlp, self.model.hidden_size
        heads = mixer.num_attention_heads + 2 * mixer.num_key_value_heads
        weights: Weights = {
            "norm": self._norm_weights(d),
            "qkv": self._linear(heads * mixer.head_dim, d, bias=mixer.qkv_bias),
            "o": self._linear(d, mixer.num_attention_heads * mixer.head_dim, bias=mixer.o_bias),
            "norm2": self._norm_weights(d),
        }
        if mixer.qk_norm == "head":
            weights |= {"q_norm": self._weight(mixer.head_dim), "k_norm": self._weight(mixer.head_dim)}
        if isinstance(mlp, MixtureOfExperts):
            wide = (2 if mlp.gated else 1) * mlp.moe_intermediate_size
            weights["router"] = self._linear(mlp.num_experts, d, bias=False)
            weights["up"] = self._weight(mlp.num_experts, wide, d)
            weights["down"] = self._weight(mlp.num_experts, d, mlp.moe_intermediate_size)
        else:
            assert isinstance(mlp, (GatedMlp, Mlp))  # noqa: S101 - `unsupported` refused the others
            wide = (2 if isinstance(mlp, GatedMlp) else 1) * mlp.intermediate_size
            weights["up"] = self._linear(wide, d, bias=mlp.bias)
            weights["down"] = self._linear(d, mlp.intermediate_size, bias=mlp.bias)
        return weights

    def state(self, layer: LayerType, batch: int, new: int, keys: int) -> Weights:
        """Make what a layer needs besides weights and the stream: the KV cache, angles of RoPE, a mask, a routing.

        Args:
            layer: the layer.
            batch: the number of sequences.
            new: the number of new tokens of each sequence.
            keys: the number of all tokens of each sequence.
        """
        mixer, factory = _gqa(layer), self.factory
        tensors = self.cache(layer, batch, keys)
        if mixer.rotary_dim != 0:
            angles = (1, new, 1, mixer.head_dim // 2)
            tensors |= {name: factory.random(*angles, dtype=self.dtype) for name in ("cos", "sin")}
        if not self.unmasked:
            tensors["seen"] = mask_of(new, keys, mixer.sliding_window, self.attention, factory.device)
        if isinstance(layer.mlp, MixtureOfExperts):
            mlp = layer.mlp
            sizes = {"tokens": batch * new, "experts": mlp.num_experts, "topk": mlp.num_experts_per_tok}
            tensors["routing"] = route(factory, **sizes, balanced=False, dtype=self.dtype)
        return tensors

    def cache(self, layer: LayerType, batch: int, tokens: int) -> Weights:
        """Make the KV cache of a layer, `k` and `v` of shape [batch, tokens, KV heads, head width], with random content."""
        mixer = _gqa(layer)
        shape = (batch, tokens, mixer.num_key_value_heads, mixer.head_dim)
        return {name: self.factory.random(*shape, dtype=self.dtype) for name in ("k", "v")}

    def layer(self, layer: LayerType, weights: Weights, state: Weights, stream: Any, added: Any) -> tuple[Any, Any]:
        """Run one layer; `stream` and `added` have the shape [batch, new tokens, hidden size], as the two results have.

        Returns:
            The residual stream, and the output of the feed-forward block, which the next norm adds to it.
        """
        stream = stream + added
        added = self._mix(_gqa(layer), weights, state, self._norm(stream, weights["norm"]))
        stream = stream + added
        return stream, self._feed(layer, weights, state, self._norm(stream, weights["norm2"]))

    def _mix(self, mixer: GroupedQueryAttention, weights: Weights, state: Weights, x: Any) -> Any:
        batch, new, _ = x.shape
        n_q, n_kv, d = mixer.num_attention_heads, mixer.num_key_value_heads, mixer.head_dim
        projected = functional.linear(x, *weights["qkv"]).view(batch, new, n_q + 2 * n_kv, d)
        q, k, v = projected.split([n_q, n_kv, n_kv], dim=2)
        if "q_norm" in weights:
            q, k = rms_norm(q, weights["q_norm"]), rms_norm(k, weights["k_norm"])
        if "cos" in state:
            q, k = rope(q, state["cos"], state["sin"]), rope(k, state["cos"], state["sin"])
        keys = state["k"].shape[1]
        state["k"][:, keys - new :].copy_(k)
        state["v"][:, keys - new :].copy_(v)
        window = mixer.sliding_window
        first = max(keys - new - (window - 1), 0) if window is not None else 0
        seen = state["seen"][:, first:] if state.get("seen") is not None else None
        attended = attend(
            q.transpose(1, 2),
            state["k"][:, first:].transpose(1, 2),
            state["v"][:, first:].transpose(1, 2),
            backend=self.attention,
            causal=new > 1 and not self.unmasked,
            seen=seen,
        )
        return functional.linear(attended.transpose(1, 2).reshape(batch, new, n_q * d), *weights["o"])

    def _feed(self, layer: LayerType, weights: Weights, state: Weights, x: Any) -> Any:
        mlp = layer.mlp
        if isinstance(mlp, MixtureOfExperts):
            rows = x.reshape(-1, x.shape[-1])
            torch.topk(functional.linear(rows, *weights["router"]), mlp.num_experts_per_tok)  # what it costs; see `route`
            return experts(
                rows, weights["up"], weights["down"], state["routing"], self.expert_backend, gated=mlp.gated
            ).view_as(x)
        inner = functional.linear(x, *weights["up"])
        if isinstance(mlp, GatedMlp):
            gate, up = inner.chunk(2, dim=-1)
            inner = functional.silu(gate) * up
        else:
            inner = functional.gelu(inner, approximate="tanh")
        return functional.linear(inner, *weights["down"])

    def ends(self) -> Weights:
        """Make the weights before the first layer and after the last: embedding, final norm, LM head, positions."""
        model = self.model
        table = self._weight(model.vocab_size, model.hidden_size)
        weights: Weights = {"embedding": table, "norm": self._norm_weights(model.hidden_size)}
        weights["head"] = table if model.tie_word_embeddings else self._weight(model.vocab_size, model.hidden_size)
        if model.learned_positions:
            weights["positions"] = self._weight(model.learned_positions, model.hidden_size)
        return weights

    def logits(self, ids: Any, positions: Any, ends: Weights, layers: list[tuple[LayerType, Weights, Weights]]) -> Any:
        """Run the model on token ids of shape [batch, new tokens]; the logits of the last of them, shape [batch, vocabulary].

        Args:
            ids: of the new tokens.
            positions: of the new tokens, shape [new tokens]; None for a model without learned positions.
            ends: of `ends`.
            layers: each layer in order with its weights and state; the keys and values of the new tokens are written into its
                cache.
        """
        stream = functional.embedding(ids, ends["embedding"])
        if positions is not None:
            stream = stream + functional.embedding(positions, ends["positions"])
        added = torch.zeros_like(stream)
        for layer, weights, state in layers:
            stream, added = self.layer(layer, weights, state, stream, added)
        return functional.linear(self._norm(stream + added, ends["norm"])[:, -1], ends["head"])


def _gqa(layer: LayerType) -> GroupedQueryAttention:
    assert isinstance(layer.mixer, GroupedQueryAttention)  # noqa: S101 - `unsupported` refused the others
    return layer.mixer


class Layer(Kernel):
    """One layer of a model."""

    ops: ClassVar[tuple[str, ...]] = ("layer",)
    composed: ClassVar[bool] = True

    def _decoder(self) -> Decoder:
        """The model that the point names, with its backends of attention and of experts."""
        model, _ = load_model(self.point.texts["kernel"].partition(":")[0])
        attention, _, expert_backend = self.point.backend.partition("+")
        return Decoder(
            model, self.factory, self.dtype, attention=attention, expert_backend=expert_backend or LOOP, unmasked=self.unmasked
        )

    def _sizes(self) -> tuple[int, int, int]:
        """Sequences, new tokens, all tokens of a sequence."""
        numbers = self.point.numbers
        return numbers["batch"], numbers["q_len"], numbers["kv_len"]

    def inputs(self) -> tuple[Any, ...]:
        """The decoder, the layer, its weights and state, the stream and what was added to it last."""
        decoder, (batch, new, keys) = self._decoder(), self._sizes()
        kinds = decoder.model.layer_types
        layer = kinds[self.point.texts["kernel"].partition(":")[2] or next(iter(kinds))]
        streams = [self.factory.random(batch, new, decoder.model.hidden_size, dtype=self.dtype) for _ in range(2)]
        return decoder, layer, decoder.layer_weights(layer), decoder.state(layer, batch, new, keys), *streams

    def run(self, *inputs: Any) -> Any:
        """Run the layer once."""
        decoder, layer, weights, state, stream, added = inputs
        return decoder.layer(layer, weights, state, stream, added)


class Step(Layer):
    """A whole step: embedding, layers, LM head on the last positions, the draw."""

    ops: ClassVar[tuple[str, ...]] = ("step",)

    def inputs(self) -> tuple[Any, ...]:
        """The decoder, token ids and positions, the weights of both ends, and each layer with its weights and state."""
        decoder, (batch, new, keys) = self._decoder(), self._sizes()
        model = decoder.model
        kinds = [model.layer_types[name] for name in model.layer_sequence]
        layers = [(kind, decoder.layer_weights(kind), decoder.state(kind, batch, new, keys)) for kind in kinds]
        ids = self.factory.indices(batch * new, model.vocab_size).view(batch, new)
        positions = self.factory.whole_numbers(list(range(keys - new, keys))) if model.learned_positions else None
        return decoder, ids, positions, decoder.ends(), layers

    def run(self, *inputs: Any) -> Any:
        """Run the model from token ids to sampled token ids, shape [batch]."""
        decoder, ids, positions, ends, layers = inputs
        return draw(decoder.logits(ids, positions, ends, layers))
