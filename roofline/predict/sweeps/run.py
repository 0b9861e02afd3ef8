"""A sweep carried out: in memory, or as a folder of parts that a later run goes on with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError, RooflineError, UnitError, UnknownNameError
from roofline.predict.compiled import compile
from roofline.predict.sweeps.axes import COUNTS, DEPLOYMENT
from roofline.predict.sweeps.evaluate import Found, Refused, evaluate, together
from roofline.predict.sweeps.parts import parts
from roofline.predict.sweeps.spec import Sweep

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 20_000_000
"""Rows that are held in memory at once."""

Told = Callable[[int, int], None]
"""Told of progress: points evaluated, of how many."""


def collect(sweep: Sweep, found: Iterable[Found] | None = None, told: Told = lambda done, of: None) -> pd.DataFrame:
    """All rows in one frame, in their order."""
    if sweep.keep is None and sweep.points > MOST_ROWS:
        raise InputError(
            f"{sweep.points:,} points do not fit into one table of at most {MOST_ROWS:,} rows: write a folder of parts "
            "(-o with a name that has no suffix), or reduce them (--reduce)"
        )
    frames: list[pd.DataFrame] = []
    refused: list[Refused] = []
    done = 0
    for one in found if found is not None else (evaluate(sweep, part) for part in parts(sweep)):
        frames.append(one.frame)
        refused += one.refused
        done += one.points + sum(entry.points for entry in one.refused)
        told(done, sweep.points)
        if sweep.keep is not None and len(frames) > 1:
            frames = [together(sweep, frames)]
    whole = together(sweep, frames)
    listed = refusals(refused)
    if whole.empty and not any(len(frame) for frame in frames) and listed:
        check_any(sweep, listed)
    whole.attrs["refused"] = listed
    return whole


def refusals(refused: Iterable[Refused]) -> list[dict[str, object]]:
    """Configurations that cannot be, each once, with its points and the reason."""
    found: dict[tuple[object, ...], dict[str, object]] = {}
    for entry in refused:
        key = (*entry.configuration.values(), entry.why)
        one = found.setdefault(key, {"configuration": entry.configuration, "points": 0, "why": entry.why})
        one["points"] = int(str(one["points"])) + entry.points
    return list(found.values())


def check_any(sweep: Sweep, listed: list[dict[str, object]]) -> None:
    """Refuse a sweep of which no point can be."""
    if sum(int(str(entry["points"])) for entry in listed) >= sweep.points:
        reasons = list(dict.fromkeys(str(entry["why"]) for entry in listed))
        more = f" (and {len(reasons) - 1} more reasons)" if len(reasons) > 1 else ""
        raise InputError(f"no point of the grid can be: {reasons[0]}{more}")


def check_values(sweep: Sweep) -> None:
    """Refuse values of axes that no configuration could have: a name that nobody knows, a number without its unit.

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
