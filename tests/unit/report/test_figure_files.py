"""Figures as files for other documents: what they hold, and that programs that are no browsers read them."""

from __future__ import annotations

import io
import re
import struct
import sys
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from figure_samples import HEAT, MEMORY, ROOFLINE, SAMPLES

from roofline.errors import MissingExtraError
from roofline.report.axes import text_width
from roofline.report.figure import Figure
from roofline.report.figure_files import FONT, about_lines, figure_file, plain_svg
from roofline.report.svg import svg

_SVG = "{http://www.w3.org/2000/svg}"
_ABOUT = "Llama 3.1 8B on NVIDIA H100 SXM5 80GB · batch 8"


def _tree(figure: Figure, about: str = _ABOUT) -> ET.Element:
    return ET.fromstring(figure_file(figure, ".svg", about))  # noqa: S314 - our own


def _texts(tree: ET.Element) -> list[str]:
    return [element.text or "" for element in tree.iter(f"{_SVG}text") if element.get("aria-hidden") is None]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("figure", SAMPLES, ids=lambda figure: f"{figure.key} {figure.title}")
def test_every_colour_is_written_out(figure: Figure, dark: bool) -> None:
    """No class, no custom property, no inherited colour, and nothing that other programs than browsers ignore."""
    text = plain_svg(svg(figure), dark=dark)
    ET.fromstring(text)  # noqa: S314 - our own
    for left in ("class=", "var(", "currentColor", "light-dark", "paint-order", 'px"', "<style"):
        assert left not in text
    assert f'fill="{"#12161b" if dark else "#ffffff"}"' in text


@pytest.mark.parametrize("figure", [ROOFLINE, HEAT, MEMORY], ids=lambda figure: figure.key)
def test_texts_are_those_of_the_page_under_a_heading(figure: Figure) -> None:
    """The title, what it is of, then each text once; the outlines of texts are under them."""
    page = [element.text or "" for element in ET.fromstring(svg(figure)).iter(f"{_SVG}text")]  # noqa: S314 - our own
    tree = _tree(figure)
    assert _texts(tree) == [figure.title, _ABOUT, *page]
    for group in tree.iter():
        for before, after in zip(group, list(group)[1:], strict=False):
            if before.get("aria-hidden"):
                assert (before.text, before.get("x"), before.get("y")) == (after.text, after.get("x"), after.get("y"))
                assert before.get("stroke")
                assert not after.get("stroke")


def test_heading_does_not_cover_the_figure() -> None:
    """The picture is taller by the lines of the heading, and what was drawn is moved down by as much."""
    bare, headed = ET.fromstring(plain_svg(svg(ROOFLINE))), _tree(ROOFLINE)  # noqa: S314 - our own
    more = float(headed.get("height", "0")) - float(bare.get("height", "0"))
    assert more > 30
    (moved,) = [group for group in headed.findall(f"{_SVG}g") if group.get("transform") == f"translate(0 {more:g})"]
    assert len(moved) == len([child for child in bare if child.tag not in (f"{_SVG}title", f"{_SVG}desc", f"{_SVG}rect")])
    last = max(float(text.get("y", "0")) for text in headed.findall(f"{_SVG}text"))
    assert last < more


def test_long_settings_take_lines() -> None:
    """None is wider than the figure; there are at most three."""
    words = "tensor-parallel-size 8 · " * 40
    lines = about_lines(words, 400)
    assert len(lines) == 3
    assert max(text_width(line, 12) for line in lines) <= 400
    assert words.startswith(" ".join(lines))


def test_markup_and_control_characters_are_text() -> None:
    """Titles come from users' files."""
    hostile = "</text><script>alert(1)</script>&\x1b[31m"
    tree = _tree(replace(MEMORY, title=hostile), hostile)
    assert [element.tag for element in tree.iter() if "script" in str(element.tag)] == []
    assert "\x1b" not in "".join(_texts(tree))
    assert _texts(tree)[0].startswith("</text><script>")


def test_size_and_fonts_are_stated() -> None:
    """In pixels, for programs that take no size from a viewBox; the fonts by name, the generic one last."""
    tree = _tree(MEMORY)
    width, height = map(float, tree.get("viewBox", "").split()[2:])
    assert (float(tree.get("width", "")), float(tree.get("height", ""))) == (width, height)
    assert tree.get("font-family") == FONT
    assert FONT.endswith("sans-serif")


# PNG and PDF


@pytest.mark.parametrize("figure", SAMPLES, ids=lambda figure: f"{figure.key} {figure.title}")
def test_png_has_two_pixels_for_each_of_the_svg(figure: Figure) -> None:
    """In its header."""
    pytest.importorskip("typst", reason="the extra 'figures' is not installed")
    tree, content = _tree(figure), figure_file(figure, ".png", _ABOUT)
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    assert width == pytest.approx(2 * float(tree.get("width", "")), abs=1)
    assert height == pytest.approx(2 * float(tree.get("height", "")), abs=1)


@pytest.mark.slow
@pytest.mark.parametrize("figure", [ROOFLINE, HEAT, MEMORY], ids=lambda figure: figure.key)
def test_pdf_is_one_page_of_vectors_and_text_with_its_font(figure: Figure) -> None:
    """Of the size of the SVG, in points; every text of it can be searched; no image; the shipped font is embedded."""
    pytest.importorskip("typst", reason="the extra 'figures' is not installed")
    pypdf = pytest.importorskip("pypdf")
    tree, content = _tree(figure), figure_file(figure, ".pdf", _ABOUT)
    (page,) = pypdf.PdfReader(io.BytesIO(content)).pages
    assert float(page.mediabox.width) == pytest.approx(0.75 * float(tree.get("width", "")), abs=0.1)
    assert float(page.mediabox.height) == pytest.approx(0.75 * float(tree.get("height", "")), abs=0.1)
    assert list(page.images) == []
    written = re.sub(r"\s", "", page.extract_text())
    assert [text for text in _texts(tree) if re.sub(r"\s", "", text) not in written] == []
    fonts = [font.get_object() for font in page["/Resources"]["/Font"].values()]
    described = [one.get_object()["/FontDescriptor"] for font in fonts for one in font["/DescendantFonts"]]
    assert any("Arimo" in str(font["/FontName"]) for font in described)
    assert all("/FontFile2" in font or "/FontFile3" in font for font in described)


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_the_same_figure_gives_the_same_bytes(suffix: str) -> None:
    """No date, no random name."""
    if suffix != ".svg":
        pytest.importorskip("typst", reason="the extra 'figures' is not installed")
    assert figure_file(HEAT, suffix, _ABOUT) == figure_file(HEAT, suffix, _ABOUT)


@pytest.mark.parametrize("suffix", [".png", ".pdf"])
def test_a_missing_extra_is_named(suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SVG needs none."""
    monkeypatch.setitem(sys.modules, "typst", None)
    with pytest.raises(MissingExtraError, match=r"roofline\[figures\]"):
        figure_file(MEMORY, suffix)
    assert figure_file(MEMORY, ".svg").startswith(b"<svg")
