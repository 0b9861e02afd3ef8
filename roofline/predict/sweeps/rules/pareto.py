"""The points that no other beats in every objective."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline.predict.sweeps.rules import Objective, Rule

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray


def pareto(frame: pd.DataFrame, objectives: tuple[Objective, ...]) -> pd.DataFrame:
    """Rows of which none is at least as good in every objective and better in one; of equal ones the first."""
    import numpy as np

    # smaller is better in all columns
    values = np.column_stack([frame[goal.column].to_numpy() * (-1 if goal.largest else 1) for goal in objectives])
    return frame.iloc[np.sort(front(values))]


def front(values: NDArray[np.float64]) -> NDArray[Any]:
    """Indices of the rows that no other row beats, smaller being better; of equal rows the first.

    In the order of the first column, then of the others, then of the rows, a row can be beaten by earlier ones alone: of two
    columns it is beaten unless its second is less than all before it; of more it is compared with those that are kept.

    >>> import numpy as np
    >>> front(np.array([[1.0, 9.0], [2.0, 5.0], [2.0, 6.0], [3.0, 5.0], [4.0, 1.0], [1.0, 9.0]])).tolist()
    [0, 1, 4]
    """
    import numpy as np

    order = np.lexsort((np.arange(len(values)), *values.T[::-1]))
    ranked = values[order]
    kept: list[Any] = [0]
    if ranked.shape[1] == 1:
        return np.asarray(order[kept])
    if ranked.shape[1] == 2:
        second = ranked[:, 1]
        least = np.minimum.accumulate(second)
        return np.asarray(order[np.concatenate([[True], second[1:] < least[:-1]])])
    kept = []
    left = np.arange(len(ranked))
    while left.size:
        first = left[0]
        kept.append(first)
        left = left[~np.all(ranked[left] >= ranked[first], axis=1)]
    return np.asarray(order[kept])


RULE = Rule(
    name="pareto",
    about="the points of each phase that no other beats in every objective",
    objectives=(Objective("step_estimate_s", False), Objective("tokens_per_s_per_device_estimate", True)),
    takes=None,
    of_points=pareto,
    merge=pareto,
)
