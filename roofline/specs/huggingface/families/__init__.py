"""One file a family of models: what the keys of its configs mean. Found by walking this package."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft

Read: TypeAlias = Callable[[Config], Draft]


@dataclass(frozen=True, slots=True)
class Family:
    """A reader, the `model_type`s that it knows, and the causal language models' `architectures`."""

    name: str
    model_types: tuple[str, ...]
    architectures: tuple[str, ...]
    read: Read
    source: str
    """Where it is said what the keys mean."""


_FOUND: dict[str, Family] = {}


def family(name: str, *, types: tuple[str, ...] = (), architectures: tuple[str, ...], source: str) -> Callable[[Read], Read]:
    """Register a reader. `types` are further model_types that mean the same; `name` is one itself."""

    def register(read: Read) -> Read:
        entry = Family(name, (name, *types), architectures, read, source)
        for model_type in entry.model_types:
            if model_type in _FOUND and _FOUND[model_type].read is not read:
                msg = f"two readers of model_type {model_type!r}: {_FOUND[model_type].read.__module__} and {read.__module__}"
                raise TypeError(msg)
            _FOUND[model_type] = entry
        return read

    return register


@cache
def families() -> dict[str, Family]:
    """Families by model_type."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return dict(sorted(_FOUND.items()))


def by_architecture() -> dict[str, Family]:
    """Families by the name of the model's class."""
    return {architecture: entry for entry in families().values() for architecture in entry.architectures}


def transformers(name: str) -> str:
    """Where a family of transformers is described."""
    return f"https://huggingface.co/docs/transformers/model_doc/{name}"
