"""Fits: what the kernels of one backend reach on one accelerator, and how far the estimate is off. `hardware/fits`.

`Spread` says how much further an estimate may be off where it was measured on something else: `hardware/fits/_spread.yaml`.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from roofline.errors import UnitError
from roofline.specs.base import Spec, Whole
from roofline.specs.source import Source
from roofline.units import parse_quantity

Regime = Literal["m<=64", "m 65-512", "m>512", "<15 us", "15-100 us", ">100 us", "all"]


def _parameter(value: object) -> object:
    """Base units: a fraction is a plain number, everything else a quantity with its unit."""
    if not isinstance(value, str):
        return value
    suffix = re.sub(r"^[\d.eE+\-\s_]+", "", value)
    unit = "FLOP/s" if "FLOP" in suffix else "byte/s" if suffix.endswith("/s") else "byte" if suffix.endswith("B") else "s"
    try:
        return float(parse_quantity(value, unit))
    except UnitError as error:
        raise ValueError(str(error)) from None


def _number(value: float) -> float:
    return float(value)  # NB: `float` itself takes pydantic ten times as long: it parses the text of its signature


Value = Annotated[float, BeforeValidator(_parameter), Field(allow_inf_nan=False, ge=0), PlainSerializer(_number)]
Factors = tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]]


class HeldOut(Spec):
    """Errors of the estimate, predicted/measured - 1, on shapes that the fit has not seen."""

    rows: Whole = Field(ge=0)
    shapes: Whole = Field(ge=0)
    median_ape: float = Field(ge=0, description="median of the absolute relative error")
    mape: float = Field(ge=0, description="mean of it")
    bias: float = Field(description="median of the error with its sign")
    coverage: float = Field(ge=0, le=1, description="share that the bands hold")


class Family(Spec):
    """The fit of one op in one combination of number formats."""

    form: str = Field(description="the formula: a name of roofline.predict.efficiency.forms")
    parameters: dict[str, Value]
    undetermined: tuple[str, ...] = Field(default=(), description="parameters that the data do not determine")
    rows: Whole = Field(ge=0, description="records that the fit has seen; none: typical values, fitted to nothing")
    shapes: Whole = Field(ge=0, description="their shapes")
    held_out: HeldOut | None = Field(default=None, description="none: there were too few shapes to hold any out")
    bands: dict[Regime, Factors] = Field(
        description="measured/estimate, its 10 % and 90 % quantiles on shapes that a fit had not seen, by regime"
    )
    range: dict[str, tuple[float, float]] = Field(description="smallest and largest value of each dimension in the records")
    worlds: tuple[Whole, ...] = Field(default=(), description="of a collective: the numbers of ranks in the records")
    per_doubling: float = Field(
        default=0.0,
        ge=0,
        description="natural logarithm of the factor by which a collective may be further off for each doubling between its "
        "ranks and the nearest in the records: by fits with each number left out",
    )

    @model_validator(mode="after")
    def _bands_ordered(self) -> Family:
        for regime, (low, high) in self.bands.items():
            if low > high:
                msg = f"bands.{regime}: the low factor {low:g} is more than the high one {high:g}"
                raise ValueError(msg)
        return self


class Fit(Spec):
    """The fitted kernels of one backend on one accelerator."""

    schema_version: Literal[1]
    kind: Literal["fit"]
    accelerator: str
    backend: str = Field(description="whose kernels, as records name it")
    versions: tuple[str, ...] = Field(default=(), description="of the backend")
    fitted: date
    sources: tuple[Source, ...] = Field(default=(), description="whose records")
    families: dict[str, Family] = Field(description="by op and formats: gemm/bf16, attention_decode/bf16/kv-fp8")
    notes: tuple[str, ...] = ()


class Allowance(Spec):
    """By how much further estimates may be off that were transferred: natural logarithms of factors.

    80 % of the transferred estimates stay within the interval of the fit widened by the factor.
    """

    backend: float = Field(ge=0, description="kernels of another backend on the same accelerator")
    formats: float = Field(ge=0, description="the same kernel in other formats")
    architecture: float = Field(ge=0, description="another accelerator of the same architecture")
    accelerator: float = Field(ge=0, description="an accelerator of another architecture")


class Spread(Spec):
    """Allowances for transferred estimates by op; `all` for ops without their own. The file is `hardware/fits/_spread.yaml`."""

    schema_version: Literal[1]
    kind: Literal["spread"]
    measured: date
    allowances: dict[str, Allowance]
    doubling: float = Field(ge=0, description="for each doubling beyond the range that was measured")
