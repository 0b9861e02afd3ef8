"""Weights of a model, one by one, and the tensors that hold them in a checkpoint of its family.

Keys of weights are ours and say what a weight does (`attention.q`, `experts.down`); `specs.huggingface.names` says what
checkpoints of a family call it. A matrix has the outputs of its product first, as PyTorch stores it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod

from roofline.blocks.base import Weight
from roofline.blocks.model import LayerType, Model
from roofline.errors import InputError
from roofline.specs.huggingface.names import Names, TensorName, names

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a checkpoint. `layer`: index from 0, None outside the layers; `role`: as in `Weight`, empty for a bias."""

    name: str
    shape: tuple[int, ...]
    layer: int | None
    role: str

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.shape)


def tensors(model: Model, naming: Names, experts: int | None = None) -> Iterator[Tensor]:
    """Every tensor in a checkpoint of a model, in the order of its layers.

    Args:
        model: what is stored.
        naming: names that checkpoints of its family have for each weight (`specs.huggingface.names.names`).
        experts: number of experts of a layer whose tensors are listed (default: all).

    Raises:
        InputError: a block does not list its weights, or a weight has no name in `naming`.
    """

    def few(weights: Iterable[Weight]) -> list[Weight]:
        return [weight if experts is None else replace(weight, copies=min(weight.copies, experts)) for weight in weights]

    yield from _placed(few(non_layer_weights(model)), naming, "", None)
    of_type = {name: few(layer_weights(model, layer)) for name, layer in model.layer_types.items()}
    holders = [name for name in model.layer_sequence if not model.layer_types[name].shared_weights]
    # NB: what a layer has of its own though it shares the others' weights has no place among the layers
    for index, name in enumerate(holders):
        yield from _placed(of_type[name], naming, _text(naming["layer"]).replace("{i}", str(index)) + ".", index)


def modules(model: Model, experts: int = 1) -> dict[str, tuple[int | None, str]]:
    """Layer index and role of each module that holds a weight matrix, by its name in a checkpoint.

    The patterns of a `quantization_config` match these names. Empty where the names of the family are not known.

    Args:
        model: what is stored; its `family` says how modules are called.
        experts: number of experts of a layer that are listed and stand for all of them.

    Raises:
        InputError: a block does not list its weights, or a weight has no name in the family.

    >>> from roofline.blocks.model_files import load_model
    >>> model = load_model("mixtral-8x7b")[0].model_copy(update={"family": "mixtral"})
    >>> modules(model)["model.layers.3.block_sparse_moe.experts.0.w2"]
    (3, 'experts/down_proj')
    """
    known = names(model.family)
    if not known:
        return {}
    return {
        tensor.name.removesuffix(".weight"): (tensor.layer, tensor.role)
        for tensor in tensors(model, known[0], experts)
        if tensor.role
    }


def _text(place: str | TensorName) -> str:
    return place if isinstance(place, str) else place.name


def _placed(weights: Iterable[Weight], naming: Names, prefix: str, layer: int | None) -> Iterator[Tensor]:
    """Weights under their names; those that share one are joined, outputs below outputs."""
    together: dict[TensorName, list[Weight]] = {}
    for weight in weights:
        if (place := naming.get(weight.key)) is None:
            raise InputError(f"what checkpoints call {weight.key!r} is not known here")
        together.setdefault(TensorName(place) if isinstance(place, str) else place, []).append(weight)
    for place, parts in together.items():
        first = parts[0]
        rows = sum(part.shape[0] for part in parts)
        whole = replace(first, shape=(rows, *first.shape[1:]), bias=sum(part.bias for part in parts))
        for name, shape, bias in _copies(place, whole):
            ending, bias_ending = ("", "_bias") if place.bare else (".weight", ".bias")
            yield Tensor(prefix + name + ending, shape, layer, first.role)
            if bias is not None:
                yield Tensor(prefix + (place.bias or name + bias_ending), bias, layer, "")


def _copies(place: TensorName, weight: Weight) -> Iterator[tuple[str, Shape, Shape | None]]:
    """Names, shapes of the matrices and of the biases: one for each expert, or one for all of them."""
    shape = tuple(reversed(weight.shape)) if place.inputs_first else weight.shape
    bias = (weight.bias,) if weight.bias else None
    if "{e}" in place.name:
        yield from ((place.name.replace("{e}", str(expert)), shape, bias) for expert in range(weight.copies))
    elif "{h}" in place.name:
        yield from _heads(place, weight)
    elif weight.copies and place.flat:
        yield place.name, (weight.copies * shape[0], *shape[1:]), bias
    elif weight.copies:
        yield place.name, (weight.copies, *shape), None if bias is None else (weight.copies, *bias)
    else:
        yield place.name, shape, bias


def _heads(place: TensorName, weight: Weight) -> Iterator[tuple[str, Shape, Shape | None]]:
    heads = weight.heads or 1
    width = weight.shape[0] // heads
    bias = (weight.bias // heads,) if weight.bias else None
    yield from ((place.name.replace("{h}", str(head)), (width,), bias) for head in range(heads))


def non_layer_weights(model: Model) -> Iterator[Weight]:
    """The weights outside the layers: embeddings, projections of them, final norm, LM head."""
    hidden, width = model.hidden_size, model.embedding_width
    yield Weight("embedding", (model.vocab_size, width), "embedding")
    if model.learned_positions:
        yield Weight("positions", (model.learned_positions, hidden), "embedding")
    if model.initial_state:
        yield Weight("initial_state", (hidden,))
    if model.embedding_norm and model.embedding_norm_weight:
        yield _norm(model, "embedding_norm")
    if model.word_embed_proj_dim is not None:
        yield Weight("project_in", (hidden, width), "linear/projection")
        yield Weight("project_out", (width, hidden), "linear/projection")
    yield from _further_embeddings(model)
    if model.hc_mult is not None and model.hc_head == "learned":
        yield from _hyper(model, "final", model.hc_mult, 1)
    yield from _copies_of_stream(model)
    if model.final_norm and model.norm.weight:
        yield _norm(model, "final_norm")
    if not model.tie_word_embeddings:
        yield Weight("lm_head", (model.vocab_size, width), "lm_head", bias=model.vocab_size * model.lm_head_bias)
    elif model.lm_head_bias:
        yield Weight("lm_head_bias", (model.vocab_size,))
    if model.lm_head_scale:
        yield Weight("lm_head.scale", (model.vocab_size,))


def _further_embeddings(model: Model) -> Iterator[Weight]:
    """Those of n-grams, and of each layer's own."""
    hidden = model.hidden_size
    if tables := model.ngram_embedders:
        yield Weight("ngram.embedding", (model.ngram_rows, model.ngram_width), "embedding")
        yield Weight("ngram.projection", (hidden, model.ngram_width), "embedding", copies=tables)
    if model.hidden_size_per_layer_input:
        rows, joint = model.per_layer_embedding
        yield Weight("per_layer.embedding", (rows, joint), "embedding")
        yield Weight("per_layer.projection_of_stream", (joint, hidden), "linear/projection")
        yield Weight("per_layer.norm_of_stream", (model.hidden_size_per_layer_input,))


def layer_weights(model: Model, layer: LayerType) -> Iterator[Weight]:
    """The weights of one layer of a type: norms, blocks, and what a model adds to every layer; of one that runs with the
    weights of an earlier layer, what it has of its own.

    Raises:
        InputError: a block does not list its weights.
    """
    if layer.shared_weights:
        for block in (layer.mixer, layer.mlp):
            if block is not None:
                yield from (one for one in block.checkpoint_weights(model.hidden_size) if one.key in block.unshared.values())
    else:
        yield from _held_by_a_layer(model, layer)
    if width := model.hidden_size_per_layer_input:
        yield Weight("per_layer.gate", (width, model.hidden_size), "linear/projection")
        yield Weight("per_layer.projection", (model.hidden_size, width), "linear/projection")
        yield Weight("per_layer.norm", (model.hidden_size,))


def _held_by_a_layer(model: Model, layer: LayerType) -> Iterator[Weight]:
    """Norms and blocks of a layer, and hyper-connections around them."""
    if layer.norms == "interpolated":
        blocks = (name for name, block in (("mixer", layer.mixer), ("mlp", layer.mlp)) if block is not None)
        yield from (Weight(f"interpolation.{name}", (model.hidden_size,)) for name in blocks)
    elif model.norm.weight:
        yield from (_norm(model, f"norm.{place}") for place in _places(layer))
    for block in (layer.mixer, layer.mlp):
        if block is not None:
            if model.hc_mult is not None:
                mixing = model.hc_mult * model.hc_mult if model.hc_mixing else 0
                yield from _hyper(model, block.role, 2 * model.hc_mult + mixing, 3 if mixing else 2)
            yield from block.checkpoint_weights(model.hidden_size)
    if (copies := model.altup_num_inputs) is not None:
        yield Weight("altup.norm", (model.hidden_size,))
        yield Weight("altup.router", (copies, model.hidden_size), "router")
        yield Weight("altup.prediction", (copies * copies, copies), "router")
        yield Weight("altup.correction", (copies, copies), "router")
        yield Weight("altup.scale", (model.hidden_size,))
    if (rank := model.laurel_rank) is not None:
        yield Weight("laurel.left", (rank, model.hidden_size), "linear/projection")
        yield Weight("laurel.right", (model.hidden_size, rank), "linear/projection")
        yield Weight("laurel.norm", (model.hidden_size,))


def _norm(model: Model, key: str) -> Weight:
    return Weight(key, (model.hidden_size,), bias=model.hidden_size * model.norm.bias)


def _places(layer: LayerType) -> list[str]:
    """Where the norms stand: how they are arranged, and the block that each belongs to."""
    blocks = [name for name, block in (("mixer", layer.mixer), ("mlp", layer.mlp)) if block is not None]
    if layer.parallel:
        return ["parallel.mixer", "parallel.mlp"] if layer.parallel_norms == len(blocks) else ["parallel"]
    if layer.norms == "pre_and_after_mlp":
        return ["pre.before_mixer", "both.before_mlp", "both.after_mlp"]
    kinds = {"pre": ("before",), "post": ("after",), "both": ("before", "after")}[layer.norms]
    return [f"{layer.norms}.{kind}_{name}" for name in blocks for kind in kinds]


def _copies_of_stream(model: Model) -> Iterator[Weight]:
    """AltUp: a matrix for each copy of the stream but the first, before the layers and after them."""
    for number in range((model.altup_num_inputs or 1) - 1):
        for name in ("projection", "unembed_projection"):
            yield Weight(f"altup.{name}_{number}", (model.hidden_size, model.hidden_size), "linear/projection")


def _hyper(model: Model, place: str, coefficients: int, scales: int) -> Iterator[Weight]:
    """Hyper-connections: a matrix and an offset for the coefficients, and scales for groups of them."""
    yield Weight(f"hyper.{place}.fn", (coefficients, model.residual_width))
    yield Weight(f"hyper.{place}.base", (coefficients,))
    yield Weight(f"hyper.{place}.scale", (scales,))
