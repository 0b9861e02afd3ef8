"""The interval round an estimate: measured quantiles of the fit's own error, wider for what was not measured.

`low` and `high` hold 80 % of the measurements of shapes that the fit had not seen, in the regime of the estimate. What
stands on measurements of something else (other formats, another backend, another accelerator) or lies beyond the measured
range has an allowance more: logarithms of the factors add in squares, as independent errors do.
"""

from __future__ import annotations

import math

from roofline.numeric import Expr, log2, maximum, minimum
from roofline.predict.efficiency.fits import Fitted
from roofline.predict.efficiency.form import Operators
from roofline.specs.fit import Regime
from roofline.specs.spread import Allowance, Spread

# An estimate of what nobody has measured at all: from a third to three times.
UNKNOWN = (1 / 3, 3.0)
MOST_DOUBLINGS = 10
"""Of the distance from the measured range: the band does not grow for ever."""
ANOTHER_VENDOR = math.log(2)
"""Nobody has measured how far kernels of one vendor tell those of another: a factor of two, which is a guess."""


def shares(op: str, operators: Operators, seconds: Expr) -> dict[Regime, Expr]:
    """Which regime an estimate is in: 1 of it, 0 of the others. Products by their rows m, everything else by its time.

    >>> shares("add", {}, 2e-5)
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
    found: dict[str, Expr] = {}
    for name, (low, high) in fitted.family.range.items():
        if (value := dims.get(name)) is not None:
            outside = maximum(maximum(max(low, 1) / maximum(value, 1), maximum(value, 1) / max(high, 1)), 1)
            found[name] = log2(outside)
    return found


def factors(
    op: str, fitted: Fitted, operators: Operators, seconds: Expr, spread: Spread, *, other_backends: bool
) -> tuple[Expr, Expr]:
    """Measured/estimate at the two ends of the interval. `other_backends`: it is to hold the kernels of all of them."""
    bands = fitted.family.bands
    all_of_them = bands.get("all") or next(iter(bands.values()))
    inside = shares(op, operators, seconds)
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
