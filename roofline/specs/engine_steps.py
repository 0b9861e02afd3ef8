"""What an engine adds to the kernels of a step: a fitted, dated figure. `engines/steps/<engine>.yaml`."""

from __future__ import annotations

from datetime import date
from typing import Literal

from pydantic import Field

from roofline.numeric import Expr, log2
from roofline.specs.base import Spec, Whole
from roofline.specs.fit import Factors, Value
from roofline.specs.source import Source


class ServingErrors(Spec):
    """Errors of TPOT on deployments that the figures were not fitted on."""

    rows: Whole = Field(ge=1)
    median_ape: float = Field(ge=0)
    mape: float = Field(ge=0)
    bias: float
    coverage: float = Field(ge=0, le=1)


class EngineSteps(Spec):
    """Time of a step that kernels do not hide: scheduling, input preparation, sampling on the host, detokenisation."""

    schema_version: Literal[1]
    kind: Literal["steps"]
    engine: str
    versions: tuple[str, ...] = ()
    fitted: date
    rows: Whole = Field(ge=1, description="measured serving points that the fit has seen")
    step: Value = Field(description="seconds a step, whatever is in it")
    sequence: Value = Field(description="seconds a step for each running sequence of a replica")
    rank: Value = Field(default=0.0, description="seconds a step for each doubling of the tensor-parallel devices")
    hidden: float = Field(
        default=0.0, ge=0, le=1, description="share of the launches of kernels that is hidden behind the kernels before them"
    )
    band: Factors = Field(description="measured/estimated TPOT: 10 % and 90 % quantiles on deployments not fitted on")
    held_out: ServingErrors | None = None
    sources: tuple[Source, ...] = ()
    notes: tuple[str, ...] = ()

    def seconds(self, sequences: Expr, tensor_parallel: int) -> Expr:
        """What a step of so many sequences of a replica takes beside its kernels."""
        return self.step + self.sequence * sequences + self.rank * log2(tensor_parallel)
