"""Claims and statements: stated numbers with their setting, and numbers as people write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal

from roofline import formatting
from roofline.blocks.model import Model
from roofline.errors import InputError
from roofline.specs.hardware import Hardware
from roofline.specs.source import Assumption

ClaimKind = Literal["tokens_per_s", "ttft", "tpot", "fits", "peak_flops"]
Scope = Literal["total", "user", "gpu"]
ClaimPhase = Literal["decode", "prefill"]

UNITS: dict[ClaimKind, str] = {"tokens_per_s": "tok/s", "ttft": "s", "tpot": "s", "fits": "B", "peak_flops": "FLOP/s"}
_STATED = 10
"""Digits of a stated number: as it was stated."""
_TIMES = ("ttft", "tpot")
NUMBER = r"(?:\d[\d_]*(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?|\.\d+)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One stated number.

    Attributes:
        kind: the quantity: a rate, TTFT, TPOT, a peak, or that the model fits.
        value: in token/s, s or FLOP/s; None for `fits`.
        scope: of a rate, whose tokens it counts: of the whole batch, of one user, of one device.
        phase: of a rate, which tokens: generated ones, or those of prompts.
        sparse: whether a peak is stated with structured sparsity.
        rounding: largest relative error that rounding to the stated digits can have made.
    """

    kind: ClaimKind
    value: float | None = None
    scope: Scope = "total"
    phase: ClaimPhase = "decode"
    sparse: bool = False
    rounding: float = field(default=0.0, compare=False)

    @property
    def is_time(self) -> bool:
        """Whether the claim is about a time (TTFT, TPOT): then a smaller value claims more."""
        return self.kind in _TIMES

    @property
    def unit(self) -> str:
        """The unit of `value` and of the ceiling: `tok/s` (with `/user` or `/GPU`), `s`, `B` or `FLOP/s`."""
        suffix = {"total": "", "user": "/user", "gpu": "/GPU"}[self.scope] if self.kind == "tokens_per_s" else ""
        return UNITS[self.kind] + suffix

    def format_value(self, value: float, digits: int = 4) -> str:
        """Text of a value with its unit, such as `3,500 tok/s per user`, `12.3 ms` or `989 TFLOP/s`.

        Args:
            value: in `unit`; for `fits` bytes.
            digits: significant digits.
        """
        if self.kind == "tokens_per_s":
            rate = formatting.number(float(f"{value:.{digits}g}"), digits)
            per = {"total": "", "user": " per user", "gpu": " per GPU"}[self.scope]
            return f"{rate}{' prompt' if self.phase == 'prefill' else ''} tok/s{per}"
        if self.kind == "fits":
            return formatting.binary(value)
        if self.kind == "peak_flops" and value >= 1e12:
            return f"{float(f'{value / 1e12:.{digits}g}'):,.10g} TFLOP/s"
        return formatting.quantity(value, self.unit, digits)

    @property
    def title(self) -> str:
        """The claim in words, such as `TTFT 10 ms`."""
        if self.kind == "fits" or self.value is None:
            return "it fits"
        name = {"ttft": "TTFT ", "tpot": "TPOT ", "peak_flops": "a peak of "}.get(self.kind, "")
        return name + self.format_value(self.value, _STATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Claims and the setting that they are about: lengths in tokens, batch in sequences. None: not stated."""

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
    prefix_hit: float | None = None
    cached_prefix: int | None = None
    deployment: Mapping[str, Any] = field(default_factory=dict)
    """Further deployment options of `analyze`, such as `context_parallel_size` or `bandwidth`."""
    notes: tuple[Assumption, ...] = ()
    """Choices made where the text could be read in several ways."""

    @property
    def cached(self) -> int | None:
        """Tokens cached before a decode step, as far as they were stated: the context, or else the prompt."""
        return self.input_len if self.context is None else self.context

    @property
    def tp_pp_dp(self) -> int:
        """Number of devices that the stated parallelism needs: tp x pp x dp x context parallelism; unstated sizes are 1."""
        return (self.tp or 1) * (self.pp or 1) * (self.dp or 1) * int(self.deployment.get("context_parallel_size", 1))


def number(text: str, scale: str | None = None) -> float:
    """The value of a number as people write it: 3,500 or 3.5 with the scale k.

    Args:
        text: digits that match `NUMBER`, with commas or underscores between thousands.
        scale: `k`, `m` or `g` in either case (decimal: 1e3, 1e6, 1e9), or nothing.
    """
    factor = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}[(scale or "").strip().lower()]
    return float(text.replace(",", "").replace("_", "")) * factor


def rounding(text: str) -> float:
    """The largest relative error of a rounded number: half a unit of its last significant digit, over the number.

    Zeros at the end of a whole number may be significant or not; they count as not, which gives at most 2 %.

    >>> rounding("4"), rounding("1.98"), rounding("4,000")
    (0.125, 0.0025252525252525255, 0.02)
    """
    plain = text.replace(",", "").replace("_", "").lower().partition("e")[0]
    whole, _, after = plain.partition(".")
    value = float(plain)
    if not value:
        return 0.0
    if after or len(whole) == 1 or not whole.endswith("0"):
        return 0.5 * 10.0 ** -len(after) / value
    return min(0.5 * 10.0 ** (len(whole) - len(whole.rstrip("0"))) / value, 0.02)


def rate_number(text: str, scale: str | None = None) -> float:
    """The value of a rate, as `number` reads it.

    Raises:
        InputError: a number such as 10.000, which is ten thousand to some and ten to others.
    """
    if not scale and re.fullmatch(r"[1-9]\d{0,2}\.\d{3}", text):
        whole = text.replace(".", ",")
        raise InputError(f"{text!r} may be {whole} or {float(text):g}: write {whole}, or {float(text):g}")
    return number(text, scale)
