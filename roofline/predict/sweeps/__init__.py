"""Any grid of models, hardware, deployments and workloads, as a tidy table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def sweep(grid: Mapping[str, Any], *, columns: Iterable[str] | None = None, ignore_capacity: bool = False) -> pd.DataFrame:
    """Evaluate every point of a grid of models, hardware, deployments and workloads.

    Args:
        grid: values by axis: `model`, `hardware`, `phase` (decode unless given), the options of a deployment as of
            `roofline.compile` (`tp`, `kv_cache_dtype`, ...), and `batch`, `input_len` and `context`; each a value, a list, or
            text such as `"1:512:x2"`.
        columns: names from `roofline.predict.grid.COLUMNS`; default: times with the estimate's interval, rates, memory, what
            fits and what binds.
        ignore_capacity: give times and rates also where the step does not fit, where they are NaN otherwise.

    Returns:
        A tidy frame, one row per point: the axes, `devices`, the formats in use, and the columns. Configurations that cannot be
        (a tensor-parallel size that divides no heads) have no rows; `frame.attrs["refused"]` says why.

    >>> frame = sweep({"model": "llama-3.1-8b", "hardware": ["l4", "h100-sxm"], "batch": [1, 8], "context": "1k,8k"})
    >>> len(frame), int(frame["fits"].sum())  # 8 sequences of 8k tokens do not fit on an L4
    (8, 7)

    Raises:
        roofline.errors.RooflineError: an unknown axis, name or column, a value that is none, a grid of which nothing can be.
    """
    from roofline.predict.sweeps.run import check_values, collect
    from roofline.predict.sweeps.spec import Sweep

    wanted = Sweep.of(grid, columns=columns, ignore_capacity=ignore_capacity)
    check_values(wanted)
    return collect(wanted)
