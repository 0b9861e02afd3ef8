"""A value that is a number or a text in a file, and is read from its text: `8`, `8k`, `lognormal:1155:900`, `2.5 USD/h`."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema


def _text(value: object) -> object:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        return str(value)
    msg = f"must be a number or a text, not {str(value)[:60]!r}"
    raise ValueError(msg)


Scalar = Annotated[str, BeforeValidator(_text), WithJsonSchema({"type": ["number", "string"]})]
