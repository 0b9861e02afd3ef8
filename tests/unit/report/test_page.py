"""The file that a page is, as text: what it holds, what it allows, and that it is the same every time."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode
from dataclasses import replace

import pytest
from browser.standin import CONTROLS, FIRST, NAME, REPRODUCE, SCRIPT, made, view
from page_parts import Parts, check_policy, hashed
from small_lesson import SMALL_LESSON

from roofline.report.page import live_page
from roofline.specs.library import shipped
from roofline.teach.lessons.build import deck
from roofline.teach.lessons.build import page as lesson_page
from roofline.teach.lessons.execute import execute
from roofline.teach.term.build import build
from roofline.teach.worksheets.page import page as worksheet
from roofline.teach.worksheets.practice import practice
from roofline.teach.worksheets.sheet import sheet

MODEL = SCRIPT.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def text() -> str:
    """The page of the stand-in."""
    return made()


def test_same_inputs_same_bytes(text):
    assert made() == text


def test_size(text):
    # what a page adds for its model and hardware has to fit into 2 MB with what every page holds
    assert len(text.encode()) < 800_000


def test_policy_lists_what_is_inline_and_nothing_else(text):
    parts = Parts(text)
    allowed = parts.policy
    assert allowed["default-src"] == allowed["connect-src"] == allowed["base-uri"] == allowed["form-action"] == ["'none'"]
    packed = [b64decode(text) for text in parts.inline["application/octet-stream"]]
    _, program, plotly = (zlib.decompress(text, wbits=-zlib.MAX_WBITS).decode() for text in packed)
    (own,) = parts.inline["script"]
    assert allowed["script-src"] == [hashed(script) for script in (program, own, plotly)]
    (style,) = parts.inline["style"]
    assert hashed(style) in allowed["style-src"]
    assert not {"'unsafe-inline'", "'unsafe-eval'"} & {value for values in allowed.values() for value in values}


def _lesson(tmp_path):
    path = tmp_path / "01_small.py"
    path.write_text(SMALL_LESSON, encoding="utf-8")
    return execute(path)


# The name of each template that is a page, and a page of it. Those that commands write: tests/browser/test_page_kinds.py.
PAGES = {
    "page": lambda _: made(),
    "worksheet": lambda _: worksheet(sheet("kv-cache", 3), answers=True),
    "practice": lambda _: practice(problems=1),
    "lesson": lambda folder: lesson_page(_lesson(folder)),
    "deck": lambda folder: deck(_lesson(folder)),
    "term": lambda folder: next(
        path for path in build(folder, 1, "hours").files if path.name.endswith("-key.html")
    ).read_text(),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", PAGES)
def test_every_kind_of_page_has_a_strict_policy(kind, tmp_path):
    """No `unsafe-inline`, nothing loaded or sent; what is inline is listed by its hash, and nothing is inline in attributes."""
    check_policy(PAGES[kind](tmp_path))


def test_no_kind_of_page_is_forgotten():
    """Each template that has a head of its own, which is that of the shell."""
    texts = {path.name.removesuffix(".html.j2"): path.read_text(encoding="utf-8") for path in shipped("reports").glob("*.j2")}
    assert {name for name, text in texts.items() if "<html" in text} == {"shell"}
    assert {name for name, text in texts.items() if '{% extends "shell.html.j2" %}' in text} == set(PAGES)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<body>", '<body style="color: red">'),
        ("<body>", '<body onload="go()">'),
        ("<body>", '<body><img src="x.png">'),
        ("<body>", '<body><a href="javascript:go()">a</a>'),
        ("<body>", "<body><script>go()</script>"),
        ("<body>", "<body><style>p { color: red; }</style>"),
        ("connect-src &#39;none&#39;", "connect-src *"),
        ("script-src ", "script-src &#39;unsafe-inline&#39; "),
        ("default-src", "nothing-src"),
    ],
)
def test_the_check_of_policies_sees_it(text, before, after):
    check_policy(text)
    assert before in text
    with pytest.raises(AssertionError):
        check_policy(text.replace(before, after, 1))


def test_charset_comes_first(text):
    assert text.encode().index(b'<meta charset="utf-8">') < 100


def test_ids_are_unique(text):
    ids = [attributes["id"] for _, attributes in Parts(text).elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_numbers_are_unrounded(text):
    assert '<dd class="value" data-cell="tile/Half a prompt" data-value="1024">1024 tokens</dd>' in text
    assert '<td class="number" data-value="0.006">6.000</td>' in text
    third = view({**FIRST, "input_len": 1000})
    again = live_page(third, CONTROLS, MODEL, {"name": NAME}, REPRODUCE)
    assert f'data-value="{5 * 1000 / 1024 / 1e3!r}">4.883</td>' in again
    assert 'data-cell="tile/Bound by">memory</dd>' in text


@pytest.mark.parametrize(
    "name", ["</script><b>", "<!--", "]]>", "a\u2028b\u2029c", "&amp;", "\u202eevil", "\x00\x1b", "'\"", "é 模型 😀"]
)
def test_data_is_seen_by_no_parser(name):
    text = made(name)
    parts = Parts(text)
    (controls,) = parts.inline["application/json"]
    data = zlib.decompress(b64decode(parts.inline["application/octet-stream"][0]), wbits=-zlib.MAX_WBITS).decode()
    assert not set("<>&\u2028\u2029\u202e\x00\x1b") & set(controls + data)
    kept = "".join(sign for sign in name if sign not in "\u202e\x00\x1b")
    assert json.loads(data)["data"]["name"] == kept
    assert len(parts.elements) == len(Parts(made()).elements)
    assert not {"\u202e", "\x00", "\x1b"} & set(text)


@pytest.mark.parametrize("script", ["'</script>'", "'</SCRIPT '", "'<!--'", "a\r\nb", "'</style>'"])
def test_a_script_that_would_end_its_element_is_refused(script):
    with pytest.raises(ValueError, match="cannot stand inline"):
        live_page(view(FIRST), CONTROLS, script, {}, REPRODUCE)


def test_numbers_that_json_has_not_are_refused():
    with pytest.raises(ValueError, match="JSON"):
        live_page(view(FIRST), CONTROLS, MODEL, {"limit": float("inf")}, REPRODUCE)


def test_error_of_the_first_state_is_shown():
    text = live_page(replace(view(FIRST), error="no <such> model"), CONTROLS, MODEL, {"name": NAME}, REPRODUCE)
    assert '<p id="alert" role="alert">no &lt;such&gt; model</p>' in text


def test_what_needs_another_setting_is_hidden_until_then(text):
    (box,) = re.findall(r'<div class="control number" data-control="bandwidth"[^>]*>', text)
    assert "hidden" in box
    controls = tuple(replace(control, value="own") if control.key == "hardware" else control for control in CONTROLS)
    (box,) = re.findall(r'data-control="bandwidth"[^>]*>', live_page(view(FIRST), controls, MODEL, {"name": NAME}, REPRODUCE))
    assert "hidden" not in box
