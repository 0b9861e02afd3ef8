"""Controls, the address, the view: whichever is changed, the others follow; what an address must not say is passed by."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser.cells import cell
from browser.standin import CONTROLS, FIRST, made, view
from browser.waits import settle, wait_until

TILE = '[data-cell="tile/Tokens"]'


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the stand-in."""
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(made(), encoding="utf-8")
    return file


def hash_of(page):
    settle(page)
    return page.evaluate("location.hash")


def fill(page, key, text):
    page.locator(f"#control-{key}").fill(text)
    page.locator(f"#control-{key}").blur()
    settle(page)


def test_every_control_moves_the_state(open_page, path):
    page = open_page(path)
    moved = {"batch": 64, "input_len": 4096, "weights": "fp8", "measured": False, "hardware": "own", "bandwidth": 3.35}
    assert {*moved, "title"} == {control.key for control in CONTROLS}
    fill(page, "batch", "64")
    fill(page, "input_len", "4096")
    page.locator("#control-weights").select_option("fp8")
    page.locator("#control-measured").uncheck()
    assert not page.locator("#control-bandwidth").is_visible()
    page.locator("#control-hardware").select_option("own")
    fill(page, "bandwidth", "3.35")
    fill(page, "title", "a note & more")
    wanted = "#batch=64&input_len=4096&weights=fp8&measured=0&hardware=own&bandwidth=3.35&title=a%20note%20%26%20more"
    assert hash_of(page) == wanted
    state = {**FIRST, **moved, "title": "a note & more"}
    assert page.locator("h1").inner_text() == view(state).title
    assert page.title() == view(state).title
    assert page.locator(TILE).get_attribute("data-value") == str(64 * 4096)


def test_slider_and_box_show_the_same(open_page, path):
    page = open_page(path)
    slider = page.locator('[data-control=batch] input[type="range"]')
    slider.focus()
    seen = [8]
    for _ in range(9):
        page.keyboard.press("ArrowRight")
        seen.append(int(page.locator("#control-batch").input_value()))
    assert seen == sorted(set(seen)), "each step of a slider is another value"
    assert 16 in seen, "powers of two are among the stops"
    assert slider.get_attribute("aria-valuetext") == f"{seen[-1]} sequences"
    assert hash_of(page) == f"#batch={seen[-1]}"
    page.keyboard.press("Home")
    assert page.locator("#control-batch").input_value() == "1"
    page.keyboard.press("End")
    assert page.locator("#control-batch").input_value() == "4096"
    page.locator("#control-hardware").select_option("own")
    page.locator('[data-control=bandwidth] input[type="range"]').focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#control-bandwidth").input_value() == "2.05"


# Each view takes the page's worker 60 ms; what comes from it is counted. A page's blobs of scripts are what its worker runs.
_SLOW_WORKER = """() => {
  const slow = `{ const quick = model.view; model.view = (state) => {
    const end = performance.now() + 60;
    while (performance.now() < end);
    return quick(state);
  }; }`;
  const Plain = Blob;
  window.Blob = class extends Plain {
    constructor(parts, options) { super(options?.type === "text/javascript" ? [...parts, slow] : parts, options); }
  };
  window.heads = [];
  window.Worker = class extends Worker {
    set onmessage(receive) {
      super.onmessage = (event) => {
        if (event.data.head) heads.push(event.data.head.tiles[0].cell.value);
        receive(event);
      };
    }
  };
}"""
_NO_WORKER = "() => { delete window.Worker; }"
_REFUSED_WORKER = """() => {
  window.Worker = class {
    constructor() { setTimeout(() => this.onerror(new Event("error", { cancelable: true }))); }
    postMessage() {}
    terminate() {}
  };
}"""


def test_a_slow_view_does_not_hold_a_slider_up(open_page, path):
    """60 positions, 5 ms apart, and a view that takes 60 ms: few are computed, in their order, and the last is shown."""
    page = open_page(path, init=_SLOW_WORKER)
    slider = page.locator('[data-control=input_len] input[type="range"]')
    positions = list(range(20, 80))
    held = slider.evaluate(
        """async (slider, positions) => {
      let held = 0;
      for (const position of positions) {
        slider.value = position;
        const start = performance.now();
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        held = Math.max(held, performance.now() - start);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      return held;
    }""",
        positions,
    )
    settle(page)
    tokens = 8 * int(page.locator("#control-input_len").input_value())
    assert page.locator(TILE).get_attribute("data-value") == str(tokens)
    heads = page.evaluate("heads")
    assert heads == sorted(set(heads))
    assert heads[-1] == tokens
    assert 1 <= len(heads) < len(positions) / 2
    assert held < 60, "nothing is computed where the slider is"


@pytest.mark.parametrize("without", [_NO_WORKER, _REFUSED_WORKER], ids=["none", "refused"])
def test_a_page_without_a_worker_computes_itself(open_page, path, without):
    page = open_page(path, "#batch=64", init=without)
    assert page.locator(TILE).get_attribute("data-value") == str(64 * 2048)
    fill(page, "batch", "4095")
    assert "refused" in page.locator("#alert").inner_text()
    fill(page, "batch", "16")
    assert page.locator(TILE).get_attribute("data-value") == str(16 * 2048)
    assert page.locator(cell("points", 1, 1)).get_attribute("data-value") == "32"


@pytest.mark.parametrize(
    ("typed", "shown"), [("99999", "4096"), ("-3", "1"), ("7.6", "8"), ("2.4", "2"), ("", "8"), ("1e2", "100")]
)
def test_typed_numbers_are_clamped_to_what_is_allowed(open_page, path, typed, shown):
    page = open_page(path)
    fill(page, "batch", typed)
    assert page.locator("#control-batch").input_value() == shown
    assert page.locator(TILE).get_attribute("data-value") == str(int(shown) * 2048)


def test_address_restores_the_state(open_page, path):
    page = open_page(path, "#batch=64&weights=fp8&measured=0&title=%3Cb%3E")
    assert page.locator("#control-batch").input_value() == "64"
    assert page.locator("#control-weights").input_value() == "fp8"
    assert not page.locator("#control-measured").is_checked()
    assert page.locator(TILE).get_attribute("data-value") == str(64 * 2048)
    assert page.locator("h1").inner_text().endswith(", <b>")
    assert hash_of(page) == "#batch=64&weights=fp8&measured=0&title=%3Cb%3E"
    page.evaluate("location.hash = '#batch=16'")
    wait_until(page, "document.getElementById('control-batch').value === '16'")
    assert page.locator("#control-weights").input_value() == "bf16"


def test_reset(open_page, path):
    page = open_page(path, "#batch=64&weights=fp8")
    page.locator("#reset").click()
    assert hash_of(page) == ""
    assert page.locator("#control-batch").input_value() == "8"
    assert page.locator(TILE).get_attribute("data-value") == str(8 * 2048)


def test_reset_of_one_control(open_page, path):
    page = open_page(path, "#batch=64&weights=fp8")
    undo = page.locator("[data-control=batch] .undo")
    assert page.locator("[data-control=input_len] .undo").is_hidden()
    undo.click()
    assert hash_of(page) == "#weights=fp8"
    assert page.locator("#control-batch").input_value() == "8"
    assert undo.is_hidden()
    assert page.evaluate("document.activeElement.id") == "control-batch"


_REFUSED = (
    "#batch=<script>", "#__proto__=1", "#__proto__.batch=64", "#constructor=1&toString=2", "#batch=1e999", "#batch=-1",
    "#batch=0", "#batch=4097", "#batch=2.5", "#batch=NaN", "#batch=Infinity", "#batch=0x10", "#batch=", "#batch", "#batch=%",
    "#batch=%zz", "#weights=int3", "#weights=__proto__", "#measured=yes", "#nothing=1", "#title=%00", "#title=%E2%80%AE",
    f"#title={'x' * 201}", "#=1", "#&&&", "#pin.=1", "#pin.__proto__=1", "#pin=yes", "#bandwidth=1.005", "#batch=8%00",
    "#section-roofline", "#batch=1_000", "#batch= 9",
)  # fmt: skip


@pytest.mark.parametrize("fragment", _REFUSED[:4])
def test_a_page_starts_as_it_is_where_its_address_must_not_be_believed(open_page, path, fragment):
    page = open_page(path, fragment)
    is_first(page)
    fill(page, "batch", "9")
    assert hash_of(page) == "#batch=9", "nothing of it is kept"


def test_what_an_address_must_not_say_is_passed_by(open_page, path):
    page = open_page(path)
    for fragment in _REFUSED:
        page.evaluate("(fragment) => { location.hash = fragment; }", f"{fragment}&input_len=64")
        page.locator(f'{TILE}[data-value="{8 * 64}"]').wait_for()  # the good key counts
        page.evaluate("(fragment) => { location.hash = fragment; }", fragment)
        page.locator(f'{TILE}[data-value="{8 * 2048}"]').wait_for()
        is_first(page)


def is_first(page):
    assert page.locator(TILE).get_attribute("data-value") == str(8 * 2048)
    assert page.locator("h1").inner_text() == view(FIRST).title
    assert page.locator("#alert").inner_text() == ""
    assert page.locator("#pinned").inner_text() == ""
    assert page.evaluate("({}).batch === undefined && Object.keys(Object.prototype).length === 0")


def test_refused_state(open_page, path):
    page = open_page(path, "#batch=64")
    fill(page, "batch", "4095")
    alert = page.locator("#alert")
    assert alert.inner_text() == "4095 sequences are refused <b>here</b>"
    assert alert.get_attribute("role") == "alert"
    assert page.locator(TILE).get_attribute("data-value") == str(64 * 2048), "the last good view stays"
    assert page.evaluate("document.documentElement.hasAttribute('data-refused')")
    assert page.locator("#commands .copy").is_disabled(), "that would be the command of another state"
    fill(page, "batch", "32")
    assert page.locator("#commands .copy").is_enabled()
    assert not alert.is_visible()
    assert page.locator(TILE).get_attribute("data-value") == str(32 * 2048)
    assert not page.evaluate("document.documentElement.hasAttribute('data-refused')")


def test_refused_from_the_start(open_page, path):
    page = open_page(path, "#batch=4095")
    assert "refused" in page.locator("#alert").inner_text()
    assert page.locator(TILE).get_attribute("data-value") == str(8 * 2048)
    assert page.locator("#control-batch").input_value() == "4095"


def test_pinned_state_stands_beside(open_page, path):
    page = open_page(path)
    page.locator("#pin").click()
    assert hash_of(page) == "#pin=1"
    assert page.locator("#pin").get_attribute("aria-pressed") == "true"
    fill(page, "batch", "64")
    assert hash_of(page) == "#batch=64&pin=1"
    tile = page.locator(TILE)
    assert tile.get_attribute("data-value") == str(64 * 2048)
    assert tile.locator(".pinned").get_attribute("data-pinned-value") == str(8 * 2048)
    assert tile.inner_text().split("\n")[0] == str(64 * 2048)
    batch = page.locator(cell("points", 1, 1))
    assert batch.get_attribute("data-value") == "128"
    assert batch.locator(".pinned").get_attribute("data-pinned-value") == "16"
    assert page.locator(f"{cell('assumptions', 0, 1)} .pinned").count() == 0, "what is the same is not said twice"
    assert page.locator("#pinned").inner_text() == "Pinned: Batch 8 sequences."
    page.locator("#pin").click()
    settle(page)
    assert page.locator(".pinned").count() == 0
    assert hash_of(page) == "#batch=64"


def test_pinned_state_in_the_address(open_page, path):
    page = open_page(path, "#batch=2&pin.batch=16&pin.weights=fp8")
    assert page.locator(f"{TILE} .pinned").get_attribute("data-pinned-value") == str(16 * 2048)
    assert page.locator("#pinned").inner_text() == "Pinned: Batch 16 sequences, Weights fp8 (e4m3)."
    page.locator("#reset").click()
    assert hash_of(page) == "#pin.batch=16&pin.weights=fp8"


def test_pinned_state_that_is_refused(open_page, path):
    page = open_page(path, "#pin.batch=4095")
    assert "refused" in page.locator("#pinned").inner_text()
    assert page.locator(".pinned").count() == 0
    assert not page.locator("#alert").is_visible()
