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
    """A reader of configs, the `model_type`s that it knows, and the classes (`architectures`) of their causal language models.

    `read` takes the keys of a config and returns the model as a `Draft`. It raises a `SpecError` with the place of the key
    where one is missing, wrong, or not understood; `Config.finish` then refuses keys that it did not ask for.
    """

    name: str
    model_types: tuple[str, ...]
    architectures: tuple[str, ...]
    read: Read
    source: str
    """Where it is said what the keys mean."""


def family(name: str, *, types: tuple[str, ...] = (), architectures: tuple[str, ...], source: str) -> Callable[[Read], Family]:
    """A decorator that makes a `Family` of its reader.

    Args:
        name: of the family, and a `model_type`.
        types: further `model_type`s with the same keys.
        architectures: classes of its causal language models.
        source: URL of what explains the keys.
    """

    def with_reader(read: Read) -> Family:
        return Family(name, (name, *types), architectures, read, source)

    return with_reader


def transformers(name: str) -> str:
    """The URL of a family's page in the documentation of transformers."""
    return f"https://huggingface.co/docs/transformers/model_doc/{name}"


def vllm(name: str) -> str:
    """The URL of a model's module in vLLM, for families whose class transformers does not have."""
    return f"https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/model_executor/models/{name}.py"
