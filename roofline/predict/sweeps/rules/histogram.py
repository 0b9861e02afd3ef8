"""How many points have which values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.predict.sweeps.rules import Objective, Rule

if TYPE_CHECKING:
    import pandas as pd

DECADES = range(-12, 25)
A_DECADE = 10
"""Bins to a factor of ten, evenly by logarithms."""


def histogram(frame: pd.DataFrame, objectives: tuple[Objective, ...]) -> pd.DataFrame:
    """Points by the bin of a column: from `low` (included) to `high`; values of 0 and less have a bin of their own."""
    import numpy as np
    import pandas as pd

    (goal,) = objectives
    # the same edges everywhere, so that counts of parts add up
    edges = np.array([float(f"{10 ** (step / A_DECADE):.6g}e{decade}") for decade in DECADES for step in range(A_DECADE)])
    edges = np.concatenate([[0.0], edges, [np.inf]])
    place = np.searchsorted(edges, frame[goal.column].to_numpy(), side="right")
    bins, counts = np.unique(place, return_counts=True)
    low = np.concatenate([[-np.inf], edges])
    return pd.DataFrame({"column": goal.column, "low": low[bins], "high": np.append(edges, np.inf)[bins], "count": counts})


def added(frame: pd.DataFrame, objectives: tuple[Objective, ...]) -> pd.DataFrame:
    """The bins of several, counts added."""
    return frame.groupby(["column", "low", "high"], as_index=False).agg({"count": "sum"})


RULE = Rule(
    name="histogram",
    about="how many points of each phase have which value of a column, ten bins to a factor of ten",
    objectives=(Objective("step_estimate_s", False),),
    takes=1,
    of_points=histogram,
    merge=added,
)
