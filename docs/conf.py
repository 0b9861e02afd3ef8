"""How Sphinx builds the site: `just docs`, or `sphinx-build -W docs build/docs`. Nothing is fetched from a network."""  # noqa: INP001 - no package

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygments.lexers.special import TextLexer

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # the pages' writers, and the project itself

from generate import FOLDER, links, mathml, readable, write  # noqa: E402 - found on the path above

import roofline  # noqa: E402
from roofline.report.analysis import page  # noqa: E402
from roofline.report.calculators.pages import CALCULATORS, calculator  # noqa: E402

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "roofline"
author = "The roofline authors"
copyright = ""
version = release = roofline.__version__
language = "en-GB"

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
exclude_patterns = ["examples/small"]
nitpicky = False  # annotations name classes that are no part of the reference; links in text are checked all the same
toc_object_entries = False

html_theme = "furo"
html_title = f"roofline {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(HERE / "search_scorer.js")
html_copy_source = html_show_sourcelink = False
html_show_copyright = html_show_sphinx = False
html_math_renderer = "mathml"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5d8a", "color-brand-content": "#0b5d8a"},
    "dark_css_variables": {"color-brand-primary": "#7cc4ee", "color-brand-content": "#7cc4ee"},
}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"


def _write(app: Sphinx) -> None:
    write.write(Path(app.srcdir) / FOLDER)


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    path = Path(app.srcdir) / f"{docname}.md"
    source[0] = links.moved(source[0], read_at=path.parent, shown_at=path.parent)
    if (Path(app.outdir) / "course" / "index.html").is_file():  # `just site` has put the lessons there
        source[0] = source[0].replace('href="_generated/project/course.html"', 'href="course/index.html"')


def _calculators(app: Sphinx, exception: Exception | None) -> None:
    """Pages that compute in the browser, which `calculators.md` links to."""
    if exception is None and app.builder.format == "html":
        folder = Path(app.outdir) / "calculators"
        folder.mkdir(exist_ok=True)
        pages = {"any.html": page.calculator, **{f"{name}.html": calculator(name).page for name in CALCULATORS}}
        for name, make in pages.items():
            (folder / name).write_text(make(), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Pages are written before they are read; mathematics becomes MathML, which browsers draw without a script."""
    app.connect("builder-inited", _write)
    app.add_lexer("csv", TextLexer)  # Pygments knows none
    app.connect("source-read", _read)
    app.connect("build-finished", readable.finish)
    app.connect("build-finished", _calculators)
    app.add_html_math_renderer("mathml", (mathml.inline, None), (mathml.block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
