"""What an engine adds to the kernels of a step, from serving points measured in a closed loop."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError
from roofline.measure.calibrate.family import KNEE, QUANTILES
from roofline.measure.validate.serving import validate_serving
from roofline.specs.engine import EngineSteps, ServingErrors
from roofline.specs.source import Source

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Array = NDArray[Any]

FEWEST = 12
"""Points below which four numbers are not to be had."""
IMPOSSIBLE = 0.1
"""The share of a series that may be faster than its bound."""
NOTHING = 0.01
"""Of a thousandth of a second, ten microseconds a sequence: what a bounded fit leaves of a term that earns nothing."""
_CONFIGURATION = ("kernel", "hardware", "dtype", "world", "batch", "q_len", "tokens")


def engine_steps(
    paths: Iterable[str | Path],
    engine: str,
    versions: tuple[str, ...] = (),
    sources: tuple[Source, ...] = (),
    today: date | None = None,
) -> tuple[EngineSteps, pd.DataFrame]:
    """Fit `step`, `sequence`, `rank` and `hidden` to every second configuration of an engine, and judge them by the others.

    The points come back with `fitted_on` and `usable`. A series (a model on hardware by one version) of which more than a tenth
    is faster than the hardware allows is no closed loop of so many clients: it is left out, and reported apart.
    """
    import numpy as np

    frame = validate_serving(paths, (), engine).frame
    if len(frame) < FEWEST or frame["decode_s"].isna().any():
        msg = f"{len(frame)} serving points of {engine} whose kernels can be estimated: at least {FEWEST} are needed"
        raise InputError(msg)
    series = [frame[name].astype(str) for name in ("kernel", "hardware", "version", "dtype")]
    usable = ((frame["why"] != "").groupby(series).transform("mean") <= IMPOSSIBLE).to_numpy()
    fitted_on = usable & np.array(
        [zlib.crc32("/".join(map(str, row)).encode()) % 2 == 0 for row in frame[list(_CONFIGURATION)].to_numpy()]
    )
    step, sequence, rank, hidden = _solve(frame[fitted_on])
    added = step + sequence * frame["replica"] + rank * np.log2(frame["world"]) - hidden * frame["launches_s"]
    frame = frame.assign(fitted_on=fitted_on, usable=usable, estimate_s=frame["decode_s"] + frame["prefill_s"] + added)
    ratio = (frame["measured_s"] / frame["estimate_s"]).to_numpy()
    low, high = np.quantile(ratio[fitted_on], QUANTILES)
    judged = ratio[usable & ~fitted_on]
    error = 1 / judged - 1
    held_out = ServingErrors(
        rows=len(error),
        median_ape=float(np.median(np.abs(error))),
        mape=float(np.mean(np.abs(error))),
        bias=float(np.median(error)),
        coverage=float(np.mean((judged >= low) & (judged <= high))),
    )
    made = EngineSteps(
        schema_version=1,
        kind="steps",
        engine=engine,
        versions=versions,
        fitted=today or date.today(),  # noqa: DTZ011 - a day in the place where the fit is made
        rows=int(fitted_on.sum()),
        step=step,
        sequence=sequence,
        rank=rank,
        hidden=hidden,
        band=(float(low), float(high)),
        held_out=held_out,
        sources=sources,
    )
    return made, frame


def _solve(frame: pd.DataFrame) -> tuple[float, float, float, float]:
    """Seconds a step, a sequence and a doubling of ranks, none of them negative; the share of the launches that is hidden."""
    import numpy as np
    from scipy.optimize import least_squares

    kernels = (frame["decode_s"] + frame["prefill_s"]).to_numpy()
    columns = (np.ones(len(frame)), frame["replica"], np.log2(frame["world"]), -frame["launches_s"])
    terms = np.stack([np.asarray(column) for column in columns])
    measured, unit = frame["measured_s"].to_numpy(), np.array([1e-3, 1e-5, 1e-3, 1.0])

    def residuals(point: Array) -> Array:
        return np.asarray(np.log((kernels + (point * unit) @ terms) / measured))

    found = least_squares(
        residuals, np.array([0.1, 0.1, 0.1, 0.5]), bounds=(0, [1e3, 1e3, 1e3, 1]), loss="soft_l1", f_scale=KNEE
    )
    step, sequence, rank, hidden = np.where(found.x < NOTHING, 0, found.x * unit).tolist()
    return step, sequence, rank, hidden
