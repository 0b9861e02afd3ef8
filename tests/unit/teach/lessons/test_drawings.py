"""Drawings: texts that can be read, words for those who do not see them, numbers of the files."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from roofline.errors import InputError
from roofline.teach.lessons.draw import DRAWINGS
from roofline.teach.lessons.draw.canvas import Canvas
from roofline.teach.lessons.drawn import draw
from roofline.teach.markdown import Ids


@pytest.mark.parametrize("name", DRAWINGS)
def test_texts_can_be_read(name: str) -> None:
    """None leaves the picture or its box, lies on another or across an edge, or is smaller than 11 pixels."""
    assert DRAWINGS[name]().faults == ()


@pytest.mark.parametrize("name", DRAWINGS)
def test_words_say_what_is_seen(name: str) -> None:
    """An image with title and description, each a sentence or more."""
    drawing = DRAWINGS[name]()
    root = ET.fromstring(drawing.svg)  # noqa: S314 - our own
    title, description = (child.text or "" for child in list(root)[:2])
    assert (root.get("role"), title, description) == ("img", drawing.title, drawing.words)
    assert len(drawing.words) > 60
    assert drawing.words.endswith(".")
    assert drawing.key.startswith(name)


def test_faults_are_found() -> None:
    """A text outside, one in a box that is too narrow, two on one another, one across an edge, and a small one."""
    canvas = Canvas(100, 100)
    canvas.box(20, 20, 20, 20, "a long text")
    canvas.label("outside", 90, 10)
    canvas.label("one", 10, 80)
    canvas.label("two", 12, 82, size=9)
    canvas.label("edge", 30, 41)
    found = canvas.drawing("k", "t", "w").faults
    for what in ("wider than its box", "leaves the picture", "lies on 'two'", "smaller than 11", "edge of a box"):
        assert any(what in fault for fault in found), what


@pytest.mark.parametrize(("kind", "elements"), [("mha", 2 * 32 * 128), ("gqa", 2 * 8 * 128), ("mqa", 2 * 128), ("mla", 576)])
def test_elements_of_heads(kind: str, elements: int) -> None:
    """Llama 3.1 8B: 32 query heads and 8 KV heads of 128."""
    assert f"{elements:,} elements" in DRAWINGS["attention-heads"](kind=kind).words


def test_choices() -> None:
    """A radio button and a picture each; in a notebook all pictures; one choice is none."""
    item = draw("attention-heads", {"MHA": {"kind": "mha"}, "GQA": {}}, about="Attention")
    html = item.html(Ids())
    assert html.count('type="radio"') == html.count('class="frame"') == item.markdown().count("data:image/svg+xml") == 2
    assert html.count(" checked>") == 1
    with pytest.raises(InputError, match="two or more"):
        draw("cache-growth", {"one": {}})
