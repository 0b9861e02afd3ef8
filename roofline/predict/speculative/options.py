"""The options of speculative decoding, in our spelling and in vLLM's."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from roofline.blocks.model import Model
from roofline.errors import InputError, UnknownNameError
from roofline.predict.options import OPTIONS, SPECULATION, of_groups

NAMES = tuple(entry.name for entry in of_groups((SPECULATION,)))
# Keys of vLLM's --speculative-config, and the option that each is; None: it says how to find a draft, not what that costs.
_CONFIG = {
    "model": "speculative_model",
    "method": "speculative_method",
    "num_speculative_tokens": "num_speculative_tokens",
    "draft_tensor_parallel_size": "speculative_draft_tensor_parallel_size",
    "prompt_lookup_min": None,
    "prompt_lookup_max": None,
}

_ACCEPTANCE = (
    "the probability, 0 to 1, that a drafted token is accepted. It depends on model, draft and text, and is never guessed: "
    "measure it on texts like yours"
)


@dataclass(frozen=True, slots=True)
class SpeculativeOptions:
    """A method of drafting, and what it takes."""

    method: str
    model: str | PathLike[str] | Model | None
    tokens: int
    """Drafted per round."""
    acceptance: float
    draft_tensor_parallel_size: int | None
    given: dict[str, Any] = field(default_factory=dict, compare=False)
    """The options as they were given, by name."""


def read_options(options: dict[str, Any]) -> tuple[SpeculativeOptions | None, dict[str, Any]]:
    """The options of speculative decoding, None where none is given, and the other options.

    Raises:
        roofline.errors.RooflineError: an option that is missing, unknown or out of range.
    """
    rest = {name: value for name, value in options.items() if name not in NAMES}
    own = {name: options[name] for name in NAMES if options.get(name) is not None}
    if not own:
        return None, rest
    from roofline.predict.speculative.drafts import METHODS

    merged = own
    if (config := own.get("speculative_config")) is not None:
        merged = _merged(_config(config), {name: value for name, value in own.items() if name != "speculative_config"})
    model, method = merged.get("speculative_model"), merged.get("speculative_method")
    if method is None:
        if model is None:
            raise InputError(
                "speculative decoding needs a draft: give --speculative-model, or --speculative-method mtp or ngram"
            )
        method = "draft_model"
    if str(method).endswith("_mtp"):
        method = "mtp"  # deepseek_mtp and others, as vLLM named it by the family
    if method not in METHODS:
        raise UnknownNameError("speculative method", method, METHODS, list_all=True)
    if (method == "draft_model") != (model is not None):
        needs = (
            "needs a draft: give --speculative-model"
            if model is None
            else "takes no draft model: leave out --speculative-model"
        )
        raise InputError(f"--speculative-method {method} {needs}")
    size = merged.get("speculative_draft_tensor_parallel_size")
    return SpeculativeOptions(
        method=method,
        model=model,
        tokens=_needed("num_speculative_tokens", merged, "the number of tokens drafted per round"),
        acceptance=_needed("acceptance", merged, _ACCEPTANCE),
        draft_tensor_parallel_size=None if size is None else OPTIONS["speculative_draft_tensor_parallel_size"].read(size),
        given=own,
    ), rest


def _config(text: object) -> dict[str, Any]:
    """The JSON that vLLM takes, under our names."""
    try:
        config = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        config = None
    if not isinstance(config, dict):
        example = """'{"model": "llama-3.2-1b", "num_speculative_tokens": 3}'"""
        raise InputError(f"--speculative-config must be a JSON object such as {example}, not {str(text)[:60]!r}")
    for key in config:
        if key not in _CONFIG:
            raise UnknownNameError("key of --speculative-config", key, _CONFIG, list_all=True)
    return {name: config[key] for key, name in _CONFIG.items() if name is not None and config.get(key) is not None}


def _merged(config: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    if clash := next((name for name in given if name in config), None):
        raise InputError(f"--{clash.replace('_', '-')} is in --speculative-config too: give it once")
    return {**config, **given}


def _needed(name: str, given: dict[str, Any], what: str) -> Any:
    """The value of an option that has no default."""
    option = OPTIONS[name]
    if given.get(name) is None:
        raise InputError(f"{option.flag} is needed: {what}")
    return option.read(given[name])
