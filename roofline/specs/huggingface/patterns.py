"""Names of a checkpoint's modules, and the patterns by which a `quantization_config` points at them."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable

from roofline.errors import InputError

Match = Callable[[str], bool]

# What may stand before `layers` in one naming of a language model and not in another.
_WRAPPERS = frozenset({"model", "language_model", "text_model", "llm", "transformer", "decoder", "backbone"})
_PLAIN = re.compile(r"[\w.-]+")
_GLOB = re.compile(r"[\w.*?\[\]-]+")


def any_of(patterns: Iterable[object], key: str) -> Match:
    """Whether a module's name is meant by one of the patterns, or that of a module around it.

    `re:...` is a regular expression from the start of the name (compressed-tensors); `*` and `?` are those of shells; a
    plain name is the whole name, its start, its end, or modules in the middle; anything else is a regular expression up
    to the end of a module's name (transformers). A name with another wrapper than the model's own is the same module.

    >>> kept = any_of(["lm_head", "gate", "re:.*self_attn.*", "model.language_model.layers.1.mlp*"], "ignore")
    >>> kept("model.layers.1.mlp.up_proj"), kept("model.layers.11.mlp.up_proj"), kept("model.layers.2.mlp.gate")
    (True, False, True)
    """
    plain: set[str] = set()
    tests: list[Match] = []
    for pattern in patterns:
        if not isinstance(pattern, str):
            msg = f"{key}: a pattern of module names is a text, not {pattern!r:.60}"
            raise InputError(msg)
        if _PLAIN.fullmatch(pattern):
            plain.add(_unwrapped(pattern))
        elif _GLOB.fullmatch(pattern):
            tests += [
                _compiled(_globbed(pattern), pattern, key),
                _unwrapping(_compiled(_globbed(_unwrapped(pattern)), pattern, key)),
            ]
        elif pattern.startswith("re:"):
            tests.append(_compiled(pattern.removeprefix("re:"), pattern, key))
        else:
            tests.append(_compiled(rf"(?:{pattern})(?=\.|\Z)", pattern, key))

    def match(name: str) -> bool:
        return _meant(name, plain) or any(test(name) for test in tests)

    return match


def _globbed(pattern: str) -> str:
    """A shell's pattern as an expression that also takes modules inside what is meant."""
    return rf"(?:{fnmatch.translate(pattern + '.*')}|{fnmatch.translate(pattern)})"


def _unwrapping(test: Match) -> Match:
    return lambda name: test(_unwrapped(name))


def _compiled(expression: str, pattern: str, key: str) -> Match:
    try:
        found = re.compile(expression)
    except re.error as error:
        msg = f"{key}: {pattern!r} is no regular expression: {error}"
        raise InputError(msg) from None
    return lambda name: found.match(name) is not None


def _meant(name: str, plain: set[str]) -> bool:
    parts = name.split(".")
    if not plain:
        return False
    ends = range(1, len(parts) + 1)
    return any(".".join(parts[start:end]) in plain for start in range(len(parts)) for end in ends if start < end)


def _unwrapped(name: str) -> str:
    """A name from `layers` on, where only wrappers of the language model stand before it.

    >>> _unwrapped("model.language_model.layers.3.mlp"), _unwrapped("model.vision_tower.layers.3.mlp"), _unwrapped("lm_head")
    ('layers.3.mlp', 'model.vision_tower.layers.3.mlp', 'lm_head')
    """
    before, found, after = name.partition("layers.")
    return found + after if found and set(before.split(".")) - {""} <= _WRAPPERS else name
