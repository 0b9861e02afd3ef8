"""How accurate estimates are, by accelerator and engine."""

from __future__ import annotations

from generate.table import table
from roofline import analyze
from roofline.formatting import percent
from roofline.predict.efficiency.estimate import BASIS_TEXTS
from roofline.specs.fit import Family
from roofline.specs.library import fit_files, ids, load_fit, load_hardware

_HEAD = """\
# How accurate for my GPU and engine

Find your GPU in one of the two tables:

* **Measured GPUs** have fitted kernels for some engines. The table gives the median error of each kind of kernel, on shapes
  held out of the fit. A range runs from the best to the worst number format.
* **Other accelerators** have no measured kernels. Their estimates are transferred from measured GPUs of the same vendor, or
  use a prior if no accelerator of the vendor was measured. The table gives the 80 % interval of one decode step (Llama 3.1
  8B, batch 8, 1,024 cached tokens).

A server adds time to its kernels. roofline fits this time to measured servers; for models held out of the fit, the median
error of the time per output token (TPOT) is 10 %. [Accuracy](../accuracy.md) lists every series, including the worst. The
line *Estimate* of `roofline analyze` gives the basis of your own prediction. To improve it, [measure your
GPU](../add-gpu.md).
"""
_KINDS = {
    "matrix products": ("gemm",),
    "attention, prefill": ("attention_prefill", "mla_prefill"),
    "attention, decode": ("attention_decode", "mla_decode"),
    "experts": ("moe",),
    "all-reduce": ("all_reduce",),
}


def pages() -> dict[str, str]:
    """One page: measured GPUs by engine, then all other accelerators."""
    measured, others = [], []
    fits = fit_files()
    for name, path in ids("hardware").items():
        hardware, _ = load_hardware(str(path))
        if hardware.node is not None:
            continue
        for file in fits.get(name, []):
            fit, _ = load_fit(file)
            cells = [_errors(fit.families, kinds) for kinds in _KINDS.values()]
            if any(cells):
                measured.append([hardware.accelerator.title, fit.backend, ", ".join(fit.versions), *cells])
        if name not in fits:
            others.append([hardware.accelerator.title, *_basis(name)])
    parts = [
        _HEAD,
        "## Measured GPUs",
        table(["accelerator", "engine or library", "versions", *_KINDS], measured, right=range(3, 3 + len(_KINDS))),
        "## Other accelerators",
        table(["accelerator", "basis of the estimate", "80 % interval divided by the estimate"], others),
    ]
    return {"how-accurate.md": "\n\n".join(parts) + "\n"}


def _errors(families: dict[str, Family], kinds: tuple[str, ...]) -> str:
    """Median errors of the fits of these ops, from the best to the worst number format."""
    errors = [
        family.held_out.median_ape
        for key, family in families.items()
        if key.partition("/")[0] in kinds and family.held_out is not None
    ]
    if not errors:
        return ""
    low, high = percent(min(errors), 0), percent(max(errors), 0)
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def _basis(name: str) -> tuple[str, str]:
    """The basis and the interval of the estimate of a decode step."""
    step = analyze("llama-3.1-8b", name, batch=8, phase="decode", ignore_capacity=True).decode
    if step is None or not step.time.estimate or step.time.low is None or step.time.high is None:
        return "bound only", ""
    between = f"{step.time.low / step.time.estimate:.2f} to {step.time.high / step.time.estimate:.2f}"
    return BASIS_TEXTS.get(step.estimate_basis or "", "measured"), between
