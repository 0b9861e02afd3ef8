"""Reductions of a sweep: the best point, the points on the Pareto front, or a histogram, of those that meet objectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError, UnknownNameError
from roofline.numeric import pareto_front_of_rows
from roofline.predict.grid import column
from roofline.predict.sweeps.axes import AXES
from roofline.registry import Registry

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Objective:
    """A column, and which end of it is wanted."""

    column: str
    largest: bool

    def __str__(self) -> str:
        return f"{self.column}:{'max' if self.largest else 'min'}"


Reduce = Callable[["pd.DataFrame", tuple[Objective, ...]], "pd.DataFrame"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How a group of points is reduced. Reducing parts and then their reductions gives what reducing all points at once gives,
    rows in their order. Columns of the group that a result lacks are put before it."""

    name: str
    about: str
    objectives: tuple[Objective, ...]
    """By which it goes unless others are named."""
    takes: int | None
    """How many objectives; None: any number."""
    of_points: Reduce
    merge: Reduce


def _best(frame: pd.DataFrame, objectives: tuple[Objective, ...]) -> pd.DataFrame:
    """The row with the best value; of equal ones the first."""
    (goal,) = objectives
    values = frame[goal.column]
    return frame.loc[[values.idxmax() if goal.largest else values.idxmin()]]


BEST = Rule(
    name="best",
    about="the best point of each phase, and of each value of the axes named by --by",
    objectives=(Objective("tokens_per_s_per_device_estimate", True),),
    takes=1,
    of_points=_best,
    merge=_best,
)


HISTOGRAM_DECADES = range(-12, 25)
BINS_PER_DECADE = 10
"""Bins to a factor of ten, evenly by logarithms."""


def _histogram(frame: pd.DataFrame, objectives: tuple[Objective, ...]) -> pd.DataFrame:
    """Points by the bin of a column: from `low` (included) to `high`; values of 0 and less have a bin of their own."""
    import numpy as np
    import pandas as pd

    (goal,) = objectives
    # the same edges everywhere, so that counts of parts add up
    edges = np.array(
        [
            float(f"{10 ** (step / BINS_PER_DECADE):.6g}e{decade}")
            for decade in HISTOGRAM_DECADES
            for step in range(BINS_PER_DECADE)
        ]
    )
    edges = np.concatenate([[0.0], edges, [np.inf]])
    place = np.searchsorted(edges, frame[goal.column].to_numpy(), side="right")
    bins, counts = np.unique(place, return_counts=True)
    low = np.concatenate([[-np.inf], edges])
    return pd.DataFrame({"column": goal.column, "low": low[bins], "high": np.append(edges, np.inf)[bins], "count": counts})


def _merged_bins(frame: pd.DataFrame, objectives: tuple[Objective, ...]) -> pd.DataFrame:
    """The bins of several, counts added."""
    return frame.groupby(["column", "low", "high"], as_index=False).agg({"count": "sum"})


HISTOGRAM = Rule(
    name="histogram",
    about="how many points of each phase have which value of a column, ten bins to a factor of ten",
    objectives=(Objective("step_estimate_s", False),),
    takes=1,
    of_points=_histogram,
    merge=_merged_bins,
)


def _pareto(frame: pd.DataFrame, objectives: tuple[Objective, ...]) -> pd.DataFrame:
    """Rows of which none is at least as good in every objective and better in one; of equal ones the first."""
    import numpy as np

    # smaller is better in all columns
    values = np.column_stack([frame[goal.column].to_numpy() * (-1 if goal.largest else 1) for goal in objectives])
    return frame.iloc[np.sort(pareto_front_of_rows(values))]


PARETO = Rule(
    name="pareto",
    about="the points of each phase that no other beats in every objective",
    objectives=(Objective("step_estimate_s", False), Objective("tokens_per_s_per_device_estimate", True)),
    takes=None,
    of_points=_pareto,
    merge=_pareto,
)


RULES: Registry[Rule] = Registry("reduction", [BEST, HISTOGRAM, PARETO])
"""The rules by name."""
TIME = "step_estimate_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """A rule by name, its objectives, the axes with one result per value, and limits in seconds."""

    rule: str
    objectives: tuple[Objective, ...] = ()
    by: tuple[str, ...] = ()
    limits: dict[str, float] = field(default_factory=dict)
    """By phase: what a step may take, by its estimate (`step_estimate_s`)."""

    @classmethod
    def of(
        cls,
        rule: str,
        *,
        objectives: Sequence[str] = (),
        by: Sequence[str] = (),
        ttft: float | None = None,
        tpot: float | None = None,
    ) -> Reduction:
        """Return a reduction from names.

        Args:
            rule: one of `RULES`.
            objectives: each `COLUMN:max`, `COLUMN:min` or `COLUMN`; none: those of the rule.
            by: axes with one result per value.
            ttft: seconds that a prefill step may take.
            tpot: seconds that a decode step may take.

        Raises:
            UnknownNameError: an unknown rule, column or axis.
            InputError: a number of objectives that the rule does not take, or a column that is no number.

        >>> Reduction.of("best").objectives
        (Objective(column='tokens_per_s_per_device_estimate', largest=True),)
        """
        default, count = RULES[rule].objectives, RULES[rule].takes
        goals = tuple(_objective(text) for text in objectives) or default
        if count is not None and len(goals) != count:
            raise InputError(f"--reduce {rule} goes by {count} objective{'s' * (count > 1)}, not {len(goals)}")
        for name in by:
            if name not in AXES:
                raise UnknownNameError("axis", name, AXES, list_all=True)
        limits = {"prefill": ttft, "decode": tpot}
        return cls(
            rule=rule,
            objectives=goals,
            by=tuple(by),
            limits={phase: seconds for phase, seconds in limits.items() if seconds is not None},
        )

    @property
    def needs(self) -> list[str]:
        """Return the columns that the reduction reads."""
        return [*(goal.column for goal in self.objectives), "fits", *([TIME] if self.limits else [])]

    def describe(self) -> dict[str, Any]:
        """Return the reduction as plain data; limits are in seconds."""
        return {
            "rule": self.rule,
            "objectives": [str(goal) for goal in self.objectives],
            "by": list(self.by),
            "limits": {f"{phase}_s": seconds for phase, seconds in self.limits.items()},
        }

    def of_points(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the reduction of the points that fit and meet the limits."""
        rows = frame[frame["fits"]]
        for phase, seconds in self.limits.items():
            rows = rows[(rows["phase"] != phase) | (rows[TIME] <= seconds)]
        for goal in self.objectives:
            rows = rows[rows[goal.column].notna()]
        return self.merge([rows], points=True)

    def merge(self, frames: Sequence[pd.DataFrame], *, points: bool = False) -> pd.DataFrame:
        """Return the reduction of several reductions, or, with `points`, of points."""
        import pandas as pd

        rule, whole = RULES[self.rule], pd.concat(frames, ignore_index=True)
        groups = ["phase", *(name for name in self.by if name != "phase")]
        reduced = []
        for values, group in whole.groupby(groups, sort=False, observed=True, dropna=False):
            rows = rule.of_points(group, self.objectives) if points else rule.merge(group, self.objectives)
            for place, (name, value) in enumerate(zip(groups, values, strict=True)):
                if name not in rows.columns:
                    column: Any = pd.Categorical([value] * len(rows)) if isinstance(value, str) else value
                    rows.insert(place, name, column)
            reduced.append(rows)
        return pd.concat(reduced, ignore_index=True) if reduced else whole.iloc[:0]


def _objective(text: str) -> Objective:
    name, _, way = text.partition(":")
    if column(name).dtype != "float64":
        raise InputError(f"{name} is no number to go by")
    if way not in ("", "min", "max"):
        raise InputError(f"the objective {text!r} must end in :min or :max")
    least = name.endswith(("_s", "bytes", "flops")) and "per_s" not in name
    return Objective(name, way == "max" if way else not least)
