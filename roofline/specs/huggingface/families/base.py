"""What a family of configs is: the `model_type`s and classes that it reads, and its reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


def family(name: str, *, types: tuple[str, ...] = (), architectures: tuple[str, ...], source: str) -> Callable[[Read], Family]:
    """Make a family of its reader. `types` are further model_types that mean the same; `name` is one itself."""

    def with_reader(read: Read) -> Family:
        return Family(name, (name, *types), architectures, read, source)

    return with_reader


def transformers(name: str) -> str:
    """Where a family of transformers is described."""
    return f"https://huggingface.co/docs/transformers/model_doc/{name}"
