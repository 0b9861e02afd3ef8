"""Prices: the formula of owned hardware by hand, nodes and ranges, what comes first, and what is refused, with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofline.errors import InputError, SpecError
from roofline.serving.planning.candidates import watts
from roofline.specs.library import load_hardware
from roofline.specs.price_file import Money, parse_money
from roofline.specs.prices import Price, Prices, load_prices


def _prices(folder: Path, text: str) -> Prices:
    path = folder / "prices.yaml"
    path.write_text(text)
    return load_prices(path)


def _price(folder: Path, text: str, hardware: str = "h100-sxm") -> Price:
    found = _prices(folder, text).of(hardware)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "text",
    ["h100-sxm: 2.5 USD/h", "h100_sxm: $2.50/h", "prices: {h100-sxm: {rent: 60 USD/day}}", "h100-sxm: {rent: 21915 USD/year}"],
)
def test_a_rent(tmp_path: Path, text: str) -> None:
    """However it is written; 24 h a day, 8766 h a year."""
    found = _price(tmp_path, text)
    assert (found.low, found.high, found.value, found.per_hour()) == (2.5, 2.5, 2.5, 2.5)
    assert (found.kind, found.origin, found.currency, found.assumed) == ("rented", "given", "USD", False)
    assert found.per_hour(power=100) == 2.5


def test_a_range(tmp_path: Path) -> None:
    """Its mean is an assumption; a value within it is not."""
    found = _price(tmp_path, "h100-sxm: {low: 2 USD/h, high: 5 USD/h}")
    assert (found.low, found.high, found.value, found.assumed) == (2, 5, 3.5, True)
    found = _price(tmp_path, "h100-sxm: {low: 2 USD/h, high: 5 USD/h, value: 2.9 USD/h}")
    assert (found.value, found.assumed) == (2.9, False)


def test_owned_hardware(tmp_path: Path) -> None:
    """28000/(4 x 8766) + 0.7 x 1.3 x 0.12 + 1000/8766 = 0.798540 + 0.109200 + 0.114077 = 1.021817 USD/h."""
    amounts = "capital: 28000 USD, years: 4, power: 700 W, pue: 1.3, electricity: 0.12 USD/kWh, other: 1000 USD/year"
    text = f"h100-sxm: {{owned: {{{amounts}}}}}"
    found = _price(tmp_path, text)
    assert found.per_hour() == pytest.approx(1.021817, abs=1e-6)
    assert found.value == found.low == found.high == found.per_hour()
    assert found.per_hour(power=350) == pytest.approx(1.021817 - 0.0546, abs=1e-6)
    assert (found.kind, found.assumed) == ("owned", False)


def test_power_is_the_tdp_where_nobody_says_it(tmp_path: Path) -> None:
    """700 W is the TDP of an H100 SXM; the PUE is 1.3."""
    text = "{}: {{owned: {{capital: 35064 USD, years: 4, electricity: 1 USD/kWh}}}}"  # 35064 = 4 x 8766: one dollar an hour
    assert _price(tmp_path, text.format("h100-sxm")).per_hour() == pytest.approx(1 + 0.7 * 1.3)
    with pytest.raises(SpecError, match=r"prices\.yaml:1:10: prices\.tpu-v7\.owned\.power: is missing: .* has no TDP"):
        _price(tmp_path, text.format("tpu-v7"), "tpu-v7")


def test_a_node_is_shared_by_its_accelerators(tmp_path: Path) -> None:
    """Eight of them: 98/8 USD/h; of an owned node all amounts are shared, and the TDP is each one's own."""
    assert _price(tmp_path, "dgx-h100: 98 USD/h", "dgx-h100").value == 12.25
    text = "dgx-h100: {owned: {capital: 280512 USD, years: 4, electricity: 1 USD/kWh, pue: 1, other: 70128 USD/year}}"
    assert _price(tmp_path, text, "dgx-h100").per_hour() == pytest.approx(1 + 0.7 + 1)
    text = text.replace("pue: 1", "pue: 1, power: 8000 W")
    assert _price(tmp_path, text, "dgx-h100").per_hour() == pytest.approx(1 + 1.0 + 1)


OFFERS = """
h100-sxm:
  offers:
    - {owned: {capital: 35064 USD, years: 4, electricity: 0 USD/kWh}, count: 4} # 35064 = 4 x 8766: one dollar an hour
    - {rent: 2 USD/h, count: 2, note: reserved}
    - {low: 3 USD/h, high: 5 USD/h}
"""


@pytest.mark.parametrize(
    ("devices", "hour", "low"),
    [(1, 1, 1), (4, 4, 4), (5, 6, 6), (6, 8, 8), (8, 8 + 2 * 4, 8 + 2 * 3), (5.5, 7, 7)],
)
def test_offers_are_used_up_one_after_another(tmp_path: Path, devices: float, hour: float, low: float) -> None:
    """Four at 1, two at 2, the rest at 4 (of 3 to 5), per hour; half a device, as a fleet has in the mean, takes half of it."""
    found = _prices(tmp_path, OFFERS).of("h100-sxm", devices)
    assert found is not None
    assert (found.value * devices, found.low * devices) == pytest.approx((hour, low))
    assert found.available is None
    assert found.describe().partition(", mean of ")[2] == "4 at 1.00 (owned), 2 at 2.00 (reserved), more at 4.00 (rented)"


@pytest.mark.parametrize(("budget", "devices"), [(0.9, 0), (4, 4), (5.9, 4), (8, 6), (11.9, 6), (16, 8)])
def test_what_a_budget_pays_for(tmp_path: Path, budget: float, devices: int) -> None:
    """The inverse of the cost."""
    assert _price(tmp_path, OFFERS).affordable(budget) == devices


def test_offers_of_nodes_and_their_end(tmp_path: Path) -> None:
    """A node at 16 USD/h is eight accelerators at 2; two nodes are 16, and there are no more."""
    prices = _prices(tmp_path, "dgx-h100: {offers: [{rent: 16 USD/h, count: 1}, {rent: 32 USD/h, count: 1}]}")
    found = prices.of("dgx-h100", 12)
    assert found is not None
    assert (found.value * 12, found.available) == (8 * 2 + 4 * 4, 16)
    assert found.affordable(1000) == 16
    assert prices.of("dgx-h100", 17) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("h100-sxm: {offers: []}", r":1:\d+: prices\.h100-sxm\.offers: at least one is needed"),
        ("h100-sxm: {offers: [{rent: 2 USD/h}], note: x}", r"prices\.h100-sxm\.note: stands in each of the offers"),
        ("h100-sxm: {offers: [{rent: 2 USD/h}, {rent: 3 USD/h}]}", r"prices\.h100-sxm\.offers\.1: is never used"),
        ("h100-sxm: {offers: [{rent: 2 USD/h, count: 0}]}", r"offers\.0\.count: .*at least 1"),
        ("h100-sxm: {offers: [{rent: 2 USD/h, cuont: 3}]}", r"cuont.*count"),
        ("h100-sxm: {offers: [{count: 3}]}", r"offers\.0: no price: give a rent"),
        ("h100-sxm: {rent: 2 USD/h, count: 3}", r"count"),
    ],
)
def test_wrong_offers(tmp_path: Path, text: str, said: str) -> None:
    """Each with its place."""
    with pytest.raises(SpecError, match=said):
        _prices(tmp_path, text)


def test_what_is_given_comes_first(tmp_path: Path) -> None:
    """Before what is shipped, also for a node of that accelerator; shipped prices are for what is left."""
    prices = _prices(tmp_path, "h100-sxm: 2.5 USD/h")
    for name, origin, value in (("h100-sxm", "given", 2.5), ("dgx-h100", "given", 2.5), ("b200-sxm", "default range", 6.095)):
        found = prices.of(name)
        assert found is not None
        assert (found.origin, found.value) == (origin, pytest.approx(value))  # B200: (5.50 + 6.69)/2
    node = _prices(tmp_path, "h100-sxm: 2.5 USD/h\ndgx-h100: 24 USD/h")
    assert [price.value for name in ("h100-sxm", "dgx-h100") if (price := node.of(name))] == [2.5, 3]
    assert [entry.path for entry in prices.inputs] == [str(tmp_path / "prices.yaml"), "shipped"]


def test_another_currency_stands_alone(tmp_path: Path) -> None:
    """Euros are not added to dollars: what is shipped is left out."""
    prices = _prices(tmp_path, "currency: EUR\nh100-sxm: €2.5/h")
    assert (prices.currency, prices.of("b200-sxm")) == ("EUR", None)


def test_without_a_price() -> None:
    """None, for who asks; an unknown name is an error."""
    prices = load_prices()
    assert prices.of("mi300x") is None
    assert prices.of(load_hardware("h100-sxm")[0]) == prices.of("h100-sxm")
    with pytest.raises(InputError, match="Did you mean h100-sxm"):
        prices.of("h100-smx")


def test_where_a_price_comes_from_is_told(tmp_path: Path) -> None:
    """Source and date, of the source or of the file."""
    text = "read: 2026-02-01\nprices:\n  h100-sxm: {rent: 2 USD/h, source: list}\n  l40s: 1 USD/h\n"
    text += "sources:\n  list: {title: A list, read: 2026-01-31}\n"
    prices = _prices(tmp_path, text)
    told = [price.describe() for name in ("h100-sxm", "l40s") if (price := prices.of(name))]
    assert told == ["2.00 USD/h (rented; A list; read 2026-01-31)", "1.00 USD/h (rented; read 2026-02-01)"]


_OWNED = "h100-sxm: {owned: {capital: 28000 USD, years: 4, electricity: 0.12 USD/kWh}}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h100-smx: 2.5 USD/h", ":1:1: prices.h100-smx: unknown accelerator or key 'h100-smx'. Did you mean h100-sxm"),
        (
            "curency: EUR\nh100-sxm: 2 EUR/h",
            ":1:1: prices.curency: unknown accelerator or key 'curency'. Did you mean currency?",
        ),
        (
            "a100: 2 USD/h",
            "hardware 'a100' is ambiguous: it could be a100-pcie-40gb, a100-pcie-80gb, a100-sxm-40gb, a100-sxm-80gb",
        ),
        ("l40s: 1 USD/h\nh100-sxm: 2.5", ":2:1: prices.h100-sxm.rent: '2.5' has no currency: write it such as 2.5 USD/h"),
        ("h100-sxm: -2.5 USD/h", "'-2.5 USD/h' must be more than 0 and finite"),
        ("h100-sxm: 0 USD/h", "'0 USD/h' must be more than 0 and finite"),
        ("h100-sxm: nan USD/h", "'nan USD/h' must be more than 0 and finite"),
        ("h100-sxm: inf USD/h", "'inf USD/h' must be more than 0 and finite"),
        ("h100-sxm: 2.5 USD", "'2.5 USD' is per nothing: it is an amount per h, hr, hour, day, month, year"),
        ("h100-sxm: 2.5 USD/GPU", "'2.5 USD/GPU' is per GPU: it is an amount per h"),
        ("h100-sxm: dear", "cannot read 'dear' as money"),
        ("h100-sxm: $2.5 USD/h", "has two currencies"),
        ("h100-sxm: 2.5 EUR/h", "is in EUR, and the key currency says USD"),
        ("currency: dollar\nh100-sxm: 2 USD/h", ":1:1: currency: must be a code of three capital letters, such as USD"),
        ("h100-sxm: {low: 3 USD/h, high: 2 USD/h}", ":1:12: prices.h100-sxm.low: low is 3 and high is 2"),
        ("h100-sxm: {low: 3 USD/h}", "low and high go together"),
        ("h100-sxm: {low: 2 USD/h, high: 3 USD/h, value: 4 USD/h}", "4 is not between low, 2, and high, 3"),
        ("h100-sxm: {rent: 2 USD/h, value: 2 USD/h}", "goes with low and high"),
        ("h100-sxm: {rent: 2 USD/h, low: 1 USD/h, high: 3 USD/h}", "rent and low together"),
        ("h100-sxm: {}", "no price: give a rent such as 2.5 USD/h, low and high, or owned"),
        ("h100-sxm: [2]", "must be a number or a text"),
        ("h100-sxm: {lo: 3 USD/h}", ":1:12: unknown key 'lo'. Did you mean low? (at prices.h100-sxm.lo)"),
        ("h100-sxm: {rent: 2 USD/h, source: list}", "unknown source 'list'"),
        ("h100-sxm: 2 USD/h\nh100_sxm: 3 USD/h", ":2:1: prices.h100_sxm: h100-sxm has a price already"),
        ("prices: {}", "at least one is needed, such as h100-sxm: 2.5 USD/h"),
        ("currency: USD", "at least one is needed, such as h100-sxm: 2.5 USD/h"),
        (_OWNED.replace("years: 4", "years: 0"), "prices.h100-sxm.owned.years: must be a number of years from 0.1 to 50"),
        (_OWNED.replace("years: 4", "yers: 4"), "unknown key 'yers'. Did you mean years?"),
        (_OWNED.replace("0.12 USD/kWh", "0.12 USD"), "'0.12 USD' is per nothing: it is an amount per kWh, MWh"),
        (_OWNED.replace("28000 USD", "28000 USD/h"), "'28000 USD/h' is per h: it is an amount, per nothing"),
        (_OWNED.replace("years: 4", "years: 4, power: 700"), "owned.power: '700' has no unit"),
        (_OWNED.replace("years: 4", "years: 4, pue: 0.9"), "owned.pue: must be a factor from 1 to 5, such as 1.3, not '0.9'"),
        (_OWNED.replace(", electricity: 0.12 USD/kWh", ""), "key 'prices.h100-sxm.owned.electricity' is missing"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    """By line and column: what is wrong, and what is allowed."""
    with pytest.raises(SpecError) as caught:
        _prices(tmp_path, text + "\n")
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "prices.yaml"))


def test_money() -> None:
    """Signs and codes, before or after; thousands with commas."""
    assert parse_money("28,000 usd") == parse_money("$28000") == parse_money("USD 28_000") == Money(28000, "USD")
    assert parse_money("0 EUR/kWh", "kWh", zero=True) == Money(0, "EUR")
    assert parse_money("1000 EUR/month", "year") == Money(pytest.approx(12000), "EUR")


def test_power() -> None:
    """Sixteen H100 of 700 W for an hour: 11.2 kW, 11.2 kWh = 40.32 MJ, at a PUE of 1.5 half as much again."""
    hardware, _ = load_hardware("dgx-h100")
    assert watts(hardware, 16) == 11_200
    unknown, _ = load_hardware("tpu-v7")
    assert watts(unknown) is None
