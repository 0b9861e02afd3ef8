"""A file of prices: keys, and the amounts in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from roofline.errors import AmbiguousNameError, InputError, UnknownNameError
from roofline.serving.planning.energy import PUE
from roofline.serving.planning.money import parse_money
from roofline.serving.traffic.scalars import number
from roofline.specs.base import Spec
from roofline.specs.library import find
from roofline.specs.lifted import lifted
from roofline.specs.places import Places
from roofline.specs.scalar import Scalar
from roofline.specs.source import Source
from roofline.specs.yaml_file import YamlFile, read_yaml
from roofline.text import clean
from roofline.units import parse_quantity


class OwnedEntry(Spec):
    """What one accelerator, or node, costs its owner."""

    capital: Scalar = Field(description="what it costs to buy, with its share of the server, such as 28000 USD")
    years: Scalar = Field(description="years after which it is worth nothing")
    electricity: Scalar = Field(description="such as 0.12 USD/kWh")
    power: Scalar | None = Field(default=None, description="what it draws, such as 700 W; default: the TDP of its accelerators")
    pue: Scalar | None = Field(default=None, description=f"energy of the building over that of its machines; default {PUE}")
    other: Scalar | None = Field(default=None, description="space, staff, network, spares, such as 1000 USD/year")


def _entry(value: object) -> object:
    return value if isinstance(value, dict) else {"rent": value}


class PriceEntry(Spec):
    """The price of one accelerator, or of a whole node: rent, a range of rents, or what it costs its owner."""

    rent: Scalar | None = Field(default=None, description="such as 2.5 USD/h")
    low: Scalar | None = Field(default=None, description="the lowest rent that is asked for")
    high: Scalar | None = Field(default=None, description="the highest one")
    value: Scalar | None = Field(default=None, description="the one to reckon with; default: the mean of low and high")
    owned: OwnedEntry | None = Field(default=None, description="bought, not rented")
    source: str | None = Field(default=None, description="a key of `sources`")
    note: str = Field(default="", description="what a reader should know about it")


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
    """Amounts of an accelerator, or node, that was bought."""

    capital: float
    """Currency."""
    years: float
    electricity: float
    """Currency/kWh."""
    power: float | None
    """W; None: the TDP."""
    pue: float
    other: float
    """Currency/year."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A price as a file has it, of what the key names: an accelerator or a whole node."""

    low: float | None
    """Currency/h; None of what is owned."""
    high: float | None
    value: float | None
    stated: bool
    """Whether the value stands in the file, and is no mean of a range."""
    owned: Owned | None
    source: str
    read: date | None
    note: str
    fail: Places
    """Makes errors at its place in the file."""


def read_prices(path: Path) -> tuple[YamlFile, str, dict[str, Listed]]:
    """The file, its currency, and its prices by the id of an accelerator or node.

    Keys may stand at the top instead of under `prices`.

    Raises:
        SpecError: an unknown accelerator or key, an amount that is none, with its place.
    """
    file = lifted(read_yaml(path), "prices", PriceFile)
    names = _names(file)
    found = file.validate(PriceFile)
    listed: dict[str, Listed] = {}
    for key, entry in found.prices.items():
        fail = Places(file, ("prices", key))
        if names[key] in listed:
            raise fail((), f"{names[key]} has a price already: one is needed")
        listed[names[key]] = _Reader(found, fail).listed(entry)
    return file, found.currency, listed


def _names(file: YamlFile) -> dict[str, str]:
    """The id of each key under `prices`."""
    prices = file.data["prices"]
    if not isinstance(prices, dict) or not prices:
        raise Places(file)("prices", "at least one is needed, such as h100-sxm: 2.5 USD/h")
    found: dict[str, str] = {}
    for key in prices:
        fail = Places(file, ("prices",))
        try:
            found[key] = find("hardware", key).stem
        except UnknownNameError as error:
            choices = [*error.choices, *PriceFile.model_fields]
            unknown = UnknownNameError("accelerator or key", clean(key), choices, "`roofline hardware list` shows all.")
            raise fail(key, str(unknown)) from None
        except AmbiguousNameError as error:
            raise fail(key, str(error)) from None
    return found


@dataclass(frozen=True, slots=True)
class _Reader:
    """Amounts of one entry, in the currency of the file."""

    file: PriceFile
    fail: Places

    def listed(self, entry: PriceEntry) -> Listed:
        """The entry with its amounts."""
        ways = [
            name for name, given in (("rent", entry.rent), ("low", entry.low or entry.high), ("owned", entry.owned)) if given
        ]
        if len(ways) != 1:
            what = "no price" if not ways else f"{' and '.join(ways)} together"
            raise self.fail((), f"{what}: give a rent such as 2.5 USD/h, low and high, or owned")
        given = entry.model_dump()
        low, high, value = (self._money(given, key, "h") for key in ("low", "high", "value"))
        stated = entry.rent is not None or value is not None
        if entry.rent is not None:
            if value is not None:
                raise self.fail("value", "goes with low and high: a rent is one value")
            low = high = value = self._money(given, "rent", "h")
        elif entry.owned is None:
            low, high, value = self._range(low, high, value)
        elif value is not None:
            raise self.fail("value", "goes with low and high: what is owned has the cost that its amounts give")
        source, read = self._source(entry.source)
        return Listed(low, high, value, stated, self._owned(given["owned"]), source, read, clean(entry.note), self.fail)

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
        found = self.file.sources[key]
        return clean(f"{found.title} ({found.url})" if found.url else found.title), found.read or self.file.read

    def _owned(self, given: Mapping[str, Any] | None) -> Owned | None:
        if given is None:
            return None
        fail = Places(self.fail.file, (*self.fail.section, "owned"))
        inside = _Reader(self.file, fail)
        return Owned(
            capital=inside._needed(given, "capital", ""),
            years=inside._number(given, "years", "a number of years from 0.1 to 50, such as 4", 0.1, 50) or 0.0,
            electricity=inside._needed(given, "electricity", "kWh", zero=True),
            power=inside._power(given),
            pue=inside._number(given, "pue", "a factor from 1 to 5, such as 1.3", 1, 5) or PUE,
            other=inside._money(given, "other", "year", zero=True) or 0.0,
        )

    def _money(self, given: Mapping[str, Any], key: str, per: str, *, zero: bool = False) -> float | None:
        if given.get(key) is None:
            return None
        try:
            found = parse_money(given[key], per, zero=zero)
        except InputError as error:
            raise self.fail(key, str(error)) from None
        if found.currency != self.file.currency:
            raise self.fail(
                key,
                f"is in {found.currency}, and the key currency says {self.file.currency}: all amounts of a file are in one",
            )
        return found.amount

    def _needed(self, given: Mapping[str, Any], key: str, per: str, *, zero: bool = False) -> float:
        found = self._money(given, key, per, zero=zero)
        assert found is not None  # noqa: S101 - narrows the type
        return found

    def _number(self, given: Mapping[str, Any], key: str, what: str, low: float, high: float) -> float | None:
        if given.get(key) is None:
            return None
        try:
            found = number(given[key], what)
        except InputError as error:
            raise self.fail(key, str(error)) from None
        if not low <= found <= high:
            raise self.fail(key, f"must be {what}, not {given[key]!r}")
        return found

    def _power(self, given: Mapping[str, Any]) -> float | None:
        if given.get("power") is None:
            return None
        try:
            found = float(parse_quantity(given["power"], "W"))
        except InputError as error:
            raise self.fail("power", str(error)) from None
        if found == 0:
            raise self.fail("power", 'must be more than 0, such as "700 W"')
        return found
