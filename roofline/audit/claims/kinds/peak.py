"""Peaks that are stated of hardware."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline import formatting
from roofline.audit.claims.kinds.base import Shape
from roofline.audit.claims.roof import Roof
from roofline.dtypes import parse_dtype
from roofline.specs.assumption import Assumption

if TYPE_CHECKING:
    from roofline.audit.claims.case import Case

# Architectures whose matrix units have no 2:4 sparsity, and formats that never have it.
_DENSE_ONLY = ("volta", "turing", "cdna2", "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7", "gaudi2", "gaudi3")
SPARSE = 2
"""Two of four weights are zero: twice the dense peak (NVIDIA A100 whitepaper, 2020, "Fine-Grained Structured Sparsity")."""


def sparse_factor(case: Case) -> int:
    """What structured sparsity adds to a dense peak."""
    return 1 if case.hardware.accelerator.architecture in _DENSE_ONLY else SPARSE


def dense_peaks(case: Case) -> dict[str, float]:
    """Dense peak by dtype, of all devices together."""
    return {dtype: peak * case.devices * case.twist.peak for dtype, peak in case.hardware.peaks.items()}


def _roof(case: Case) -> Roof:
    peaks, named = dense_peaks(case), case.statement.dtype
    if named is None:
        dtype = max(peaks, key=lambda name: peaks[name])
    else:
        dtype = named if named in peaks else parse_dtype(named).name
        case.hardware.peak(dtype)  # says what there is, where this is not
    factor = sparse_factor(case) if case.claim.sparse else 1
    return Roof(value=peaks[dtype] * factor, devices=case.devices, dtype=dtype)


def _derive(case: Case, found: Roof) -> list[str]:
    assert found.dtype is not None  # noqa: S101 - narrows the type
    assert found.value is not None  # noqa: S101
    rate = case.hardware.accelerator.peak_flops[found.dtype]
    factors = f"{case.devices} x " * (case.devices > 1) + f"{SPARSE} (sparse) x " * (
        case.claim.sparse and sparse_factor(case) > 1
    )
    whole = f" = {case.claim.written(found.value)}" if factors else ""
    lines = [f"dense {found.dtype} peak: {factors}{case.claim.written(rate.value)}{whole}"]
    if (check := case.hardware.accelerator.check) is not None and check.dtype == found.dtype:
        units, clock = (
            case.hardware.accelerator.compute_units,
            case.hardware.accelerator.tensor_clock or case.hardware.accelerator.boost_clock,
        )
        if units is not None and clock is not None:
            lines.append(
                f"{units.value:,.0f} units x {formatting.quantity(clock.value, 'Hz')} x {check.fma_per_unit_clock:,} FMA x 2 = "
                f"{formatting.quantity(units.value * clock.value * check.fma_per_unit_clock * 2, 'FLOP/s')}"
            )
    lines.append(f"source: {case.hardware.accelerator.sources[rate.source].title}")
    return lines


def _assume(case: Case, found: Roof) -> list[Assumption]:
    said = case.statement.dtype
    why = "not stated: the dtype with the highest dense peak"
    notes = [Assumption("dtype", found.dtype, "given" if said else "assumed", "" if said else why)]
    if case.claim.sparse:
        none = "its matrix units have none" if sparse_factor(case) == 1 else "two of four weights zero: twice the dense peak"
        notes.append(Assumption("sparsity", "2:4", "given", none))
    else:
        notes.append(Assumption("sparsity", "none", "default", "peaks are dense unless the claim says sparse"))
    return notes


SHAPE = Shape(judges=(("peak_flops", "decode"), ("peak_flops", "prefill")), roof=_roof, derive=_derive, assume=_assume)
