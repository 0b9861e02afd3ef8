"""Buttons and keys: copy, download, points of a plot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from browser.standin import FIRST, REPRODUCE, made, view
from browser.waits import settle, wait_until

# The clipboard of a headless browser is its own; what is written to it is kept where the test can read it.
_CLIPBOARD = """Object.defineProperty(navigator, "clipboard", { value: {
  writeText: async (text) => { if (window.refuse) throw new Error("no"); window.copied = text; },
} })"""
# A button says "Copied" for a moment, in which the test may not look: whatever its buttons say is kept.
_LABELS = """window.labels = [];
new MutationObserver(() => labels.push(...[...document.querySelectorAll(".copy")].map((button) => button.textContent)))
  .observe(document.body, { childList: true, characterData: true, subtree: true });"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the stand-in."""
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(made(), encoding="utf-8")
    return file


def test_copy_buttons(open_page, path):
    page = open_page(path)
    page.evaluate(_CLIPBOARD)
    page.evaluate(_LABELS)
    page.locator("#control-batch").fill("64")
    settle(page)
    page.locator("#commands .copy").click()
    wait_until(page, "labels.includes('Copied')")
    assert page.evaluate("copied") == view({**FIRST, "batch": 64}).commands[0].text
    assert "Copied" in page.locator("#done").inner_text()
    page.locator("footer .copy").click()
    wait_until(page, "(text) => copied === text", REPRODUCE)
    page.locator("#copy-link").click()
    wait_until(page, "copied === location.href && copied.endsWith('#batch=64')")
    page.locator("#commands .copy").filter(has_text="Copy").wait_for()
    assert page.evaluate("document.activeElement.id") == "copy-link"


def test_copy_without_a_clipboard(open_page, path):
    page = open_page(path)
    page.evaluate(_CLIPBOARD)
    page.evaluate("window.refuse = true")
    page.evaluate("document.addEventListener('copy', () => { window.copied = document.activeElement.value; })")
    page.evaluate(_LABELS)
    page.locator("#commands .copy").click()
    wait_until(page, "labels.includes('Copied')")
    assert page.evaluate("copied") == view(FIRST).commands[0].text
    assert page.locator("textarea").count() == 0


def test_downloads(open_page, path):
    page = open_page(path, "#batch=64")
    with page.expect_download() as waiting:
        page.locator("#download-json").click()
    assert waiting.value.suggested_filename == "roofline.json"
    found = json.loads(Path(waiting.value.path()).read_text(encoding="utf-8"))
    assert found["state"] == {**FIRST, "batch": 64}
    assert found["reproduce"] == REPRODUCE
    assert found["view"]["tiles"][0]["cell"] == {"text": "131072", "value": 131072}
    with page.expect_download() as waiting:
        page.locator("#download-csv").click()
    assert waiting.value.suggested_filename == "roofline.csv"
    assert Path(waiting.value.path()).read_text(encoding="utf-8").startswith("q_proj,64,256\n")


def test_points_by_keyboard(open_page, path):
    page = open_page(path)
    plot = page.locator("[data-chart=roofline] .plot")
    plot.scroll_into_view_if_needed()
    plot.locator(".main-svg").first.wait_for()
    spoken = page.locator("[data-chart=roofline] [aria-live]")
    plot.focus()
    page.keyboard.press("ArrowRight")
    assert spoken.text_content() == "q_proj, decode: 8 FLOP/byte"
    assert plot.locator(".hoverlayer .hovertext").count() == 1
    page.keyboard.press("ArrowRight")
    assert spoken.text_content() == "k_proj, decode: 16 FLOP/byte"
    page.keyboard.press("ArrowDown")
    assert spoken.text_content() == "k_proj, prefill: 64 FLOP/byte"
    page.keyboard.press("End")
    assert spoken.text_content() == "down_proj, prefill: 160 FLOP/byte"
    page.keyboard.press("ArrowRight")
    assert spoken.text_content() == "down_proj, prefill: 160 FLOP/byte"
    page.keyboard.press("Enter")
    assert page.locator("#op-down_proj").get_attribute("open") is not None
    assert page.evaluate("document.activeElement.parentElement.id") == "op-down_proj"
    assert spoken.text_content() == ""
    page.locator("[data-chart=grid]").scroll_into_view_if_needed()
    page.locator("[data-chart=grid] .plot").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert page.locator("[data-chart=grid] [aria-live]").text_content() == "11264"  # 9 sequences of 1024, and 2048


def test_click_on_a_point(open_page, path):
    page = open_page(path)
    chart = page.locator("[data-chart=time]")
    chart.scroll_into_view_if_needed()
    chart.locator(".main-svg").first.wait_for()
    bar = chart.locator(".bars .point").nth(2).bounding_box()
    page.mouse.move(bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2)
    page.mouse.click(bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2)
    page.locator("#op-attention[open]").wait_for()


def test_plots_offer_no_upload(open_page, path, draw_all):
    page = open_page(path)
    draw_all(page)
    titles = page.locator(".modebar-btn").evaluate_all("(buttons) => buttons.map((button) => button.dataset.title)")
    assert titles
    assert not [title for title in titles if "cloud" in title.lower() or "share" in title.lower() or "Plotly" in title]
