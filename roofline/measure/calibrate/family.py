"""The fit of one family: parameters, errors on shapes held out, bands by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from roofline.measure.calibrate.kernels import Kernels
from roofline.measure.calibrate.solve import Solution, solve
from roofline.measure.calibrate.split import folds, held_out
from roofline.predict.efficiency.estimate import regime_shares
from roofline.predict.efficiency.form import Form, Values
from roofline.predict.efficiency.forms import FORMS
from roofline.specs.fit import Family, HeldOut, Regime

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

FEW = 200
"""Rows below which three parameters may do better than eight: cross-validation decides."""
MOST_ROWS = 4000
"""That one fit looks at; a form has at most eight parameters."""
FOLDS = 4
FEWEST = 20
"""Rows below which a regime has no band of its own."""
FEW_FACTORS = (0.5, 2.0)
"""A band of fewer rows is at least so wide."""
CERTAIN = 1.5
"""A parameter that lies within a larger factor (standard error), or at the end of what is believed, is undetermined."""
QUANTILES = (0.1, 0.9)


@dataclass(frozen=True)
class Fitting:
    """A fitted family and what it was fitted to."""

    key: str
    family: Family
    form: Form
    factors: dict[str, float]
    """Within which each parameter lies, by its standard error."""
    train: Kernels
    test: Kernels | None


def fit(key: str, forms: Sequence[Form], rows: Kernels) -> Fitting:
    """Fit the form that suits best to the shapes that are not held out, and measure it on those that are."""
    import numpy as np

    out = held_out(rows.shapes)
    unseen = np.array([shape in out for shape in rows.shapes])
    train = rows.of(~unseen) if unseen.any() else rows
    test = rows.of(unseen) if unseen.any() else None
    solutions = [(solve_family(form, train, form.starts()), form) for form in forms]
    solution, form = min(solutions, key=lambda found: found[0].cost)
    unseen_estimate = _cross_validated(form, train, solution.values)
    if len(train.measured) < FEW and len(set(train.shapes)) > 1:
        simple = FORMS["ceilings"]
        fallback = solve_family(simple, train, simple.starts())
        estimate = _cross_validated(simple, train, fallback.values)
        if _off(estimate, train) < _off(unseen_estimate, train):
            solution, form, unseen_estimate = fallback, simple, estimate
    bands = _bands(train, unseen_estimate)
    family = Family(
        form=form.name,
        parameters=solution.values,
        undetermined=tuple(undetermined(form, solution)),
        rows=len(train.measured),
        shapes=len(set(train.shapes)),
        held_out=_errors(form, test, solution.values, bands) if test else None,
        bands=bands,
        range=train.ranges,
    )
    return Fitting(key, family, form, solution.factors, train, test)


def solve_family(form: Form, rows: Kernels, starts: Values, most: int = MOST_ROWS, fixed: Values | None = None) -> Solution:
    """The best of the fits with each setting of the form's switches; `fixed` values are left as they are."""
    some, held = rows.thinned(most), dict(fixed or {})
    switches = [entry for entry in form.parameters if entry.choices and entry.name not in held]
    found: list[Solution] = []
    for setting in product(*(entry.choices for entry in switches)):
        still = {**held, **{entry.name: choice for entry, choice in zip(switches, setting, strict=True)}}
        first = {name: value for name, value in starts.items() if name not in still}
        solution = solve(form, lambda values, still=still: some.predicted(form, {**still, **values}), some.measured, first)  # type: ignore[misc]
        found.append(
            replace(solution, values={**solution.values, **still}, factors={**solution.factors, **dict.fromkeys(still, 1.0)})
        )
    return min(found, key=lambda solution: solution.cost)


def undetermined(form: Form, solution: Solution) -> list[str]:
    """Parameters of which the data say little."""
    known = {parameter.name: parameter for parameter in form.parameters}
    return [
        name
        for name, value in solution.values.items()
        if not known[name].choices
        and (solution.factors[name] > CERTAIN or not known[name].low * 1.01 < value < known[name].high * 0.99)
    ]


def _off(estimate: Array, rows: Kernels) -> float:
    """The mean absolute logarithm of the ratio."""
    import numpy as np

    return float(np.mean(np.abs(np.log(estimate / rows.measured))))


def _cross_validated(form: Form, train: Kernels, values: Values) -> Array:
    """The estimate of each row by a fit that has not seen its shape; of a single shape by the fit itself."""
    import numpy as np

    shapes = np.array(train.shapes)
    estimate = np.full(len(shapes), np.nan)
    switches = {entry.name: values[entry.name] for entry in form.parameters if entry.choices}
    parts = folds(shapes.tolist(), min(FOLDS, len(set(shapes.tolist()))))
    if len(parts) == 1:
        estimate = train.predicted(form, values)
    for part in parts if len(parts) > 1 else ():
        unseen = np.isin(shapes, list(part))
        found = solve_family(form, train.of(~unseen), values, MOST_ROWS // 2, switches).values
        estimate[unseen] = train.of(unseen).predicted(form, found)
    return estimate


def _bands(train: Kernels, estimate: Array) -> dict[Regime, tuple[float, float]]:
    """Quantiles of measured/estimate by regime."""
    ratio = train.measured / estimate
    names = regimes(train, estimate)
    low, high = _quantiles(ratio)
    if len(ratio) < FEWEST or len(set(train.shapes)) < 2:  # too few to tell tenths of them, or none that a fit had not seen
        low, high = min(low, FEW_FACTORS[0]), max(high, FEW_FACTORS[1])
    bands: dict[Regime, tuple[float, float]] = {"all": (low, high)}
    for name in sorted(set(names.tolist())):
        if (names == name).sum() >= FEWEST and len(set(train.shapes)) > 1:
            bands[name] = _quantiles(ratio[names == name])
    return bands


def _quantiles(ratio: Array) -> tuple[float, float]:
    import numpy as np

    low, high = np.quantile(ratio, QUANTILES)
    return min(float(low), 1.0), max(float(high), 1.0)  # an interval holds its own estimate


def regimes(rows: Kernels, estimate: Array) -> Array:
    """The regime of each row, as its estimate has it."""
    import numpy as np

    found, start = [], 0
    for part in rows.parts:
        some = estimate[start : start + len(part.frame)]
        start += len(part.frame)
        inside = regime_shares(rows.op, part.operators, some)
        names = np.array(list(inside))
        found.append(names[np.argmax(np.stack(np.broadcast_arrays(*inside.values(), some)[:-1]), axis=0)])
    return np.concatenate(found)


def _errors(form: Form, test: Kernels, values: Values, bands: dict[Regime, tuple[float, float]]) -> HeldOut:
    import numpy as np

    estimate = test.predicted(form, values)
    error = estimate / test.measured - 1
    edges = np.array([bands.get(name, bands["all"]) for name in regimes(test, estimate).tolist()])
    ratio = test.measured / estimate
    return HeldOut(
        rows=len(error),
        shapes=len(set(test.shapes)),
        median_ape=float(np.median(np.abs(error))),
        mape=float(np.mean(np.abs(error))),
        bias=float(np.median(error)),
        coverage=float(np.mean((ratio >= edges[:, 0]) & (ratio <= edges[:, 1]))),
    )
