"""The keys of a config.json read as those of a model's file: its family, the language model in it, its name."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from roofline.errors import SpecError, UnknownNameError
from roofline.specs.huggingface.config import ASSUMED, Config
from roofline.specs.huggingface.document import Document, Place
from roofline.specs.huggingface.draft import Draft
from roofline.specs.huggingface.families import by_architecture, families
from roofline.specs.huggingface.families.base import Family
from roofline.specs.huggingface.multimodal import class_defaults, other_parts, wrapper_of, wrappers
from roofline.specs.huggingface.towers import Tower, audio_tower, tower

# Where the language model of a multimodal config stands.
_LANGUAGE = ("text_config", "llm_config", "language_config", "thinker_config")
# Keys around a nested language model that hold for it as well.
_INHERITED = ("tie_word_embeddings", "torch_dtype", "dtype", "quantization_config")
UNKNOWN_WRAPPER = "no multimodal class that is known: its language model is taken to be what the part says, and nothing more"
UNDESCRIBED = "towers that config.json does not describe"
_ASSUMED = (ASSUMED, UNKNOWN_WRAPPER)
# Keys that would make it another kind of model.
_OFF = ("is_encoder_decoder", "add_cross_attention", "cross_attention_hidden_size", "pruned_heads")


@dataclass(frozen=True, slots=True)
class Origin:
    """What a config is called, and where it is from."""

    name: str
    title: str
    hf_id: str = ""


@dataclass(frozen=True, slots=True)
class ModelKeys:
    """What a config says of its language model.

    `data` are the keys of a model's file as plain data, without how its weights are quantised; `draft` is the part of them
    that the family's reader made; `config` knows where each key of the config stands.
    """

    data: dict[str, Any]
    draft: Draft
    config: Config


def read_keys(document: Document, origin: Origin, assume: str | None = None) -> ModelKeys:
    """The keys of a model's file, from the config of a language model or of a multimodal model around one.

    Args:
        document: the parsed config.json.
        origin: the name that the model gets.
        assume: the family whose keys it has, whatever its `model_type` is.

    Raises:
        SpecError: a key is missing, wrong, or not understood; the message names it and its place in the file.
        UnknownNameError: no family is called `assume`.
    """
    config, wrapped = _language_model(document)
    config.lenient = assume is not None
    family = _family(config, document, assume)
    if assume is not None:
        config.note("family", family.name, "as --assume says: nothing has checked that it is")
    if config.place and wrapper_of(document.data) is None and (whole := document.data.get("model_type")) not in families():
        config.note("wrapper", whole, UNKNOWN_WRAPPER)
    config.off(*_OFF)
    draft = family.read(config)
    config.raw("quantization_config")
    config.raw("quantization")  # as mlx-lm calls it
    _repeated_keys(config, draft)
    config.finish()
    notes = [*draft.notes]
    if wrapped:
        parts = ", ".join(wrapped)
        notes.append(
            f"config.json describes a model of several parts; what is counted is the language model alone, not {parts}."
        )
    if config.ignored:
        notes.append(f"Keys that are not known and were taken to change no count: {', '.join(config.ignored)}.")
    assumptions = [
        {
            "name": reading.name,
            "value": reading.value,
            "why": reading.why,
            "origin": "assumed" if (assume and reading.name == "family") or reading.why in _ASSUMED else "default",
        }
        for reading in config.readings
    ]
    if not wrapped and wrapper_of(document.data) is not None:
        wrapped = [UNDESCRIBED]
    counted = _vision_tower(document, draft.keys["hidden_size"]) if "vision_config" in wrapped else None
    if counted is not None:
        apart = {**draft.keys.get("apart", {}), **counted.parts()}
        draft = replace(draft, keys={**draft.keys, "apart": apart, **({"vision": counted.work} if counted.work else {})})
    heard = _audio_tower(document, draft.keys["hidden_size"]) if "audio_config" in wrapped else None
    if heard is not None:
        draft = replace(draft, keys={**draft.keys, "apart": {**draft.keys.get("apart", {}), **heard.parts("audio")}})
    towers = {"vision_config": counted, "audio_config": heard}
    if uncounted := [name for name in wrapped if towers.get(name) is None]:
        why = f"not counted: weights, memory and time of {', '.join(uncounted)}"
        assumptions.append({"name": "parts", "value": "language model alone", "why": why, "origin": "assumed"})
    url = f"https://huggingface.co/{origin.hf_id}" if origin.hf_id else ""
    sources = {
        "config": {"title": f"config.json of {origin.hf_id or origin.title}", "url": url},
        "reader": {"title": f"what the keys of {family.name} configs mean", "url": family.source},
    }
    data: dict[str, Any] = {
        "schema_version": 1,
        "name": origin.name,
        "title": origin.title,
        "hf_id": origin.hf_id,
        **draft.model(),
        "family": family.name,
        "assumptions": assumptions,
        "notes": notes,
        "sources": sources,
    }
    return ModelKeys(data, draft, config)


# Names of one number in configs of different families. Some configs have two of them.
_SYNONYMS = (
    ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    ("num_attention_heads", "n_head", "n_heads"),
    ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"),
    ("hidden_size", "n_embd", "d_model"),
    ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim"),
    ("head_dim", "kv_channels"),
    ("max_position_embeddings", "n_positions", "n_ctx", "seq_length"),
    ("vocab_size", "padded_vocab_size"),
)
_ROTARY = ("rope", "rotary")


def _repeated_keys(config: Config, draft: Draft) -> None:
    """Accept keys that say once more what was read: a second name with the same number, and what is rotated."""
    for names in _SYNONYMS:
        given = {name: config.data[name] for name in names if type(config.data.get(name)) is int}
        read = next((value for name, value in given.items() if name in config.requested), None)
        config.harmless(*(name for name, value in given.items() if value == read))
    mixers = [layer.mixer for layer in draft.layers if layer.mixer is not None]
    widths = {mixer.get("rotary_dim", mixer["head_dim"]) for mixer in mixers if mixer["kind"] == "gqa"}
    if widths == {config.data.get("rotary_dim")}:
        config.harmless("rotary_dim")
    if widths and 0 not in widths and str(config.data.get("position_embedding_type")).lower() in _ROTARY:
        config.harmless("position_embedding_type")


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
        others += other_parts(data, name)
        outer = {key: data[key] for key in _INHERITED if key in data}
        data, place = inner, (*place, name)
    if not isinstance(kind := document.data.get("model_type"), str | None):
        raise document.error(("model_type",), f"model_type: must be a text, not {kind!r:.60}")
    if not place:
        config, others = Config(document, data), other_parts(data, None)
        config.harmless(*others)
        return config, others
    defaults = class_defaults(data.get("model_type"), data)
    config = Config(document, {**defaults, **data}, place, outer={key: outer[key] for key in outer if key not in data})
    if defaults:
        listed = ", ".join(f"{key} {str(value).lower()}" for key, value in defaults.items())
        config.note("absent_keys", listed, "the part names what differs from its class alone: these are the class's")
    _look_outside(document, config)
    for key in document.data:
        absent = [name for name in _INHERITED if name not in document.data]
        if key not in _INHERITED and (near := difflib.get_close_matches(key, absent, n=1, cutoff=0.8)):
            raise document.error((key,), f"{key}: is not known; did you mean {near[0]}?")
    return config, others


def _vision_tower(document: Document, hidden_size: int) -> Tower | None:
    """The vision tower of a multimodal config; None where its numbers are not known."""
    whole = Config(document, document.data)
    vision = Config(document, document.data.get("vision_config", {}), ("vision_config",))
    model_type, wrapper = document.data.get("model_type"), wrapper_of(document.data)
    if wrapper is not None and model_type not in wrapper.model_types:
        model_type = wrapper.name  # known by its class
    return tower(model_type, vision, whole, hidden_size) if isinstance(model_type, str) else None


def _audio_tower(document: Document, hidden_size: int) -> Tower | None:
    """The audio tower of a multimodal config; None where its numbers are not known."""
    audio = Config(document, document.data.get("audio_config", {}), ("audio_config",))
    return audio_tower(str(document.data.get("model_type")), audio, hidden_size)


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
    wrapper = wrapper_of(document.data)
    if not isinstance(architectures, list) or not all(isinstance(name, str) for name in architectures):
        config.refuse("architectures", f"must be a list of names, not {architectures!r:.60}")
    model_type = config.text("model_type", default=None)
    if wrapper is not None and not config.place and not any(key in config.data for key in _SIZES):
        message = f"key {' or '.join(_LANGUAGE)} is missing: a config of {wrapper.name} describes its language model there"
        raise document.error(config.place, message + _near(config))
    decided = wrapper is not None and model_type not in known and (model_type is None or not config.place)
    if decided and wrapper is not None and (named := wrapper.family_of(config)):
        return known[named]
    if model_type is None:
        classes = by_architecture()
        family = next((classes[name] for name in architectures if name in classes), None)
        if family is None:
            key = ".".join((*map(str, config.place), "model_type"))
            raise document.error(
                config.place, f"key {key} is missing: it says what the other keys mean. Known: {', '.join(known)}"
            )
        return family
    if model_type not in known and (inner := _wrapped(model_type, config)):
        message = (
            f"key {inner} is missing: a config of model_type {model_type} describes its language model there{_near(config)}"
        )
        raise document.error((*config.place, "model_type"), message)
    if model_type not in known:
        raise document.error((*config.place, "model_type"), _unknown(model_type, config, known))
    _check_class(config, architectures, known[model_type])
    return known[model_type]


# Keys of which every language model has one at least.
_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "n_embd", "d_model")


def _near(config: Config) -> str:
    """A hint at a key that may be the name of the language model's part, with a slip in it; empty if there is none."""
    slips = [key for key, value in config.data.items() if isinstance(value, dict) and key not in _LANGUAGE]
    near = [key for name in _LANGUAGE for key in difflib.get_close_matches(name, slips, n=1, cutoff=0.85)]
    return f"; is it {near[0]!r}?" if near else ""


# Keys left over, above which a family is no longer suggested.
_FEW = 4
# Families that many others are copies of, the plainest first: what one of them reads without a key left over is its shape.
_USUAL = ("llama", "mistral", "mixtral", "qwen3_moe", "deepseek_v3")


def _unknown(model_type: str, config: Config, known: dict[str, Family]) -> str:
    """What to say of an unknown `model_type`: a name that is spelt alike, or the family whose keys the config has."""
    own = (
        "Its keys may mean something else than those of other families. `--assume FAMILY` reads it as one of them, "
        "at your own risk; or write the model as YAML (models/_template.yaml)."
    )
    similar = difflib.get_close_matches(model_type, known, n=3, cutoff=0.75)
    near = next((name for name in similar if _left_over(config, known[name]) == []), None)
    if near is not None:
        return f"unknown model_type {model_type!r}. Did you mean {near}? {own}"
    fits = {name: left for name in _USUAL if (left := _left_over(config, known[name])) is not None}
    if not fits:
        return f"unknown model_type {model_type!r}. {own}"
    best = min(fits, key=lambda name: len(fits[name]))
    more = f" plus {', '.join(fits[best])}" if fits[best] else ""
    return (
        f"unknown model_type {model_type!r}. Its keys are those of {best}{more}: `--assume {best}` reads it as such, at your "
        "own risk, since they may mean something else; or write the model as YAML (models/_template.yaml)."
    )


def _left_over(config: Config, family: Family) -> list[str] | None:
    """Keys of a config that a family would refuse; None where it cannot read it, or more than a few are left."""
    trial = Config(config.document, config.data, config.place, outer=config.outer, lenient=True)
    try:
        family.read(trial)
        trial.harmless("architectures", "quantization_config")
        trial.finish()
    except SpecError:
        return None
    left = [reading.name.rpartition(".")[2] for reading in trial.readings if reading.why == ASSUMED]
    return left if len(left) <= _FEW else None


def _wrapped(model_type: str, config: Config) -> str | None:
    """Where the language model of a config should be that has parts for other senses, or is of a type that always has."""
    several = any(key in config.data for key in ("vision_config", "audio_config")) or model_type in wrappers()
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
    """The name of a model from the path of its config: of the folder for a config.json, else of the file."""
    title = path.resolve().parent.name if path.stem in ("config", "params") else path.stem
    return Origin(slug(title), title or "model")


def origin_called(name: str) -> Origin:
    """The name of a model from what a user calls it: org/name on Hugging Face, a title, or an id.

    >>> origin_called("my-org/My_Model-7B")
    Origin(name='my-model-7b', title='My_Model-7B', hf_id='my-org/My_Model-7B')
    """
    title = name.strip()
    if re.fullmatch(r"[\w.-]+/[\w.-]+", title):
        return Origin(slug(title.partition("/")[2]), title.partition("/")[2], title)
    return Origin(slug(title), title or "model")


def slug(title: str) -> str:
    """A name as ids are written: lower case, digits, dots and hyphens; "model" if nothing is left."""
    return re.sub(r"[^a-z0-9.]+", "-", title.lower()).strip("-.") or "model"
