"""What is kept of the points of a sweep: a rule, what it goes by, and objectives that have to be met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError, UnknownNameError
from roofline.predict.columns import column
from roofline.predict.sweeps.axes import AXES
from roofline.predict.sweeps.rules import Objective, registry

if TYPE_CHECKING:
    import pandas as pd

TIME = "step_estimate_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """A rule by name, its objectives, the axes each of whose values has a result of its own, and limits in seconds."""

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
    ) -> Keep:
        """Read names; objectives are `COLUMN:max` or `COLUMN:min`.

        >>> Keep.of("best").objectives
        (Objective(column='tokens_per_s_per_device_estimate', largest=True),)
        """
        rules = registry()
        if rule not in rules:
            raise UnknownNameError("reduction", rule, list(rules), list_all=True)
        found = tuple(_objective(text) for text in objectives) or rules[rule].objectives
        if (count := rules[rule].takes) is not None and len(found) != count:
            raise InputError(f"--reduce {rule} goes by {count} objective{'s' * (count > 1)}, not {len(found)}")
        for name in by:
            if name not in AXES:
                raise UnknownNameError("axis", name, AXES, list_all=True)
        limits = {"prefill": ttft, "decode": tpot}
        return cls(
            rule=rule,
            objectives=found,
            by=tuple(by),
            limits={phase: seconds for phase, seconds in limits.items() if seconds is not None},
        )

    @property
    def needs(self) -> list[str]:
        """Columns that have to be there."""
        return [*(goal.column for goal in self.objectives), "fits", *([TIME] if self.limits else [])]

    def describe(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "rule": self.rule,
            "objectives": [str(goal) for goal in self.objectives],
            "by": list(self.by),
            "limits": {f"{phase}_s": seconds for phase, seconds in self.limits.items()},
        }

    def of_points(self, frame: pd.DataFrame) -> pd.DataFrame:
        """What is kept of some points."""
        kept = frame[frame["fits"]]
        for phase, seconds in self.limits.items():
            kept = kept[(kept["phase"] != phase) | (kept[TIME] <= seconds)]
        for goal in self.objectives:
            kept = kept[kept[goal.column].notna()]
        return self.merge([kept], points=True)

    def merge(self, frames: Sequence[pd.DataFrame], *, points: bool = False) -> pd.DataFrame:
        """What is kept of what was kept; `points`: of points."""
        import pandas as pd

        rule, whole = registry()[self.rule], pd.concat(frames, ignore_index=True)
        groups = ["phase", *(name for name in self.by if name != "phase")]
        found = []
        for values, group in whole.groupby(groups, sort=False, observed=True, dropna=False):
            kept = rule.of_points(group, self.objectives) if points else rule.merge(group, self.objectives)
            for place, (name, value) in enumerate(zip(groups, values, strict=True)):
                if name not in kept.columns:
                    column: Any = pd.Categorical([value] * len(kept)) if isinstance(value, str) else value
                    kept.insert(place, name, column)
            found.append(kept)
        return pd.concat(found, ignore_index=True) if found else whole.iloc[:0]


def _objective(text: str) -> Objective:
    name, _, way = text.partition(":")
    if column(name).dtype != "float64":
        raise InputError(f"{name} is no number to go by")
    if way not in ("", "min", "max"):
        raise InputError(f"the objective {text!r} must end in :min or :max")
    least = name.endswith(("_s", "bytes", "flops")) and "per_s" not in name
    return Objective(name, way == "max" if way else not least)
