"""What somebody states: a claim, and the setting that it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal

from roofline import formatting
from roofline.blocks.model import Model
from roofline.specs.assumption import Assumption
from roofline.specs.hardware import Hardware

ClaimKind = Literal["tokens_per_s", "ttft", "tpot", "fits", "peak_flops"]
Scope = Literal["total", "user", "gpu"]
ClaimPhase = Literal["decode", "prefill"]

UNITS: dict[ClaimKind, str] = {"tokens_per_s": "tok/s", "ttft": "s", "tpot": "s", "fits": "B", "peak_flops": "FLOP/s"}
_TIMES = ("ttft", "tpot")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One number that is stated, in base units; `fits` has none.

    `scope` says whose tokens a rate counts: of the whole batch, of one user, of one device. `phase` says which tokens:
    generated ones, or those of prompts. `sparse` says that a peak is stated with structured sparsity.
    """

    kind: ClaimKind
    value: float | None = None
    scope: Scope = "total"
    phase: ClaimPhase = "decode"
    sparse: bool = False
    rounding: float = field(default=0.0, compare=False)
    """How far the figure may be from what it was rounded from, as a share of it."""

    @property
    def is_time(self) -> bool:
        """Whether less is bolder."""
        return self.kind in _TIMES

    @property
    def unit(self) -> str:
        """The unit of `value`, and of the ceiling: a base unit."""
        suffix = {"total": "", "user": "/user", "gpu": "/GPU"}[self.scope] if self.kind == "tokens_per_s" else ""
        return UNITS[self.kind] + suffix

    def written(self, value: float) -> str:
        """A figure of this kind, as a person reads it."""
        if self.kind == "tokens_per_s":
            rate = f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
            per = {"total": "", "user": " per user", "gpu": " per GPU"}[self.scope]
            return f"{rate}{' prompt' if self.phase == 'prefill' else ''} tok/s{per}"
        if self.kind == "fits":
            return formatting.binary(value)
        if self.kind == "peak_flops" and value >= 1e12:
            return f"{float(f'{value / 1e12:.5g}'):,g} TFLOP/s"
        return formatting.quantity(value, self.unit)

    @property
    def title(self) -> str:
        """The claim in words."""
        if self.kind == "fits" or self.value is None:
            return "it fits"
        name = {"ttft": "TTFT ", "tpot": "TPOT ", "peak_flops": "a peak of "}.get(self.kind, "")
        return name + self.written(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A setting and the claims about it. What is None was left unsaid."""

    claims: tuple[Claim, ...]
    model: str | PathLike[str] | Model | None = None
    hardware: str | PathLike[str] | Hardware | None = None
    batch: int | None = None
    input_len: int | None = None
    output_len: int | None = None
    context: int | None = None
    dtype: str | None = None
    kv_cache_dtype: str | None = None
    quantization: str | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    ep: int | None = None
    devices: int | None = None
    deployment: Mapping[str, Any] = field(default_factory=dict)
    """Further options of `analyze` that say on what it runs, such as `context_parallel_size` or `bandwidth`."""
    notes: tuple[Assumption, ...] = ()
    """What was read in one of several ways."""

    @property
    def cached(self) -> int | None:
        """Tokens cached before a decode step, as far as they were stated: the context, or else the prompt."""
        return self.input_len if self.context is None else self.context

    @property
    def tp_pp_dp(self) -> int:
        """Devices that the stated sizes make, context parallelism included."""
        return (self.tp or 1) * (self.pp or 1) * (self.dp or 1) * int(self.deployment.get("context_parallel_size", 1))
