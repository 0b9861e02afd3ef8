"""The page in light and dark, on paper and on a phone, with and without JavaScript: readable in all of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from browser.paper import pages_of, printed
from browser.standin import FIRST, NAME, REPRODUCE, made, view
from browser.waits import wait_until

from roofline.report.page import static_page


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the stand-in."""
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(made(), encoding="utf-8")
    return file


@pytest.mark.parametrize(("width", "scheme"), [(320, "dark"), (1280, "light"), (3840, "dark")])
def test_axe_finds_nothing(open_page, axe, draw_all, path, scheme, width):
    page = open_page(path, width=width, color_scheme=scheme)
    draw_all(page)
    assert axe(page) == []


def test_axe_finds_nothing_on_paper(open_page, axe, draw_all, path):
    """Of a page that is dark on the screen; pages of plans, sweeps and simulations are printed from a light one."""
    page = open_page(path, color_scheme="dark")
    draw_all(page)
    page.emulate_media(media="print")
    assert axe(page) == []


def test_axe_finds_nothing_while_refused_and_pinned(open_page, axe, path):
    page = open_page(path, "#pin.batch=64")
    assert axe(page) == []
    page.evaluate("location.hash = '#batch=4095&pin.batch=64'")
    page.locator("#alert").filter(has_text="refused").wait_for()
    assert axe(page) == []


def test_axe_finds_nothing_without_a_script(open_page, axe, path):
    # axe is itself a script: the page keeps the state in which its own has not run
    page = open_page(path)
    page.evaluate("delete document.documentElement.dataset.live")
    assert axe(page) == []


@pytest.mark.parametrize("width", [320, 768, 1280, 3840])
def test_nothing_is_wider_than_the_window(open_page, draw_all, path, width):
    page = open_page(path, width=width)
    draw_all(page)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    wide = page.locator("#table-wide .scroll")
    if width == 320:
        assert wide.evaluate("(box) => box.scrollWidth > box.clientWidth")
    page.set_viewport_size({"width": 640, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") == 640
    for plot in page.locator(".plot").all():  # plots follow when they are seen
        plot.scroll_into_view_if_needed()
        wait_until(page, "(plot) => plot.layout.width < 640", plot.element_handle())


def test_settings_stay_in_sight_on_wide_screens(open_page, path):
    page = open_page(path, width=1600)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    box = page.locator("#control-batch").bounding_box()
    assert 0 <= box["y"] < 900


def test_without_javascript(open_page, path):
    page = open_page(path, java_script_enabled=False)
    assert page.locator("h1").inner_text() == f"{NAME} on A100 SXM 80 GB"
    assert page.locator(".verdict").is_visible()
    assert page.locator(".tile .value").first.inner_text() == "16384"
    assert page.locator("[data-control=batch] .shown").inner_text() == "8 sequences"
    for table in page.locator("table").all():
        assert table.is_visible()
    for picture in page.locator(".still svg").all():
        assert picture.is_visible()
    for button in page.locator("button, input, select").all():
        assert not button.is_visible()


def test_plots_are_drawn_before_they_are_seen(open_page, path):
    page = open_page(path, height=300)
    page.locator("[data-chart=grid] .plot .main-svg").first.wait_for(state="attached")
    assert not page.locator("[data-chart=grid] .still svg").is_visible()
    assert page.evaluate("scrollY") == 0


@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("fragment", ["", "#batch=64"])
def test_drawing_moves_nothing(open_page, draw_all, path, fragment, width):
    """A button that slips away between press and release is not pressed."""
    places = """() => [...document.querySelectorAll("main *:not(.chart *)")].map((element) => {
      const { top, height } = element.getBoundingClientRect();
      return [element.localName, element.id, Math.round(top + scrollY), Math.round(height)];
    })"""
    page = open_page(path, fragment, width=width)
    before = page.evaluate(places)
    draw_all(page)
    assert page.evaluate(places) == before
    assert len(before) > 50


@pytest.mark.parametrize("width", [320, 1280])
def test_plots_stay_in_their_boxes_after_a_change(open_page, draw_all, path, width):
    page = open_page(path, width=width)
    draw_all(page)
    page.evaluate("location.hash = '#batch=64'")
    wait_until(page, "document.querySelector('[data-chart=roofline] .plot').data[1].x[0] === 64")
    draw_all(page)
    outside = page.evaluate("""() => [...document.querySelectorAll(".chart")].filter((chart) => {
      const [box, plot] = [chart, chart.querySelector(".plot")].map((element) => element.getBoundingClientRect());
      return plot.top < box.top - 1 || plot.bottom > box.bottom + 1;
    }).length""")
    assert outside == 0


def test_theme(open_page, path):
    page = open_page(path, color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    chart = page.locator("[data-chart=roofline]")
    chart.scroll_into_view_if_needed()
    chart.locator(".main-svg").first.wait_for()
    ink = "document.querySelector('[data-chart=roofline] .plot').layout.font.color"
    light, light_ink = page.evaluate(ground), page.evaluate(ink)
    page.locator("input[value=dark]").check(force=True)
    wait_until(page, f"{ink} !== '{light_ink}'")
    dark = page.evaluate(ground)
    assert dark != light
    page.emulate_media(color_scheme="dark")
    page.locator("input[value=light]").check(force=True)
    wait_until(page, f"{ink} === '{light_ink}'")
    assert page.evaluate(ground) == light
    page.locator("input[value=auto]").check(force=True)
    assert page.evaluate(ground) == dark


@pytest.mark.parametrize(("fragment", "paper"), [("", "A4"), ("#batch=64", "Letter")])
@pytest.mark.parametrize("script", [True, False], ids=["live", "no script"])
def test_pdf_has_no_empty_page(open_page, path, fragment, script, paper):
    page = open_page(path, fragment, java_script_enabled=script)
    pages = pages_of(page.pdf(format=paper))
    assert 2 <= len(pages) <= 7
    assert min(pages) > 0, pages


def test_paper_ends_with_the_last_text(open_page, path):
    """Whatever the fonts, nothing empty lies below it that could fall on a sheet of its own."""
    page = open_page(path)
    page.emulate_media(media="print")
    last = page.locator("footer pre").bounding_box()
    assert page.evaluate("document.body.getBoundingClientRect().bottom") == pytest.approx(last["y"] + last["height"], abs=1)


def test_paper_shows_folded_sections_and_settings_as_text(open_page, path):
    page = open_page(path)
    assert page.locator("#numbers-inputs").get_attribute("open") is None
    page.evaluate("""addEventListener("beforeprint", () => {
      window.closed = document.querySelectorAll(":is(.fold, .group):not([open])").length;
    })""")
    page.pdf()
    assert page.evaluate("closed") == 0
    wait_until(page, "!document.querySelector('#numbers-inputs').open")  # and back
    page.emulate_media(media="print")
    assert page.locator("#table-inputs").is_visible()
    assert page.locator("[data-control=batch] .shown").is_visible()
    assert page.locator("[data-control=batch] .shown").inner_text() == "8 sequences"
    for button in page.locator("button, input, select").all():
        assert not button.is_visible()


def test_paper_leaves_out_numbers_and_says_so(open_page, tmp_path):
    """Those of figures, and the end of a long table."""
    first = view(FIRST)
    long = replace(first.assumptions, rows=first.assumptions.rows * 21)
    file = tmp_path / "long.html"
    file.write_text(static_page(replace(first, assumptions=long), REPRODUCE), encoding="utf-8")
    page = open_page(file)
    text = " ".join(printed(page))
    assert text.count("block size") == text.count("given: by you") + 19 == 20  # of 42 rows 40, every other one
    assert "Left out on paper: rows after the 40th. They are on the page, and in its JSON and CSV." in text
    assert "Left out on paper: the numbers of the figures." in text
    assert "Intensity by operator" not in text
    assert "A wide table" in text


def test_paper_shows_the_state_of_the_page(open_page, path):
    page = open_page(path, "#batch=64", color_scheme="dark")
    page.pdf()
    page.emulate_media(media="print", color_scheme="dark")
    pictures = page.locator(".still svg")
    drawn = [(json.loads(one.text_content()), one.get_attribute("viewBox"), one.is_visible()) for one in pictures.all()]
    tokens = [[size * count + 2048 for count in (512, 1024, 4096)] for size in (1, 65, 256)]
    assert drawn == [
        ([1, 153, 10000], "0 0 760 360", True),
        ([0.002, 0.004, 0.006, 0.008, 0.01], "0 0 480 360", True),  # of half of the page
        (tokens, "0 0 760 360", True),
    ]
    assert not any(plot.is_visible() for plot in page.locator(".plot").all())
