"""A term by one seed: papers that repeat, exams in time, keys apart from questions, outcomes that cover every template."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from roofline.errors import InputError
from roofline.teach.term.build import Term, build, syllabus
from roofline.teach.term.papers import EXAMS, POINTS, assignment, exam
from roofline.teach.term.reading import reading_list
from roofline.teach.term.syllabus import DAYS, HOURS, OUTCOMES, UNITS, WEEKS
from roofline.teach.worksheets.problem import TOPICS
from roofline.teach.worksheets.templates import TEMPLATES

ROOT = Path(__file__).parents[4]
LESSONS = ROOT / "lessons"


@pytest.fixture(scope="module")
def term(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Term]:
    """A term in a folder."""
    folder = tmp_path_factory.mktemp("term")
    return folder, build(folder, 2027)


@cache
def of_topic() -> dict[str, int]:
    """The lesson of each topic."""
    return {topic: unit.number for unit in UNITS for topic in unit.topics}


def test_every_lesson_has_a_week_and_every_topic_a_lesson() -> None:
    """Lessons in their order, each once."""
    assert [week.unit for week in WEEKS] == [unit.number for unit in UNITS] == list(range(1, 13))
    assert sorted(of_topic()) == sorted(TOPICS)
    assert {number for _, lessons in DAYS for _, number in lessons} == {unit.number for unit in UNITS}
    assert {number for _, lessons, _ in HOURS for number in lessons} <= {unit.number for unit in UNITS}


def test_lessons_of_the_syllabus_are_files() -> None:
    """Named as in the folder, with the title of the lesson."""
    for unit in UNITS:
        source = (LESSONS / f"{unit.name}.py").read_text(encoding="utf-8")
        assert f"# # {unit.number}. {unit.title}\n" in source


def test_each_template_shows_one_outcome() -> None:
    """None is forgotten, none is under two, and outcomes are of the lesson of their templates' topics."""
    named = Counter(name for outcome in OUTCOMES for name in outcome.templates)
    assert set(named) == set(TEMPLATES)
    assert set(named.values()) == {1}


@pytest.mark.parametrize("seed", [0, 1, 2027])
def test_assignments_are_on_their_lesson(seed: int) -> None:
    """Five problems on the lesson of the week, one on an earlier one; in half an hour or so."""
    for week in WEEKS:
        sheet = assignment(week.number, seed)
        if sheet is None:
            assert not UNITS[week.unit - 1].topics
            continue
        numbers = [of_topic()[TEMPLATES[entry.template].topic] for entry in sheet.problems]
        assert numbers[:5] == [week.unit] * 5
        assert all(number < week.unit for number in numbers[5:])
        assert len(numbers) == (6 if week.unit > 1 else 5)
        assert len({entry.template for entry in sheet.problems}) == len(numbers)
        assert 15 <= sheet.minutes <= 45


@pytest.mark.parametrize("seed", range(20))
def test_exams_are_done_in_time_and_ask_about_every_lesson(seed: int) -> None:
    """At most four fifths of the minutes, at least three fifths; no template twice."""
    for name, (minutes, lessons) in EXAMS.items():
        sheet = exam(name, seed)
        assert 0.6 * minutes <= sheet.minutes <= 0.8 * minutes
        asked = [of_topic()[TEMPLATES[entry.template].topic] for entry in sheet.problems]
        assert set(asked) == {number for number in lessons if UNITS[number - 1].topics}
        assert asked == sorted(asked)
        assert len({entry.template for entry in sheet.problems}) == len(asked)


@pytest.mark.slow
def test_one_seed_makes_the_same_term_and_another_makes_another(term: tuple[Path, Term], tmp_path: Path) -> None:
    """Byte for byte; and all assignments and exams differ by their seed."""
    folder, made = term
    build(tmp_path / "again", 2027)
    for path in made.files:
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()
    other = build(tmp_path / "other", 2028)
    assert all(other.papers[name].problems != sheet.problems for name, sheet in made.papers.items())
    assert {path.name for path in folder.iterdir()} == {path.name for path in made.files}


def test_papers_have_no_answers_and_keys_have_all(term: tuple[Path, Term]) -> None:
    """Neither as text nor for a script; the key has each answer, and its solution."""
    folder, made = term
    for name, sheet in made.papers.items():
        paper = (folder / f"{name}.html").read_text(encoding="utf-8")
        key = (folder / f"{name}-key.html").read_text(encoding="utf-8")
        assert "<script" not in paper + key
        assert 'class="solution"' not in paper
        assert key.count('class="solution"') == len(sheet.problems) == paper.count('class="section problem"')
        assert f"{POINTS * len(sheet.problems)} points" in paper


def test_the_marking_scheme_has_every_problem(term: tuple[Path, Term]) -> None:
    """By its template, with its answer."""
    folder, made = term
    text = (folder / "marking.md").read_text(encoding="utf-8")
    for sheet in made.papers.values():
        assert f"## {sheet.title}" in text
        for entry in sheet.problems:
            assert f"| {entry.number} | `{entry.template}` | {entry.problem.right_answer} |" in text


def test_links_of_the_syllabus_lead_somewhere(term: tuple[Path, Term]) -> None:
    """To files of the term, or to lessons."""
    folder, _ = term
    pages = {f"../{unit.name}.html" for unit in UNITS}
    for name in ("syllabus", "marking"):
        for target in re.findall(r"\]\(([^)]+)\)", (folder / f"{name}.md").read_text(encoding="utf-8")):
            assert target in pages or (folder / target).is_file(), target


def test_rubric_adds_up(term: tuple[Path, Term]) -> None:
    """To a hundred points."""
    text = (term[0] / "project.md").read_text(encoding="utf-8").partition("## Rubric")[2]
    assert sum(int(points) for points in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)) == 100


def test_every_text_is_read_for_a_lesson_and_says_whether_it_was_opened() -> None:
    """Each key once at least; a text of others is opened on a day, or is not."""
    listed = reading_list()
    assert {key for unit in UNITS for key in unit.reading} == set(listed)
    assert {one.status.split()[0] for one in listed.values()} <= {"opened", "not", "of"}
    for one in listed.values():
        if one.url.startswith("docs/"):
            assert (ROOT / one.url).is_file()


def test_the_reading_list_of_the_repository_is_this_one() -> None:
    """`lessons/instructor/reading-list.md` is written from the same entries."""
    from roofline.teach.term.reading import markdown

    assert (LESSONS / "instructor" / "reading-list.md").read_text(encoding="utf-8") == markdown()


@pytest.mark.parametrize("length", ["days", "hours"])
def test_short_courses(length: str, tmp_path: Path) -> None:
    """Three days have every lesson, three hours some; no exams."""
    made = build(tmp_path, 1, length)  # type: ignore[arg-type]
    assert not set(EXAMS) & set(made.papers)
    assert len(made.papers) == (12 if length == "days" else 6)
    assert "## Three" in syllabus(length)  # type: ignore[arg-type]


def test_wrong_requests_are_refused(tmp_path: Path) -> None:
    """A seed that is none, a length that is unknown."""
    with pytest.raises(InputError):
        build(tmp_path, -1)
    with pytest.raises(InputError, match="term, days, hours"):
        build(tmp_path, 1, "year")  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    """One command and one seed; a negative one is refused."""
    script = str(LESSONS / "term.py")
    done = subprocess.run(
        [sys.executable, script, "--seed", "5", str(tmp_path / "t")], capture_output=True, text=True, check=True
    )
    assert "syllabus.html" in done.stdout
    wrong = subprocess.run([sys.executable, script, "--seed", "-5", str(tmp_path)], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr
