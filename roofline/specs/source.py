"""Where a number comes from: the source of a fact in a hardware file, the origin of an assumption in a result."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated, ClassVar, Literal

from pydantic import Field, WithJsonSchema, field_validator

from roofline.errors import UnitError
from roofline.specs.base import Spec
from roofline.units import parse_quantity

Grade = Literal["A", "B", "C"]


class Source(Spec):
    """A document that numbers were read in."""

    title: str = Field(description="what the document is")
    url: str = Field(default="", description="where it is")
    read: date | None = Field(default=None, description="date on which it was read, or its own date")


class Fact(Spec):
    """A positive number in base units, its source, and a grade of how far it can be trusted. A file writes it with its unit."""

    unit: ClassVar[str]

    value: Annotated[float, WithJsonSchema({"type": "string", "description": "the number, with its unit"})]
    source: str = Field(description="a key of `sources`")
    grade: Grade = Field(
        default="B", description="A: two independent sources agree; B: one source; C: from memory, not checked against a source"
    )
    note: str = Field(default="", description="what a reader should know about the number")

    @field_validator("value", mode="before")
    @classmethod
    def _parse(cls, value: object) -> object:
        try:
            number = parse_quantity(value, cls.unit)
        except UnitError as error:  # pydantic turns a ValueError into a message with its place in the file
            raise ValueError(str(error)) from None
        if number == 0:
            msg = f"{value!r} is no figure: leave the key out where nothing is known"
            raise ValueError(msg)
        return number


class ComputeRate(Fact):
    """A compute rate in FLOP/s, or OP/s for integers."""

    unit = "FLOP/s"
    accumulate: str = Field(default="", description="dtype in which products are summed")


class Bandwidth(Fact):
    """A bandwidth in byte/s; of links in one direction."""

    unit = "byte/s"


class Capacity(Fact):
    """A capacity in bytes."""

    unit = "byte"


class Clock(Fact):
    """A clock in Hz."""

    unit = "Hz"


class Power(Fact):
    """A power in W."""

    unit = "W"


class Count(Fact):
    """A count, at least 1; has no unit."""

    unit = ""
    value: Annotated[float, WithJsonSchema({"type": "integer", "minimum": 1, "description": "a whole number"})]

    @field_validator("value", mode="before")
    @classmethod
    def _parse(cls, value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            msg = f"must be a whole number, at least 1, not {value!r}"
            raise ValueError(msg)
        return value


Origin = Literal["given", "default", "assumed", "transferred"]


@dataclass(frozen=True, slots=True)
class Assumption:
    """A choice that shaped a result.

    Attributes:
        name: of the option or fact.
        value: that was used.
        origin: `given` by the user, a documented `default`, `assumed` because a fact was missing, or `transferred` from
            something similar.
        why: the reason, in words.
        median_error: of a fit, on what was measured and left out of it; None where there is none.
    """

    name: str
    value: object
    origin: Origin
    why: str
    median_error: float | None = None
