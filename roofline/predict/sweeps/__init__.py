"""Any grid of models, hardware, deployments and workloads, as a tidy table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from roofline.errors import InputError
from roofline.predict.options import SweepAxes

if TYPE_CHECKING:
    import pandas as pd

    from roofline.blocks.model import Model
    from roofline.specs.hardware import Hardware


def sweep(
    grid: Mapping[str, Any] | None = None,
    *,
    model: str | PathLike[str] | Model | Iterable[str | PathLike[str] | Model] | None = None,
    hardware: str | PathLike[str] | Hardware | Iterable[str | PathLike[str] | Hardware] | None = None,
    columns: Iterable[str] | None = None,
    ignore_capacity: bool = False,
    **axes: Unpack[SweepAxes],
) -> pd.DataFrame:
    """Evaluate every point of a grid of models, hardware, deployments and workloads.

    Args:
        grid: values by axis; or the axes as keyword arguments, or both.
        model: ids, paths or loaded models.
        hardware: likewise.
        columns: names from `roofline.predict.grid.COLUMNS`; default: times with the estimate's interval, rates, memory, what
            fits and what binds.
        ignore_capacity: give times and rates also where the step does not fit, where they are NaN otherwise.
        **axes: `phase` (decode unless given), the options of a deployment as of `roofline.compile` (`tp`, `kv_cache_dtype`,
            ...), and `batch`, `input_len` and `context`; each a value, a list, or text such as `"1:512:x2"`.

    Returns:
        A tidy frame, one row per point: the axes, `devices`, the formats in use, and the columns. Configurations that cannot be
        (a tensor-parallel size that divides no heads) have no rows; `frame.attrs["refused"]` says why.

    >>> frame = sweep(model="llama-3.1-8b", hardware=["l4", "h100-sxm"], batch=[1, 8], context="1k,8k")
    >>> len(frame), int(frame["fits"].sum())  # 8 sequences of 8k tokens do not fit on an L4
    (8, 7)

    Raises:
        roofline.errors.RooflineError: an unknown axis, name or column, a value that is none, a grid of which nothing can be.
    """
    from roofline.predict.sweeps.run import check_values, collect
    from roofline.predict.sweeps.spec import Sweep

    given = {name: value for name, value in {"model": model, "hardware": hardware, **axes}.items() if value is not None}
    if twice := [name for name in given if name in (grid or {})]:
        raise InputError(f"axis {twice[0]!r} is given twice: in the grid and as a keyword argument")
    wanted = Sweep.of({**(grid or {}), **given}, columns=columns, ignore_capacity=ignore_capacity)
    check_values(wanted)
    return collect(wanted)
