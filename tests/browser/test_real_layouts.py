"""Real pages in light and dark, on a phone and on paper."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser.paper import printed

from roofline.report.analysis.page import report
from roofline.report.formulas import formulas


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A page with a mixture of experts on two kinds of devices, formulas included."""
    file = tmp_path_factory.mktemp("page") / "page.html"
    text = report("mixtral-8x7b", ["h200-sxm", "a100-sxm-80gb"], {"batch": 16, "tp": 2}, formulas)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 320)])
def test_axe_finds_nothing(open_page, axe, draw_all, path, scheme, width):
    page = open_page(path, width=width, color_scheme=scheme)
    draw_all(page)
    page.evaluate("for (const box of document.querySelectorAll('details')) box.open = true")
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_axe_finds_nothing_on_paper(open_page, axe, path):
    page = open_page(path)
    page.emulate_media(media="print")
    assert axe(page) == []


def test_paper(open_page, path):
    """The largest report: at most eight sheets, figures but for further schematics on the first two, vectors, at most 1 MB."""
    page = open_page(path)
    titles = page.locator("figure[id]").evaluate_all(
        "(all) => all.map((one) => one.closest('section').querySelector('h2').innerText)"
    )
    first_two = " ".join(printed(page)[:2])
    assert len(titles) == 11  # a schematic for each hardware
    assert [title for title in titles if title not in first_two] == ["Time of each part of a100-sxm-80gb"]


@pytest.fixture(scope="module")
def first_screen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page that `roofline report` writes of one model on one card."""
    file = tmp_path_factory.mktemp("first") / "report.html"
    file.write_text(report("llama-3.1-8b", ["a100-sxm-80gb"], {}), encoding="utf-8")
    return file


_BOXES = """(selector) => [...document.querySelectorAll(selector)].map((element) => {
  const { left, top, right, bottom } = element.getBoundingClientRect();
  return { left, top, right, bottom };
})"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_picture_is_on_the_first_screen(open_page, first_screen, scheme):
    """At 1440 x 900: the verdict, five tiles in one row, and two figures side by side, drawn and whole."""
    page = open_page(first_screen, width=1440, height=900, color_scheme=scheme)
    page.locator("[data-chart=explorer] .main-svg").first.wait_for()
    (verdict,) = page.evaluate(_BOXES, ".verdict")
    assert page.locator(".verdict").inner_text().startswith("Fits. Decode is memory-bound: ")
    tiles = page.evaluate(_BOXES, ".tile")
    assert len(tiles) == 5
    assert len({tile["top"] for tile in tiles}) == 1
    assert verdict["bottom"] <= tiles[0]["top"]
    figures = page.evaluate(_BOXES, "[data-chart=roofline] .plot, [data-chart=explorer] .plot")
    assert len(figures) == 2
    assert figures[0]["right"] < figures[1]["left"]
    assert max(tile["bottom"] for tile in tiles) < min(figure["top"] for figure in figures)
    assert max(figure["bottom"] for figure in figures) <= 900
    assert page.evaluate("scrollY") == 0


def test_on_a_phone_the_tiles_come_first_and_settings_are_in_a_drawer(open_page, first_screen):
    page = open_page(first_screen, width=375, height=812)
    tiles = page.evaluate(_BOXES, ".tile")
    assert len(tiles) == 5
    assert max(tile["bottom"] for tile in tiles) < 812
    assert not page.locator("#control-batch").is_visible()
    page.locator(".drawer > summary").click()
    page.locator("#control-batch").fill("8")
    page.locator("[data-chart=roofline]").scroll_into_view_if_needed()
    page.locator('[data-control=batch] input[type="range"]').wait_for()
    (drawer,) = page.evaluate(_BOXES, ".drawer")
    assert 0 <= drawer["top"] < drawer["bottom"] <= 0.62 * 812


@pytest.mark.parametrize("width", [320, 768, 1440, 3840])
def test_a_report_is_never_wider_than_the_window(open_page, draw_all, first_screen, width):
    """Opened and drawn at a width; `test_page_kinds.py` changes the width of pages that are open."""
    page = open_page(first_screen, width=width)
    draw_all(page)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for box in page.evaluate(_BOXES, ".tile, .section, .plot"):
        assert -1 <= box["left"] <= box["right"] <= width + 1


def test_sliders_of_figures_that_may_be_given_go_over_useful_ranges(open_page, first_screen):
    """A step is a fraction of the number. Boxes begin with the number of the datasheet, to which Reset goes back, or empty."""
    page = open_page(first_screen, width=1440)
    for key in ("peak_tflops", "bandwidth_gbs", "memory_gb", "ttft_ms", "tpot_ms"):
        control = page.locator(f"[data-control={key}]")
        box, slider = page.locator(f"#control-{key}"), control.locator('input[type="range"]')
        first = box.input_value()
        assert (first == "") == key.endswith("_ms")
        slider.focus()
        page.keyboard.press("End")
        most = float(box.input_value())
        page.keyboard.press("ArrowLeft")
        assert 0.6 < float(box.input_value()) / most < 1
        page.keyboard.press("Home")
        if first:
            # a tenth of the least of all hardware, of which one has 2.6 TFLOP/s: five decades, 55 pixels each
            assert 0.0005 < float(box.input_value()) / float(first) < 0.5
            control.locator(".undo").click()
        assert box.input_value() == first
        assert box.get_attribute("placeholder") == ("datasheet" if first else "none")
