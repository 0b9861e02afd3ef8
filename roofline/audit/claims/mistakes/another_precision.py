"""A narrower number format than the one that is stated, or than the model's own."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.audit.claims.case import Case
from roofline.audit.claims.kinds.peak import dense_peaks
from roofline.audit.claims.mistakes.base import TIMED, Mistake, first_enough
from roofline.audit.claims.result import LikelyMistake
from roofline.audit.claims.roof import Roof
from roofline.dtypes import FORMATS

_NARROWER = ("fp8", "int8", "int4")


def _explain(case: Case, roof: Roof, ratio: float) -> LikelyMistake | None:
    del ratio
    if case.claim.kind == "peak_flops":
        return _peak(case, roof)
    request = roof.request
    if request is None:
        return None
    own = request.precision.dtypes("linear").weight.bytes

    def readings() -> Iterator[tuple[str, Roof | None]]:
        if request.precision.kv.bytes > 1 and case.cache_matters(roof):
            yield "an fp8 KV cache", case.read_as(kv_cache_dtype="fp8")
        for dtype in _NARROWER:
            if FORMATS[dtype].bytes < own:
                yield f"{dtype} weights", case.read_as(dtype=dtype, quantization=None)
                yield f"{dtype} weights and an fp8 KV cache", case.read_as(dtype=dtype, quantization=None, kv_cache_dtype="fp8")

    if case.claim.kind == "fits":
        return _fits(readings())
    found = first_enough(case, readings())
    if found is None or found[1].value is None:
        return None
    words, other = found
    why = f"it is possible with {words}, where the ceiling is {case.claim.written(found[1].value)}"
    return LikelyMistake(name="another precision", why=why, figure=other.value, closeness=case.ratio(found[1].value))


def _peak(case: Case, roof: Roof) -> LikelyMistake | None:
    for dtype, peak in dense_peaks(case).items():
        if dtype != roof.dtype and abs((closeness := case.ratio(peak)) - 1) < max(0.03, case.claim.rounding):
            why = f"it is the dense {dtype} peak, {case.claim.written(peak)}"
            return LikelyMistake(name="another precision", why=why, figure=peak, closeness=closeness)
    return None


def _fits(readings: Iterator[tuple[str, Roof | None]]) -> LikelyMistake | None:
    for words, roof in readings:
        if roof is not None and roof.need is not None:
            why = f"it fits with {words}"
            return LikelyMistake(
                name="another precision", why=why, figure=roof.need.bytes, closeness=roof.need.bytes / roof.need.capacity
            )
    return None


MISTAKE = Mistake(name="another precision", kinds=(*TIMED, "fits", "peak_flops"), explain=_explain, order=20)
