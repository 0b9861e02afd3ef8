"""Slides as a lecturer uses them: keys, overview, the presenter's window, reload, paper; no slide holds more than fits."""

from __future__ import annotations

import re
from shutil import which
from subprocess import PIPE, run

import pytest
from browser.paper import pages_of
from browser.waits import wait_until
from executed_lessons import NAMES, done
from small_lesson import SMALL_LESSON

from roofline.teach.lessons.build import deck
from roofline.teach.lessons.execute import execute
from roofline.teach.lessons.slides import slides

CURRENT = "document.querySelector('.slide.current').id"
SEEN = "document.querySelectorAll('.slide.current .seen').length"

_FAULTS = """() => {
  const faults = [];
  for (const slide of document.querySelectorAll(".slide")) {
    slide.classList.add("current");
    const whole = slide.getBoundingClientRect();
    const foot = slide.querySelector(".foot").getBoundingClientRect().top;
    const say = (...what) => faults.push([slide.id, ...what]);
    if (slide.scrollHeight > slide.clientHeight + 1 || slide.scrollWidth > slide.clientWidth + 1) say("overflows");
    if (Math.round(whole.width) !== 1280 || Math.round(whole.height) !== 720) say("is", whole.width, whole.height);
    for (const one of slide.querySelectorAll(".body *")) {
      const { width, right, bottom } = one.getBoundingClientRect();
      const isOut = right > whole.right - 20 || bottom > foot + 2;
      if (width && isOut && !one.closest("svg, math")) say(one.localName, right, bottom);
    }
    for (const words of slide.querySelectorAll("svg text")) {
      const { a, b } = words.getScreenCTM();
      const size = parseFloat(getComputedStyle(words).fontSize) * Math.hypot(a, b);
      if (size < 17.95) say(words.textContent, size);
    }
    const walk = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      const { data, parentElement } = walk.currentNode;
      const least = parentElement.closest("table") ? 22 : 18;
      const size = parseFloat(getComputedStyle(parentElement).fontSize);
      if (data.trim() && size < least && !parentElement.closest("svg, math")) say(data, size);
    }
    slide.classList.remove("current");
  }
  return faults;
}"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The slides of the small lesson, and their file."""
    folder = tmp_path_factory.mktemp("decks")
    path = folder / "01_small.py"
    path.write_text(SMALL_LESSON, encoding="utf-8")
    lesson = execute(path)
    (folder / "01_small.html").write_text(deck(lesson), encoding="utf-8")
    return slides(lesson), folder / "01_small.html"


@pytest.fixture
def opened(open_page, made):
    """Opens the slides of the small lesson at 1280 x 720."""
    return lambda fragment="", **options: open_page(made[1], fragment, **{"height": 720, **options})


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def test_keys(opened):
    """Forward through every answer and back through it; first, last, by number; the address says where one is."""
    page = opened()
    assert page.evaluate(CURRENT) == "slide-1"
    press(page, "ArrowRight", " ")
    assert (page.evaluate(CURRENT), page.evaluate(SEEN)) == ("slide-3", 0)
    answer = page.locator("#slide-3 .mark")
    assert not answer.is_visible()
    press(page, "PageDown")
    assert (page.evaluate(CURRENT), page.evaluate(SEEN)) == ("slide-3", 2)
    assert answer.is_visible()
    assert page.evaluate("location.hash") == "#3.1"
    assert page.locator("#status").text_content() == "Slide 3 of 16: Is it?, answer shown"
    press(page, "ArrowDown")
    assert page.evaluate(CURRENT) == "slide-4"
    press(page, "ArrowLeft")
    assert (page.evaluate(CURRENT), page.evaluate(SEEN)) == ("slide-3", 2)
    press(page, "PageUp")
    assert (page.evaluate(CURRENT), page.evaluate(SEEN)) == ("slide-3", 0)
    press(page, "End")
    assert page.evaluate(CURRENT) == "slide-16"
    press(page, "1", "1", "Enter", "ArrowRight")
    assert page.evaluate(CURRENT) == "slide-11b"  # the second drawing in one place
    assert page.evaluate("location.hash") == "#11b"
    assert page.locator("#status").text_content().startswith("Slide 11b of 16: Multi-query")
    press(page, "1", "2", "Enter")
    assert page.evaluate(CURRENT) == "slide-12"
    press(page, "Home", "ArrowUp")
    assert page.evaluate(CURRENT) == "slide-1"
    assert page.evaluate("document.activeElement.id") == "slide-1"
    press(page, "b")
    assert not page.locator("#slide-1").is_visible()
    press(page, "ArrowRight")  # any key first brings the slide back
    assert page.locator("#slide-1").is_visible()


def test_a_reload_stays(opened):
    page = opened("#3.1")
    assert (page.evaluate(CURRENT), page.evaluate(SEEN)) == ("slide-3", 2)
    press(page, "ArrowRight")
    page.reload()
    wait_until(page, "document.documentElement.hasAttribute('data-live')")
    assert page.evaluate(CURRENT) == "slide-4"
    page.evaluate("location.hash = '#11b'")
    wait_until(page, f"{CURRENT} === 'slide-11b'")


def test_overview(opened):
    """All slides, answers shown; arrows and Enter choose one, and so does a click."""
    page = opened("#2")
    press(page, "o")
    assert page.locator(".slide:visible").count() > 8
    press(page, "ArrowRight", "ArrowDown")
    chosen = page.evaluate(CURRENT)
    assert chosen == "slide-7"  # four in a row
    press(page, "Enter")
    assert page.locator(".slide:visible").count() == 1
    press(page, "Escape")
    page.locator("#slide-4").click()
    assert page.evaluate(CURRENT) == "slide-4"
    assert page.locator(".slide:visible").count() == 1


def test_swipes(opened):
    page = opened("#2")
    page.evaluate(
        """() => {
          const touch = (x) => new Touch({ identifier: 1, target: document.body, clientX: x, clientY: 100 });
          const swipe = (from, to) => {
            document.dispatchEvent(new TouchEvent("touchstart", { touches: [touch(from)] }));
            document.dispatchEvent(new TouchEvent("touchend", { changedTouches: [touch(to)] }));
          };
          swipe(500, 200);
          swipe(500, 200);
          swipe(200, 500);
          swipe(500, 490);
        }"""
    )
    assert page.evaluate(CURRENT) == "slide-3"


def test_presenter(opened):
    """A window of its own with notes, the next slide and a clock; each window follows the other, and survives a reload."""
    page = opened("#3")
    with page.expect_popup() as waiting:
        press(page, "p")
    presenter = waiting.value
    wait_until(presenter, f"document.documentElement.dataset.mode === 'presenter' && {CURRENT} === 'slide-3'")
    assert page.evaluate("document.documentElement.dataset.mode") is None
    assert "Not shown at all." in presenter.locator(".notes.current").inner_text()
    assert [slide.get_attribute("id") for slide in presenter.locator(".slide:visible").all()] == ["slide-3", "slide-4"]
    assert presenter.locator("#pace").inner_text() == "First part: 20 min, 0:00 to 20:00"
    press(presenter, "ArrowRight")
    wait_until(page, f"{CURRENT} === 'slide-3' && {SEEN} === 2")
    press(page, "ArrowRight")
    wait_until(presenter, f"{CURRENT} === 'slide-4'")
    page.reload()
    wait_until(page, "document.documentElement.hasAttribute('data-live')")
    wait_until(presenter, "document.getElementById('place').textContent.startsWith('Slide 4 of')")
    press(presenter, "ArrowLeft")
    wait_until(page, f"{CURRENT} === 'slide-3'")
    presenter.wait_for_timeout(1200)  # two ticks, by which the window that was loaded again knows the other one
    press(page, "End")
    wait_until(presenter, f"{CURRENT} === 'slide-16'")
    assert presenter.locator("#elapsed").inner_text() != "0:00"
    presenter.close()
    press(page, "Home")
    assert page.evaluate(CURRENT) == "slide-1"


def test_presenter_where_no_window_opens(opened):
    page = opened("#6", init="() => { window.open = () => null; }")
    press(page, "p")
    assert page.locator(".notes.current").is_visible()
    assert page.locator("#clock").is_visible()
    press(page, "ArrowRight")
    assert page.evaluate(CURRENT) == "slide-7"
    press(page, "p")
    assert page.locator(".slide:visible").count() == 1
    assert not page.locator("#clock").is_visible()


def test_paper(opened, made):
    """A slide a page, with all answers; with `?notes` each slide's notes follow it, those of the exercises on two pages."""
    page, count = opened(), len(made[0])
    page.emulate_media(media="print")
    assert page.locator("[data-step]:visible").count() == page.locator("[data-step]").count() > 0
    assert len(pages_of(page.pdf(prefer_css_page_size=True, print_background=True))) == count
    with_notes = opened("?notes")
    told = sum(slide.notes != "" for slide in made[0])
    assert told > count / 3
    assert len(pages_of(with_notes.pdf(prefer_css_page_size=True))) == count + told + 1


def test_axe_finds_nothing(opened, axe):
    """A question with its answer, a figure, and code with a takeaway; the overview; the presenter's view; light and dark."""
    page = opened("#3.1", init="() => { window.open = () => null; }", reduced_motion="reduce")
    for number, theme in (("3", "light"), ("10", "dark"), ("13", "dark")):
        press(page, number[0], *number[1:], "Enter")
        page.locator(f'input[name="theme"][value="{theme}"]').evaluate("(choice) => choice.click()")
        page.mouse.move(int(number), 100)  # the buttons appear
        assert axe(page) == [], number
    press(page, "p")
    assert axe(page) == []
    press(page, "o")
    assert axe(page) == []


def test_buttons(opened):
    page = opened()
    assert page.evaluate("getComputedStyle(document.querySelector('.tools')).opacity") == "0"
    page.mouse.move(300, 300)
    page.locator("#next").click()
    assert page.evaluate(CURRENT) == "slide-2"
    page.locator("#keys").click()
    assert page.locator("#help").is_visible()
    press(page, "Escape")
    assert not page.locator("#help").is_visible()
    assert page.locator(".slide:visible").count() == 1


def test_without_scripts_all_slides_are_there(opened, made):
    page = opened(java_script_enabled=False)
    assert page.locator(".slide:visible").count() == len(made[0])
    assert page.locator("[data-step]:visible").count() == page.locator("[data-step]").count()


def test_what_does_not_fit_is_noticed(open_page, made, tmp_path):
    path = tmp_path / "full.html"
    path.write_text(made[1].read_text(encoding="utf-8").replace("<p>Remember this.</p>", "<p>Much.</p>" * 20), encoding="utf-8")
    page = open_page(path, height=720, java_script_enabled=False)
    assert ["slide-12", "overflows"] in page.evaluate(_FAULTS)


_ARIAL = "Arimo|Arial|Liberation Sans|Helvetica|Nimbus Sans"


@pytest.fixture(scope="module")
def letters() -> None:
    """Letters of the width for which slides are laid out; others are wider."""
    if which("fc-match") and not re.search(
        _ARIAL, found := run(["fc-match", "Arial"], stdout=PIPE, text=True, check=True).stdout
    ):
        pytest.skip(f"no letters of Arial's width are installed (Debian: fonts-liberation), but {found.strip()}")


@pytest.mark.usefixtures("letters")
@pytest.mark.every_case
@pytest.mark.parametrize("name", NAMES)
def test_slides_fit_and_can_be_read(open_page, tmp_path, name):
    """At 1280 x 720: nothing is cut off, letters have 18 pixels or more, in tables 22."""
    path = tmp_path / f"{name}.html"
    path.write_text(deck(done(name)), encoding="utf-8")
    page = open_page(path, height=720, java_script_enabled=False)
    assert page.evaluate(_FAULTS) == []
