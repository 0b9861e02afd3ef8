"""What a method of quantisation makes of a config: rules for modules, from keys that are looked at one by one."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from pydantic import ValidationError

from roofline.dtypes import within
from roofline.errors import InputError, UnknownNameError
from roofline.specs.base import requirement
from roofline.specs.quantization import schemes
from roofline.specs.quantization.base import Scheme

LAYERS = frozenset({"linear", "experts"})
AND_HEAD = LAYERS | {"lm_head"}
EXPERTS = frozenset({"experts"})


@dataclass(frozen=True, slots=True)
class Rule:
    """A scheme (None: none) for the modules of some roles (None: of any) whose names match."""

    scheme: Scheme | None
    matches: Match = lambda name: True
    roles: frozenset[str] | None = LAYERS

    def holds(self, name: str, role: str) -> bool:
        """Whether the rule is for a module.

        Args:
            name: of the module in a checkpoint.
            role: of its weight, such as "attention/o_proj".
        """
        return (self.roles is None or bool(self.roles & set(within(role)))) and self.matches(name)


@dataclass(frozen=True, slots=True)
class Plan:
    """Rules of which the first that holds counts, and the dtype of the KV cache."""

    rules: tuple[Rule, ...]
    kv_cache_dtype: str | None = None

    def scheme(self, name: str, role: str) -> Scheme | None:
        """The scheme by which a module's weights are stored; None if they are not quantised.

        Args:
            name: of the module in a checkpoint.
            role: of its weight, such as "attention/o_proj".
        """
        return next((rule.scheme for rule in self.rules if rule.holds(name, role)), None)


class Keys:
    """The keys of a `quantization_config` or of an object inside it.

    Methods hand out values by name, and raise an `InputError` with the place of a key that is wrong. `done` refuses keys that
    were not read; `finish` does so for the objects inside that no reader has called done.
    """

    def __init__(self, data: Mapping[str, Any], place: str = "quantization_config") -> None:
        self.data, self.place, self.requested = data, place, {"quant_method"}
        self.inside: list[Keys] = []
        self.checked = False
        self.spelling: dict[str, str] = {}
        """The name in the config of a key that has several, by its first."""

    def get(self, *names: str, default: Any = None) -> Any:
        """The value under the first of the names that has one other than null; `default` without."""
        self.requested.update(names)
        given = next((name for name in names if self.data.get(name) is not None), None)
        if given is None:
            return default
        self.spelling[names[0]] = given
        return self.data[given]

    def choice(self, *names: str, of: Collection[Any], default: Any = None) -> Any:
        """The value of a key that is one of `of`, strings in lower case whatever their spelling.

        Raises:
            InputError: it is another value.
        """
        value = self.get(*names, default=default)
        plain = value.lower() if isinstance(value, str) else value
        # NB: Python takes true for equal to 1
        if not any(plain == one and type(plain) is type(one) for one in of):
            self.refuse(names[0], f"{value!r:.60} is not known; known: {', '.join(str(one) for one in of)}")
        return plain

    def flag(self, *names: str, default: bool = False) -> bool:
        """The value of a boolean key.

        Raises:
            InputError: it is neither true nor false.
        """
        return bool(self.choice(*names, of=(True, False), default=default))

    def number(self, *names: str, low: float, high: float, default: Any = None) -> Any:
        """The value of a key that is a number from `low` to `high`.

        Raises:
            InputError: it is missing without a default, no number, or out of range.
        """
        value = self.get(*names, default=default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            self.refuse(names[0], f"must be a number from {low:g} to {high:g}, not {value!r:.60}")
        return value

    def listed(self, *names: str) -> list[Any]:
        """The value of a key that is a list; empty where it is absent.

        Raises:
            InputError: it is no list.
        """
        value = self.get(*names, default=[])
        if not isinstance(value, (list, tuple)):
            self.refuse(names[0], f"must be a list, not {value!r:.60}")
        return list(value)

    def left(self, *names: str, whole: bool = False) -> Rule:
        """A rule that leaves modules unquantised, whatever their role, by the patterns that a key lists.

        Args:
            names: of the key.
            whole: whether a plain name is that of a module itself, see `any_of`.

        Raises:
            InputError: the key is no list, or an entry is no pattern.
        """
        return self.named(None, self.listed(*names), names[0], whole=whole)

    def named(self, scheme: Scheme | None, patterns: list[Any], name: str, *, whole: bool = False) -> Rule:
        """A rule that gives modules a scheme (None: unquantised), whatever their role.

        Args:
            scheme: of their weights.
            patterns: of module names, see `any_of`.
            name: of the key, for messages.
            whole: whether a plain name is that of a module itself, see `any_of`.

        Raises:
            InputError: a pattern is no string, or no valid regular expression.
        """
        return Rule(scheme, any_of(patterns, f"{self.place}.{self.spelling.get(name, name)}", whole=whole), None)

    def parts(self, name: str) -> dict[str, Keys]:
        """The objects inside an object, by name; empty where it is absent.

        Raises:
            InputError: the value is no object of objects.
        """
        value = self.get(name, default={})
        if not isinstance(value, Mapping) or not all(isinstance(part, Mapping) for part in value.values()):
            self.refuse(name, f"must be an object of objects, not {value!r:.60}")
        return {key: self._inner(part, f"{name}.{key}") for key, part in value.items()}

    def _inner(self, data: Mapping[str, Any], name: str) -> Keys:
        inner = Keys(data, f"{self.place}.{name}")
        self.inside.append(inner)
        return inner

    def part(self, name: str) -> Keys | None:
        """An object inside this one; None where it is absent.

        Raises:
            InputError: the value is no object.
        """
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.refuse(name, f"must be an object with keys and values, not {value!r:.60}")
        return self._inner(value, name)

    def make(self, scheme: str, **keys: Any) -> Scheme:
        """A scheme with the given keys.

        Raises:
            InputError: a key has a value that the scheme does not allow.
        """
        try:
            return schemes()[scheme].model_validate({"name": scheme, **keys})
        except ValidationError as error:
            detail = error.errors()[0]
            name = str(detail["loc"][0]) if detail["loc"] else scheme
            self.refuse(name, f"{requirement(detail)}, not {detail.get('input')!r:.60}")

    def refuse(self, name: str, message: str) -> NoReturn:
        """Refuse the config because of a key.

        Raises:
            InputError: always, with the place of the key.
        """
        raise InputError(f"{self.place}.{self.spelling.get(name, name)}: {message}")

    def done(self, *harmless: str) -> None:
        """Refuse keys that were not read, except `harmless` ones, which change no size, and those that are off or empty.

        What is off is refused too where its name is nearly that of a key that is absent: its default may be on.

        Raises:
            InputError: a key is unknown; the message names the nearest.
        """
        self.checked = True
        for name, value in self.data.items():
            if name in self.requested or name in harmless or value is None:
                continue
            known = sorted({*self.requested, *harmless} - {"quant_method"})
            absent = [one for one in known if one not in self.data]
            if (value in (False, "") or value in ([], {})) and not difflib.get_close_matches(name, absent, n=1, cutoff=0.8):
                continue
            hint = "It may change how weights are stored; take it out if it does not."
            raise InputError(f"{self.place}: {UnknownNameError('key', name, known, hint)}")

    def finish(self) -> None:
        """Refuse keys that were not read, here and in the objects inside, where `done` has not been called.

        Raises:
            InputError: a key is unknown; the message names the nearest.
        """
        if not self.checked:
            self.done()
        for inner in self.inside:
            inner.finish()


OF_SCALES = ("observer", "observer_kwargs", "actorder", "block_structure", "scale_dtype", "zp_dtype")
"""Keys of activations and of a cache in compressed-tensors: how their scales are found, and what has no effect on them."""


def kv_cache(keys: Keys) -> str | None:
    """The dtype of the KV cache from `kv_cache_scheme`: "fp8", or None for that of activations.

    NB: AutoFP8 writes a word there, how the scales of the cache are found, and ModelOpt the name of the format.

    Raises:
        InputError: the scheme is not 8 bits of type float.
    """
    if keys.get("kv_cache_scheme") in ("static", "dynamic", "FP8", "fp8"):
        return "fp8"
    scheme = keys.part("kv_cache_scheme")
    if scheme is None:
        return None
    if (scheme.get("num_bits"), scheme.get("type")) != (8, "float"):
        keys.refuse("kv_cache_scheme", "is not known; known: 8 bits of type float")
    scheme.flag("symmetric", default=True)
    scheme.done(*OF_SCALES, "strategy", "group_size", "dynamic")
    return "fp8"


@dataclass(frozen=True, slots=True)
class Method:
    """A `quant_method`: its name, and the function from its keys and the dtype of unquantised weights to a `Plan`."""

    name: str
    plan: Callable[[Keys, str], Plan]


def method(name: str) -> Callable[[Callable[[Keys, str], Plan]], Method]:
    """A decorator that makes a `Method` of the function from its keys to a `Plan`.

    Args:
        name: the `quant_method`, in lower case with hyphens.
    """
    return partial(Method, name)


# Names of modules, and the patterns by which a `quantization_config` points at them.

Match = Callable[[str], bool]

# What may stand before `layers` in one naming of a language model and not in another.
_WRAPPERS = frozenset({"model", "language_model", "text_model", "llm", "thinker", "transformer", "decoder", "backbone"})
# What stands behind the wrappers: the list of layers, and the matrices at both ends.
_OUTERMOST = frozenset({"layers", "lm_head", "embed_tokens", "embeddings"})
_NESTED = ("language_model.", "model.language_model.", "text_model.", "llm.")
_NAMES_WRAPPER = re.compile(r"language_model|text_model|\bllm\b")
# What engines call several products that they make in one, and the names of the parts in checkpoints.
_FUSED = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
    "in_proj_qkvz": ("in_proj_qkv", "in_proj_z"),
    "in_proj_ba": ("in_proj_b", "in_proj_a"),
    "fused_qkv_a_proj": ("q_a_proj", "kv_a_proj_with_mqa"),
    "fused_wqa_wkv": ("attn.wq_a", "attn.wkv"),  # not the compressor's wkv
}
_PLAIN = re.compile(r"[\w.-]+")
_GLOB = re.compile(r"[\w.*?\[\]-]+")


def any_of(patterns: Iterable[object], key: str, *, whole: bool = False, of_fused: bool = True) -> Match:
    r"""A test of whether a module's name, or that of a module around it, matches one of the patterns.

    `re:...` is a regular expression from the start of the name (compressed-tensors); `*` and `?` are those of shells; a
    plain name is the whole name, its start, its end, or modules in the middle; anything else is a regular expression up
    to the end of a module's name (transformers). A name with another wrapper than the model's own is the same module; one that
    engines give to several products in one, such as `qkv_proj`, is that of each.

    Args:
        patterns: strings.
        key: where they are from, for messages.
        whole: whether a plain name means the module of that name alone, not those inside it (compressed-tensors).
        of_fused: whether a pattern of a module that engines fuse is also one of its parts.

    Raises:
        InputError: a pattern is no string, no valid regular expression, or excludes by the wrapper of the language model.

    >>> matches = any_of(["gate", "re:.*self_attn.*", "model.language_model.layers.1.mlp*", "language_model.lm_head"], "ignore")
    >>> matches("model.layers.1.mlp.up_proj"), matches("model.layers.11.mlp.up_proj"), matches("model.layers.2.mlp.gate")
    (True, False, True)
    >>> matches("lm_head"), any_of([r"re:^model\.language_model\.layers\.\d+\.mlp\.down"], "")("model.layers.3.mlp.down_proj")
    (True, True)
    >>> any_of(["layers.1.linear_attn"], "ignore", whole=True)("model.layers.1.linear_attn.out_proj")
    False
    """
    patterns = list(patterns)
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
        else:
            expression = pattern.removeprefix("re:") if pattern.startswith("re:") else rf"(?:{pattern})(?=\.|\Z)"
            tests.append(_compiled(expression, pattern, key))
            if _NAMES_WRAPPER.search(pattern):
                if "(?!" in pattern or "(?<!" in pattern:  # it may exclude the wrapper, and with it all of the model
                    raise InputError(f"{key}: {pattern!r} is not understood: it may be about the language model as a whole")
                tests.append(_wrapped(_compiled(expression, pattern, key)))

    fused = [
        _in_fused(any_of([pattern], key, whole=whole, of_fused=False), name)
        for pattern in patterns
        for name in _FUSED
        if of_fused and isinstance(pattern, str) and name in pattern
    ]

    def match(name: str) -> bool:
        return (_unwrapped(name) in plain if whole else _meant(name, plain)) or any(test(name) for test in (*tests, *fused))

    return match


def _in_fused(matches: Match, fused: str) -> Match:
    """A test of a part's name by that of the fused module."""

    def match(name: str) -> bool:
        around = name.rpartition(".")[0]
        return any(name.endswith(f".{part}") for part in _FUSED[fused]) and matches(f"{around}.{fused}")

    return match


def _globbed(pattern: str) -> str:
    """A shell's pattern as an expression that also takes modules inside what is meant."""
    return rf"(?:{fnmatch.translate(pattern + '.*')}|{fnmatch.translate(pattern)})"


def _unwrapping(test: Match) -> Match:
    return lambda name: test(_unwrapped(name))


def _compiled(expression: str, pattern: str, key: str) -> Match:
    try:
        regex = re.compile(expression)
    except re.error as error:
        msg = f"{key}: {pattern!r} is no regular expression: {error}"
        raise InputError(msg) from None
    return lambda name: regex.match(name) is not None


def _meant(name: str, plain: set[str]) -> bool:
    parts = name.split(".")
    if not plain:
        return False
    ends = range(1, len(parts) + 1)
    return any(".".join(parts[start:end]) in plain for start in range(len(parts)) for end in ends if start < end)


def _unwrapped(name: str) -> str:
    """A name without the wrappers of the language model, where only they stand before its layers, embedding or LM head.

    >>> _unwrapped("model.language_model.layers.3.mlp"), _unwrapped("model.vision_tower.layers.3.mlp"), _unwrapped("lm_head")
    ('layers.3.mlp', 'model.vision_tower.layers.3.mlp', 'lm_head')
    >>> _unwrapped("language_model.lm_head"), _unwrapped("language_model.model.embed_tokens"), _unwrapped("model.norm")
    ('lm_head', 'embed_tokens', 'model.norm')
    """
    parts = name.split(".")
    start = next((index for index, part in enumerate(parts) if part not in _WRAPPERS), 0)
    return ".".join(parts[start:]) if parts[start].rstrip("*") in _OUTERMOST else name


def _wrapped(test: Match) -> Match:
    """A test of a name as a multimodal checkpoint spells it, which has the language model inside a wrapper."""

    def match(name: str) -> bool:
        inner = _unwrapped(name)
        return any(test(f"{wrapper}{part}") for wrapper in _NESTED for part in (inner, f"model.{inner}"))

    return match
