"""What an object is made of: the fields of a dataclass or of a Pydantic model."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

REQUIRED = object()
"""In the place of a default value: there is none."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field's default value, or the function that makes one."""

    default: object = REQUIRED
    factory: Any = None


def fields(cls: type) -> dict[str, Field] | None:
    """The fields of a class in the order in which its constructor takes them; None of a class without."""
    if issubclass(cls, BaseModel):
        return {name: _of_model(info) for name, info in cls.model_fields.items()}
    if not dataclasses.is_dataclass(cls):
        return None
    known = {entry.name: entry for entry in dataclasses.fields(cls)}
    return {name: _of_dataclass(known[name]) for name in inspect.signature(cls).parameters}


def _of_model(info: FieldInfo) -> Field:
    if info.default_factory is not None:
        return Field(factory=info.default_factory)
    return Field() if info.is_required() else Field(info.default)


def _of_dataclass(entry: dataclasses.Field[Any]) -> Field:
    if entry.default_factory is not dataclasses.MISSING:
        return Field(factory=entry.default_factory)
    return Field() if entry.default is dataclasses.MISSING else Field(entry.default)
