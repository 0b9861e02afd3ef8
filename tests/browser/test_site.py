"""The documentation site: it builds without a warning, asks nobody for anything, and is read on a phone and on a projector."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from browser.waits import TIMEOUT_S, settle
from page_parts import check_policy

ROOT = Path(__file__).resolve().parents[2]
LOOKED_AT = (
    "index", "guides/architect", "comparison", "conventions", "_generated/operators/index", "_generated/operators/delta_rule",
    "_generated/hardware/index", "_generated/hardware/h100-sxm", "_generated/cli/analyze", "_generated/python/results",
)  # fmt: skip
REMOTE = re.compile(
    r"<(?:script|img|source|iframe)\b[^>]*\ssrc=\"(?:https?:)?//|<link\b[^>]*\shref=\"(?:https?:)?//|@import|url\(\"?https?:"
)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once for all processes of a run. A warning is an error."""
    for name in ("sphinx", "myst_parser", "furo", "latex2mathml"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    if not os.access(ROOT / "docs", os.W_OK):
        pytest.skip("the checkout is read-only: pages that are written from the code have their place in docs/_generated")
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    built = shared / "site"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "site.log").exists():
            command = [
                sys.executable,
                "-m",
                "sphinx",
                "-q",
                "-W",
                "--keep-going",
                "-d",
                str(shared / "doctrees"),
                "docs",
                str(built),
            ]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=1800, check=False)
            (shared / "site.log").write_text(done.stderr if done.returncode else "", encoding="utf-8")
    assert (shared / "site.log").read_text(encoding="utf-8") == ""
    return built


def test_site_has_every_page(site: Path) -> None:
    """Those of the repository, and those that are written from the code."""
    pages = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    written = {path.relative_to(site).with_suffix("") for path in site.rglob("*.html")}
    assert pages <= written


def test_site_asks_nobody_for_anything(site: Path) -> None:
    """No script, style, font or picture from elsewhere."""
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    assert len(files) > 100
    assert [path.name for path in files if REMOTE.search(path.read_text(encoding="utf-8"))] == []


def test_formulas_are_mathml(site: Path) -> None:
    """None is left as LaTeX for a script to find."""
    page = (site / "_generated/operators/gemm.html").read_text(encoding="utf-8")
    assert page.count("<math ") >= 3
    assert "MathJax" not in page
    assert "$$" not in page


@pytest.mark.parametrize("name", LOOKED_AT)
def test_axe_finds_nothing_and_nothing_sticks_out(site, contexts, axe, name):
    """Wide tables and formulas scroll by themselves; the page does not.

    All pages have one theme: in turns, axe looks at one on a phone in the light and at one on a wide screen in the dark.
    """
    looks = [(400, "light"), (1600, "dark")]
    asked: list[str] = []
    page = contexts().new_page()
    page.on("request", lambda request: asked.append(request.url))
    for index, (width, scheme) in enumerate(looks):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.goto((site / f"{name}.html").as_uri())
        if LOOKED_AT.index(name) % 2 == index:
            assert axe(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    page.close()


# What a newcomer types, and the page that has to come first.
SEARCHES = {
    "install": "install", "pip install": "install", "add GPU": "add-gpu", "add hardware": "add-gpu", "add model": "add-model",
    "python api": "_generated/python/index", "accuracy": "accuracy", "how accurate": "_generated/how-accurate",
    "calculator": "calculators", "capacity": "capacity", "tutorial": "tutorial", "glossary": "glossary",
    "not modelled": "not-modelled", "errors": "_generated/python/errors",
}  # fmt: skip


@pytest.mark.parametrize("query", SEARCHES)
def test_search_has_the_right_page_first(site, contexts, query):
    """In the browser, by the site's own script; records of decisions and changes come after what explains."""
    page = contexts().new_page()
    page.goto(f"{(site / 'search.html').as_uri()}?q={query.replace(' ', '+')}")
    page.locator("#search-results .search-summary").filter(has_text="found").wait_for()
    first = page.locator("#search-results ul.search li a").first
    first.wait_for()
    assert first.get_attribute("href").partition(".html")[0] == SEARCHES[query]
    page.close()


# A control of each calculator, another value of it, and the tile or title that shows it.
CALCULATORS = {
    "any": ("batch", "32", ".tile", "at batch 32"),
    "plan": ("rate", "100", "h1", "100 requests/s"),
    "claim": ("tokens_per_s", "200", ".tile", "200 tok/s"),
    "preempt": ("tokens", "4096", ".subtitle", "4,096 tokens"),
    "op": ("gemm.m", "999", ".subtitle, h1, .verdict", "999"),
}
CALCULATOR_BYTES = 1_300_000


@pytest.mark.parametrize("name", CALCULATORS)
def test_calculators_from_the_first_page(site, chromium, axe, name):
    """Linked from the first page; a control changes the answer and the address, which brings the state back."""
    key, value, place, text = CALCULATORS[name]
    assert (site / "calculators" / f"{name}.html").stat().st_size <= CALCULATOR_BYTES
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, offline=True)
    context.set_default_timeout(TIMEOUT_S * 1000)
    asked: list[str] = []
    problems: list[str] = []
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    context.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    context.on("weberror", lambda error: problems.append(str(error.error)))
    page.goto((site / "index.html").as_uri())
    page.locator(f"main a[href='calculators/{name}.html'], [role=main] a[href='calculators/{name}.html']").first.click()
    _ready(page)
    if name == "op":
        page.locator("#control-operator").select_option("gemm")
        settle(page)
    assert not _shows(page, place, text)
    field = page.locator(f"[id='control-{key}']")
    field.fill(value)
    field.press("Tab")
    settle(page)
    assert page.locator("#alert").inner_text() == ""
    assert _shows(page, place, text)
    assert f"{key}={value}" in page.url
    address, answer, tiles = page.url, page.locator("#answer").inner_text(), page.locator("#tiles").inner_text()
    again = context.new_page()
    again.on("request", lambda request: asked.append(request.url))
    again.goto(address)
    _ready(again)
    assert again.locator(f"[id='control-{key}']").input_value() == value
    assert (again.locator("#answer").inner_text(), again.locator("#tiles").inner_text()) == (answer, tiles)
    assert axe(again) == []
    root = site.as_uri()
    assert [url for url in asked if not url.startswith((root, "data:", f"blob:{root[:5]}", "blob:null"))] == []
    assert problems == []
    context.close()


def test_every_calculator_is_linked_and_tested(site):
    """From the first page and from the page about calculators; none is forgotten here. Each has a strict policy."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (site / "calculators").glob("*.html")}
    written = set(texts)
    assert written == set(CALCULATORS)
    for text in texts.values():
        check_policy(text)
    for page in ("index", "calculators"):
        text = (site / f"{page}.html").read_text(encoding="utf-8")
        assert written == set(re.findall(r'href="calculators/(\w+)\.html"', text))


def _ready(page) -> None:
    page.locator("html[data-live]:not([data-waiting])").wait_for(state="attached")


def _shows(page, place: str, text: str) -> bool:
    return any(text in found for found in page.locator(place).all_inner_texts())
