"""A `Model` from a GGUF file: its keys read as those of a config.json, and every tensor matched with a weight of the model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from pydantic import ValidationError

from roofline.blocks.checkpoint import Tensor, tensors
from roofline.blocks.config_json import with_layers
from roofline.blocks.model import Model
from roofline.errors import InputError, SpecError
from roofline.specs.base import requirement
from roofline.specs.gguf.architectures import config_of
from roofline.specs.gguf.header import Gguf, Stored
from roofline.specs.gguf.names import NOT_WEIGHTS, SPLIT, names_in
from roofline.specs.huggingface.document import Document
from roofline.specs.huggingface.quantization import States, published
from roofline.specs.huggingface.read import Origin, read_keys
from roofline.specs.quantization.ggml import Ggml

_PLAIN = {"f32": "fp32", "f16": "fp16", "bf16": "bf16"}
_LAYER = re.compile(r"blk\.(\d+)\.")
_PRINTED = 5
"""Names of tensors in a message."""


@dataclass
class _Match:
    """The tensors of a file beside the weights of a model. `types` are the elements of each type, by role and layer; `plain`
    those of what is never quantised: norms, biases, vectors."""

    types: dict[str, dict[int | None, Counter[str]]] = field(default_factory=dict)
    plain: Counter[str] = field(default_factory=Counter)
    apart: dict[str, int] = field(default_factory=dict)

    def of(self, role: str, layer: int | None) -> Counter[str]:
        """The elements of each type of a role in a layer."""
        return self.types.setdefault(role, {}).setdefault(layer, Counter())


def read_model(file: Gguf, origin: Origin) -> Model:
    """The model of a GGUF file, with the type of every tensor.

    Args:
        file: the header of the file, or of its parts.
        origin: the name that the model gets.

    Raises:
        SpecError: an architecture, a key or a tensor is not understood, or tensors are missing or of another shape.
    """
    config = config_of(file)
    try:
        keys = read_keys(Document(file.path, config, "{}"), origin)
        model = Model.model_validate(keys.data)
    except SpecError as error:
        raise file.error(
            f"as a config.json of {config['model_type']}: {str(error).removeprefix(f'{file.path}:1:1: ')}"
        ) from None
    except ValidationError as error:
        raise file.error(requirement(error.errors()[0])) from None
    match = _matched(file, model)
    plain = _plain_type(file, match)
    states = {role: _states(layers, plain) for role, layers in match.types.items()}
    if model.tie_word_embeddings:
        states["lm_head"] = _states({None: Counter({file.tensors["token_embd.weight"].type: 1})}, plain)
    stored = published(states)
    draft = replace(keys.draft, layers=with_layers(keys.draft.layers, stored.of_layers()))
    types = Counter(tensor.type for tensor in file.tensors.values())
    title = file.keys.get("general.name")
    data: dict[str, Any] = {
        **keys.data,
        **draft.model(),
        "title": title.strip() if isinstance(title, str) and title.strip() else origin.title,
        "dtype": _PLAIN[plain],
        "activation_dtype": "fp16",
        "quantization": stored.plain(),
        "apart": {**keys.data.get("apart", {}), **match.apart},
        "format": "gguf",
        "notes": [
            *keys.data["notes"],
            f"{len(file.tensors):,} tensors of {file.bytes:,} bytes in {file.parts} file{'s' * (file.parts > 1)}: "
            + ", ".join(f"{count:,} {name}" for name, count in types.most_common()),
        ],
        "sources": {
            "gguf": {"title": f"header of {file.path.name}", "url": ""},
            "reader": {
                "title": f"what the keys of {file.keys['general.architecture']} files mean",
                "url": "https://github.com/ggml-org/llama.cpp/blob/master/src/llama-model.cpp",
            },
        },
    }
    return Model.model_validate(data)


def _states(layers: dict[int | None, Counter[str]], plain: str) -> States:
    """The scheme of a role in each layer, from how many elements are of which type; None for the type that is no scheme."""
    return {
        layer: None if set(types) == {plain} else Ggml(name="ggml", types=tuple(types.items()))
        for layer, types in layers.items()
    }


def _plain_type(file: Gguf, match: _Match) -> str:
    """The type of everything that is never quantised."""
    names = [name for name, _ in match.plain.most_common()]
    if len(names) > 1 or names[0] not in _PLAIN:
        why = f"are of the types {', '.join(names)}; one of {', '.join(_PLAIN)} is read"
        raise file.error(f"norms, biases and other vectors {why}")
    return names[0]


def _matched(file: Gguf, model: Model) -> _Match:
    """Every tensor of the file as a weight of the model, or as what stands beside them.

    Raises:
        SpecError: a tensor is missing, has another shape, or is of no weight of the model.
    """
    left = dict(file.tensors)
    match = _Match()
    missing = []
    try:
        wanted = list(tensors(model, names_in(file.tensors)))
    except InputError as error:
        raise file.error(str(error)) from None
    for tensor in wanted:
        parts = list(_parts(tensor, left))
        if not parts:
            missing.append(tensor.name)
            continue
        for name, stored in parts:
            del left[name]
            counted = match.plain if not tensor.role else match.of(tensor.role, tensor.layer)
            counted[stored.type] += prod(stored.shape)
        if not _same(tensor, [stored for _, stored in parts]):
            shapes = " and ".join("x".join(map(str, stored.shape)) for _, stored in parts)
            raise file.error(f"tensor {parts[0][0]} is {shapes}, the model has {'x'.join(map(str, tensor.shape))}")
    if missing:
        raise file.error(f"has no tensor {_listed(missing)}, which the model should have by its keys")
    for name in [name for name in left if separate_part(name, model)]:
        what = str(separate_part(name, model))
        match.apart[what] = match.apart.get(what, 0) + prod(left.pop(name).shape)
    if left:
        raise file.error(f"tensor {_listed(list(left))} is not understood: no weight of a {model.family} model has that name")
    return match


def _parts(tensor: Tensor, left: dict[str, Stored]) -> Iterator[tuple[str, Stored]]:
    """The tensor of a file that holds a weight, or the parts of it; nothing where there are none."""
    if tensor.name in left:
        yield tensor.name, left[tensor.name]
        return
    prefix = "" if tensor.layer is None else f"blk.{tensor.layer}."
    names = [prefix + part for part in SPLIT.get(tensor.name.removeprefix(prefix), ())]
    if names and all(name in left for name in names):
        yield from ((name, left[name]) for name in names)


def _same(tensor: Tensor, parts: list[Stored]) -> bool:
    """Whether the axes are those of the weight, but for axes of one entry; of vectors and of parts, as many elements."""
    if len(parts) > 1 or len(tensor.shape) == 1:
        return sum(prod(stored.shape) for stored in parts) == tensor.elements
    return [size for size in parts[0].shape if size != 1] == [size for size in tensor.shape if size != 1]


def separate_part(name: str, model: Model) -> str | None:
    """What a tensor of a GGUF file is that is no weight of the language model; None for all others.

    Args:
        name: of the tensor.
        model: that the file holds.
    """
    layer = _LAYER.match(name)
    if layer is not None and int(layer[1]) >= model.num_hidden_layers:
        return "multi_token_prediction"
    if NOT_WEIGHTS.fullmatch(name):
        return "router_correction_bias" if name.endswith("exp_probs_b.bias") else "rope_factors"
    return None


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _PRINTED:,} more" if len(names) > _PRINTED else ""
    return ", ".join(names[:_PRINTED]) + more
