"""Worksheets as a student uses them: right and wrong answers, keyboard, screen reader, phone, paper.

The page says what Python says: what judges an answer is translated.
"""

from __future__ import annotations

import pytest
from browser.paper import pages_of

from roofline import formatting
from roofline.teach.worksheets import TOPICS, sheet
from roofline.teach.worksheets.feedback import judge
from roofline.teach.worksheets.page import page

SEED = 7
OPTIONS = {"light": {}, "dark": {"color_scheme": "dark"}, "phone": {"width": 320}}
WAYS = [(topic, list(OPTIONS)[index % len(OPTIONS)]) for index, topic in enumerate(TOPICS)]
"""Sheets are made of the same parts: each is looked at in one way, in turns."""
SPELLINGS = [
    "131072", "131,072 B", "128 KiB", "0.131 MB", "1.31 x 10^5", "1.31·10⁵ B", "2^17", "2*32*8*128*2", "= 1/8 MiB",
    "131 072", "128 kib", "16 gb", "1 Mbit", "1,5 GB", "abc", "-3", "", "  ", "5 GFLOP", "8k", "0.64 %", "1e400",
    "10^9999", "1/0", "64 KiB", "12 34", "1.5 GiB per token", "3.5k tok/s", "25x", "8.03 B", "$0.35", "9" * 50, "2^-3",
    "7.36 ms", "15 gflops", "312 TFLOPS", "1e-7 s", "0", "999999999999", "1.7976931348623157 KiB",
]  # fmt: skip


_JUDGED = """([place, text]) => {
  const asked = JSON.parse(document.getElementById("keys").textContent)[place];
  const said = program.judge($.revive(asked), text);
  return [said.status, said.text];
}"""


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """A sheet of every topic, bare, and with answers."""
    folder = tmp_path_factory.mktemp("sheets")
    for topic in TOPICS:
        made = sheet(topic, SEED)
        (folder / f"{topic}.html").write_text(page(made), encoding="utf-8")
        (folder / f"{topic}-answers.html").write_text(page(made, answers=True), encoding="utf-8")
    return folder


def answered(shown, number, text):
    """Writes (or chooses) an answer and checks it; the state of the problem and what is said."""
    form = shown.locator(f"form[data-problem='{number - 1}']")
    if form.locator("input[type=text]").count():
        form.locator("input[type=text]").fill(text)
    elif text:
        form.locator("input[type=radio]").nth(int(text)).check()
    form.get_by_role("button").click()
    form.locator(".feedback:not(:empty)").wait_for()
    return form.get_attribute("data-status"), form.locator(".feedback").inner_text()


def spelled(value, kind):
    """A number as students may write it."""
    found = [f"{value:.6g}", f"{value:.4e}"]
    if kind == "bytes":
        return [*found, formatting.binary(value), formatting.quantity(value, "B")]
    if kind in ("flop", "flop/s", "s"):
        return [*found, formatting.quantity(value, {"flop": "FLOP", "flop/s": "FLOP/s", "s": "s"}[kind])]
    return [*found, f"{value * 100:.4g} %"] if kind == "share" else found


@pytest.mark.parametrize("topic", TOPICS)
def test_solved_by_a_student(open_page, paths, topic):
    """Every problem: nothing, each usual mistake, then the right answer in several spellings; the score counts up."""
    shown, made = open_page(paths / f"{topic}.html"), sheet(topic, SEED)
    for entry in made.problems:
        answer = entry.problem.answer
        status, said = answered(shown, entry.number, "")
        assert status == "empty"
        assert "guess" in said or "Choose one" in said
        for mistake in entry.problem.mistakes:
            text = f"{mistake.value:.0f}" if answer.choices or answer.tolerance == 0 else f"{mistake.value:.6g}"
            assert answered(shown, entry.number, text) == ("hint", mistake.hint), (entry.template, mistake.name)
        texts = [f"{answer.value:.0f}"] if answer.choices or answer.tolerance == 0 else spelled(answer.value, answer.kind)
        for text in texts:
            assert answered(shown, entry.number, text)[0] == "right", (entry.template, text)
    assert shown.locator("#score").inner_text() == f"All {len(made.problems)} right."


def test_page_says_what_python_says(open_page, paths):
    """Any text in any field: status and sentence are those of the function that was translated."""
    for topic in ("kv-cache", "serving", "measured", "roofline"):
        shown = open_page(paths / f"{topic}.html")
        questions = [entry.problem.key for entry in sheet(topic, SEED).problems]
        for place, question in enumerate(questions):
            if question.choices:
                continue
            for text in SPELLINGS:
                said = judge(question, text)
                found = shown.evaluate(_JUDGED, [place, text])
                assert found == [said.status, said.text], (topic, place, text)


def test_what_was_said_goes_when_the_answer_changes(open_page, paths):
    """A judgement is of what was judged: typing on takes it away, and the score with it."""
    shown, answer = open_page(paths / "kv-cache.html"), sheet("kv-cache", SEED).problems[0].problem.answer
    assert answered(shown, 1, f"{answer.value}")[0] == "right"
    assert shown.locator("#score").inner_text() != ""
    field = shown.locator("form[data-problem='0'] input")
    field.press("End")
    field.press("0")
    assert shown.locator("form[data-problem='0']").get_attribute("data-status") is None
    assert shown.locator("form[data-problem='0'] .feedback").inner_text() == ""
    assert shown.locator("#score").inner_text() == ""


def test_keyboard_alone(open_page, paths):
    """Tab reaches the field after the bar (theme, link, print), Enter checks it, the field keeps the focus."""
    shown = open_page(paths / "kv-cache.html")
    for _ in range(4):
        shown.keyboard.press("Tab")
    assert shown.evaluate("document.activeElement.id") == "answer-1"
    shown.keyboard.type("3 apples")
    shown.keyboard.press("Enter")
    shown.locator(".feedback:not(:empty)").first.wait_for()
    assert shown.locator(".feedback").first.get_attribute("role") == "status"
    assert shown.evaluate("document.activeElement.id") == "answer-1"
    assert shown.locator("#answer-1").get_attribute("aria-invalid") == "true"
    assert "apples" in shown.locator(".feedback").first.inner_text()


def test_fields_have_names(open_page, paths):
    """What a screen reader is told: every field and button with the number of its problem."""
    shown = open_page(paths / "kv-cache.html")
    for entry in sheet("kv-cache", SEED).problems:
        if not entry.problem.answer.choices:
            assert shown.get_by_role("textbox", name=f"Your answer to problem {entry.number}", exact=True).count() == 1
        else:
            assert shown.get_by_role("group", name=f"Answer to problem {entry.number}", exact=True).count() == 1
        assert shown.get_by_role("button", name=f"Check problem {entry.number}", exact=True).count() == 1


@pytest.mark.parametrize(("topic", "way"), WAYS)
def test_axe_finds_nothing(open_page, axe, paths, topic, way):
    """With answers of every status on the page, and with all solutions open."""
    shown = open_page(paths / f"{topic}-answers.html", **OPTIONS[way])
    texts = ["", "5 apples", "1", str(sheet(topic, SEED).problems[0].problem.answer.value)]
    for entry in sheet(topic, SEED).problems:
        text = "0" if entry.problem.answer.choices else texts[entry.number % len(texts)]
        answered(shown, entry.number, text)
    for summary in shown.locator("summary").all():
        summary.click()
    assert axe(shown) == []
    assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("topic", TOPICS)
def test_paper(open_page, paths, topic):
    """On paper: a line to write on at every problem that has no choices, and nothing to press; solutions where asked for."""
    shown = open_page(paths / f"{topic}.html")
    bare = pages_of(shown.pdf())
    assert all(bare)
    shown.emulate_media(media="print")
    problems = sheet(topic, SEED).problems
    lines = sum(not entry.problem.answer.choices for entry in problems)
    assert shown.locator("form .rule:visible").count() == lines
    assert shown.get_by_role("button").count() == 0
    assert shown.get_by_role("textbox").count() == 0
    assert sum(pages_of(open_page(paths / f"{topic}-answers.html").pdf())) > sum(bare)


def test_without_a_script(open_page, paths):
    """The problems can be read, and it is said that answers are not checked."""
    shown = open_page(paths / "kv-cache.html", java_script_enabled=False)
    assert shown.get_by_text("the sheet can be solved on paper").is_visible()
    assert not shown.get_by_role("button").first.is_visible()
    assert shown.get_by_role("heading", level=2).count() == len(sheet("kv-cache", SEED).problems)


_REFUSED = """() => Object.defineProperty(window, "localStorage", {
  get() { throw new DOMException("no", "SecurityError"); },
})"""


def test_answers_stay_over_a_reload(open_page, paths):
    """What was entered is there again, and judged again if it was; of another sheet nothing is; forgotten, all of it goes."""
    shown, problems = open_page(paths / "kv-cache.html"), sheet("kv-cache", SEED).problems
    forget = shown.get_by_role("button", name="Forget my answers")
    assert not forget.is_visible()
    chosen = next(entry for entry in problems if entry.problem.answer.choices)
    answered(shown, 1, f"{problems[0].problem.answer.value}")
    said = answered(shown, 2, "3 apples")
    answered(shown, chosen.number, f"{chosen.problem.answer.value:.0f}")
    shown.locator("#answer-3").fill("12")
    shown.reload()
    shown.locator("#score:not(:empty)").wait_for()
    assert shown.locator("#score").inner_text() == f"2 of {len(problems)} right."
    assert shown.locator("#answer-2").input_value() == "3 apples"
    shown.locator("form[data-problem='1'] .feedback:not(:empty)").wait_for()
    assert shown.locator("form[data-problem='1'] .feedback").inner_text() == said[1]
    assert shown.locator("#answer-3").input_value() == "12"
    assert shown.locator("form[data-problem='2']").get_attribute("data-status") is None
    assert open_page(paths / "roofline.html").locator("#answer-1").input_value() == ""
    forget.click()
    assert not forget.is_visible()
    for reloaded in (False, True):
        if reloaded:
            shown.reload()
        assert shown.locator("#answer-1").input_value() == ""
        assert shown.locator("input:checked").count() == 1, "the theme alone"
        assert shown.locator("#score").inner_text() == ""


def test_where_nothing_can_be_stored(open_page, paths):
    """Answers are judged as ever; nothing is kept, and nothing offers to forget it."""
    shown = open_page(paths / "kv-cache.html", init=_REFUSED)
    assert answered(shown, 1, f"{sheet('kv-cache', SEED).problems[0].problem.answer.value}")[0] == "right"
    assert not shown.get_by_role("button", name="Forget my answers").is_visible()


def test_hints_open_one_after_the_other(open_page, paths):
    """The formula first, then what is put in; neither has the answer, and on paper no hint is printed."""
    shown, entry = open_page(paths / "kv-cache.html"), sheet("kv-cache", SEED).problems[0]
    first, second = shown.locator("section").first.locator(".hint").all()
    assert first.is_visible()
    assert not second.is_visible()
    first.locator("summary").click()
    assert first.locator("math").count() >= 1
    assert not set("23456789") & set(first.locator(".worked").inner_text().replace("2", "", 1)), "symbols, and the 2 of K and V"
    second.locator("summary").click()
    numbers = second.locator(".worked").inner_text()
    assert "128" in numbers
    assert f"{entry.problem.answer.value:.0f}" not in numbers.replace(" ", "").replace("\u2009", "")
    first.locator("summary").click()
    shown.emulate_media(media="print")
    assert shown.locator(".hint:not([open]):visible").count() == 0
