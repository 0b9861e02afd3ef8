"""Another card of the same name: SXM for PCIe, 80 GB for 40 GB."""

from __future__ import annotations

from dataclasses import replace

from roofline.audit.claims.case import SLACK, Case
from roofline.audit.claims.mistakes.base import TIMED, Mistake
from roofline.audit.claims.result import LikelyMistake
from roofline.audit.claims.roof import Roof
from roofline.specs.library import ids, load_hardware


def _explain(case: Case, roof: Roof, ratio: float) -> LikelyMistake | None:
    del roof, ratio
    name = case.hardware.accelerator.name
    best: LikelyMistake | None = None
    for other in ids("hardware") if case.hardware.node is None else ():
        if other == name or other.partition("-")[0] != name.partition("-")[0] or name.startswith(("rtx", "tpu", "dgx")):
            continue
        hardware, _ = load_hardware(other)
        found = replace(case, hardware=hardware).read_as()
        if found is None:
            continue
        if case.claim.kind == "fits":
            closeness = found.need.bytes / found.need.capacity if found.need and found.need.fits else None
            figure = found.need.bytes if found.need else None
        else:
            figure = found.value
            closeness = case.ratio(figure) if figure and case.ratio(figure) <= SLACK else None
            if case.claim.kind == "peak_flops" and closeness is not None and closeness < 0.97:
                closeness = None
        if closeness is not None and figure is not None and (best is None or closeness > best.closeness):
            shown = "" if case.claim.kind == "fits" else f": {case.claim.written(figure)}"
            best = LikelyMistake(
                name="another card", why=f"it is possible on {other}{shown}", figure=figure, closeness=closeness
            )
    return best


MISTAKE = Mistake(name="another card", kinds=(*TIMED, "fits", "peak_flops"), explain=_explain, order=33)
