"""The file that a page is, as text: what it holds, what it allows, and that it is the same every time."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from browser.standin import CONTROLS, FIRST, NAME, REPRODUCE, SCRIPT, made, view

from roofline.report.page import live_page

MODEL = SCRIPT.read_text(encoding="utf-8")


class Parts(HTMLParser):
    """The elements of a page with their attributes, and the text inside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inline: dict[str, list[str]] = {"script": [], "style": [], "application/json": [], "application/octet-stream": []}
        self._into: list[str] | None = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """An element begins."""
        self.elements.append((tag, dict(attrs)))
        self._into = self.inline[dict(attrs).get("type", tag)] if tag in ("script", "style") else None
        if self._into is not None:
            self._into.append("")

    def handle_endtag(self, tag):
        """An element ends."""
        self._into = None

    def handle_data(self, data):
        """Text."""
        if self._into is not None:
            self._into[-1] += data


@pytest.fixture(scope="module")
def text() -> str:
    """The page of the stand-in."""
    return made()


def policy(parts: Parts) -> dict[str, list[str]]:
    (content,) = (
        attributes["content"]
        for tag, attributes in parts.elements
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    return {name: values for name, *values in (entry.split() for entry in content.split("; "))}


def hashed(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def test_same_inputs_same_bytes(text):
    assert made() == text


def test_size(text):
    # what a page adds for its model and hardware has to fit into 2 MB with what every page holds
    assert len(text.encode()) < 800_000


def test_policy_lists_what_is_inline_and_nothing_else(text):
    parts = Parts(text)
    allowed = policy(parts)
    assert allowed["default-src"] == allowed["connect-src"] == allowed["base-uri"] == allowed["form-action"] == ["'none'"]
    assert allowed["img-src"] == ["data:", "blob:"]
    packed = [b64decode(text) for text in parts.inline["application/octet-stream"]]
    _, program, plotly = (zlib.decompress(text, wbits=-zlib.MAX_WBITS).decode() for text in packed)
    (own,) = parts.inline["script"]
    assert allowed["script-src"] == [hashed(script) for script in (program, own, plotly)]
    (style,) = parts.inline["style"]
    assert hashed(style) in allowed["style-src"]
    assert "unsafe-inline" not in text.partition("</head>")[0].partition("<style>")[0]
    assert "unsafe-eval" not in text.partition("</head>")[0]


def test_nothing_is_loaded_and_nothing_is_inline_in_attributes(text):
    for tag, attributes in Parts(text).elements:
        assert "style" not in attributes, tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert not {"src", "srcset", "action", "background"} & set(attributes), tag
        assert tag not in ("base", "iframe", "object", "embed"), tag
        if "href" in attributes:
            assert attributes["href"] == "data:,"


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
