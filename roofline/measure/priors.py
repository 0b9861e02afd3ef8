"""The prior: what kernels reach where nothing was measured, from the fits of the cards that were measured.

The kernels of typical steps of some models are estimated on each measured card with each of its fits. Of each op, a launch, a
wait and three shares (of the matrix peak, the memory bandwidth and the link, of which the slowest decides) are fitted to them,
by least squares of logarithms, each architecture with the same weight. They are the form `shares`, which knows nothing of
tiles or compute units and therefore holds for accelerators that have none. A card of more bandwidth than any measured is taken
to wait as much less: what keeps such a memory busy has more in flight.

The interval is that of architectures that were left out: estimate over prior, the prior being fitted to the other
architectures; its quantiles leave out 10 % at each end. It is divided by regime where there are three architectures or more.
Communication over PCIe was measured in one host: nothing can be left out, and others are slower by up to `HOSTS`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from roofline.errors import RooflineError
from roofline.graph.build import build
from roofline.predict.bounds import times
from roofline.predict.efficiency.estimate import HOSTS, Estimator, regime_shares
from roofline.predict.efficiency.fits import LINKED, OVER_HOST, Fits
from roofline.predict.efficiency.form import SHARES
from roofline.predict.efficiency.kernels import kernels
from roofline.predict.request import prepare
from roofline.specs.fit import Family, Fit, HeldOut
from roofline.specs.library import fit_files, load_fit, load_hardware, load_prior
from roofline.specs.workload import Step, decode, prefill

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

MODELS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("llama-3.1-8b", {}), ("llama-3.1-8b", {"quantization": "fp8"}), ("llama-3.1-70b", {"tp": 2}),
    ("llama-3.1-70b", {"tp": 4, "quantization": "fp8"}), ("llama-3.1-70b", {"tp": 8}), ("llama-3.1-70b", {"pp": 4}),
    ("mixtral-8x7b", {}), ("qwen3-30b-a3b", {}), ("qwen3-30b-a3b", {"dp": 4, "ep": 4}),
    ("qwen3-30b-a3b", {"dp": 4, "ep": 4, "engine": "sglang"}), ("deepseek-v2-lite", {}), ("deepseek-v3", {"tp": 8}),
)  # fmt: skip
STEPS: tuple[Step, ...] = (
    prefill(1, 128), prefill(1, 1024), prefill(4, 1024), prefill(1, 8192), prefill(1, 32768),
    decode(1, 1024), decode(8, 1024), decode(8, 16384), decode(64, 1024), decode(64, 8192), decode(256, 2048),
)  # fmt: skip
ENDS = (0.1, 0.9)
RESOURCES = ("compute", "memory", "link")
NARROW = 2.0
"""How much faster than the prior communication over PCIe may be: the link allows no more."""
FEW = 20
"""Kernels of a regime below which it has no band of its own."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One kernel of a measured card: seconds by its fit, and for which each resource is busy at its peak."""

    architecture: str
    bandwidth: float
    op: str
    shape: tuple[Any, ...]
    regimes: tuple[str, ...]
    launch: float
    compute: float
    memory: float
    link: float
    seconds: float


def samples() -> list[Sample]:
    """The kernels of typical steps on every measured card, by each of its fits."""
    made: list[Sample] = []
    for card, paths in fit_files().items():
        hardware = load_hardware(card)[0]
        for path in paths:
            estimator = Estimator(Fits(hardware, load_fit(path)[0].backend))
            for model, options in MODELS:
                made += _of_model(estimator, model, options)
    return made


def _of_model(estimator: Estimator, model: str, options: dict[str, Any]) -> Iterable[Sample]:
    hardware, backend = estimator.fits.hardware, estimator.fits.backend
    try:
        request = prepare(model, hardware, ignore_capacity=True, **options)
    except RooflineError:  # no peak for these formats, no link for so many devices
        return
    for step in STEPS:
        for kernel in kernels(build(request.model, request.deployment, request.precision, step)):
            fitted = estimator.fitted(kernel)
            if fitted is None or fitted.fit is None or fitted.fit.backend != backend or fitted.origin != "fitted":
                continue
            resources = [times(operator, operator.cost(), hardware) for operator in kernel.operators.values()]
            terms = estimator.terms(kernel)
            seconds = float(terms["total"])
            dims = next(iter(kernel.operators.values())).dims()
            yield Sample(
                architecture=hardware.accelerator.architecture,
                bandwidth=hardware.bandwidth,
                op=kernel.op + OVER_HOST if kernel.op in LINKED and estimator.over_host(kernel) else kernel.op,
                shape=tuple(dims.values()),
                regimes=tuple(name for name, inside in regime_shares(kernel.op, kernel.operators, seconds).items() if inside),
                launch=float(terms.get("launch", 0.0)),
                compute=float(sum(each.matrix for each in resources)),
                memory=float(sum(each.memory for each in resources)),
                link=float(sum(each.link for each in resources)),
                seconds=seconds,
            )


def derive(kernels_seen: Iterable[Sample], without: Collection[str] = ()) -> dict[str, Family]:
    """Fit the prior of each op.

    Args:
        kernels_seen: those of `samples`.
        without: architectures that are left out.
    """
    by_op: dict[str, list[Sample]] = defaultdict(list)
    for sample in kernels_seen:
        if sample.architecture not in without:
            by_op[sample.op].append(sample)
    return {op: _family(some) for op, some in sorted(by_op.items())}


def predicted(some: list[Sample], values: dict[str, float]) -> Array:
    """Seconds of kernels by the prior, array of shape [kernels]."""
    return _seconds(_resources(some), values)


def _resources(some: list[Sample]) -> Array:
    """Seconds for which each of `RESOURCES` is busy at its peak, array of shape [3, kernels]."""
    import numpy as np

    return np.array([_column(some, name) for name in RESOURCES])


def _seconds(resources: Array, values: dict[str, float]) -> Array:
    """Seconds of kernels by the prior, from their `_resources`."""
    import numpy as np

    slowest = np.max(resources / np.array([[values[name]] for name in RESOURCES]), axis=0)
    seconds: Array = values["launch"] + values["wait"] + slowest
    return seconds


def _column(some: list[Sample], name: str) -> Array:
    import numpy as np

    return np.array([getattr(sample, name) for sample in some])


def _family(some: list[Sample]) -> Family:
    import numpy as np

    architectures = sorted({sample.architecture for sample in some})
    values, undetermined = _solve(some)
    ratios, weights = np.ones(len(some)), np.ones(len(some))
    own = np.array([sample.architecture for sample in some])
    for name in architectures:
        rest = [sample for sample in some if sample.architecture != name]
        mine = [sample for sample in some if sample.architecture == name]
        weights[own == name] = 1 / len(mine)
        if rest:
            ratios[own == name] = _column(mine, "seconds") / predicted(mine, _solve(rest)[0])
    bands = {"all": _ends(ratios, weights) if len(architectures) > 1 else (1 / NARROW, HOSTS)}
    for regime in sorted({regime for sample in some for regime in sample.regimes}) if len(architectures) > 2 else ():
        inside = np.array([regime in sample.regimes for sample in some])
        if inside.sum() >= FEW:
            bands[regime] = _ends(ratios[inside], weights[inside])
    errors = 1 / ratios - 1
    low, high = bands["all"]
    held_out = HeldOut(
        rows=len(some),
        shapes=len({sample.shape for sample in some}),
        median_ape=_quantile(abs(errors), weights, 0.5),
        mape=float(np.average(abs(errors), weights=weights)),
        bias=_quantile(errors, weights, 0.5),
        coverage=float(np.average((ratios >= low) & (ratios <= high), weights=weights)),
    )
    return Family(
        form=SHARES.name,
        parameters=values,
        undetermined=undetermined,
        rows=len(some),
        shapes=held_out.shapes,
        held_out=held_out if len(architectures) > 1 else None,
        bands=bands,
        range={"bandwidth": (min(sample.bandwidth for sample in some), max(sample.bandwidth for sample in some))},
    )


def _quantile(values: Array, weights: Array, share: float) -> float:
    import numpy as np

    order = np.argsort(values)
    below = np.cumsum(weights[order]) / weights.sum()
    return float(values[order][np.searchsorted(below, share)])


def _ends(ratios: Array, weights: Array) -> tuple[float, float]:
    return _quantile(ratios, weights, ENDS[0]), _quantile(ratios, weights, ENDS[1])


def _solve(some: list[Sample]) -> tuple[dict[str, float], tuple[str, ...]]:
    """The values of the form, and the names of those that nothing depends on."""
    import numpy as np
    from scipy.optimize import least_squares

    free = [entry for entry in SHARES.parameters if entry.name == "wait" or entry.name in RESOURCES]
    free = [entry for entry in free if entry.name == "wait" or _column(some, entry.name).max() > 0]
    rest = {entry.name: entry.start for entry in SHARES.parameters if entry not in free}
    rest["launch"] = float(np.median(_column(some, "launch")))
    measured, resources = np.log(_column(some, "seconds")), _resources(some)
    count = Counter(sample.architecture for sample in some)
    weights = np.sqrt(1 / np.array([count[sample.architecture] for sample in some]))

    def values(logarithms: Array) -> dict[str, float]:
        return rest | dict(zip([entry.name for entry in free], map(float, np.exp(logarithms)), strict=True))

    def misses(logarithms: Array) -> Array:
        wrong: Array = weights * (np.log(_seconds(resources, values(logarithms))) - measured)
        return wrong

    bounds = np.log([entry.low for entry in free]), np.log([entry.high for entry in free])
    starts = [np.log([entry.start * factor for entry in free]) for factor in (1.0, 0.5)]
    solved = [least_squares(misses, start, bounds=bounds, loss="soft_l1", f_scale=0.2) for start in starts]
    best = min(solved, key=lambda one: float(one.cost)).x
    step = 0.1
    idle = [
        entry.name for index, entry in enumerate(free)
        if np.abs(misses(best - step * (np.arange(len(free)) == index)) - misses(best)).max() < 1e-9
    ]  # fmt: skip
    return values(best), tuple(sorted({*idle, *(set(rest) - {"launch"})}))


def fit(today: date) -> Fit:
    """The prior as a fit, of no accelerator; families of published speeds (`gemm/apple`) stay as they are in the file."""
    shipped = load_prior()[0]
    published = {key: family for key, family in shipped.families.items() if "/" in key and not key.endswith(OVER_HOST)}
    return Fit(
        schema_version=1,
        kind="fit",
        accelerator="any",
        backend="prior",
        fitted=today,
        sources=shipped.sources,
        families=derive(samples()) | published,
        notes=shipped.notes,
    )
