"""A file of prices: its keys, its amounts of money and rates of it (`28000 USD`, `2.5 USD/h`, `0.12 EUR/kWh`)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from roofline.errors import AmbiguousNameError, InputError, UnknownNameError
from roofline.specs.base import Scalar, Spec
from roofline.specs.library import find
from roofline.specs.source import Source
from roofline.specs.yaml_file import SectionErrors, YamlFile, read_yaml, with_section
from roofline.text import clean
from roofline.units import parse_count, parse_quantity

PUE = 1.3
"""Default energy of the building over that of its machines: between the 1.1 that the largest operators report and the mean of
1.56 of the Uptime Institute's survey of 2024."""
HOURS_PER_YEAR = 8766
"""365.25 days."""

_SIGNS = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY"}
_CURRENCY = r"[A-Za-z]{3}|[$€£¥]"
_MONEY = re.compile(rf"({_CURRENCY})?\s*([+-]?[\d.,_]+(?:[eE][+-]?\d+)?|nan|[+-]?inf)\s*({_CURRENCY})?\s*(?:/\s*(.+))?")
# Units of a rate, each in terms of the first.
_PER: dict[str, dict[str, float]] = {
    "": {},
    "h": {"h": 1, "hr": 1, "hour": 1, "day": 24, "month": HOURS_PER_YEAR / 12, "year": HOURS_PER_YEAR},
    "kWh": {"kWh": 1, "MWh": 1000},
    "year": {"year": 1, "month": 1 / 12},
}
_EXAMPLES = {"": "28000 USD", "h": "2.5 USD/h", "kWh": "0.12 USD/kWh", "year": "1000 USD/year"}
_MAX_AMOUNT = 1e12


@dataclass(frozen=True, slots=True)
class Money:
    """An amount, or a rate of it, in a currency by its ISO 4217 code."""

    amount: float
    currency: str


def parse_money(text: str, per: str = "", *, zero: bool = False) -> Money:
    """Parse an amount of money, or a rate of it.

    Args:
        text: such as `28000 USD`, `$2.50/h`, `120 EUR/MWh`.
        per: "": an amount; `h`, `kWh` or `year`: a rate per that unit, to which other units of its kind are converted.
        zero: whether 0 is allowed.

    Raises:
        InputError: no number, no currency, another unit, negative, zero unless `zero` is set, or not below 1e12.

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
    if not (0 <= amount < _MAX_AMOUNT) or (amount == 0 and not zero) or math.isnan(amount):
        raise InputError(f"{text[:60]!r} must be {'0 or more' if zero else 'more than 0'} and finite, such as {example}")
    currency = before or after
    return Money(amount, _SIGNS.get(currency, currency.upper()))


def _per(per: str, unit: str) -> float | None:
    """The unit in terms of the first unit of `per`; None if it is another."""
    return next((scale for name, scale in _PER[per].items() if name.lower() == unit.lower()), None)


class OwnedEntry(Spec):
    """What one accelerator or node costs its owner."""

    capital: Scalar = Field(description="what it costs to buy, with its share of the server, such as 28000 USD")
    years: Scalar = Field(description="years after which it is worth nothing")
    electricity: Scalar = Field(description="such as 0.12 USD/kWh")
    power: Scalar | None = Field(default=None, description="power, such as 700 W; default: the TDP of its accelerators")
    pue: Scalar | None = Field(default=None, description=f"energy of the building over that of its machines; default {PUE}")
    other: Scalar | None = Field(default=None, description="space, staff, network, spares, such as 1000 USD/year")


def _entry(value: object) -> object:
    return value if isinstance(value, dict) else {"rent": value}


class OnePrice(Spec):
    """The price of one accelerator, or of a whole node: rent, a range of rents, or what it costs its owner."""

    rent: Scalar | None = Field(default=None, description="such as 2.5 USD/h")
    low: Scalar | None = Field(default=None, description="the lowest rent on the market")
    high: Scalar | None = Field(default=None, description="the highest one")
    value: Scalar | None = Field(default=None, description="the rent to use; default: the mean of low and high")
    owned: OwnedEntry | None = Field(default=None, description="bought, not rented")
    source: str | None = Field(default=None, description="a key of `sources`")
    note: str = Field(default="", description="what a reader should know about it")


class Offer(OnePrice):
    """A price of a limited number."""

    count: Scalar | None = Field(default=None, description="number of accelerators or nodes at this price; default: any number")


class PriceEntry(OnePrice):
    """One price, or several of which each is used up before the next."""

    offers: list[Annotated[Offer, BeforeValidator(_entry)]] | None = Field(
        default=None, description="several prices in the order in which they are used, each with its `count`"
    )


class PriceFile(Spec):
    """The keys of a file of prices."""

    schema_version: Literal[1] = 1
    kind: Literal["prices"] = "prices"
    currency: str = Field(default="USD", description="of all amounts in the file, as in ISO 4217")
    read: date | None = Field(default=None, description="date of the prices that name no source")
    prices: dict[str, Annotated[PriceEntry, BeforeValidator(_entry)]] = Field(description="by accelerator or node")
    sources: dict[str, Source] = Field(default={}, description="documents that the prices were read in")

    @field_validator("currency")
    @classmethod
    def _code(cls, currency: str) -> str:
        if not re.fullmatch(r"[A-Z]{3}", currency):
            msg = f"must be a code of three capital letters, such as USD, not {clean(currency)[:40]!r}"
            raise ValueError(msg)
        return currency


@dataclass(frozen=True, slots=True)
class Owned:
    """Amounts of an accelerator or node that was bought.

    Args:
        capital: in the currency.
        years: of depreciation.
        electricity: currency/kWh.
        power: W; None: the TDP.
        pue: energy of the building over that of its machines.
        other: currency/year.
    """

    capital: float
    years: float
    electricity: float
    power: float | None
    pue: float
    other: float


@dataclass(frozen=True, slots=True)
class Listed:
    """A price of a file, of an accelerator or a whole node.

    Args:
        low: lowest rent, currency/h; None if owned.
        high: highest rent.
        value: the rent to use.
        stated: whether the file states the value; else it is the mean of a range.
        owned: amounts, if it was bought.
        source: the document.
        read: date of the document.
        note: what a reader should know.
        fail: makes errors at its line in the file.
        count: number of accelerators or nodes at this price; None: any number.
        offers: several prices instead of one, in the order in which they are used.
    """

    low: float | None
    high: float | None
    value: float | None
    stated: bool
    owned: Owned | None
    source: str
    read: date | None
    note: str
    fail: SectionErrors
    count: int | None = None
    offers: tuple[Listed, ...] = ()


def read_prices(path: Path) -> tuple[YamlFile, str, dict[str, Listed]]:
    """Read a file of prices. Hardware may be at the top level of the file instead of under the key `prices`.

    Returns:
        The file, its currency (ISO 4217), and its prices per hour by the id of an accelerator or node.

    Raises:
        SpecError: no such file, an unknown accelerator or key, two prices for one, an invalid amount, with its place.
    """
    file = with_section(read_yaml(path), "prices", PriceFile)
    names = _names(file)
    content = file.validate(PriceFile)
    listed: dict[str, Listed] = {}
    for key, entry in content.prices.items():
        fail = SectionErrors(file, ("prices", key))
        if names[key] in listed:
            raise fail((), f"{names[key]} has a price already: one is needed")
        listed[names[key]] = _Reader(content, fail).listed(entry)
    return file, content.currency, listed


def _names(file: YamlFile) -> dict[str, str]:
    """The id of each key under `prices`."""
    prices = file.data["prices"]
    if not isinstance(prices, dict) or not prices:
        raise SectionErrors(file)("prices", "at least one is needed, such as h100-sxm: 2.5 USD/h")
    names: dict[str, str] = {}
    for key in prices:
        fail = SectionErrors(file, ("prices",))
        try:
            names[key] = find("hardware", key).stem
        except UnknownNameError as error:
            choices = [*error.choices, *PriceFile.model_fields]
            unknown = UnknownNameError("accelerator or key", clean(key), choices, "`roofline hardware list` shows all.")
            raise fail(key, str(unknown)) from None
        except AmbiguousNameError as error:
            raise fail(key, str(error)) from None
    return names


@dataclass(frozen=True, slots=True)
class _Reader:
    """Amounts of one entry, in the currency of the file."""

    file: PriceFile
    fail: SectionErrors

    def listed(self, entry: PriceEntry) -> Listed:
        """The entry with its amounts."""
        if entry.offers is not None:
            return self._offers(entry, entry.offers)
        return self._one(entry)

    def _offers(self, entry: PriceEntry, offers: list[Offer]) -> Listed:
        misplaced = [name for name in OnePrice.model_fields if getattr(entry, name)]
        if misplaced:
            raise self.fail(misplaced[0], "stands in each of the offers, not beside them")
        if not offers:
            raise self.fail("offers", "at least one is needed, such as {rent: 2.5 USD/h, count: 8}")
        listed: list[Listed] = []
        for index, offer in enumerate(offers):
            inside = _Reader(self.file, SectionErrors(self.fail.file, (*self.fail.section, "offers", index)))
            if listed and listed[-1].count is None:
                raise inside.fail((), "is never used: the offer before it has no count, so that there are as many as needed")
            listed.append(replace(inside._one(offer), count=inside._count(offer.count)))
        return replace(listed[0], count=None, offers=tuple(listed))

    def _count(self, text: Scalar | None) -> int | None:
        if text is None:
            return None
        try:
            return parse_count(text, "a count", minimum=1)
        except InputError as error:
            raise self.fail("count", str(error)) from None

    def _one(self, entry: OnePrice) -> Listed:
        ways = [
            name for name, value in (("rent", entry.rent), ("low", entry.low or entry.high), ("owned", entry.owned)) if value
        ]
        if len(ways) != 1:
            what = "no price" if not ways else f"{' and '.join(ways)} together"
            raise self.fail((), f"{what}: give a rent such as 2.5 USD/h, low and high, or owned")
        amounts = entry.model_dump()
        low, high, value = (self._money(amounts, key, "h") for key in ("low", "high", "value"))
        stated = entry.rent is not None or value is not None
        if entry.rent is not None:
            if value is not None:
                raise self.fail("value", "goes with low and high: a rent is one value")
            low = high = value = self._money(amounts, "rent", "h")
        elif entry.owned is None:
            low, high, value = self._range(low, high, value)
        elif value is not None:
            raise self.fail("value", "goes with low and high: the cost of owned hardware follows from its amounts")
        source, read = self._source(entry.source)
        return Listed(low, high, value, stated, self._owned(amounts["owned"]), source, read, clean(entry.note), self.fail)

    def _range(self, low: float | None, high: float | None, value: float | None) -> tuple[float, float, float]:
        if low is None or high is None:
            raise self.fail("high" if low is None else "low", "low and high go together; one price is a rent")
        if low > high:
            raise self.fail("low", f"low is {low:g} and high is {high:g}: the lower one is low")
        if value is not None and not low <= value <= high:
            raise self.fail("value", f"{value:g} is not between low, {low:g}, and high, {high:g}")
        return low, high, (low + high) / 2 if value is None else value

    def _source(self, key: str | None) -> tuple[str, date | None]:
        if key is None:
            return "", self.file.read
        if key not in self.file.sources:
            raise self.fail("source", str(UnknownNameError("source", clean(key), self.file.sources, list_all=True)))
        source = self.file.sources[key]
        return clean(f"{source.title} ({source.url})" if source.url else source.title), source.read or self.file.read

    def _owned(self, amounts: Mapping[str, Any] | None) -> Owned | None:
        if amounts is None:
            return None
        fail = SectionErrors(self.fail.file, (*self.fail.section, "owned"))
        inside = _Reader(self.file, fail)
        return Owned(
            capital=inside._needed(amounts, "capital", ""),
            years=inside._number(amounts, "years", "a number of years from 0.1 to 50, such as 4", 0.1, 50) or 0.0,
            electricity=inside._needed(amounts, "electricity", "kWh", zero=True),
            power=inside._power(amounts),
            pue=inside._number(amounts, "pue", "a factor from 1 to 5, such as 1.3", 1, 5) or PUE,
            other=inside._money(amounts, "other", "year", zero=True) or 0.0,
        )

    def _money(self, amounts: Mapping[str, Any], key: str, per: str, *, zero: bool = False) -> float | None:
        if amounts.get(key) is None:
            return None
        try:
            money = parse_money(amounts[key], per, zero=zero)
        except InputError as error:
            raise self.fail(key, str(error)) from None
        if money.currency != self.file.currency:
            raise self.fail(
                key,
                f"is in {money.currency}, and the key currency says {self.file.currency}: all amounts of a file are in one",
            )
        return money.amount

    def _needed(self, amounts: Mapping[str, Any], key: str, per: str, *, zero: bool = False) -> float:
        amount = self._money(amounts, key, per, zero=zero)
        assert amount is not None  # noqa: S101 - narrows the type
        return amount

    def _number(self, amounts: Mapping[str, Any], key: str, what: str, low: float, high: float) -> float | None:
        if amounts.get(key) is None:
            return None
        try:
            value = math.nan if isinstance(amounts[key], bool) else float(amounts[key])
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise self.fail(key, f"must be {what}, not {amounts[key]!r}")
        return value

    def _power(self, amounts: Mapping[str, Any]) -> float | None:
        if amounts.get("power") is None:
            return None
        try:
            watts = float(parse_quantity(amounts["power"], "W"))
        except InputError as error:
            raise self.fail("power", str(error)) from None
        if watts == 0:
            raise self.fail("power", 'must be more than 0, such as "700 W"')
        return watts
