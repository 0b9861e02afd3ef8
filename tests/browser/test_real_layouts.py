"""Real pages in light and dark, on a phone and on paper."""

from __future__ import annotations

import pytest
from browser.paper import pages_of

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


@pytest.mark.parametrize("fragment", ["", "#batch=64"])
def test_paper_has_no_empty_page(open_page, path, fragment):
    """Pages of the PDF, each with something to read on it."""
    pages = pages_of(open_page(path, fragment).pdf(format="A4"))
    assert 5 < len(pages) < 40
    assert min(pages) > 3, pages
