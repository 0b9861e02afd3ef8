"""What can be moved on the page of a plan: the rate, and the price of each hardware."""

from __future__ import annotations

from roofline.report.controls import Control
from roofline.report.plan.planned import Planned, Price

_RATES = 10.0
"""How far the rate can be moved, as a factor."""
_CENT = 0.01


def controls(planned: Planned) -> tuple[Control, ...]:
    """The rate, unless a closed loop has none, and the prices."""
    found = [] if planned.rate is None else [_rate(planned.rate)]
    return (*found, *(_price(price, planned.currency) for price in planned.prices))


def _rate(rate: float) -> Control:
    return Control(
        key="rate", label="Rate", kind="number", value=rate, low=rate / _RATES, high=rate * _RATES, log=True,
        unit="requests/s", group="Traffic", help="at the peak; times stay those of the planned rate",
    )  # fmt: skip


def _price(price: Price, currency: str) -> Control:
    """In steps of a hundredth, where the price is one of them. NB: without a price, a control stands at 0 and says so."""
    value = 0.0 if price.hour is None else price.hour
    low = 0.0 if price.hour is None else min(_CENT, value)
    high = 10.0 if price.hour is None else max(3 * value, 2 * (price.high or 0.0), 1.0)
    even = abs(value / _CENT - round(value / _CENT)) < 1e-6 and value >= _CENT
    return Control(
        key=price.key, label=price.hardware, kind="number", value=value, low=low, high=round(high, 2) if even else high,
        step=_CENT if even or price.hour is None else None, unit=f"{currency}/h",
        zero="not known" if price.hour is None else "", group="Price of a device", help=_range(price),
    )  # fmt: skip


def _range(price: Price) -> str:
    if price.hour is None:
        return "the plan has none; 0: not known"
    if price.low is None or price.high is None or price.low == price.high:
        return ""
    return f"asked for: {price.low:,.2f} to {price.high:,.2f}"
