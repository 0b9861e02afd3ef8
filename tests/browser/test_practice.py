"""The practice page as a student uses it: topics, difficulty, wrong and right answers, the next problem, a phone."""

from __future__ import annotations

import pytest

from roofline.teach.worksheets import TEMPLATES, TOPICS, by_topic, make
from roofline.teach.worksheets.practice import practice

COUNT = 2


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    place = tmp_path_factory.mktemp("practice") / "practice.html"
    place.write_text(practice(problems=COUNT), encoding="utf-8")
    return place


def problem_of(page):
    """The template and the problem in sight, which the address names."""
    name, _, variant = page.evaluate("location.hash").removeprefix("#").partition("/")
    return TEMPLATES[name], int(variant), make(TEMPLATES[name], int(variant))


def check(page, problem, value):
    """Answers with a value; the status and what is said."""
    form = page.locator("#problem form")
    if problem.answer.choices:
        form.locator("input[type=radio]").nth(int(value)).check()
    else:
        form.locator("#answer").fill(f"{value:.0f}" if problem.answer.tolerance == 0 else f"{value:.6g}")
    form.get_by_role("button").click()
    form.locator(".feedback:not(:empty)").wait_for()
    return form.get_attribute("data-status"), form.locator(".feedback").inner_text()


def choose_only(page, topic):
    page.get_by_role("button", name="None", exact=True).click()
    page.locator(f'#choose input[value="{topic}"]').check()


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic(open_page, path, topic):
    """Only problems of the chosen topic, each once before any comes again; a mistake gets its hint, the right answer counts."""
    page = open_page(path)
    choose_only(page, topic)
    page.get_by_role("button", name="New problem").click()
    kinds = by_topic(topic)
    met = set()
    for number in range(1, len(kinds) + 1):
        template, _, problem = problem_of(page)
        assert template.topic == topic
        met.add(template.id)
        assert page.locator("#problem h2").inner_text().startswith(problem.title)
        assert page.evaluate("document.activeElement.id") == "title"
        assert not page.locator("#problem .solution").is_visible()
        mistake = problem.mistakes[0]
        assert check(page, problem, mistake.value) == ("hint", mistake.hint)
        assert check(page, problem, problem.answer.value)[0] == "right"
        assert page.locator(f'[data-progress="{topic}"]').inner_text() == f"{number} of {len(kinds)} solved"
        page.get_by_role("button", name="Next problem").click()
    assert met == {one.id for one in kinds}


def test_difficulty(open_page, path):
    """Topics and levels together; a choice without problems says so, and offers none."""
    page = open_page(path)
    choose_only(page, "energy")
    for level in ("medium", "hard"):
        page.locator(f'#choose input[value="{level}"]').uncheck()
    easy = {one.id for one in by_topic("energy") if one.level == "easy"}
    assert page.locator("#pool").inner_text() == f"{len(easy)} kinds of problem, 0 of them solved."
    for _ in range(4):
        page.get_by_role("button", name="New problem").click()
        assert problem_of(page)[0].id in easy
    page.locator('#choose input[value="easy"]').uncheck()
    assert "choose another" in page.locator("#pool").inner_text()
    assert page.get_by_role("button", name="New problem").is_disabled()
    assert page.get_by_role("button", name="Next problem").is_disabled()


def test_another_like_it_and_a_link(open_page, path):
    """The same kind with other numbers; its address opens it again; what is solved stays over a reload, until forgotten."""
    page = open_page(path, fragment="#kv-cache-per-token/1")
    template, variant, problem = problem_of(page)
    assert (template.id, variant) == ("kv-cache-per-token", 1)
    assert check(page, problem, problem.answer.value)[0] == "right"
    page.get_by_role("button", name="Another like this").click()
    assert problem_of(page)[:2] == (template, 0)
    page.reload()
    page.locator("html[data-live]").wait_for(state="attached")
    progress = page.locator('[data-progress="kv-cache"]')
    assert progress.inner_text().startswith("1 of ")
    assert problem_of(page)[:2] == (template, 0)
    page.get_by_role("button", name="Forget my progress").click()
    assert progress.inner_text().startswith("0 of ")


def test_a_solution_read_first_does_not_count(open_page, path):
    """After a wrong answer the solution can be opened; the right one then is right, and the problem not solved."""
    page = open_page(path, fragment="#roofline-ridge-point/0")
    _, _, problem = problem_of(page)
    check(page, problem, problem.mistakes[0].value)
    page.locator("#problem .solution summary").click()
    assert f"Answer: {problem.right_answer}" in page.locator("#problem .solution").inner_text()
    assert check(page, problem, problem.answer.value)[0] == "right"
    assert page.locator('[data-progress="roofline"]').inner_text().startswith("0 of ")


@pytest.mark.parametrize("options", [{}, {"color_scheme": "dark"}, {"width": 320}, {"width": 390, "color_scheme": "dark"}])
def test_axe_finds_nothing(open_page, axe, path, options):
    """With feedback, hints and the solution open, and everything as wide as the page; on a phone the problem comes first."""
    page = open_page(path, fragment="#disaggregation-transfer-time/0", **options)
    assert page.locator("#choose").is_visible() == (options.get("width", 1280) > 960)
    _, _, problem = problem_of(page)
    check(page, problem, problem.mistakes[0].value)
    for summary in page.locator("#problem summary").all():
        if summary.is_visible():
            summary.click()
    if not page.locator("#choose").is_visible():
        page.locator("#choices > summary").click()
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_without_a_script(open_page, path):
    """It is said what is missing, and there is nothing to press."""
    page = open_page(path, java_script_enabled=False)
    assert page.get_by_text("which this browser does not run").is_visible()
    assert page.get_by_role("button").count() == 0
