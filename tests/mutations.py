"""One thing wrong with a config: what the reader may answer, and what it may not."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from roofline.blocks.config_json import read
from roofline.blocks.model import Model
from roofline.errors import RooflineError
from roofline.graph.sharding import caches, states
from roofline.predict.parameters import count_parameters
from roofline.specs.deployment import Deployment
from roofline.specs.huggingface.document import parse_json
from roofline.specs.huggingface.read import Origin

Config = dict[str, Any]
Path = tuple[str, ...]

MUTATIONS = ("removed", "renamed", "misspelt", "null", "text", "zero", "negative", "huge", "fraction", "list", "nested", "flag")

# Parts that are not the language model, and what is only ever looked at as a whole.
_APART = ("vision_config", "audio_config", "quantization_config", "auto_map", "id2label", "label2id", "task_specific_params")


# Values that the reference implementation takes as they are, though a published config has others.
_ALLOWED = {
    "zero": (
        "first_k_dense_replace",
        "n_shared_experts",
        "moe_num_shared_experts",
        "hidden_size_per_layer_input",
        "num_hash_layers",
        "num_nextn_predict_layers",
    ),
    "null": ("q_lora_rank", "sliding_window", "head_dim", "moe_latent_size"),
    "removed": ("head_dim", "moe_latent_size"),
    "fraction": ("partial_rotary_factor",),
}


def read_config(config: Config) -> Model:
    """The model of a config that is not in a file."""
    return read(parse_json(json.dumps(config), "config.json"), Origin("mutant", "Mutant"))


def fingerprint(model: Model) -> tuple[Any, ...]:
    """Everything that counts: parameters, caches and states of all layers, the layers themselves."""
    counted = count_parameters(model)
    kept = [
        (tuple(cache.retained(length) * cache.elements for length in (1, 10**4, 10**7)), n)
        for cache, n in caches(model, Deployment())
    ]
    layers = [model.layer_types[name].model_dump() for name in model.layer_sequence]
    return counted.total, counted.active, counted.embedding, kept, states(model, Deployment()), layers


def places(config: Config, path: Path = ()) -> Iterator[Path]:
    """Every key of a config that a reader may look at."""
    for key, value in config.items():
        if key not in _APART:
            yield (*path, key)
            if isinstance(value, dict):
                yield from places(value, (*path, key))


def mutated(config: Config, path: Path, mutation: str) -> Config:
    """A copy with one thing wrong."""
    found = copy.deepcopy(config)
    inside = found
    for part in path[:-1]:
        inside = inside[part]
    key = path[-1]
    value = inside.pop(key)
    if mutation == "removed":
        return found
    if mutation == "renamed":
        inside[f"{key}_2"] = value
    elif mutation == "misspelt":
        inside[_short(key)] = value
    else:
        wrong: dict[str, Any] = {
            "null": None, "text": "many", "zero": 0, "negative": -1, "huge": 10**30, "fraction": 0.5, "list": [value],
            "nested": {"value": value}, "flag": not value if isinstance(value, bool) else True,
        }  # fmt: skip
        inside[key] = wrong[mutation]
    return found


def _short(key: str) -> str:
    """A key without a letter in the middle."""
    return key[: len(key) // 2] + key[len(key) // 2 + 1 :]


def problem(config: Config, path: Path, mutation: str) -> str | None:
    """What is wrong with the reader's answer to a mutant; None where it is right.

    Right is a refusal that names the key, or a model that counts what the config counts, or one that says that it took
    something else for the key. A switch that was turned may count something else without a word: it is a good config.
    """
    wrong = mutated(config, path, mutation)
    name = ".".join(path)
    if path[-1] in _ALLOWED.get(mutation, ()):
        return None
    try:
        model = read_config(wrong)
    except RooflineError as error:
        told = str(error)
        if path[-1] == "transformers_version":
            return None  # it says how old a config is, and with that which other keys must be there
        named = (
            path[-1] in told or any(part in told for part in path[:-1]) or (mutation == "misspelt" and _short(path[-1]) in told)
        )
        return None if named else f"{name} {mutation}: refused without naming it: {error}"
    if fingerprint(model) == fingerprint(read_config(config)):
        return None
    original = config
    for part in path:
        original = original[part]
    if mutation == "flag" and isinstance(original, bool):
        return None
    if any(path[-1] in choice.name.split(".") for choice in model.assumptions):
        return None
    return f"{name} {mutation} ({original!r:.60}): counts change in silence"
