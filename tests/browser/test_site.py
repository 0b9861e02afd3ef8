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


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1600, "dark")])
@pytest.mark.parametrize("name", LOOKED_AT)
def test_axe_finds_nothing_and_nothing_sticks_out(site, chromium, axe, name, width, scheme):
    """Wide tables and formulas scroll by themselves; the page does not."""
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    asked: list[str] = []
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / f"{name}.html").as_uri())
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    context.close()
