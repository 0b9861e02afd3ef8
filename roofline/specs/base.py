"""What all specs share: frozen pydantic models that refuse unknown keys, and the types of their values."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Strict, WithJsonSchema

# A whole number as a file writes it: not true, not "768", not 768.0.
Whole = Annotated[int, Strict()]


class Spec(BaseModel):
    """A frozen section of a file. A key that is not known is an error, never ignored."""

    # Validators are built when first used: a command pays for the specs that it reads, not for all of them.
    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True, defer_build=True)


def _text(value: object) -> object:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        return str(value)
    msg = f"must be a number or a text, not {str(value)[:60]!r}"
    raise ValueError(msg)


Scalar = Annotated[str, BeforeValidator(_text), WithJsonSchema({"type": ["number", "string"]})]
"""A value that is a number or a text in a file, and is read from its text: `8`, `8k`, `lognormal:1155:900`, `2.5 USD/h`."""
