"""The page of a sweep in light and dark, on a phone and on paper."""

from __future__ import annotations

import pytest
from browser.paper import printed
from unit.report.sweep_samples import HARDWARE, described, row, rows, swept

from roofline.report.sweep.page import sweep_page as made

BEST = described(
    reduce={"rule": "best", "objectives": ["tokens_per_s_per_device_estimate:max"], "by": ["hardware"], "limits": {}}
)
COUNTED = described(reduce={"rule": "histogram", "objectives": ["time_estimate_s:min"], "by": [], "limits": {}})
BINS = [
    {"phase": "decode", "column": "time_estimate_s", "low": 0.01, "high": 0.0125893, "count": 7},
    {"phase": "decode", "column": "time_estimate_s", "low": 0.0199526, "high": 0.0251189, "count": 2},
]
REFUSED = ({"configuration": {"hardware": HARDWARE[0]}, "points": 6, "why": "3 divides no heads, " * 10},)
KINDS = {
    "grid": swept(refused=REFUSED),
    "wide": swept([row(HARDWARE[0], batch, tokens) for batch in range(1, 30) for tokens in range(100, 130)], described=None),
    "best": swept([row(name, 4, 1024) for name in HARDWARE], described=BEST),
    "counts": swept(BINS, described=COUNTED),
    "pareto": swept(rows(), described={**BEST, "reduce": {**BEST["reduce"], "rule": "pareto"}}),
}


@pytest.fixture(scope="module", params=list(KINDS))
def path(request, tmp_path_factory):
    """A page of each kind."""
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(made(KINDS[request.param]), encoding="utf-8")
    return file


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 320)])
def test_axe_finds_nothing(open_page, axe, path, scheme, width):
    page = open_page(path, width=width, color_scheme=scheme)
    page.evaluate("for (const box of document.querySelectorAll('details')) box.open = true")
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_paper(open_page, axe, path):
    page = open_page(path)
    page.emulate_media(media="print")
    assert axe(page) == []
    for table in page.locator(".section > .table table").all():
        assert table.is_visible()
    printed(page)


def test_tables_end_on_the_paper(open_page, path):
    """What is wider than the sheet is cut off."""
    page = open_page(path, width=688)  # A4 without its margins
    page.emulate_media(media="print")
    wide = page.evaluate("Math.max(...[...document.querySelectorAll('table')].map((one) => one.getBoundingClientRect().right))")
    assert wide <= 688
