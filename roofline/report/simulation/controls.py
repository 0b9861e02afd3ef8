"""What can be moved on the page of a simulation: times at which shares are read off the distributions."""

from __future__ import annotations

from roofline.formatting import percent
from roofline.report.controls import Control
from roofline.report.simulation.distributions import at_share
from roofline.report.simulation.told import Curve, Told

_MOVED = {"ttft": "TTFT at most", "tpot": "TPOT at most"}
_SHARE = 0.95


def controls(told: Told) -> tuple[Control, ...]:
    """A line for TTFT and one for TPOT: at the objective where one was given, else where 95 % are."""
    return tuple(_line(told, curve) for curve in told.curves if curve.key in _MOVED)


def _line(told: Told, curve: Curve) -> Control:
    given = {mark.x for mark in told.objectives if mark.text.startswith(f"{curve.name} ")}
    at = given.pop() if len(given) == 1 else None
    value = at_share(curve, _SHARE) if at is None else at
    # three digits are what the control shows; an objective stays what it is
    milliseconds = float(f"{value * 1000:.3g}") if at is None else value * 1000
    low, high = 1000 * curve.seconds[0] / 2, 1000 * curve.seconds[-1] * 2
    return Control(
        key=curve.key, label=_MOVED[curve.key], kind="number", value=milliseconds, low=_rounded(min(low, milliseconds / 2)),
        high=_rounded(max(high, milliseconds * 2)), log=True, unit="ms", group="Share within",
        help="at first: the objective" if at is not None else f"at first: where {percent(_SHARE, 0)} of the requests are",
    )  # fmt: skip


def _rounded(value: float) -> float:
    return float(f"{value:.1g}")
