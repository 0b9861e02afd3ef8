"""Sums of money with their currency, and rates of them: `28000 USD`, `2.5 USD/h`, `0.12 EUR/kWh`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from roofline.errors import InputError

HOURS_PER_YEAR = 8766
"""365.25 days."""

_SIGNS = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY"}
_CURRENCY = r"[A-Za-z]{3}|[$€£¥]"
_MONEY = re.compile(rf"({_CURRENCY})?\s*([+-]?[\d.,_]+(?:[eE][+-]?\d+)?|nan|[+-]?inf)\s*({_CURRENCY})?\s*(?:/\s*(.+))?")
# What each may be per, and how many of the first there are in it.
_PER: dict[str, dict[str, float]] = {
    "": {},
    "h": {"h": 1, "hr": 1, "hour": 1, "day": 24, "month": HOURS_PER_YEAR / 12, "year": HOURS_PER_YEAR},
    "kWh": {"kWh": 1, "MWh": 1000},
    "year": {"year": 1, "month": 1 / 12},
}
_EXAMPLES = {"": "28000 USD", "h": "2.5 USD/h", "kWh": "0.12 USD/kWh", "year": "1000 USD/year"}
_MOST = 1e12


@dataclass(frozen=True, slots=True)
class Money:
    """An amount, or a rate of it, in a currency by its ISO 4217 code."""

    amount: float
    currency: str


def parse_money(text: str, per: str = "", *, zero: bool = False) -> Money:
    """An amount (`per` is ""), or one per hour (`h`), kilowatt-hour (`kWh`) or year (`year`).

    Raises:
        InputError: no number, no currency, another `per`, negative, or zero where that is no price.

    >>> parse_money("$98/h", "h"), parse_money("28,000 USD"), parse_money("120 EUR/MWh", "kWh").amount
    (Money(amount=98.0, currency='USD'), Money(amount=28000.0, currency='USD'), 0.12)
    """
    example = _EXAMPLES[per]
    match = _MONEY.fullmatch(text.strip())
    if match is None or len(text) > 80:
        raise InputError(f"cannot read {text[:60]!r} as money: write it such as {example}")
    before, digits, after, unit = match.groups()
    if (before is None) == (after is None):
        what = "has no currency" if before is None else "has two currencies"
        raise InputError(f"{text[:60]!r} {what}: write it such as {example}")
    scale = 1.0 if not per and unit is None else _per(per, (unit or "").strip())
    if scale is None:
        allowed = f"it is an amount per {', '.join(_PER[per])}" if per else "it is an amount, per nothing"
        raise InputError(f"{text[:60]!r} is {'per ' + unit if unit else 'per nothing'}: {allowed}, such as {example}")
    try:
        amount = float(digits.replace(",", "").replace("_", "")) / scale
    except ValueError:
        raise InputError(f"cannot read {text[:60]!r} as money: write it such as {example}") from None
    if not (0 <= amount < _MOST) or (amount == 0 and not zero) or math.isnan(amount):
        raise InputError(f"{text[:60]!r} must be {'0 or more' if zero else 'more than 0'} and finite, such as {example}")
    currency = before or after
    return Money(amount, _SIGNS.get(currency, currency.upper()))


def _per(per: str, unit: str) -> float | None:
    """How many of what it is to be per there are in a unit; None where it is another."""
    return next((scale for name, scale in _PER[per].items() if name.lower() == unit.lower()), None)
