"""Every template, by a thousand seeds: solvable, finite, and no usual mistake passes as right."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from roofline.teach.markdown import html_of, plain
from roofline.teach.worksheets import TEMPLATES, TOPICS, by_topic, make, templates
from roofline.teach.worksheets.export import lettered, markdown
from roofline.teach.worksheets.feedback import judge
from roofline.teach.worksheets.parsing import UNITS
from roofline.teach.worksheets.problem import Template, Worked, checked
from roofline.teach.worksheets.sheet import sheet

SEEDS, WRITTEN, SOLVED = range(1000), range(40), range(3)
ALL = list(TEMPLATES.values())


@pytest.mark.slow
@pytest.mark.parametrize("template", ALL, ids=lambda one: one.id)
def test_a_thousand_seeds(template: Template) -> None:
    """The answer is a positive, finite number; every mistake is another, by more than the tolerance, and mistakes differ."""
    texts = set()
    for seed in SEEDS:
        problem = make(template, seed)
        answer, mistakes = problem.answer, problem.mistakes
        texts.add(problem.text)
        assert mistakes, "nothing to learn from a wrong answer"
        values = [mistake.value for mistake in mistakes]
        if answer.kind == "choice":
            assert sorted([answer.value, *values]) == list(range(len(answer.choices)))
            continue
        assert answer.kind in UNITS
        assert math.isfinite(answer.value)
        assert answer.value > 0
        for value in values:
            assert math.isfinite(value)
            assert abs(value - answer.value) > answer.tolerance * answer.value
        for first in values:
            assert sum(abs(first - second) <= answer.tolerance * second for second in values) == 1
    assert len(texts) >= 6, "a class needs sheets that differ"


@pytest.mark.parametrize("template", ALL, ids=lambda one: one.id)
def test_texts_and_hints(template: Template) -> None:
    """Texts can be shown, end as sentences do, and neither text nor hints give the answer away."""
    for seed in WRITTEN:
        problem = make(template, seed)
        assert problem.text.rstrip().endswith((".", "?"))
        assert html_of(problem.text)
        assert not re.search(r"\bnan\b|\binf\b|None|\{|\}", problem.text)
        for mistake in problem.mistakes:
            assert mistake.hint.endswith((".", "?")), mistake.hint
            assert html_of(mistake.hint)
            if problem.answer.kind != "choice":
                assert problem.right_answer not in mistake.hint
        text = problem.right_answer
        if problem.answer.kind not in ("choice", "sequences"):
            assert text not in plain(problem.text)


@pytest.mark.parametrize("template", ALL, ids=lambda one: one.id)
def test_each_answer_gets_what_it_deserves(template: Template) -> None:
    """Typed with six digits, the right number is right and every usual mistake is told its own hint."""
    for seed in WRITTEN:
        problem = make(template, seed)
        question, choices = problem.key, problem.answer.choices

        typed = "{:.0f}".format if choices or problem.answer.tolerance == 0 else "{:.6g}".format
        assert judge(question, typed(problem.answer.value)).status == "right"
        for mistake in problem.mistakes:
            feedback = judge(question, typed(mistake.value))
            assert (feedback.status, feedback.text) == ("hint", mistake.hint), mistake.name
        assert judge(question, "").status == "empty"


@pytest.mark.parametrize("template", ALL, ids=lambda one: one.id)
def test_solutions_lead_to_the_answer(template: Template) -> None:
    """Formulas can be written, and the last one comes to the answer; where there is none, the text has the number."""
    for seed in SOLVED:
        problem = make(template, seed)
        steps = [step for step in problem.solution if isinstance(step, Worked)]
        for step in steps:
            assert step.lead.endswith(":")
            assert step.latex().count("=") >= 2
        if problem.answer.kind == "choice":
            continue
        if not steps:
            assert problem.right_answer in problem.solution[-1]
            continue
        value = steps[-1].make().value
        assert value is not None
        if problem.answer.tolerance == 0:
            assert math.floor(value) == problem.answer.value
        else:
            assert value == pytest.approx(problem.answer.value, rel=problem.answer.tolerance / 2)


def test_each_topic_has_templates() -> None:
    """Sheets of every topic can be made; together there are thirty problems at least."""
    assert len(ALL) >= 30
    for topic in TOPICS:
        assert by_topic(topic)
        made = sheet(topic, 5)
        assert made.minutes == sum(template.minutes for template in by_topic(topic))
        assert [entry.template for entry in made.problems] == [template.id for template in by_topic(topic)]
        assert markdown(made).count("## ") == len(made.problems)


def test_mistakes_of_the_field_are_there() -> None:
    """Each of the mistakes that people make most is met somewhere."""
    names = {
        name
        for one in ALL
        for seed in range(30)
        for mistake in make(one, seed).mistakes
        for name in mistake.name.split(", or ")
    }
    wanted = {
        "sparse peak", "K without V", "query heads for KV heads", "bits for bytes", "GB for GiB", "hidden size for KV width",
        "causal mask forgotten", "all experts read",
    }  # fmt: skip
    assert wanted <= names


def test_coinciding_mistakes_become_one() -> None:
    """Two mistakes of one number share their hints; one that would pass as right makes the problem a bad one."""
    problem = make(TEMPLATES["kv-cache-per-token"], 0)
    first, second = problem.mistakes[:2]
    from dataclasses import replace

    twice = checked(replace(problem, mistakes=(first, replace(second, value=first.value))))
    assert twice is not None
    assert [mistake.hint for mistake in twice.mistakes] == [f"{first.hint} Or: {second.hint}"]
    near = replace(first, value=problem.answer.value * 1.015)
    assert checked(replace(problem, mistakes=(near,))) is None
    assert checked(replace(problem, mistakes=(replace(first, value=math.inf),))) is None


def test_every_template_file_is_listed() -> None:
    """`templates/__init__.py` imports every file of the folder; a file is named after the id of its template."""
    files = {path.stem for path in Path(templates.__file__).parent.glob("*.py")} - {"__init__"}
    assert {one.id.replace("-", "_") for one in ALL} == files


def test_an_id_begins_with_its_topic() -> None:
    """A template of another package, too, is named after its topic."""
    with pytest.raises(TypeError, match="the id begins with the topic"):
        Template(id="cache", topic="kv-cache", minutes=1, draw=lambda _: None)


def test_letters() -> None:
    assert lettered(("x", "y", "z")) == [("a", "x"), ("b", "y"), ("c", "z")]


@pytest.mark.parametrize("template", ALL, ids=lambda one: one.id)
def test_hints_and_quantities(template: Template) -> None:
    """Every problem has a hint, of whose texts none has the answer; what a formula is computed from is known by name."""
    for seed in SOLVED:
        problem = make(template, seed)
        assert problem.hints
        texts = [step for hint in problem.hints for step in hint if isinstance(step, str)]
        assert not any(problem.right_answer in text for text in texts)
        if any(isinstance(step, Worked) for step in problem.solution):
            assert any(step.inputs for step in problem.solution if isinstance(step, Worked))
        for quantity in problem.quantities:
            assert math.isfinite(quantity.value)
            assert quantity.value > 0
            assert quantity.name.startswith(("the ", "a ")), quantity.name
            assert "[" not in quantity.name
