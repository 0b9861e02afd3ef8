"""Least squares of a form's parameters against measured kernels, on the logarithm of the ratio."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.predict.efficiency.form import Form

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

# Relative errors beyond this count linearly, not squared: a fit follows the many, not the outliers.
KNEE = 0.05
# What the data say nothing of stays near its start: to stray by the factor LOOSE counts as much as if all rows were off by
# 0.1 %, which no row that tells anything would notice.
LOOSE, UNNOTICED = 100.0, 0.001


@dataclass(frozen=True)
class Solution:
    """Fitted values, and how well the data determine each: the factor within which it lies (standard error)."""

    values: dict[str, float]
    factors: dict[str, float]
    cost: float


def solve(form: Form, predict: Callable[[dict[str, Any]], Array], measured: Array, starts: dict[str, float]) -> Solution:
    """Fit the parameters of `starts`, which are those to fit; all others are up to `predict`."""
    import numpy as np
    from scipy.optimize import least_squares

    known = {parameter.name: parameter for parameter in form.parameters}
    names = list(starts)
    low, high = (np.log([getattr(known[name], side) for name in names]) for side in ("low", "high"))
    first = np.clip(np.log([starts[name] for name in names]), low + 1e-6, high - 1e-6)
    prior = np.sqrt(len(measured)) * UNNOTICED / np.log(LOOSE)

    def residuals(point: Array) -> Array:
        ratio = np.log(predict(dict(zip(names, np.exp(point), strict=True))) / measured)
        return np.concatenate([ratio, prior * (point - first)])

    found = least_squares(residuals, first, bounds=(low, high), loss="soft_l1", f_scale=KNEE, x_scale=1.0, max_nfev=200)
    curvature = found.jac.T @ found.jac
    scale = max(2 * found.cost / max(len(measured) - len(names), 1), KNEE**2)  # no form is better than its kernels' noise
    errors = np.sqrt(np.abs(np.diag(np.linalg.pinv(curvature))) * scale)
    return Solution(
        dict(zip(names, np.exp(found.x).tolist(), strict=True)),
        dict(zip(names, np.exp(np.minimum(errors, 50)).tolist(), strict=True)),
        float(found.cost),
    )
