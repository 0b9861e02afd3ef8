"""From a config to a model: which family it is of, what stands around it, and what is left over."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from roofline.errors import InputError, UnknownNameError
from roofline.specs.huggingface import quantization
from roofline.specs.huggingface.config import ASSUMED, Config
from roofline.specs.huggingface.document import Document, Place
from roofline.specs.huggingface.draft import Layer
from roofline.specs.huggingface.families import Family, by_architecture, families
from roofline.specs.huggingface.tensors import modules
from roofline.specs.model import Model

# Where the language model of a multimodal config stands.
_LANGUAGE = ("text_config", "llm_config", "language_config", "thinker_config")
# Keys around a nested language model that hold for it as well.
_INHERITED = ("tie_word_embeddings", "torch_dtype", "dtype", "quantization_config")
# Keys that would make it another kind of model.
_OFF = ("is_encoder_decoder", "add_cross_attention", "cross_attention_hidden_size", "pruned_heads")


@dataclass(frozen=True, slots=True)
class Origin:
    """What a config is called, and where it is from."""

    name: str
    title: str
    hf_id: str = ""


def read(document: Document, origin: Origin, assume: str | None = None) -> Model:
    """The model that a config describes.

    Raises:
        SpecError: a key is missing, wrong, or not understood; the message names it and its place in the file.
    """
    config, wrapped = _language_model(document)
    config.lenient = assume is not None
    entry = _family(config, document, assume)
    if assume is not None:
        config.note("family", entry.name, "as asked for with --assume: nothing has checked that it is")
    config.off(*_OFF)
    draft = entry.read(config)
    config.raw("quantization_config")
    config.finish()
    notes = [*draft.notes]
    if wrapped:
        parts = ", ".join(wrapped)
        notes.append(
            f"config.json describes a model of several parts; what is counted is the language model alone, not {parts}."
        )
    if config.ignored:
        notes.append(f"Keys that are not known and were taken to change no count: {', '.join(config.ignored)}.")
    url = f"https://huggingface.co/{origin.hf_id}" if origin.hf_id else ""
    data: dict[str, Any] = {
        "schema_version": 1,
        "name": origin.name,
        "title": origin.title,
        "hf_id": origin.hf_id,
        **draft.model(),
        "family": entry.name,
        "assumptions": [
            {
                "name": reading.name,
                "value": reading.value,
                "why": reading.why,
                "origin": "assumed" if (assume and reading.name == "family") or reading.why == ASSUMED else "default",
            }
            for reading in config.readings
        ],
        "notes": notes,
        "sources": {
            "config": {"title": f"config.json of {origin.hf_id or origin.title}", "url": url},
            "reader": {"title": f"what the keys of {entry.name} configs mean", "url": entry.source},
        },
    }
    model = _validated(data, config)
    if (said := quantization.section(document.data)) is None:
        return model
    published = _published(said, model, document)
    draft = replace(draft, layers=_exempted(draft.layers, dict(published.unquantized)))
    return _validated({**data, **draft.model(), "quantization": published.plain()}, config)


def _published(said: Mapping[str, Any], model: Model, document: Document) -> quantization.Published:
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
        return quantization.read(said, known, model.dtype)
    except InputError as error:
        raise document.error((name,), str(error)) from None


def _exempted(layers: list[Layer], roles: dict[int, tuple[str, ...]]) -> list[Layer]:
    """Layers with the roles that they do not quantise; where not all of a name have the same, their name says so."""
    of_name: dict[str, set[tuple[str, ...]]] = {}
    for index, layer in enumerate(layers):
        of_name.setdefault(layer.name, set()).add(roles.get(index, ()))
    return [
        replace(
            layer,
            name=layer.name if len(of_name[layer.name]) == 1 else f"{layer.name}_unquantized",
            rest={**layer.rest, "unquantized": roles[index]},
        )
        if index in roles
        else layer
        for index, layer in enumerate(layers)
    ]


def _validated(data: dict[str, Any], config: Config) -> Model:
    document = config.document
    try:
        return Model.model_validate(data)
    except ValidationError as error:
        detail = error.errors()[0]
        text = str(detail["msg"]).removeprefix("Value error, ")
        key = next((str(part) for part in reversed(detail["loc"]) if part in config.data), None)
        key = key or next((word for word in re.findall(r"\w+", text) if word in config.data), None)
        place = (*config.place, key) if key else config.place
        raise document.error(place, f"{'.'.join(map(str, place)) or 'config.json'}: {text}") from None


def _language_model(document: Document) -> tuple[Config, list[str]]:
    """The part of a config that is the language model, and the parts that are not."""
    data = document.data
    place: Place = ()
    others: list[str] = []
    outer: dict[str, Any] = {}
    while (name := next((name for name in _LANGUAGE if name in data), None)) is not None:
        inner = data[name]
        if not isinstance(inner, dict):
            raise document.error((*place, name), f"{name}: must be an object with keys and values, not {inner!r:.60}")
        others += [
            key
            for key, value in data.items()
            if key != name and isinstance(value, dict) and key.endswith("_config") and key != "quantization_config"
        ]
        outer = {key: data[key] for key in _INHERITED if key in data}
        data, place = inner, (*place, name)
    config = Config(document, data, place, outer={key: value for key, value in outer.items() if key not in data})
    if place:
        _look_outside(document, config)
    return config, others


def _look_outside(document: Document, config: Config) -> None:
    """Refuse a dimension that stands around the language model and not in it: which of the two it is for is a guess."""
    for key in (
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "intermediate_size",
        "head_dim",
        "vocab_size",
    ):
        inside = config.data.get(key)
        if key in document.data and inside is None:
            raise document.error((key,), f"{key}: stands outside {config.place[-1]}, which has none of its own")


def _family(config: Config, document: Document, assume: str | None) -> Family:
    known = families()
    if assume is not None:
        if assume not in known:
            raise UnknownNameError("family", assume, known, list_all=True)
        return known[assume]
    architectures = config.raw("architectures", default=[])
    if not isinstance(architectures, list) or not all(isinstance(name, str) for name in architectures):
        config.refuse("architectures", f"must be a list of names, not {architectures!r:.60}")
    model_type = config.text("model_type", default=None)
    if model_type is None:
        classes = by_architecture()
        found = next((classes[name] for name in architectures if name in classes), None)
        if found is None:
            key = ".".join((*map(str, config.place), "model_type"))
            raise document.error(
                config.place, f"key {key} is missing: it says what the other keys mean. Known: {', '.join(known)}"
            )
        return found
    if model_type not in known and (inner := _wrapped(model_type, config)):
        message = f"key {inner} is missing: a config of model_type {model_type} describes its language model there"
        raise document.error((*config.place, "model_type"), message)
    if model_type not in known:
        hint = (
            "Its keys may mean something else than those of other families. `--assume FAMILY` reads it as one of them, "
            "on your own risk; or write the model as YAML (models/_template.yaml)."
        )
        raise document.error((*config.place, "model_type"), str(UnknownNameError("model_type", model_type, known, hint)))
    _check_class(config, architectures, known[model_type])
    return known[model_type]


def _wrapped(model_type: str, config: Config) -> str | None:
    """Where the language model of a config should be that has parts for other senses, or is of a type that always has."""
    several = any(key in config.data for key in ("vision_config", "audio_config"))
    return "text_config" if several or f"{model_type}_text" in families() else None


# Heads that are no LM head.
_OTHER_HEAD = re.compile(
    r"\w+For(SequenceClassification|TokenClassification|QuestionAnswering|MultipleChoice|MaskedLM|Embedding\w*)"
)


def _check_class(config: Config, architectures: list[str], entry: Family) -> None:
    """Refuse an architecture that is of another family, or has no LM head."""
    classes = by_architecture()
    for name in architectures:
        if name in classes and classes[name] is not entry and entry.name not in classes[name].model_types:
            config.refuse("architectures", f"{name} is of {classes[name].name}, but model_type is {entry.name}")
        if _OTHER_HEAD.fullmatch(name):
            config.refuse(
                "architectures", f"{name} has another head than a language model; what is counted here has an LM head"
            )


def origin_of(path: Path) -> Origin:
    """What the config at a path is called: after its folder, or its own name where that says more than `config`."""
    title = path.resolve().parent.name if path.stem in ("config", "params") else path.stem
    return Origin(slug(title), title or "model")


def origin_called(name: str) -> Origin:
    """What a user calls a config: org/name on Hugging Face, a title, or an id.

    >>> origin_called("my-org/My_Model-7B")
    Origin(name='my-model-7b', title='My_Model-7B', hf_id='my-org/My_Model-7B')
    """
    title = name.strip()
    if re.fullmatch(r"[\w.-]+/[\w.-]+", title):
        return Origin(slug(title.partition("/")[2]), title.partition("/")[2], title)
    return Origin(slug(title), title or "model")


def slug(title: str) -> str:
    """A name as ids are written: lower case, digits, dots and hyphens."""
    return re.sub(r"[^a-z0-9.]+", "-", title.lower()).strip("-.") or "model"
