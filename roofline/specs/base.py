"""What all specs share: frozen pydantic models that refuse unknown keys, and the types of their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Strict,
    TypeAdapter,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, core_schema

# A whole number as a file writes it: not true, not "768", not 768.0.
Whole = Annotated[int, Strict()]


class Spec(BaseModel):
    """A frozen section of a file. An unknown key is an error, never ignored."""

    # Validators are built when first used: a command pays for the specs that it reads, not for all of them.
    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True, defer_build=True)


_TYPES = {"bool": "true or false", "int": "a whole number", "float": "a number", "decimal": "a number", "string": "a text"}


def requirement(detail: Mapping[str, Any]) -> str:
    """Return what a value must be, by one entry of the `errors()` of a pydantic error.

    >>> requirement({"type": "bool_parsing", "msg": "Input should be a valid boolean, unable to interpret input"})
    'must be true or false'
    >>> requirement({"type": "greater_than", "msg": "Input should be greater than 0"})
    'must be greater than 0'
    """
    kind, _, _ = str(detail["type"]).partition("_")
    if kind in _TYPES and detail["type"].endswith(("_type", "_parsing", "_from_float")):
        return f"must be {_TYPES[kind]}"
    text = str(detail["msg"]).removeprefix("Value error, ")
    return re.sub(r"^\w+ should ", "must ", text)


def _text(value: object) -> object:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        return str(value)
    msg = f"must be a number or a text, not {str(value)[:60]!r}"
    raise ValueError(msg)


Scalar = Annotated[str, BeforeValidator(_text), WithJsonSchema({"type": ["number", "string"]})]
"""A value that is a number or a text in a file, and is read from its text: `8`, `8k`, `lognormal:1155:900`, `2.5 USD/h`."""


class AnyOf:
    """The annotation of a section that is of one of several classes, told apart by a key.

    A class is looked up, and its validator built, when a file names it: a command pays for the kinds that it reads, and
    those of other packages are among them.

    Args:
        key: the key whose value names the class.
        find: the class that a value of the key names; None where there is none.
        every: all classes, for the message where none is named and for the JSON schema.
    """

    def __init__(self, key: str, find: Callable[[str], type[Spec] | None], every: Callable[[], Iterable[type[Spec]]]) -> None:
        self.key, self._find, self._every = key, find, every

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(self._union().core_schema)

    def _validate(self, value: Any) -> Any:
        tag = value.get(self.key) if isinstance(value, dict) else getattr(value, self.key, None)
        section = self._find(tag) if isinstance(tag, str) else None
        return (self._union() if section is None else _one(self.key, tag, section)).validate_python(value)

    def _union(self) -> TypeAdapter[Any]:
        union: Any = Annotated[reduce(or_, self._every()), Field(discriminator=self.key)]
        return TypeAdapter(union)


@cache
def _one(key: str, tag: str, section: type[Spec]) -> TypeAdapter[Any]:
    """The validator of one class, which names it in the places of errors as a union of all would."""
    section.model_rebuild()  # older versions of pydantic do not build a class for writing when it stands in another
    tagged: Any = Annotated[section, _Tagged(key, tag)]
    return TypeAdapter(tagged)


class _Tagged:
    def __init__(self, key: str, tag: str) -> None:
        self.key, self.tag = key, tag

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.tagged_union_schema({self.tag: handler(source)}, discriminator=self.key)
