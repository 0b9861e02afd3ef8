"""What a method of quantisation makes of a config: rules for modules, from keys that are looked at one by one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from pydantic import ValidationError

from roofline.dtypes import within
from roofline.errors import InputError, UnknownNameError
from roofline.specs.huggingface.patterns import Match, any_of
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
        """Whether a module is meant."""
        return (self.roles is None or bool(self.roles & set(within(role)))) and self.matches(name)


@dataclass(frozen=True, slots=True)
class Plan:
    """Rules of which the first that holds counts, and the dtype of the KV cache."""

    rules: tuple[Rule, ...]
    kv_cache_dtype: str | None = None

    def scheme(self, name: str, role: str) -> Scheme | None:
        """How a module's weights are stored."""
        return next((rule.scheme for rule in self.rules if rule.holds(name, role)), None)


class Keys:
    """The keys of a config, handed out by name; those that nobody asked for are refused unless they are off."""

    def __init__(self, data: Mapping[str, Any], place: str = "quantization_config") -> None:
        self.data, self.place, self.asked = data, place, {"quant_method"}

    def get(self, *names: str, default: Any = None) -> Any:
        """The value under the first of the names that has one."""
        self.asked.update(names)
        return next((self.data[name] for name in names if self.data.get(name) is not None), default)

    def choice(self, *names: str, of: Collection[Any], default: Any = None) -> Any:
        """One of several values; texts in any case."""
        value = self.get(*names, default=default)
        plain = value.lower() if isinstance(value, str) else value
        # NB: Python takes true for equal to 1
        if not any(plain == one and type(plain) is type(one) for one in of):
            name = next((name for name in names if self.data.get(name) is not None), names[0])
            self.refuse(name, f"{value!r:.60} is not known; known: {', '.join(str(one) for one in of)}")
        return plain

    def flag(self, *names: str, default: bool = False) -> bool:
        """True or false."""
        return bool(self.choice(*names, of=(True, False), default=default))

    def listed(self, *names: str) -> list[Any]:
        """A list; an absent one is empty."""
        value = self.get(*names, default=[])
        if not isinstance(value, (list, tuple)):
            self.refuse(names[0], f"must be a list, not {value!r:.60}")
        return list(value)

    def left(self, *names: str) -> Rule:
        """Modules that are left as they are, whatever their role."""
        return self.named(None, self.listed(*names), names[0])

    def named(self, scheme: Scheme | None, patterns: list[Any], name: str) -> Rule:
        """A scheme for modules by their names, whatever their role."""
        return Rule(scheme, any_of(patterns, f"{self.place}.{name}"), None)

    def parts(self, name: str) -> dict[str, Keys]:
        """Objects inside an object, by name; an absent one is empty."""
        value = self.get(name, default={})
        if not isinstance(value, Mapping) or not all(isinstance(part, Mapping) for part in value.values()):
            self.refuse(name, f"must be an object of objects, not {value!r:.60}")
        return {key: Keys(part, f"{self.place}.{name}.{key}") for key, part in value.items()}

    def part(self, name: str) -> Keys | None:
        """An object inside."""
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.refuse(name, f"must be an object with keys and values, not {value!r:.60}")
        return Keys(value, f"{self.place}.{name}")

    def make(self, scheme: str, **keys: Any) -> Scheme:
        """A scheme; what its keys cannot be is refused here."""
        try:
            return schemes()[scheme].model_validate({"name": scheme, **keys})
        except ValidationError as error:
            detail = error.errors()[0]
            name = str(detail["loc"][0]) if detail["loc"] else scheme
            self.refuse(name, f"{detail['msg']}, not {detail.get('input')!r:.60}")

    def refuse(self, name: str, message: str) -> NoReturn:
        """Raise an error at a key."""
        raise InputError(f"{self.place}.{name}: {message}")

    def done(self, *harmless: str) -> None:
        """Refuse what nobody asked for, but for keys that change no size and for what is switched off."""
        for name, value in self.data.items():
            if name in self.asked or name in harmless or value in (None, False, "") or value in ([], {}):
                continue
            known = sorted({*self.asked, *harmless} - {"quant_method"})
            hint = "It may change how weights are stored; take it out if it does not."
            raise InputError(f"{self.place}: {UnknownNameError('key', name, known, hint)}")


def kv_cache(keys: Keys) -> str | None:
    """The dtype of the KV cache, from `kv_cache_scheme`. NB: AutoFP8 writes a word: how the cache's scales are found."""
    if keys.get("kv_cache_scheme") in ("static", "dynamic"):
        return "fp8"
    scheme = keys.part("kv_cache_scheme")
    if scheme is None:
        return None
    if (scheme.get("num_bits"), scheme.get("type")) != (8, "float"):
        keys.refuse("kv_cache_scheme", "is not known; known: 8 bits of type float")
    return "fp8"


@dataclass(frozen=True, slots=True)
class Method:
    """A `quant_method`: its name, and what it makes of its keys and of the dtype of weights that are not quantised."""

    name: str
    plan: Callable[[Keys, str], Plan]


def method(name: str) -> Callable[[Callable[[Keys, str], Plan]], Method]:
    """Decorate the plan of a method."""
    return partial(Method, name)
