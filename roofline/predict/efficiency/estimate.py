"""The estimate of a kernel and of a step: what measured kernels take, with an interval.

The ends of the interval are measured quantiles of the fit's own error: `low` and `high` hold 80 % of the measurements of shapes
that the fit had not seen, in the regime of the estimate. An estimate that rests on measurements of something else (other
formats, another backend, another accelerator), or lies beyond the measured range, has an allowance added: logarithms of the
factors add in squares, as independent errors do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from roofline.numeric import Expr, log2, maximum, minimum
from roofline.predict.bounds import times
from roofline.predict.efficiency.fits import Fits, Fitted
from roofline.predict.efficiency.form import COLD, SERVING, Conditions, Operators
from roofline.predict.efficiency.kernels import Kernel, kernel_family
from roofline.specs.fit import Allowance, Regime, Spread

_LAUNCHED_LIKE = "rmsnorm"
"""The family whose launch stands for that of a kernel that was not measured: a small one."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Seconds: the estimate, and the ends between which 80 % of measurements lie. Numbers, or arrays."""

    seconds: Expr
    low: Expr
    high: Expr

    def __mul__(self, times: Expr) -> Interval:
        return Interval(self.seconds * times, self.low * times, self.high * times)


def at_least(interval: Interval, least: Expr) -> Interval:
    """An interval of times of which none can be less than `least`, whatever a fit or a band says."""
    return Interval(maximum(interval.seconds, least), maximum(interval.low, least), maximum(interval.high, least))


NOTHING = Interval(0.0, 0.0, 0.0)


def together(parts: Iterable[Interval]) -> Interval:
    """A sum whose parts are off in the same direction: kernels of one family."""
    total = NOTHING
    for part in parts:
        total = Interval(total.seconds + part.seconds, total.low + part.low, total.high + part.high)
    return total


def independent(parts: Iterable[Interval]) -> Interval:
    """A sum whose parts are off independently: kernels of different families. Distances to the ends add in squares."""
    seconds: Expr = 0.0
    below: Expr = 0.0
    above: Expr = 0.0
    for part in parts:
        seconds = seconds + part.seconds
        below = below + (part.seconds - part.low) ** 2
        above = above + (part.high - part.seconds) ** 2
    return Interval(seconds, seconds - below**0.5, seconds + above**0.5)


@dataclass
class Estimator:
    """Estimates on one accelerator with the kernels of one backend."""

    fits: Fits
    conditions: Conditions = SERVING
    hidden: float = 0.0
    """Share of a kernel's launch that passes while the kernel before it works; none where kernels are timed alone."""
    wanted: bool = True
    """Whether estimates are wanted; without, there is the bound alone."""

    @cached_property
    def applies(self) -> bool:
        """Whether any matrix products were measured, on this accelerator or on one that may stand for it."""
        return self.wanted and self.fits.find("gemm/bf16") is not None

    def fitted(self, kernel: Kernel) -> Fitted | None:
        """The fitted family that the estimate of a kernel uses; None where none applies."""
        return self.fits.find(kernel_family(kernel.op, kernel.operators)) if kernel.op else None

    def family(self, kernel: Kernel) -> str:
        """What the errors of a kernel are shared with: those of the kernels of the same name."""
        fitted = self.fitted(kernel)
        return fitted.key if fitted else f"unmeasured {kernel.op}"

    def seconds(self, kernel: Kernel) -> Expr:
        """The estimate of one call. Dimensions may be arrays."""
        return self.terms(kernel)["total"]

    def terms(self, kernel: Kernel) -> dict[str, Expr]:
        """The parts of the estimate of one call, and `bound`, the least that it can take; the last is the total."""
        fitted, least = self.fitted(kernel), self.least(kernel)
        if fitted is None:
            terms = self.unmeasured(kernel)
        else:
            terms = fitted.form.terms(kernel.timed, self.fits.chip, self.conditions, fitted.values)
        if self.hidden and "launch" in terms:
            behind = self.hidden * terms["launch"]
            terms = {**terms, "launch": terms["launch"] - behind, "total": terms["total"] - behind}
        return {**terms, "bound": least, "total": maximum(terms["total"], least)}

    def least(self, kernel: Kernel) -> Expr:
        """Seconds that no call can beat: the bounds of the operators, one after another. Dimensions may be arrays.

        0 in a benchmark that finds in a cache what it has just used: the bound takes it from device memory. `validate` reports
        such rows as measured beneath their bound.
        """
        if self.conditions.weights != COLD or self.conditions.kv != COLD:
            return 0.0
        least: Expr = 0.0
        for operator in kernel.operators.values():
            least = least + times(operator, operator.cost(), self.fits.chip.hardware).bound
        return least

    def interval(self, kernel: Kernel) -> Interval:
        """The estimate of one call and its interval, which holds it. Dimensions may be arrays.

        Its low end may lie below the bound: bands of a step were measured with the bands of its kernels as they are, so that
        kernel by kernel nothing is cut off; the step's own low end is held at its bound, and so is that of each part shown.
        """
        terms, fitted = self.terms(kernel), self.fitted(kernel)
        seconds = terms["total"]
        if fitted is None:
            low, high = UNKNOWN_FACTORS
        else:
            any_backend = self.fits.backend is None and fitted.origin == "fitted"
            low, high = interval_factors(kernel.op, fitted, kernel.timed, seconds, self.fits.spread, other_backends=any_backend)
        return Interval(seconds, seconds * minimum(low, 1.0), seconds * maximum(high, 1.0))

    def unmeasured(self, kernel: Kernel) -> dict[str, Expr]:
        """Of a kernel like none that was measured: a launch, and its four resources one after another."""
        launches = self.fits.find(_LAUNCHED_LIKE)
        launch = launches.values.get("launch", 0.0) if launches else 0.0
        terms: dict[str, Expr] = {"launch": launch, "matrix": 0.0, "vector": 0.0, "memory": 0.0, "link": 0.0}
        for operator in kernel.operators.values():
            resources = times(operator, operator.cost(), self.fits.chip.hardware)
            for name in ("matrix", "vector", "memory", "link"):
                terms[name] = terms[name] + getattr(resources, name)
        return {**terms, "total": sum(terms.values())}

    def step(self, kernels: Iterable[Kernel]) -> tuple[Interval, dict[tuple[str, ...], Interval]]:
        """A step's kernels one after another, and each kernel's part (all its repeats), held at its bound, by its paths."""
        parts: dict[tuple[str, ...], Interval] = {}
        families: dict[str, list[Interval]] = {}
        for kernel in kernels:
            part = self.interval(kernel) * kernel.repeat
            parts[kernel.paths] = at_least(part, self.least(kernel) * kernel.repeat)
            families.setdefault(self.family(kernel), []).append(part)
        return independent(together(members) for members in families.values()), parts


UNKNOWN_FACTORS = (1 / 3, 3.0)
"""Of an estimate of what was never measured: from a third to three times."""
MOST_DOUBLINGS = 10
"""Doublings from the measured range beyond which the interval stops growing."""
ANOTHER_VENDOR = math.log(2)
"""How far kernels of one vendor predict those of another was not measured: a factor of two, which is a guess."""


def regime_shares(op: str, operators: Operators, seconds: Expr) -> dict[Regime, Expr]:
    """Which regime an estimate is in: 1 of it, 0 of the others. Products by their rows m, everything else by its time.

    >>> regime_shares("add", {}, 2e-5)
    {'<15 us': False, '15-100 us': True, '>100 us': False}
    """
    names: tuple[Regime, Regime, Regime] = ("<15 us", "15-100 us", ">100 us")
    value, first, second = seconds, 15e-6, 100e-6
    if op in ("gemm", "bmm"):
        names, value, first, second = ("m<=64", "m 65-512", "m>512"), next(iter(operators.values())).dims()["m"], 64, 512
    below = (value <= first) if op in ("gemm", "bmm") else (value < first)
    return {names[0]: below, names[1]: (value <= second) * (1 - below) == 1, names[2]: value > second}


def beyond(fitted: Fitted, operators: Operators) -> dict[str, Expr]:
    """Doublings by which dimensions lie outside the measured range (0: inside)."""
    dims = next(iter(operators.values())).dims()
    doublings: dict[str, Expr] = {}
    for name, (low, high) in fitted.family.range.items():
        if (value := dims.get(name)) is not None:
            outside = maximum(maximum(max(low, 1) / maximum(value, 1), maximum(value, 1) / max(high, 1)), 1)
            doublings[name] = log2(outside)
    return doublings


def interval_factors(
    op: str, fitted: Fitted, operators: Operators, seconds: Expr, spread: Spread, *, other_backends: bool
) -> tuple[Expr, Expr]:
    """Measured/estimate at the two ends of the interval. `other_backends`: it is to hold the kernels of all of them."""
    bands = fitted.family.bands
    all_of_them = bands.get("all") or next(iter(bands.values()))
    inside = regime_shares(op, operators, seconds)
    low = sum(math.log(bands.get(name, all_of_them)[0]) * share for name, share in inside.items())
    high = sum(math.log(bands.get(name, all_of_them)[1]) * share for name, share in inside.items())
    allowance = spread.allowances.get(op) or spread.allowances["all"]
    doublings = minimum(sum(beyond(fitted, operators).values()), MOST_DOUBLINGS)
    extra = _origin(fitted, allowance) ** 2 + (spread.doubling * doublings) ** 2
    if other_backends:
        extra = extra + allowance.backend**2
    return math.e ** -_widened(-low, extra), math.e ** _widened(high, extra)


def _widened(side: Expr, extra: Expr) -> Expr:
    """One side of the band with more in squares; a side on the wrong side of 1 keeps its place and has the more beside it."""
    right = maximum(side, 0)
    return (right * right + extra) ** 0.5 + minimum(side, 0)


def _origin(fitted: Fitted, allowance: Allowance) -> float:
    if fitted.origin == "transferred" and not fitted.same_vendor:
        return max(ANOTHER_VENDOR, allowance.accelerator)
    if fitted.origin == "transferred":
        return allowance.architecture if fitted.same_architecture else allowance.accelerator
    return {"fitted": 0.0, "assumed": 0.0, "other formats": allowance.formats, "other backend": allowance.backend}[
        fitted.origin
    ]
