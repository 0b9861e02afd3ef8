"""A `Model` from a Hugging Face config.json: its keys read, checked as a model, with how its weights are quantised."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from roofline.blocks.checkpoint import modules
from roofline.blocks.model import Model
from roofline.errors import InputError
from roofline.specs.base import requirement
from roofline.specs.huggingface import quantization
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.document import Document
from roofline.specs.huggingface.draft import Layer
from roofline.specs.huggingface.names import names
from roofline.specs.huggingface.read import Origin, read_keys


def read(document: Document, origin: Origin, assume: str | None = None, companion: Document | None = None) -> Model:
    """The model that a config.json describes, with the quantisation of its published weights.

    Args:
        document: the parsed config.json.
        origin: the name that the model gets.
        assume: the family whose keys it has, whatever its `model_type` is; keys that it does not know are then left aside.
        companion: the parsed hf_quant_config.json beside it, which says how weights are quantised if config.json does not.

    Raises:
        SpecError: a key is missing, wrong, or not understood; the message names it and its place in the file.
        UnknownNameError: no family is called `assume`.
        InputError: `quantization_config` or its relatives are no JSON object.
    """
    keys = read_keys(document, origin, assume)
    model = _validated(keys.data, keys.config)
    source = document
    if (section := quantization.section(document.data)) is None:
        if companion is None or (section := quantization.section(companion.data)) is None:
            return model
        source = companion
        keys.data["sources"]["quantization"] = {
            "title": f"{quantization.COMPANION} of {origin.hf_id or origin.title}",
            "url": "",
        }
    published = _published(section, model, source)
    layers = with_layers(_as_stored(keys.draft.layers, model.family), published.of_layers())
    draft = replace(keys.draft, layers=layers)
    return _validated({**keys.data, **draft.model(), "quantization": published.plain()}, keys.config)


def _published(section: Mapping[str, Any], model: Model, document: Document) -> quantization.Published:
    """How the weights are quantised, by the names that checkpoints of the family have."""
    name = next((name for name in quantization.PLACES if name in document.data), "quantization_config")
    known = modules(model)
    if not known:
        message = (
            f"{name}: which weights of a {model.family} checkpoint are meant is not known here. "
            "Take it out, and say with --quantization how they are stored."
        )
        raise document.error((name,), message)
    try:
        return quantization.read(section, known, model.dtype)
    except InputError as error:
        raise document.error((name,), str(error)) from None


def _as_stored(layers: list[Layer], family: str) -> list[Layer]:
    """Layers that say which projections checkpoints of the family have as one matrix, which has scales of its own."""
    naming = names(family)[0]
    fused = {
        "gqa": naming["attention.q"] == naming["attention.k"] == naming["attention.v"],
        "gated_delta_net": naming["delta.qkv"] == naming["delta.z"],
        "gated_mlp": naming["mlp.gate"] == naming["mlp.up"],
    }
    default = {"gqa": False, "gated_delta_net": True, "gated_mlp": False}

    def section(keys: dict[str, Any] | None) -> dict[str, Any] | None:
        if keys is None or fused.get(keys["kind"]) == default.get(keys["kind"]):
            return keys
        return {**keys, "fused_weights": fused[keys["kind"]]}

    return [replace(layer, mixer=section(layer.mixer), mlp=section(layer.mlp)) for layer in layers]


def with_layers(layers: list[Layer], keys: Mapping[int, Mapping[str, Any]]) -> list[Layer]:
    """Layers with further keys of their own; where not all of a name have the same, those without any keep the name.

    Args:
        layers: of a draft, first to last.
        keys: `unquantized` and `quantization` of a layer type, by the index of the layer.
    """
    of_name: dict[str, list[Mapping[str, Any]]] = {}
    for index, layer in enumerate(layers):
        of_name.setdefault(layer.name, []).append(keys.get(index, {}))

    def name(layer: Layer, own: Mapping[str, Any]) -> str:
        same = all(other == own for other in of_name[layer.name])
        return layer.name if same or set(own) != {"unquantized"} else f"{layer.name}_unquantized"

    return [
        replace(layer, name=name(layer, own), rest={**layer.rest, **own}) if (own := keys.get(index, {})) else layer
        for index, layer in enumerate(layers)
    ]


def _validated(data: dict[str, Any], config: Config) -> Model:
    document = config.document
    try:
        return Model.model_validate(data)
    except ValidationError as error:
        detail = error.errors()[0]
        text = requirement(detail)
        key = next((str(part) for part in reversed(detail["loc"]) if part in config.data), None)
        key = key or next((word for word in re.findall(r"\w+", text) if word in config.data), None)
        place = (*config.place, key) if key else config.place
        raise document.error(place, f"{'.'.join(map(str, place)) or 'config.json'}: {text}") from None
