"""Pages in Debian's Chromium, driven by Playwright; without one of the two the tests are skipped.

Whatever a page does wrong by itself fails the test that opened it: an error on the console, a request, a violation of its
content security policy.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser.waits import TIMEOUT_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request

AXE = Path(__file__).with_name("axe.min.js")
_REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI, sample }) => {
  console.error(`content security policy: ${violatedDirective} ${blockedURI} ${sample}`);
});
"""


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for all tests of a process."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("Chromium is not installed")
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


Open = Callable[..., "Page"]


@pytest.fixture(scope="session")
def contexts(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., BrowserContext]]:
    """The context of some options, one for all tests of a process: what a test's pages keep in it is cleared at its end.

    In each stands an empty page, which keeps the process alive that draws files: to start one takes as long as to load a page.
    """
    empty = tmp_path_factory.mktemp("empty") / "empty.html"
    empty.write_text("<!doctype html><title>Empty</title>", encoding="utf-8")
    found: dict[tuple[tuple[str, Any], ...], BrowserContext] = {}

    def context(**options: Any) -> BrowserContext:
        key = tuple(sorted(options.items()))
        if key not in found:
            found[key] = chromium.new_context(**options)
            found[key].set_default_timeout(TIMEOUT_S * 1000)
            found[key].new_page().goto(empty.as_uri())
            found[key].add_init_script(_REPORT_VIOLATIONS)
        return found[key]

    yield context
    for one in found.values():
        one.close()


@pytest.fixture
def open_page(contexts: Callable[..., BrowserContext]) -> Iterator[Open]:
    """Opens a file: `open_page(path, "#batch=4", width=320, color_scheme="dark", java_script_enabled=False)`.

    `init` is a function that runs before the page's scripts.

    What goes wrong in it is asserted at the end of the test.
    """
    problems: list[str] = []
    pages: list[Page] = []

    def opened(path: Path, fragment: str = "", *, width: int = 1280, height: int = 900, init: str = "", **options: Any) -> Page:
        page = contexts(**options).new_page()
        pages.append(page)
        page.set_viewport_size({"width": width, "height": height})
        if init:
            page.add_init_script(f"({init})()")
        url = path.as_uri()

        def on_console(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning"):
                problems.append(f"console: {message.text}")

        def on_request(request: Request) -> None:
            if re.split("[?#]", request.url)[0] != url and not request.url.startswith(("data:", "blob:")):
                problems.append(f"request: {request.url}")

        page.on("console", on_console)
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("request", on_request)
        page.goto(url + fragment)
        if options.get(
            "java_script_enabled", True
        ):  # it unpacks its program first, if it has one, and shows what its address says
            page.locator("html[data-live]:not([data-waiting]), html:not(:has(script))").wait_for(state="attached")
        return page

    yield opened
    for page in pages:
        context, scripted = page.context, page.evaluate("document.documentElement.hasAttribute('data-live')")
        page.close()
        if scripted:
            context.pages[0].evaluate("localStorage.clear()")  # the empty page: files have one storage
    assert problems == []


@pytest.fixture
def axe() -> Callable[[Page], list[str]]:
    """What axe-core finds in a page as it stands: the rule and the elements."""

    def findings(page: Page) -> list[str]:
        # a script element would be refused by the page's policy; the debugger's door is open
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        assert found["passes"], "axe looked at nothing"
        return [f"{rule['id']}: {[node['html'][:200] for node in rule['nodes']]}" for rule in found["violations"]]

    return findings


@pytest.fixture(scope="session")
def draw_all() -> Callable[[Page], None]:
    """Scrolls through a page until every plot is drawn."""

    def drawn(page: Page) -> None:
        for chart in page.locator("[data-chart]").all():
            chart.scroll_into_view_if_needed()
            chart.locator(".main-svg").first.wait_for()
        page.evaluate("scrollTo(0, 0)")

    return drawn
