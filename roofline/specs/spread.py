"""How much further an estimate may be off that stands on measurements of something else. `hardware/fits/_spread.yaml`."""

from __future__ import annotations

from datetime import date
from typing import Literal

from pydantic import Field

from roofline.specs.base import Spec


class Allowance(Spec):
    """Natural logarithms of the factor that 80 % of estimates stay within, beyond the band of the fit itself."""

    backend: float = Field(ge=0, description="kernels of another backend on the same accelerator")
    formats: float = Field(ge=0, description="the same kernel in other formats")
    architecture: float = Field(ge=0, description="another accelerator of the same architecture")
    accelerator: float = Field(ge=0, description="an accelerator of another architecture")


class Spread(Spec):
    """Allowances by op; `all` where an op has none of its own."""

    schema_version: Literal[1]
    kind: Literal["spread"]
    measured: date
    allowances: dict[str, Allowance]
    doubling: float = Field(ge=0, description="for each doubling beyond the range that was measured")
