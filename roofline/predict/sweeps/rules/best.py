"""The best point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.predict.sweeps.rules import Objective, Rule

if TYPE_CHECKING:
    import pandas as pd


def best(frame: pd.DataFrame, objectives: tuple[Objective, ...]) -> pd.DataFrame:
    """The row with the best value; of equal ones the first."""
    (goal,) = objectives
    values = frame[goal.column]
    return frame.loc[[values.idxmax() if goal.largest else values.idxmin()]]


RULE = Rule(
    name="best",
    about="the best point of each phase, and of each value of the axes named by --by",
    objectives=(Objective("tokens_per_s_per_device_estimate", True),),
    takes=1,
    of_points=best,
    merge=best,
)
