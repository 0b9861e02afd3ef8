"""A result as a page: complete in itself, with nothing that a file's text could break."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

import roofline

_VOID = {"meta", "br", "hr", "img", "link", "input", "path", "rect", "circle", "line"}

_CLOSED_BY_OTHERS = {"dt", "dd"}
"""Elements whose end need not be written."""


class _Reader(HTMLParser):
    """Tags that open and close, the addresses that a page loads, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.loads: list[str] = []
        self.scripts = 0
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.scripts += tag == "script"
        self.loads += [
            value or ""
            for name, value in attrs
            if tag != "a" and name in ("src", "href", "action", "data") and not (value or "").startswith(("#", "data:"))
        ]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        while self.open[-1] != tag and self.open[-1] in _CLOSED_BY_OTHERS:
            self.open.pop()
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def _read(page: str) -> _Reader:
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return reader


@pytest.mark.slow
def test_page_needs_nothing_else() -> None:
    """A whole document that loads no script, style, font or image from elsewhere."""
    page = roofline.analyze("llama-3.1-8b", "h100-sxm").to_html()
    reader = _read(page)
    assert page.lower().startswith("<!doctype html>")
    assert reader.open == []
    assert reader.loads == []
    assert "@import" not in page
    assert "url(" not in page.replace("url(#", "")
    assert '<meta charset="utf-8">' in page


@pytest.mark.slow
def test_page_says_what_the_result_says() -> None:
    """Headline, verdict, every operator and every assumption are on it."""
    result = roofline.analyze("llama-3.1-8b", "h100-sxm", batch=3)
    text = _read(result.to_html()).text
    assert "Llama 3.1 8B on NVIDIA H100 SXM5 80GB" in text
    assert "Fits" in text
    for expected in (
        *(op.path for phase in result.phases for op in phase.operators),
        *(note.name for note in result.assumptions),
    ):
        assert expected in text


@pytest.mark.parametrize(
    "evil", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</title><script>", "&lt;b&gt; <b>"]
)
def test_text_from_files_is_escaped(evil: str) -> None:
    """A title with markup stands on the page as text, in the headline and in the document's title."""
    model = roofline.load_model("gpt2").model_copy(update={"title": evil})
    hardware = roofline.load_hardware("t4")
    result = roofline.analyze(model, hardware)
    reader = _read(result.to_html())
    assert not {"img", "b"} & reader.seen
    plain = roofline.analyze(roofline.load_model("gpt2"), hardware)
    assert reader.scripts == _read(plain.to_html()).scripts
    assert evil in reader.text


def test_control_characters_do_not_reach_the_page() -> None:
    """Escape sequences and marks that turn the direction of text are dropped."""
    model = roofline.load_model("gpt2").model_copy(update={"title": "a\x1b[31mb\u202ec\x00"})
    page = roofline.analyze(model, "t4").to_html()
    assert not {"\x1b", "\u202e", "\x00"} & set(page)


@pytest.mark.slow
def test_pages_are_reproducible() -> None:
    """The same question gives the same bytes."""
    pages = {roofline.analyze("gpt2", "t4", batch=2).to_html() for _ in range(2)}
    assert len(pages) == 1
