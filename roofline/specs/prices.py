"""The price per hour of an accelerator: as given, or within a dated range that is shipped."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Literal

from roofline import files
from roofline.errors import SpecError
from roofline.specs.hardware import Hardware
from roofline.specs.library import Input, folders, load_hardware, shipped
from roofline.specs.price_file import HOURS_PER_YEAR, Listed, Owned, read_prices
from roofline.text import clean

Origin = Literal["given", "default range"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of one accelerator per hour.

    Args:
        hardware: the accelerator or node that the price is listed for; of a node, this is the share of one accelerator.
        currency: ISO 4217 code.
        kind: rented or owned; mixed if it is the mean of several offers.
        origin: given, or the shipped range.
        low: lowest price, currency/h.
        high: highest price.
        value: the price to use.
        assumed: whether the value is the mean of a range.
        source: the document.
        read: its date.
        note: what a reader should know.
        owned: amounts of the share of one accelerator, if it was bought.
        count: number of accelerators at this price; None: any number.
        offers: prices that are used up one after another, of which this is the mean; empty for a single price.
    """

    hardware: str
    currency: str
    kind: Literal["rented", "owned", "mixed"]
    origin: Origin
    low: float
    high: float
    value: float
    assumed: bool
    source: str = ""
    read: date | None = None
    note: str = ""
    owned: Owned | None = None
    count: int | None = None
    offers: tuple[Price, ...] = ()

    @property
    def available(self) -> int | None:
        """Number of accelerators of all offers; None: any number."""
        counts = [offer.count for offer in self.offers or (self,)]
        return None if None in counts else sum(count or 0 for count in counts)

    def for_devices(self, devices: float) -> Price | None:
        """The mean price of `devices` accelerators, which use up one offer after another; a single price is itself.

        None if the offers have fewer.
        """
        if not self.offers:
            return self
        left, used = devices, []
        for offer in self.offers:
            number = left if offer.count is None else min(left, offer.count)
            used.append((offer, number / devices))
            left -= number
        if left > 0:
            return None
        low, high, value = (sum(getattr(offer, end) * share for offer, share in used) for end in ("low", "high", "value"))
        return replace(self, kind="mixed", owned=None, low=low, high=high, value=value)

    def affordable(self, budget: float) -> int:
        """Maximum number of accelerators that an amount per hour pays for."""
        number = 0
        for offer in self.offers or (self,):
            more = int(budget / offer.value * (1 + 1e-9))
            if offer.count is None or more < offer.count:
                return number + more
            number, budget = number + offer.count, budget - offer.count * offer.value
        return number

    def per_hour(self, power: float | None = None) -> float:
        """Cost per hour of one accelerator, in `currency`.

        Rented: the rent. Owned: straight-line depreciation and electricity, with 8766 h per year:

            capital/(years x 8766) + power/1000 x PUE x electricity + other/8766

        Args:
            power: of the accelerator, W; None: as given, else its TDP.
        """
        if self.owned is None:
            return self.value
        return _per_hour(self.owned, power)

    def describe(self) -> str:
        """The price per hour as text, with its range and source.

        >>> load_prices().of("h100-sxm").describe().partition(" (")[0]
        '2.95 USD/h, of 1.99 to 5.00'
        """
        if self.offers:
            return f"{self.value:.2f} {self.currency}/h, mean of {self._listed()}"
        ends = f", of {self.low:.2f} to {self.high:.2f}" if self.low < self.high else ""
        about: list[str] = [self.kind if self.origin == "given" else self.origin]
        about += ["mean of the range"] if self.assumed else []
        about += [self.source] if self.source else []
        about += [f"read {self.read}"] if self.read else []
        return f"{self.value:.2f} {self.currency}/h{ends} ({'; '.join(about)})"

    def _listed(self) -> str:
        return ", ".join(
            f"{'more' if offer.count is None else f'{offer.count:,}'} at {offer.value:.2f} ({offer.note or offer.kind})"
            for offer in self.offers
        )


def _per_hour(owned: Owned, power: float | None = None) -> float:
    drawn = owned.power if power is None else power
    assert drawn is not None  # noqa: S101 - filled in where the price is made
    return (
        owned.capital / (owned.years * HOURS_PER_YEAR)
        + drawn / 1000 * owned.pue * owned.electricity
        + owned.other / HOURS_PER_YEAR
    )


@dataclass(frozen=True, slots=True)
class _List:
    """The prices of a file."""

    path: Path
    sha256: str
    currency: str
    listed: dict[str, Listed]
    origin: Origin

    @property
    def input(self) -> Input:
        """The file, for the inputs of a result."""
        ours = self.path.is_relative_to(shipped("prices"))
        return Input("prices", clean(self.path.stem), "shipped" if ours else str(self.path), self.sha256)


@dataclass(frozen=True)
class Prices:
    """Prices by accelerator: given ones first, then the shipped ones, if they are in the same currency."""

    lists: tuple[_List, ...]

    @property
    def currency(self) -> str:
        """Currency of all prices, an ISO 4217 code."""
        return self.lists[0].currency

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The files of the prices."""
        return tuple(each.input for each in self.lists)

    @property
    def names(self) -> tuple[str, ...]:
        """Ids of the accelerators and nodes with a price of their own."""
        return tuple(dict.fromkeys(name for each in self.lists for name in each.listed))

    @cached_property
    def _known(self) -> dict[str, Price | None]:
        return {}

    def of(self, hardware: str | Hardware, devices: float = 1) -> Price | None:
        """The price of one accelerator per hour, in the mean of `devices`; None if unknown, or if offers have fewer of it.

        Of a node: its own price divided by its accelerators, or that of the accelerator; given prices before shipped ones.

        Raises:
            InputError: no such hardware.
            SpecError: owned hardware of unknown power.
        """
        if isinstance(hardware, Hardware):
            price = self._of(hardware)
        else:
            if hardware not in self._known:
                self._known[hardware] = self._of(load_hardware(hardware)[0])
            price = self._known[hardware]
        return None if price is None else price.for_devices(devices)

    def _of(self, hardware: Hardware) -> Price | None:
        for each in self.lists:
            for name in dict.fromkeys((hardware.name, hardware.accelerator.name)):
                if (listed := each.listed.get(name)) is not None:
                    node = hardware.node is not None and name == hardware.node.name
                    return _price(each, name, listed, hardware, hardware.node.count if node and hardware.node else 1)
        return None


def _price(prices: _List, name: str, listed: Listed, hardware: Hardware, share: int) -> Price:
    """The price of one of the `share` accelerators of a listed price."""
    if listed.offers:
        offers = tuple(_price(prices, name, offer, hardware, share) for offer in listed.offers)
        return replace(offers[0], count=None, offers=offers)
    owned = None if listed.owned is None else _share(listed.owned, hardware, share, listed)
    hour = None if owned is None else _per_hour(owned)
    low, high, value = ((amount or 0.0) / share if hour is None else hour for amount in (listed.low, listed.high, listed.value))
    return Price(
        hardware=name,
        currency=prices.currency,
        kind="rented" if owned is None else "owned",
        origin=prices.origin,
        low=low,
        high=high,
        value=value,
        assumed=owned is None and not listed.stated,
        source=listed.source,
        read=listed.read,
        note=listed.note,
        owned=owned,
        count=None if listed.count is None else listed.count * share,
    )


def _share(owned: Owned, hardware: Hardware, share: int, listed: Listed) -> Owned:
    """The part of one of `share` accelerators in the amounts, with the power filled in."""
    power = hardware.accelerator.power
    if owned.power is None and power is None:
        raise listed.fail(("owned", "power"), f"is missing: the file of {hardware.title} has no TDP. Give it, such as 700 W")
    drawn = owned.power / share if owned.power is not None else power.value if power is not None else None
    return Owned(owned.capital / share, owned.years, owned.electricity, drawn, owned.pue, owned.other / share)


def load_prices(path: str | os.PathLike[str] | None = None) -> Prices:
    """Load the prices of a file, with the shipped ones for hardware that it lacks.

    Raises:
        SpecError: no such file, an unknown accelerator or key, an invalid amount, with its place in the file.
    """
    default = _default()
    if path is None:
        return Prices((default,))
    given = _read(Path(path).expanduser(), "given")
    return Prices((given, default) if default.currency == given.currency else (given,))


def _default() -> _List:
    for folder in folders("prices"):
        if files.is_file(path := folder / "default.yaml"):
            return _read(path, "default range")
    raise SpecError("the installation is broken: no prices/default.yaml")


def _read(path: Path, origin: Origin) -> _List:
    file, currency, listed = read_prices(path)
    return _List(path, file.sha256, currency, listed, origin)
