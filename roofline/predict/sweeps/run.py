"""A sweep carried out: a sweep and a part are sent out, bytes come back (`roofline.predict.executors`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError, RooflineError, UnitError, UnknownNameError
from roofline.predict.compiled import compile
from roofline.predict.executors import results
from roofline.predict.sweeps.axes import COUNTS, DEPLOYMENT
from roofline.predict.sweeps.evaluate import MOST_ROWS, Evaluated, Refused, check_any, evaluate, refusals, together
from roofline.predict.sweeps.folder import Written, decode, encode
from roofline.predict.sweeps.spec import Part, Sweep

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[int, int], None]
"""Called with the points evaluated so far, and the points of the sweep."""


def collect(
    sweep: Sweep, results: Iterable[Evaluated] | None = None, progress: Progress = lambda done, of: None
) -> pd.DataFrame:
    """Return all rows in one frame, in their order; `frame.attrs["refused"]` lists configurations that cannot be.

    Args:
        sweep: what is evaluated.
        results: parts in order; None: they are evaluated here.
        progress: called after each part with the points done and the points of the sweep.

    Raises:
        InputError: more rows than one table holds, or no point that can be.
    """
    if sweep.reduction is None and sweep.points > MOST_ROWS:
        raise InputError(
            f"{sweep.points:,} points do not fit into one table of at most {MOST_ROWS:,} rows: write a folder of parts "
            "(-o with a name that has no suffix), or reduce them (--reduce)"
        )
    frames: list[pd.DataFrame] = []
    refused: list[Refused] = []
    done = 0
    for one in results if results is not None else (evaluate(sweep, part) for part in sweep.parts()):
        frames.append(one.frame)
        refused += one.refused
        done += one.points + sum(entry.points for entry in one.refused)
        progress(done, sweep.points)
        if sweep.reduction is not None and len(frames) > 1:
            frames = [together(sweep, frames)]
    whole = together(sweep, frames)
    listed = refusals(refused)
    if whole.empty and not any(len(frame) for frame in frames) and listed:
        check_any(sweep, listed)
    whole.attrs["refused"] = listed
    return whole


def check_values(sweep: Sweep) -> None:
    """Check the values of axes that no configuration could have: an unknown name, a number without its unit.

    Each is tried with the first value of every other axis that it needs.

    Raises:
        InputError: such a value.
    """
    model, hardware = next(iter(sweep.models.values())), next(iter(sweep.hardware.values()))
    for name in sweep.axes:
        if name not in DEPLOYMENT or name in COUNTS:
            continue
        for value in sweep.axes[name]:
            try:
                option: dict[str, Any] = {name: None if value is None else str(value)}
                compile(model, hardware, **option)
            except RooflineError as error:
                # a message about the option itself is of every configuration, any other of this one
                if isinstance(error, UnknownNameError | UnitError) or str(error).startswith(f"--{name.replace('_', '-')}"):
                    raise InputError(f"axis {name!r}: {error}") from None


def _work(sweep: Sweep, part: Part) -> Written:
    """One part, from the question to the bytes of its file."""
    return encode(sweep, part, evaluate(sweep, part))


def written_parts(sweep: Sweep, wanted: Iterable[Part], executor: str | None) -> Iterator[Written]:
    """Return parts as Parquet as they are ready, in any order.

    Args:
        sweep: what is evaluated.
        wanted: its parts.
        executor: "processes", "processes:N", "dask" or "dask:ADDRESS"; None: this process.

    Raises:
        InputError: an executor that is not known, workers that are lost again and again.
        MissingExtraError: Dask is not installed.
    """
    return results(partial(_work, sweep), wanted, executor, what="sweeps", smaller=", or smaller parts (--part-rows)")


def evaluated(sweep: Sweep, executor: str | None) -> Iterator[Evaluated]:
    """Return every part, in the order of the rows; arguments and errors as of `written_parts`."""
    ready: dict[int, Written] = {}
    index = 0
    for written in written_parts(sweep, sweep.parts(), executor):
        ready[written.index] = written
        while index in ready:
            yield decode(ready.pop(index))
            index += 1
