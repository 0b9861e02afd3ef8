"""The page of a plan: what is moved is counted as Python counts it; keyboard, address, light and dark, a phone, paper."""

from __future__ import annotations

import json
import random
from dataclasses import asdict

import pytest
from browser.paper import pages_of
from browser.test_live import PLAIN, different
from browser.waits import settle
from unit.report.plan_samples import candidate, closed, infeasible, offered, plan, pool

from roofline.report.plan.load import planned
from roofline.report.plan.page import saved_plan_page as made
from roofline.report.plan.page import view
from roofline.report.plan.scaling import first_values

SEED, ROUNDS = 20261122, 30
APART = [pool("prefill", 4.1, 1, spare=2, binds="throughput"), pool("decode", 3.9, 8, spare=2, binds="throughput")]
WIDE = plan(
    candidates=[{**candidate("h100-sxm", APART, 0.123, 0.0123), "hardware": "a100-sxm-80gb", "precision": "fp8_block"}] * 3,
    limits={"max_gpus": 200, "max_cost": 1e4, "inventory": {"a100-sxm-80gb": 150}, "spare": 2, "modes": ["disaggregated"]},
    pareto=[0, 1, 2],
)
PLANS = {"open": plan(), "offered": offered(), "closed": closed(), "infeasible": infeasible(), "wide": WIDE}
LIVE = ("open", "closed", "wide")


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """A page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    for name, found in PLANS.items():
        (folder / f"{name}.html").write_text(made(found), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in PLANS}


def now(page):
    """Replicas by candidate and pool, as the page shows them."""
    heads = page.locator("#table-pools thead th").all_text_contents()
    index = heads.index("replicas now")
    rows = page.locator("#table-pools tbody tr").all()
    return {
        row.locator(":scope > *").nth(1).text_content(): int(row.locator(":scope > *").nth(index).text_content())
        for row in rows
    }


@pytest.mark.parametrize("name", ["open", "offered", "closed"])
def test_browser_counts_what_python_counts(open_page, paths, name):
    """Every text, number and plotted point at rates and prices nobody chose."""
    page, read = open_page(paths[name]), planned(PLANS[name])
    chance, first = random.Random(SEED), first_values(read)  # noqa: S311 - seeded on purpose
    states = [first] + [
        {key: value if chance.random() < 0.3 else value * 10 ** chance.uniform(-1, 1) for key, value in first.items()}
        for _ in range(ROUNDS)
    ]
    for state in [*states, {**first, "price.l40s": 0.5}, *({**first, "rate": rate} for rate in (20.0, 60.0, 100.0))]:
        values = {key: value for key, value in state.items() if key in first}
        got = json.loads(page.evaluate(PLAIN, values))
        assert list(different(asdict(view(read, values)), got)) == [], values


@pytest.mark.parametrize("name", ["open", "closed", "wide"])
def test_the_candidates_fit_their_box(open_page, paths, name):
    """At 1440 px no column is out of sight, and the widest texts do not scroll sideways."""
    page = open_page(paths[name], width=1440, height=900)
    widths = page.locator("#table-candidates").evaluate(
        "(table) => [table.getBoundingClientRect().width, table.parentElement.clientWidth]"
    )
    assert 0 < widths[0] <= widths[1] + 1


def test_the_rate_moves_replicas(open_page, paths):
    """At 100/s: ceil(100/20), ceil(100/40) and ceil(100/55), ceil(100/12)."""
    page = open_page(paths["open"])
    assert list(now(page).values()) == [3, 2, 1, 5]
    page.locator("#control-rate").fill("100")
    settle(page)
    assert now(page) == {
        "h100-sxm, fp8, one device": 5, "h100-sxm, fp8, one device, prefill": 3, "h100-sxm, fp8, one device, decode": 2,
        "l40s, fp8, tp=2": 9,
    }  # fmt: skip
    assert page.locator("#answer p").nth(1).inner_text().startswith("What if: 5 x H100-SXM serve 100 requests/s")
    assert page.evaluate("location.hash") == "#rate=100"
    page.locator("#reset").click()
    settle(page)
    assert list(now(page).values()) == [3, 2, 1, 5]
    assert page.evaluate("location.hash") == ""


def test_a_price_moves_the_ranking_by_keyboard(open_page, paths):
    page = open_page(paths["open"])
    slider = page.locator('[data-control="price.l40s"] input[type="range"]')
    slider.focus()
    for _ in range(30):
        page.keyboard.press("ArrowLeft")
    settle(page)
    assert page.locator('[id="control-price.l40s"]').input_value() == "0.7"
    assert slider.get_attribute("aria-valuetext") == "0.7 USD/h"
    first = page.locator("#table-candidates tbody tr").first.inner_text()
    assert "l40s" in first
    assert "7.00" in first  # ten of them
    assert page.evaluate("location.hash") == "#price.l40s=0.7"


def test_an_address_brings_a_state_back(open_page, paths):
    page = open_page(paths["open"], "#rate=100&price.l40s=0.5&price.none=3&rate=x")
    assert page.locator("#control-rate").input_value() == "100"
    assert page.locator("#table-candidates tbody tr").first.inner_text().startswith("3")
    page = open_page(paths["closed"], "#rate=100")
    assert page.locator("#control-rate").count() == 0
    assert list(now(page).values()) == [3, 2, 1, 5]


def test_what_was_planned_can_be_pinned(open_page, paths):
    page = open_page(paths["open"])
    page.locator("#pin").click()
    page.locator("#control-rate").fill("100")
    settle(page)
    assert page.locator('[data-cell="tile/Devices"] .pinned').inner_text().endswith("3")


def test_without_scripts_the_plan_is_there(open_page, paths):
    page = open_page(paths["open"], java_script_enabled=False)
    assert list(now(page).values()) == [3, 2, 1, 5]
    assert page.locator('[data-control="rate"] .shown').inner_text() == "50 requests/s"
    assert not page.locator("#control-rate").is_visible()
    assert page.locator("#figure-cost-tpot svg").is_visible()


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 320)])
def test_axe_finds_nothing(open_page, axe, draw_all, paths, name, scheme, width):
    page = open_page(paths[name], width=width, color_scheme=scheme)
    if name in LIVE:
        draw_all(page)
    page.evaluate("for (const box of document.querySelectorAll('details')) box.open = true")
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize(("name", "fragment"), [*((name, "") for name in PLANS), ("wide", "#rate=400")])
def test_paper(open_page, axe, paths, name, fragment):
    """No page is empty, and no table is wider than the sheet."""
    page = open_page(paths[name], fragment, width=688)  # A4 without its margins
    page.emulate_media(media="print")
    if name == "infeasible" or fragment:  # the other pages have the same parts as the one that is changed
        assert axe(page) == []
    wide = page.evaluate("Math.max(...[...document.querySelectorAll('table')].map((one) => one.getBoundingClientRect().right))")
    assert wide <= 688
    assert min(pages_of(page.pdf(format="A4"))) > 3
