"""The fit of one family: parameters, errors on shapes held out, bands by cross-validation."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

from roofline.measure.records.columns import COLUMNS
from roofline.measure.records.ops import RECORD_OPS
from roofline.measure.records.row_groups import call, conditions, group_rows
from roofline.operators.base import Operator
from roofline.predict.efficiency.estimate import regime_shares
from roofline.predict.efficiency.form import Chip, Conditions, KernelForm, Parameter, Values
from roofline.predict.efficiency.forms import FORMS
from roofline.specs.fit import Family, HeldOut, Regime

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Array = NDArray[Any]

_FEW_ROWS = 200
"""Rows below which three parameters may do better than eight: cross-validation decides."""
_MAX_ROWS = 4000
"""That one fit looks at; a form has at most eight parameters."""
_FOLDS = 4
_FEWEST_ROWS = 20
"""Rows below which a regime has no band of its own."""
_FEW_FACTORS = (0.5, 2.0)
"""A band of fewer rows is at least so wide."""
_CERTAIN = 1.5
"""A parameter that lies within a larger factor (standard error), or at the end of what is believed, is undetermined."""
QUANTILES = (0.1, 0.9)


@dataclass(frozen=True)
class Fitting:
    """A fitted family, and the kernels that it was fitted to and judged by."""

    key: str
    family: Family
    form: KernelForm
    factors: dict[str, float]
    """The factor, at least 1, within which each parameter lies, by its standard error."""
    train: Kernels
    test: Kernels | None


def fit(key: str, forms: Sequence[KernelForm], rows: Kernels) -> Fitting:
    """Fit the best of several forms to the shapes that are not held out, and measure its errors on those that are.

    Args:
        key: the family's key, such as "gemm/bf16".
        forms: the candidates; for fewer than 200 rows the plain form `ceilings` is one too.
        rows: the measured kernels.

    Raises:
        ValueError: if there are no forms.
    """
    import numpy as np

    out = held_out(rows.shapes)
    unseen = np.array([shape in out for shape in rows.shapes])
    train = rows.of(~unseen) if unseen.any() else rows
    test = rows.of(unseen) if unseen.any() else None
    solutions = [(solve_family(form, train, form.starts()), form) for form in forms]
    solution, form = min(solutions, key=lambda pair: pair[0].cost)
    unseen_estimate = _cross_validated(form, train, solution.parameters)
    if len(train.measured) < _FEW_ROWS and len(set(train.shapes)) > 1:
        simple = FORMS["ceilings"]
        fallback = solve_family(simple, train, simple.starts())
        estimate = _cross_validated(simple, train, fallback.parameters)
        if _off(estimate, train) < _off(unseen_estimate, train):
            solution, form, unseen_estimate = fallback, simple, estimate
    bands = _bands(train, unseen_estimate)
    worlds = tuple(sorted({int(world) for world in train.worlds})) if "world" in train.ranges else ()
    family = Family(
        form=form.name,
        parameters=solution.parameters,
        undetermined=tuple(undetermined(form, solution)),
        rows=len(train.measured),
        shapes=len(set(train.shapes)),
        held_out=_errors(form, test, solution.parameters, bands) if test else None,
        bands=bands,
        range=train.ranges,
        worlds=worlds,
        per_doubling=_per_doubling(form, train, bands["all"]) if len(worlds) > 1 else 0.0,
    )
    return Fitting(key, family, form, solution.factors, train, test)


def solve_family(
    form: KernelForm, rows: Kernels, starts: Values, most: int = _MAX_ROWS, fixed: Values | None = None
) -> Solution:
    """The best of the fits with each setting of the form's switches (parameters that have `choices`).

    Args:
        form: its parameters are fitted.
        rows: the measured kernels.
        starts: first values of the parameters, in their units.
        most: the number of rows that are used at most; drawn at random, always the same ones.
        fixed: values of parameters that are not fitted.
    """
    some, held = rows.thinned(most), dict(fixed or {})
    switches = [entry for entry in form.parameters if entry.choices and entry.name not in held]

    def solved(setting: Sequence[float]) -> Solution:
        still = {**held, **{entry.name: choice for entry, choice in zip(switches, setting, strict=True)}}
        first = {name: value for name, value in starts.items() if name not in still}
        solution = _solve(form, lambda values: some.predicted(form, {**still, **values}), some.measured, first)
        return replace(
            solution, parameters={**solution.parameters, **still}, factors={**solution.factors, **dict.fromkeys(still, 1.0)}
        )

    settings = product(*(_distinct(form, entry, some, held) for entry in switches))
    return min(map(solved, settings), key=lambda solution: solution.cost)


def _distinct(form: KernelForm, switch: Parameter, rows: Kernels, held: Values) -> tuple[float, ...]:
    """The choices of a switch; only the first where none of them changes an estimate, such as of sums where no switch adds.

    Whether they do is tried with each of the other parameters at its first value, all at their lowest and all at their highest.
    """
    import numpy as np

    for side in ("start", "low", "high"):
        values = {**{entry.name: getattr(entry, side) for entry in form.parameters}, **held}
        first, *others = (rows.predicted(form, {**values, switch.name: choice}) for choice in switch.choices)
        if not all(np.array_equal(first, other) for other in others):
            return switch.choices
    return switch.choices[:1]


def undetermined(form: KernelForm, solution: Solution) -> list[str]:
    """The names of parameters that the data do not determine.

    These have a standard error of more than a factor of 1.5, or are at an end of the allowed range.
    """
    known = {parameter.name: parameter for parameter in form.parameters}
    return [
        name
        for name, value in solution.parameters.items()
        if not known[name].choices
        and (solution.factors[name] > _CERTAIN or not known[name].low * 1.01 < value < known[name].high * 0.99)
    ]


def _off(estimate: Array, rows: Kernels) -> float:
    """The mean absolute logarithm of the ratio."""
    import numpy as np

    return float(np.mean(np.abs(np.log(estimate / rows.measured))))


def _cross_validated(form: KernelForm, train: Kernels, values: Values) -> Array:
    """The estimate of each row by a fit that has not seen its shape; of a single shape by the fit itself."""
    import numpy as np

    shapes = np.array(train.shapes)
    estimate = np.full(len(shapes), np.nan)
    switches = {entry.name: values[entry.name] for entry in form.parameters if entry.choices}
    parts = folds(shapes.tolist(), min(_FOLDS, len(set(shapes.tolist()))))
    if len(parts) == 1:
        estimate = train.predicted(form, values)
    for part in parts if len(parts) > 1 else ():
        unseen = np.isin(shapes, list(part))
        refitted = solve_family(form, train.of(~unseen), values, _MAX_ROWS // 2, switches).parameters
        estimate[unseen] = train.of(unseen).predicted(form, refitted)
    return estimate


def _bands(train: Kernels, estimate: Array) -> dict[Regime, tuple[float, float]]:
    """Quantiles of measured/estimate by regime."""
    ratio = train.measured / estimate
    names = regimes(train, estimate)
    low, high = _quantiles(ratio)
    if (
        len(ratio) < _FEWEST_ROWS or len(set(train.shapes)) < 2
    ):  # too few to tell tenths of them, or none that a fit had not seen
        low, high = min(low, _FEW_FACTORS[0]), max(high, _FEW_FACTORS[1])
    bands: dict[Regime, tuple[float, float]] = {"all": (low, high)}
    for name in sorted(set(names.tolist())):
        if (names == name).sum() >= _FEWEST_ROWS and len(set(train.shapes)) > 1:
            bands[name] = _quantiles(ratio[names == name])
    return bands


def _quantiles(ratio: Array) -> tuple[float, float]:
    import numpy as np

    low, high = np.quantile(ratio, QUANTILES)
    return min(float(low), 1.0), max(float(high), 1.0)  # an interval holds its own estimate


def regimes(rows: Kernels, estimate: Array) -> Array:
    """The name of the regime that takes most of each row's estimated time.

    Args:
        rows: the kernels.
        estimate: seconds of each, shape [rows].

    Returns:
        Names (`roofline.specs.fit.Regime`), shape [rows].
    """
    import numpy as np

    names_by_part, start = [], 0
    for part in rows.parts:
        some = estimate[start : start + len(part.frame)]
        start += len(part.frame)
        inside = regime_shares(rows.op, part.operators, some)
        names = np.array(list(inside))
        names_by_part.append(names[np.argmax(np.stack(np.broadcast_arrays(*inside.values(), some)[:-1]), axis=0)])
    return np.concatenate(names_by_part)


def worlds_left_out(form: KernelForm, rows: Kernels) -> Iterator[tuple[int, Array, Array]]:
    """Collectives of each number of ranks, estimated by a fit to those of the others.

    Args:
        form: it is fitted anew each time, from its own first values.
        rows: collectives of two numbers of ranks or more.

    Yields:
        The number of ranks; whether each row is of it, shape [rows]; the estimates of those rows in seconds.
    """
    for world in sorted(set(rows.worlds.tolist())):
        unseen = rows.worlds == world
        values = solve_family(form, rows.of(~unseen), form.starts(), _MAX_ROWS // 2).parameters
        yield int(world), unseen, rows.of(unseen).predicted(form, values)


def _per_doubling(form: KernelForm, rows: Kernels, band: tuple[float, float]) -> float:
    """`Family.per_doubling`: what the band misses, in squares, to hold 80 % of a number of ranks that was left out, over the
    doublings to the nearest other; the root of the mean square over those numbers."""
    import numpy as np

    own, missing = float(np.log(band[1] / band[0]) / 2), []
    for world, unseen, estimate in worlds_left_out(form, rows):
        reach = np.quantile(np.abs(np.log(rows.measured[unseen] / estimate)), QUANTILES[1] - QUANTILES[0])
        doublings = np.abs(np.log2(rows.worlds[~unseen] / world)).min()
        missing.append(max(reach**2 - own**2, 0.0) / doublings**2)
    return float(np.sqrt(np.mean(missing)))


def _errors(form: KernelForm, test: Kernels, values: Values, bands: dict[Regime, tuple[float, float]]) -> HeldOut:
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


# A fit never sees the shapes that are held out, and every error that is stated is of them. Whole shapes are held out, never
# single rows: neighbours of a row on the same curve would give it away. `RecordOp.shape` says what a shape is: (n, k) of a
# GEMM, a configuration of heads or experts, a width, a size.

_EVERY = 3


def held_out(shapes: Iterable[str]) -> set[str]:
    """The shapes that a fit does not see: every third in the order of their CRC-32, from the second on; of one shape none.

    The order does not depend on the source of the records, nor on the number of rows.

    >>> sorted(held_out(["a", "b", "c", "d"]))
    ['b']
    """
    ordered = sorted(set(shapes), key=lambda shape: (zlib.crc32(shape.encode()), shape))
    return set(ordered[1::_EVERY])


def folds(shapes: Iterable[str], count: int) -> list[set[str]]:
    """Split shapes into `count` folds for cross-validation, in the order of their CRC-32.

    >>> [sorted(fold) for fold in folds(["a", "b", "c"], 2)]
    [['a', 'c'], ['b']]
    """
    ordered = sorted(set(shapes), key=lambda shape: (zlib.crc32(shape.encode()), shape))
    return [set(ordered[part::count]) for part in range(count)]


# Relative errors beyond this count linearly, not squared: a fit follows the many, not the outliers.
KNEE = 0.05
# What the data say nothing of stays near its start: to stray by the factor LOOSE counts as much as if all rows were off by
# 0.1 %, which no row that tells anything would notice.
_LOOSE, _UNNOTICED = 100.0, 0.001


@dataclass(frozen=True)
class Solution:
    """Fitted values of parameters by name, in their units, and how well the data determine each.

    Attributes:
        parameters: the values.
        factors: the factor, at least 1, within which each value lies (standard error).
        cost: the robust sum of squared residuals, half of it: only comparable on the same rows.
    """

    parameters: dict[str, float]
    factors: dict[str, float]
    cost: float


def _solve(form: KernelForm, predict: Callable[[dict[str, Any]], Array], measured: Array, starts: dict[str, float]) -> Solution:
    """Least squares of a form's parameters against measured kernels, on the logarithm of the ratio.

    Args:
        form: whose parameters they are.
        predict: seconds of each kernel, shape [rows], by parameters; it has those that are not fitted.
        measured: seconds of each kernel, shape [rows].
        starts: the parameters to fit, each with its first value.
    """
    import numpy as np
    from scipy.optimize import least_squares

    known = {parameter.name: parameter for parameter in form.parameters}
    names = list(starts)
    low, high = (np.log([getattr(known[name], side) for name in names]) for side in ("low", "high"))
    first = np.clip(np.log([starts[name] for name in names]), low + 1e-6, high - 1e-6)
    prior = np.sqrt(len(measured)) * _UNNOTICED / np.log(_LOOSE)

    def residuals(point: Array) -> Array:
        ratio = np.log(predict(dict(zip(names, np.exp(point), strict=True))) / measured)
        return np.concatenate([ratio, prior * (point - first)])

    optimum = least_squares(residuals, first, bounds=(low, high), loss="soft_l1", f_scale=KNEE, x_scale=1.0, max_nfev=200)
    curvature = optimum.jac.T @ optimum.jac
    scale = max(2 * optimum.cost / max(len(measured) - len(names), 1), KNEE**2)  # no form is better than its kernels' noise
    errors = np.sqrt(np.abs(np.diag(np.linalg.pinv(curvature))) * scale)
    return Solution(
        dict(zip(names, np.exp(optimum.x).tolist(), strict=True)),
        dict(zip(names, np.exp(np.minimum(errors, 50)).tolist(), strict=True)),
        float(optimum.cost),
    )


# Dimensions that say how a step is counted, not what was measured; rows of a table are not all read.
_CONVENTIONS = ("shared_prefix", "prefix_reads", "entries")


@dataclass(frozen=True)
class Rows:
    """Rows of one structure: one call of a form on arrays."""

    frame: pd.DataFrame
    operators: dict[str, Operator]
    conditions: Conditions


@dataclass(frozen=True)
class Kernels:
    """Measured kernels of one family (op, formats, backend) on one chip."""

    op: str
    chip: Chip
    parts: tuple[Rows, ...]

    @cached_property
    def measured(self) -> Array:
        """Measured seconds, shape [rows]."""
        import numpy as np

        return np.concatenate([part.frame["latency_us"].to_numpy(dtype=float) * 1e-6 for part in self.parts])

    @cached_property
    def worlds(self) -> Array:
        """The number of ranks of each row, shape [rows]; NaN where the op has none."""
        import numpy as np

        return np.concatenate([part.frame["world"].to_numpy(dtype=float) for part in self.parts])

    @cached_property
    def shapes(self) -> list[str]:
        """The shape of each row as text (`shapes`)."""
        return [shape for part in self.parts for shape in shapes(self.op, part.frame)]

    def predicted(self, form: KernelForm, values: Values) -> Array:
        """Seconds of each row by a form with these parameters, shape [rows]."""
        import numpy as np

        return np.concatenate(
            [
                form.seconds(part.operators, self.chip, part.conditions, values) + np.zeros(len(part.frame))
                for part in self.parts
            ]
        )

    @cached_property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """The smallest and the largest value of each dimension of the first operator."""
        import numpy as np

        ranges: dict[str, tuple[float, float]] = {}
        for part in self.parts:
            for name, value in next(iter(part.operators.values())).dims().items():
                if name in _CONVENTIONS:
                    continue
                low, high = float(np.min(value)), float(np.max(value))
                had = ranges.get(name, (low, high))
                ranges[name] = (min(low, had[0]), max(high, had[1]))
        return ranges

    def of(self, keep: Array) -> Kernels:
        """The kernels of some rows: `keep` is a boolean array of shape [rows], in the order of `measured`."""
        return kernels(self.frame()[keep], self.chip)

    def thinned(self, most: int) -> Kernels:
        """At most this many rows, drawn at random: always the same ones."""
        import numpy as np

        count = len(self.measured)
        if count <= most:
            return self
        keep = np.zeros(count, dtype=bool)
        keep[np.random.default_rng(count).choice(count, most, replace=False)] = True
        return self.of(keep)

    def frame(self) -> pd.DataFrame:
        """The rows in the order of `measured`."""
        import pandas as pd

        return pd.concat([part.frame for part in self.parts], ignore_index=True)


def shapes(op: str, frame: pd.DataFrame) -> list[str]:
    """The shape of each row as text, such as "4096/14336": the values of the op's `RecordOp.shape`, "-" where empty.

    Args:
        op: the op of all rows.
        frame: records with the columns of `roofline.measure.records.read`.
    """
    names = RECORD_OPS[op].shape
    columns = [frame[name].astype("string").fillna("-") for name in names]
    return ["/".join(values) for values in zip(*columns, strict=True)]


def once(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per point: where a point was measured several times, the median of `latency_us`.

    For messages between devices it is the minimum: records do not say whether ranks were in one node or in two, and the
    slower of two times is then another link, not noise.
    """
    keys = [name for name in COLUMNS if name in frame and not name.startswith(("latency", "counters", "notes"))]
    if not frame.duplicated(keys).any():
        return frame
    grouped = frame.groupby(keys, dropna=False, sort=False, observed=True)
    first = frame.drop_duplicates(keys).copy()
    messages = first["world"].notna().any()
    first["latency_us"] = (grouped["latency_us"].min() if messages else grouped["latency_us"].median()).to_numpy()
    return first


def kernels(frame: pd.DataFrame, chip: Chip) -> Kernels:
    """Rows of one op on one chip as kernels.

    Args:
        frame: at least one record, with the columns of `roofline.measure.records.read`.
        chip: the chip that they were measured on.
    """
    return Kernels(str(frame["op"].iloc[0]), chip, tuple(_parts(frame)))


def _parts(frame: pd.DataFrame) -> Iterator[Rows]:
    for part in group_rows(frame):
        first = part.iloc[0]
        operators = RECORD_OPS[str(first["op"])].operators(call(part))
        by_name = {name: operator for name, (operator, _) in operators.items()}
        yield Rows(part, by_name, conditions(part))
