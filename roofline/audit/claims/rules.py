"""The rules by which each kind of claim is judged: steps, that a model fits, peaks of hardware."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from roofline import formatting
from roofline.audit.claims.claim import Claim
from roofline.audit.claims.deployments import fits_engine_limits, memory_need
from roofline.audit.claims.resolved_claim import Ceiling, ResolvedClaim, Rules
from roofline.audit.claims.step_rules import DECODE, PREFILL, memory_lines, setting_assumptions
from roofline.dtypes import parse_dtype
from roofline.errors import InputError
from roofline.predict.floor import NO_OVERRIDES, Overrides
from roofline.specs.source import Assumption
from roofline.specs.workload import decode

_DENSE_ONLY = ("volta", "turing", "cdna2", "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7", "gaudi2", "gaudi3")
"""Architectures whose matrix units have no 2:4 sparsity."""
SPARSE_FACTOR = 2
"""Two of four weights are zero: twice the dense peak (NVIDIA A100 whitepaper, 2020, "Fine-Grained Structured Sparsity")."""


# That a model fits: the ceiling is the capacity of a device.


def _fits_ceiling(resolved: ResolvedClaim) -> Ceiling:
    statement = resolved.statement
    cached = (statement.input_len or 0) + (statement.output_len or 0) if statement.context is None else statement.context
    batch, length = statement.batch or 1, max(cached, 1)

    def ceilings() -> Iterator[Ceiling]:
        for split, request in resolved.requests():
            need = memory_need(request, batch, length, resolved.overrides.cache)
            engine_fits = fits_engine_limits(request, decode(batch, length - 1), resolved.overrides.cache)
            yield Ceiling(
                value=need.capacity, devices=resolved.devices, split=split, request=request, batch=batch, length=length,
                need=need, engine_fits=engine_fits,
            )  # fmt: skip

    def lack(ceiling: Ceiling) -> tuple[float, bool]:
        assert ceiling.need is not None  # noqa: S101 - narrows the type
        return ceiling.need.bytes / ceiling.need.capacity, not ceiling.engine_fits

    return min(ceilings(), key=lack)


def _derive_fits(resolved: ResolvedClaim, ceiling: Ceiling) -> list[str]:
    return [] if ceiling.need is None else memory_lines(ceiling.need, resolved.devices)


def _assume_fits(resolved: ResolvedClaim, ceiling: Ceiling) -> list[Assumption]:
    statement = resolved.statement
    stated = statement.context is not None or statement.input_len is not None
    notes = [
        Assumption("batch", ceiling.batch, *(("given", "") if statement.batch else ("assumed", "not stated: one sequence"))),
        Assumption(
            "context", ceiling.length, "given" if stated else "assumed",
            "tokens of a sequence" if stated else "not stated: one token",
        ),
        Assumption("memory_use", "all of it", "assumed", "nothing reserved, no activations, no offloading to the host"),
    ]  # fmt: skip
    return [*notes, *(note for note in setting_assumptions(resolved, ceiling) if note.name != "overlap")]


# Peaks of hardware.


def sparse_factor(resolved: ResolvedClaim) -> int:
    """The factor of 2:4 structured sparsity on the dense peak of the hardware: 2, or 1 where its matrix units have none."""
    return 1 if resolved.hardware.accelerator.architecture in _DENSE_ONLY else SPARSE_FACTOR


def dense_peaks(resolved: ResolvedClaim) -> dict[str, float]:
    """Dense matrix peak in FLOP/s by dtype, summed over all devices."""
    return {dtype: peak * resolved.devices * resolved.overrides.peak for dtype, peak in resolved.hardware.peaks.items()}


def _peak_ceiling(resolved: ResolvedClaim) -> Ceiling:
    peaks, stated = dense_peaks(resolved), resolved.statement.dtype
    if stated is None:
        dtype = max(peaks, key=lambda name: peaks[name])
    else:
        dtype = stated if stated in peaks else parse_dtype(stated).name
        resolved.hardware.peak(dtype)  # says what there is, where this is not
    factor = sparse_factor(resolved) if resolved.claim.sparse else 1
    return Ceiling(value=peaks[dtype] * factor, devices=resolved.devices, dtype=dtype)


def _derive_peak(resolved: ResolvedClaim, ceiling: Ceiling) -> list[str]:
    assert ceiling.dtype is not None  # noqa: S101 - narrows the type
    assert ceiling.value is not None  # noqa: S101
    accelerator = resolved.hardware.accelerator
    rate = accelerator.peak_flops[ceiling.dtype]
    factors = f"{resolved.devices} x " * (resolved.devices > 1)
    factors += f"{SPARSE_FACTOR} (sparse) x " * (resolved.claim.sparse and sparse_factor(resolved) > 1)
    whole = f" = {resolved.claim.format_value(ceiling.value)}" if factors else ""
    lines = [f"dense {ceiling.dtype} peak: {factors}{resolved.claim.format_value(rate.value)}{whole}"]
    if (check := accelerator.check) is not None and check.dtype == ceiling.dtype:
        units, clock = accelerator.compute_units, accelerator.tensor_clock or accelerator.boost_clock
        if units is not None and clock is not None:
            flops = units.value * clock.value * check.fma_per_unit_clock * 2
            lines.append(
                f"{units.value:,.0f} units x {formatting.quantity(clock.value, 'Hz')} x {check.fma_per_unit_clock:,} FMA x 2 = "
                f"{formatting.quantity(flops, 'FLOP/s')}"
            )
    lines.append(f"source: {accelerator.sources[rate.source].title}")
    return lines


def _assume_peak(resolved: ResolvedClaim, ceiling: Ceiling) -> list[Assumption]:
    if resolved.statement.dtype:
        notes = [Assumption("dtype", ceiling.dtype, "given", "")]
    else:
        notes = [Assumption("dtype", ceiling.dtype, "assumed", "not stated: the dtype with the highest dense peak")]
    if resolved.claim.sparse:
        none = (
            "its matrix units have none" if sparse_factor(resolved) == 1 else "two of four weights zero: twice the dense peak"
        )
        notes.append(Assumption("sparsity", "2:4", "given", none))
    else:
        notes.append(Assumption("sparsity", "none", "default", "peaks are dense unless the claim says sparse"))
    return notes


FITS = Rules(ceiling=_fits_ceiling, derive=_derive_fits, assume=_assume_fits)
PEAK = Rules(ceiling=_peak_ceiling, derive=_derive_peak, assume=_assume_peak)


def rules_of(claim: Claim) -> Rules:
    """The functions that judge this kind of claim."""
    if claim.kind == "tokens_per_s":
        return PREFILL if claim.phase == "prefill" else DECODE
    return {"tpot": DECODE, "ttft": PREFILL, "fits": FITS, "peak_flops": PEAK}[claim.kind]


def ceiling_of(resolved: ResolvedClaim) -> Ceiling:
    """The best figure that any kernels on the claim's hardware could reach.

    Raises:
        InputError: TTFT without a prompt length, no model, or no way to divide it over the devices.
        UnknownNameError: a dtype that the hardware has no peak for.
    """
    return rules_of(resolved.claim).ceiling(resolved)


def read_as(
    resolved: ResolvedClaim, *, overrides: Overrides = NO_OVERRIDES, options: dict[str, Any] | None = None, **changes: Any
) -> Ceiling | None:
    """The ceiling under another reading of the claim; None where that is invalid or does not fit.

    Args:
        resolved: the claim as it was read.
        overrides: factors and assumptions of the other reading.
        options: further options of `analyze`, added to those of the claim.
        **changes: replace fields of the claim (`scope`, `phase`, `sparse`) and of its statement.
    """
    of_claim = {name: changes.pop(name) for name in ("scope", "phase", "sparse") if name in changes}
    other = replace(
        resolved,
        claim=replace(resolved.claim, **of_claim),
        statement=replace(resolved.statement, **changes),
        overrides=overrides,
        options=resolved.options | (options or {}),
    )
    try:
        ceiling = ceiling_of(other)
    except InputError:
        return None
    unfit = ceiling.need is not None and not ceiling.need.fits and resolved.claim.kind == "fits"
    return None if unfit or ceiling.value is None or (resolved.by_engine and not ceiling.engine_fits) else ceiling
