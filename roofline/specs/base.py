"""What all specs share: frozen pydantic models that refuse unknown keys."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Strict

# A whole number as a file writes it: not true, not "768", not 768.0.
Whole = Annotated[int, Strict()]


class Spec(BaseModel):
    """A frozen section of a file. A key that is not known is an error, never ignored."""

    # Validators are built when first used: a command pays for the specs that it reads, not for all of them.
    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True, defer_build=True)
