"""Figures of a lesson for slides: SVG with its colours in it, and PNG where there is a browser to draw it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from roofline.report.svg import svg
from roofline.teach.lessons.drawn import Drawn
from roofline.teach.lessons.execute import Executed
from roofline.teach.lessons.plain_svg import plain_svg

_SCALE = 3
"""Pixels of a PNG for each of its SVG: sharp on a projector."""


def write_svg(lesson: Executed, folder: Path) -> list[Path]:
    """Every figure of a lesson as `NN-key.svg`, for light slides, and `NN-key-dark.svg`."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for item in lesson.items():
        if isinstance(item, Drawn):
            for ending, dark in (("", False), ("-dark", True)):
                path = folder / f"{lesson.head.number:02d}-{item.figure.key}{ending}.svg"
                path.write_text(plain_svg(svg(item.figure), dark=dark), encoding="utf-8")
                written.append(path)
    return written


def write_png(pictures: Iterable[Path]) -> tuple[list[Path], str]:
    """A PNG beside each SVG, and why there is none where that is so."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return [], "Playwright is not installed"
    browser_path = shutil.which("chromium")
    if browser_path is None:
        return [], "Chromium is not installed"
    written = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 800, "height": 600}, device_scale_factor=_SCALE)
        for path in pictures:
            page.goto(path.resolve().as_uri())
            made = path.with_suffix(".png")
            page.locator("svg").first.screenshot(path=made)
            written.append(made)
        browser.close()
    return written, ""
