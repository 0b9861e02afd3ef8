"""The estimate of a kernel and of a step: what measured kernels take, with an interval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from roofline.numeric import Expr, maximum, minimum
from roofline.predict.bounds import times
from roofline.predict.efficiency import band, family
from roofline.predict.efficiency.fits import Fits, Fitted
from roofline.predict.efficiency.form import COLD, SERVING, Conditions
from roofline.predict.efficiency.kernels import Kernel

_LAUNCHED_LIKE = "rmsnorm"
"""The family whose launch stands for that of a kernel that nobody has measured: a small one."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Seconds: the estimate, and between what 80 % of measurements lie. Numbers, or arrays."""

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
    found = NOTHING
    for part in parts:
        found = Interval(found.seconds + part.seconds, found.low + part.low, found.high + part.high)
    return found


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
    """Whether anybody wants estimates; without, there is the bound alone."""

    @cached_property
    def applies(self) -> bool:
        """Whether any matrix products were measured, on this accelerator or on one that may stand for it."""
        return self.wanted and self.fits.find("gemm/bf16") is not None

    def fitted(self, kernel: Kernel) -> Fitted | None:
        """What the estimate of a kernel stands on."""
        return self.fits.find(family.of_kernel(kernel.op, kernel.operators)) if kernel.op else None

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
            found = self.unmeasured(kernel)
        else:
            found = fitted.form.terms(kernel.timed, self.fits.chip, self.conditions, fitted.values)
        if self.hidden and "launch" in found:
            behind = self.hidden * found["launch"]
            found = {**found, "launch": found["launch"] - behind, "total": found["total"] - behind}
        return {**found, "bound": least, "total": maximum(found["total"], least)}

    def least(self, kernel: Kernel) -> Expr:
        """Seconds that no call can beat: the bounds of the operators, one after another. Dimensions may be arrays.

        0 in a benchmark that finds in a cache what it has just used: the bound takes it from device memory. `validate` reports
        such rows as measured beneath their bound.
        """
        if self.conditions.weights != COLD or self.conditions.kv != COLD:
            return 0.0
        found: Expr = 0.0
        for operator in kernel.operators.values():
            found = found + times(operator, operator.cost(), self.fits.chip.hardware).bound
        return found

    def interval(self, kernel: Kernel) -> Interval:
        """The estimate of one call and its interval, which holds it. Dimensions may be arrays.

        Its low end may lie below the bound: bands of a step were measured with the bands of its kernels as they are, so that
        kernel by kernel nothing is cut off; the step's own low end is held at its bound, and so is that of each part shown.
        """
        terms, fitted = self.terms(kernel), self.fitted(kernel)
        seconds = terms["total"]
        if fitted is None:
            low, high = band.UNKNOWN
        else:
            any_backend = self.fits.backend is None and fitted.origin == "fitted"
            low, high = band.factors(kernel.op, fitted, kernel.timed, seconds, self.fits.spread, other_backends=any_backend)
        return Interval(seconds, seconds * minimum(low, 1.0), seconds * maximum(high, 1.0))

    def unmeasured(self, kernel: Kernel) -> dict[str, Expr]:
        """Of a kernel like none that was measured: a launch, and its four resources one after another."""
        launches = self.fits.find(_LAUNCHED_LIKE)
        launch = launches.values.get("launch", 0.0) if launches else 0.0
        found: dict[str, Expr] = {"launch": launch, "matrix": 0.0, "vector": 0.0, "memory": 0.0, "link": 0.0}
        for operator in kernel.operators.values():
            busy = times(operator, operator.cost(), self.fits.chip.hardware)
            for name in ("matrix", "vector", "memory", "link"):
                found[name] = found[name] + getattr(busy, name)
        return {**found, "total": sum(found.values())}

    def step(self, kernels: Iterable[Kernel]) -> tuple[Interval, dict[tuple[str, ...], Interval]]:
        """A step's kernels one after another, and each kernel's part (all its repeats), held at its bound, by its paths."""
        parts: dict[tuple[str, ...], Interval] = {}
        families: dict[str, list[Interval]] = {}
        for kernel in kernels:
            part = self.interval(kernel) * kernel.repeat
            parts[kernel.paths] = at_least(part, self.least(kernel) * kernel.repeat)
            families.setdefault(self.family(kernel), []).append(part)
        return independent(together(members) for members in families.values()), parts
