"""The page of a simulation: shares as Python counts them; light and dark, a phone, paper; hover and keyboard."""

from __future__ import annotations

import json
import random
from dataclasses import asdict

import pytest
from browser.cells import cell
from browser.paper import pages_of
from browser.test_live import PLAIN, different
from browser.waits import settle

from roofline.report.simulation.figures import view
from roofline.report.simulation.page import controls, page_data
from roofline.report.simulation.page import simulation_page as made
from roofline.serving.simulation.simulate import simulate

SEED, ROUNDS = 20261122, 20
LINE = "roofline simulate llama-3.1-8b --hardware a100-sxm-80gb --rate 5"
LOAD = {"input_len": "lognormal:1155:900:6000", "output_len": "lognormal:150:120:900"}
GIVEN = {
    "plain": {"rate": 5, "requests": 500, "ttft": "200 ms", "tpot": "25 ms", **LOAD},
    "pressed": {"rate": 7, "requests": 500, "memory": "20.5 GiB", "preemption": "swap", "replicas": 2, **LOAD},
    "replicated": {"rate": 4, "requests": 120, "replications": 3, **LOAD},
    "closed": {"workload": "closed:16", "requests": 300, **LOAD},
    "tiny": {"workload": "at-once:3", "input_len": 500, "output_len": 40},
    "refused": {"workload": "at-once:3", "input_len": 5000, "output_len": 1, "max_model_len": 4000},
}
LIVE = [name for name in GIVEN if name != "refused"]


@pytest.fixture(scope="module")
def results():
    """A run of each kind."""
    return {name: simulate("llama-3.1-8b", "a100-sxm-80gb", **given) for name, given in GIVEN.items()}


@pytest.fixture(scope="module")
def paths(results, tmp_path_factory):
    """Their pages."""
    folder = tmp_path_factory.mktemp("pages")
    for name, result in results.items():
        (folder / f"{name}.html").write_text(made(result, LINE), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in results}


@pytest.mark.parametrize("name", ["plain", "tiny"])
def test_browser_reads_what_python_reads(open_page, paths, results, name):
    """Every text, number and plotted point with the lines anywhere."""
    page, read = open_page(paths[name]), page_data(results[name], LINE)
    chance = random.Random(SEED)  # noqa: S311 - seeded on purpose
    first = {control.key: control.value for control in controls(read)}
    states = [first] + [
        {control.key: control.low * (control.high / control.low) ** chance.random() for control in controls(read)}
        for _ in range(ROUNDS)
    ]
    for values in states:
        got = json.loads(page.evaluate(PLAIN, values))
        assert list(different(asdict(view(read, values)), got)) == [], values


def test_a_line_moves_its_share(open_page, paths, results):
    """At the 90th percentile nine of ten are within; the address keeps it."""
    page = open_page(paths["plain"])
    percentile = f"{results['plain'].ttft_s.p90 * 1000:.4g}"
    page.locator("#control-ttft").fill(percentile)
    settle(page)
    share = float(page.locator(cell("within", 0, 2)).get_attribute("data-value"))
    assert share == pytest.approx(0.9, abs=0.006)
    assert page.evaluate("location.hash") == f"#ttft={percentile}"
    page.locator("#reset").click()
    settle(page)
    assert page.locator(cell("within", 0, 1)).inner_text() == "200 ms"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 320)])
@pytest.mark.parametrize("name", ["plain", "pressed", "replicated", "refused"])
def test_axe_finds_nothing(open_page, axe, draw_all, paths, name, scheme, width):
    page = open_page(paths[name], width=width, color_scheme=scheme)
    if name != "refused":
        draw_all(page)
    page.evaluate("for (const box of document.querySelectorAll('details')) box.open = true")
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("name", LIVE)
def test_every_plot_is_drawn(open_page, draw_all, paths, name):
    """By plotly, and with a line in it."""
    page = open_page(paths[name])
    draw_all(page)
    plots = page.locator(".plot").all()
    assert len(plots) == page.locator("[data-chart]").count() >= 4
    for plot in plots:
        assert plot.locator("path.js-line").count() >= 1


def test_a_point_says_its_number_by_keyboard(open_page, draw_all, paths):
    page = open_page(paths["plain"])
    draw_all(page)
    plot = page.locator("[data-chart=kv] .plot")
    plot.focus()
    page.keyboard.press("ArrowRight")
    assert plot.locator("xpath=following-sibling::p").inner_text().startswith("in use, ")


@pytest.mark.parametrize("script", [True, False], ids=["live", "no script"])
@pytest.mark.parametrize("name", ["plain", "pressed", "refused"])
def test_paper_has_no_empty_page(open_page, paths, name, script):
    page = open_page(paths[name], java_script_enabled=script)
    pages = pages_of(page.pdf(format="A4"))
    assert 2 <= len(pages) <= 8
    assert min(pages) > 3, pages


@pytest.mark.parametrize("name", ["pressed", "replicated"])
def test_tables_end_on_the_paper(open_page, axe, paths, name):
    """What is wider than the sheet is cut off."""
    page = open_page(paths[name], width=688)  # A4 without its margins
    page.emulate_media(media="print")
    assert axe(page) == []
    wide = page.evaluate("Math.max(...[...document.querySelectorAll('table')].map((one) => one.getBoundingClientRect().right))")
    assert wide <= 688


def test_without_scripts_everything_is_there(open_page, paths):
    page = open_page(paths["pressed"], java_script_enabled=False)
    for picture in page.locator(".still svg").all():
        assert picture.is_visible()
    for table in page.locator("table").all():
        assert table.is_visible()
    assert page.locator("[data-control=ttft] .shown").inner_text().endswith("ms")
