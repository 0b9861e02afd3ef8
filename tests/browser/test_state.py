"""Controls, the address, the view: whichever is changed, the others follow; what an address must not say is passed by."""

from __future__ import annotations

from pathlib import Path

import pytest
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


# Time as the page sees it passes by `pass(ms)` alone: what a busy machine adds to it does not matter.
_TIME = """() => {
  let now = 0;
  let last = 0;
  const due = new Map();
  performance.now = () => now;
  window.setTimeout = (work, ms = 0) => {
    due.set(++last, { work, at: now + ms });
    return last;
  };
  window.clearTimeout = (id) => due.delete(id);
  window.spend = (ms) => { now += ms; };
  window.pass = (ms) => {
    const end = now + ms;
    for (;;) {
      const [id, first] = [...due].sort(([, one], [, other]) => one.at - other.at)[0] ?? [];
      if (first === undefined || first.at > end) break;
      due.delete(id);
      now = Math.max(now, first.at);
      first.work();
    }
    now = Math.max(now, end);
  };
}"""


def test_a_slow_view_does_not_hold_a_slider_up(open_page, path):
    """60 positions, 5 ms apart, and a view that takes 60 ms: few of them are computed, and the last one is shown."""
    page = open_page(path)
    page.evaluate(_TIME)
    page.evaluate("""() => {
      const quick = model.view;
      window.calls = 0;
      model.view = (state) => {
        window.calls += 1;
        spend(60);
        return quick(state);
      };
    }""")
    slider = page.locator('[data-control=batch] input[type="range"]')
    positions = list(range(20, 80))
    slider.evaluate(
        """(slider, positions) => {
      for (const position of positions) {
        slider.value = position;
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        pass(5);
      }
      pass(1000);
    }""",
        positions,
    )
    settle(page)
    batch = int(page.locator("#control-batch").input_value())
    assert page.locator(TILE).get_attribute("data-value") == str(batch * 2048)
    assert 1 <= page.evaluate("calls") < len(positions) / 4


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
    fill(page, "batch", "32")
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
    cell = page.locator('[data-cell="points/1/1"]')
    assert cell.get_attribute("data-value") == "128"
    assert cell.locator(".pinned").get_attribute("data-pinned-value") == "16"
    assert page.locator('[data-cell="assumptions/0/1"] .pinned').count() == 0, "what is the same is not said twice"
    assert page.locator("#pinned").inner_text() == "Pinned: Batch 8 sequences."
    page.locator("#pin").click()
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
