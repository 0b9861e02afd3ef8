"""Template and script make the same elements; whatever a name holds, it is text."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from browser.standin import FIRST, NAME, OPERATORS, made, view
from browser.waits import settle, wait_until

# Elements with sorted attributes and their texts; pictures and plots, and what a reader has opened, are left out.
_OUTLINE = """(root) => {
  const outline = (element) => {
    const own = element.dataset.chart ? ["data-drawn", "style"] : ["open"];
    const attributes = element.getAttributeNames().filter((name) => !own.includes(name)).sort();
    const inside = element.hasAttribute("data-keep") ? [] : [...element.childNodes].flatMap((node) => {
      if (node.nodeType === Node.ELEMENT_NODE) return [outline(node)];
      return node.nodeType === Node.TEXT_NODE && node.data.trim() ? [node.data] : [];
    });
    return [element.localName, attributes.map((name) => `${name}=${element.getAttribute(name)}`), inside];
  };
  return ["answer", "tiles", "words", "commands", "sections", "assumptions", "not-modelled"].map(
    (id) => outline(root.getElementById(id)));
}"""
_STATIC = "(html) => (" + _OUTLINE + ")(new DOMParser().parseFromString(html, 'text/html'))"
_LIVE = "() => (" + _OUTLINE + ")(document)"
_LEFT_TO_RIGHT, _RIGHT_TO_LEFT = "\u202d", "\u202e"
HOSTILE = {
    "script": "<script>alert(1)</script>",
    "end of script": "</script><script>alert(1)</script>",
    "end of style": "</style><img src=x onerror=alert(1)>",
    "comment": "<!--<script>",
    "quotes": "\"'` onmouseover=alert(1) x='",
    "entities": "&lt;b&gt; &amp;amp; &#60;",
    "template": "{{ 7 * 7 }} {% raw %} ${1 + 1}",
    "long": "x" * 10_000,
    "many words": "long name " * 1_000,
    "direction": f"{_RIGHT_TO_LEFT}8B{_LEFT_TO_RIGHT}\u2067model\u2069\u200f",
    "arabic": "نموذج ٨ مليار",
    "controls": "a\x00b\x1b[31mc\r\nd\u2028e",
    "link": "javascript:alert(1)",
    "link behind a link": "https://a, javascript:alert(1)",
}


def write(folder: Path, name: str = NAME) -> Path:
    file = folder / "page.html"
    file.write_bytes(made(name).encode())
    return file


def test_stand_in_is_the_same_in_both_tongues(open_page, tmp_path):
    page = open_page(write(tmp_path))
    for state in (FIRST, {**FIRST, "batch": 4096, "weights": "fp8", "measured": False, "title": "<b>"}):
        assert page.evaluate("(state) => model.view(state)", state) == json.loads(json.dumps(asdict(view(state))))


def test_static_is_rendered(open_page, tmp_path):
    path = write(tmp_path)
    page = open_page(path)
    static = page.evaluate(_STATIC, path.read_text(encoding="utf-8"))
    assert page.evaluate(_LIVE) == static
    assert len(str(static)) > 5000


def test_many_formulas_are_packed(open_page, tmp_path):
    """They are the same elements as those that are written out; without a script, the page says where they are."""
    file, copies = tmp_path / "page.html", 250
    file.write_text(made(copies=copies), encoding="utf-8")
    assert file.stat().st_size < len(made()) + 10_000
    assert "<math>" not in file.read_text(encoding="utf-8")
    page = open_page(file)
    page.locator("#op-q_proj249 math").wait_for(state="attached")
    assert page.locator("#formulas details").count() == copies * len(OPERATORS)
    assert page.locator("#formulas > .note").count() == 0
    still = open_page(file, java_script_enabled=False)
    assert "packed in this page" in still.locator("#formulas").inner_text()


def test_rendered_from_nothing_is_the_same(open_page, draw_all, tmp_path):
    path = write(tmp_path)
    page = open_page(path)
    draw_all(page)
    static = page.evaluate(_STATIC, path.read_text(encoding="utf-8"))
    page.evaluate("""() => {
      for (const id of ["answer", "tiles", "words", "commands", "sections", "assumptions", "not-modelled"]) {
        document.getElementById(id).replaceChildren();
      }
    }""")
    page.locator("#control-weights").select_option("fp8")
    page.locator("#control-weights").select_option("bf16")
    settle(page)
    assert page.evaluate("location.hash") == ""
    assert page.evaluate(_LIVE) == static
    draw_all(page)  # plots come back into the new boxes


def test_what_a_reader_does_survives_a_change(open_page, draw_all, tmp_path):
    page = open_page(write(tmp_path), width=320)
    draw_all(page)
    page.locator("#numbers-roofline summary").click()
    page.locator("#table-wide .scroll").evaluate("(box) => { box.scrollLeft = 100; }")
    page.evaluate(
        "window.kept = [document.querySelector('[data-chart=roofline] .plot'), document.getElementById('table-wide')]"
    )
    page.locator(".drawer > summary").click()
    page.locator("#control-batch").fill("64")
    page.locator('[data-cell="tile/Batch"][data-value="64"]').wait_for()
    assert page.evaluate("document.activeElement.id") == "control-batch"
    assert page.locator("#table-points").is_visible()
    assert page.locator("#table-wide .scroll").evaluate("(box) => box.scrollLeft") == 100
    assert page.evaluate("kept[0] === document.querySelector('[data-chart=roofline] .plot') && kept[0].isConnected")
    assert page.evaluate("kept[1] === document.getElementById('table-wide')")
    wait_until(page, "document.querySelector('[data-chart=roofline] .plot').data[1].x[0] === 64")


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_name_is_text(open_page, draw_all, tmp_path, name):
    shape = "(outline) => JSON.stringify(outline, (key, value) => (typeof value === 'string' ? '' : value))"
    path = write(tmp_path, name)
    page = open_page(path, width=320)
    harmless = page.evaluate(_STATIC, made())
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
    draw_all(page)
    static = page.evaluate(_STATIC, path.read_text(encoding="utf-8"))
    assert page.evaluate(_LIVE) == static, "both tongues clean a name in the same way"
    assert page.evaluate(shape, static) == page.evaluate(shape, harmless), "the same elements, other texts"
    assert page.evaluate("document.scripts.length") == 7
    assert page.evaluate("document.documentElement.scrollWidth") == 320
    title = page.locator("h1").text_content()
    assert title.endswith(" on A100 SXM 80 GB")
    if name.isascii() and name.isprintable():
        assert title == view(FIRST, name).title
    assert not {_LEFT_TO_RIGHT, _RIGHT_TO_LEFT, "\u2067", "\u200f", "\0", "\x1b"} & set(title)
