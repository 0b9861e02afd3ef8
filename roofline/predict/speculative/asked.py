"""What is asked of speculative decoding: the options, in our spelling and in vLLM's."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any

from roofline.blocks.model import Model
from roofline.errors import InputError, UnknownNameError
from roofline.predict.options import SPECULATION, of_groups
from roofline.units import parse_count

OPTIONS = tuple(entry.name for entry in of_groups((SPECULATION,)))
# Keys of vLLM's --speculative-config, and the option that each is; None: it says how to find a draft, not what that costs.
_CONFIG = {
    "model": "speculative_model",
    "method": "speculative_method",
    "num_speculative_tokens": "num_speculative_tokens",
    "draft_tensor_parallel_size": "speculative_draft_tensor_parallel_size",
    "prompt_lookup_min": None,
    "prompt_lookup_max": None,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A method, and what it needs to be told."""

    method: str
    model: str | PathLike[str] | Model | None
    tokens: int
    """Drafted a round."""
    acceptance: float
    draft_tensor_parallel_size: int | None


def take(options: dict[str, Any], methods: Iterable[str]) -> tuple[Asked | None, dict[str, Any]]:
    """What the options ask of speculative decoding, None where they do not, and the other options."""
    rest = {name: value for name, value in options.items() if name not in OPTIONS}
    given = {name: options[name] for name in OPTIONS if options.get(name) is not None}
    if not given:
        return None, rest
    if (config := given.pop("speculative_config", None)) is not None:
        given = _merged(_config(config), given)
    known = list(methods)
    model, method = given.get("speculative_model"), given.get("speculative_method")
    if method is None:
        if model is None:
            raise InputError(
                "speculative decoding needs a draft: give --speculative-model, or --speculative-method mtp or ngram"
            )
        method = "draft_model"
    if str(method).endswith("_mtp"):
        method = "mtp"  # deepseek_mtp and others, as vLLM named it by the family
    if method not in known:
        raise UnknownNameError("speculative method", method, known, list_all=True)
    if (method == "draft_model") != (model is not None):
        needs = (
            "needs a draft: give --speculative-model"
            if model is None
            else "takes no draft model: leave out --speculative-model"
        )
        raise InputError(f"--speculative-method {method} {needs}")
    size = given.get("speculative_draft_tensor_parallel_size")
    return Asked(
        method=method,
        model=model,
        tokens=_tokens(given.get("num_speculative_tokens")),
        acceptance=_acceptance(given.get("acceptance")),
        draft_tensor_parallel_size=None if size is None else parse_count(size, "speculative-draft-tensor-parallel-size", 1),
    ), rest


def _config(text: object) -> dict[str, Any]:
    """The JSON that vLLM takes, under our names."""
    try:
        found = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        found = None
    if not isinstance(found, dict):
        shown = """'{"model": "llama-3.2-1b", "num_speculative_tokens": 3}'"""
        raise InputError(f"--speculative-config must be a JSON object such as {shown}, not {str(text)[:60]!r}")
    for key in found:
        if key not in _CONFIG:
            raise UnknownNameError("key of --speculative-config", key, _CONFIG, list_all=True)
    return {name: found[key] for key, name in _CONFIG.items() if name is not None and found.get(key) is not None}


def _merged(config: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    if clash := next((name for name in given if name in config), None):
        raise InputError(f"--{clash.replace('_', '-')} is in --speculative-config too: give it once")
    return {**config, **given}


def _tokens(value: object) -> int:
    if value is None:
        raise InputError("--num-speculative-tokens is needed: how many tokens are drafted a round")
    return parse_count(value, "num-speculative-tokens")


def _acceptance(value: object) -> float:
    if value is None:
        raise InputError(
            "--acceptance is needed: the probability, 0 to 1, that a drafted token is accepted. It depends on model, draft and "
            "text, and is never guessed: measure it on texts like yours"
        )
    try:
        number = float(value)  # type: ignore[arg-type]  # whatever it is, it is a number or refused
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number <= 1:
        raise InputError(f"--acceptance must be a probability from 0 to 1, not {value}")
    return number
