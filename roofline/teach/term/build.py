"""The files of a term: syllabus, assignments, midterm and final with their keys, reading list, lab, project."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from roofline.documents import DATA_VERSION, __version__
from roofline.errors import InputError
from roofline.report.page import content_policy, environment, style_sheets
from roofline.teach.markdown import Ids, html_of
from roofline.teach.term import reading
from roofline.teach.term.papers import EXAMS, POINTS, assignment, exam
from roofline.teach.term.syllabus import DAYS, HOURS, OUTCOMES, UNITS, WEEKS, Unit
from roofline.teach.worksheets.page import entries
from roofline.teach.worksheets.sheet import Sheet, parse_seeds

Length = Literal["term", "days", "hours"]
LENGTHS: tuple[Length, ...] = ("term", "days", "hours")
_STYLES = ("figures", "style", "formulas", "print", "worksheet", "term")
_TITLE = "How fast, how big, how expensive: inference on hardware"


@dataclass(frozen=True, slots=True)
class Term:
    """What was written.

    Attributes:
        papers: assignments and exams, by the name of their file without ".html".
        files: all of them.
    """

    papers: dict[str, Sheet]
    files: tuple[Path, ...]


def build(to: Path, seed: int, length: Length = "term", course: str = "..") -> Term:
    """Write a term.

    Args:
        to: the folder, made if it is not there.
        seed: of all papers; the same seed and version write the same files.
        length: "term" for twelve weeks, "days" for three days, "hours" for three hours.
        course: where the pages of the lessons are, relative to the folder.

    Returns:
        The papers and the files.

    Raises:
        InputError: a seed that is none, or an unknown length.
    """
    parse_seeds(str(seed))
    if length not in LENGTHS:
        raise InputError(f"a course takes {', '.join(LENGTHS)}, not {length!r}")
    papers = {f"assignment-{week.number:02d}": sheet for week in WEEKS if (sheet := assignment(week.number, seed)) is not None}
    if length != "term":
        papers = {name: papers[f"assignment-{week.number:02d}"] for name, week in _of_units(length, papers)}
    else:
        papers |= {name: exam(name, seed) for name in EXAMS}
    written = []
    for name, sheet in papers.items():
        minutes = EXAMS.get(name, (sheet.minutes, ()))[0]
        subtitle = f"{len(sheet.problems)} problems, {POINTS * len(sheet.problems)} points, {minutes} minutes. Seed {seed}."
        for ending, key in (("", False), ("-key", True)):
            title = f"{sheet.title}: key" if key else sheet.title
            text = html_of(_EXAM_RULES if name in EXAMS and not key else "")
            written.append(_write(to / f"{name}{ending}.html", _page(title, subtitle, text, sheet, key=key, seed=seed)))
    texts = {"syllabus": syllabus(length, course), "reading-list": reading.markdown(), "marking": marking(papers.items())}
    if length == "term":
        texts |= {name: Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8") for name in ("lab", "project")}
    for name, text in texts.items():
        title, _, body = text.partition("\n")
        written.append(_write(to / f"{name}.md", text))
        written.append(_write(to / f"{name}.html", _page(title.lstrip("# "), "", html_of(body, Ids()), None, seed=seed)))
    return Term(papers, tuple(written))


_EXAM_RULES = (
    "Formulas in symbols before numbers; a number without a unit is worth no more than its formula. Allowed: a calculator, and "
    "one page of notes of your own. Of a model or a device that is named, everything that you need is in the problem."
)


def _of_units(length: Length, papers: dict[str, Sheet]) -> Iterable[tuple[str, Any]]:
    """The assignments of the lessons that a short course has."""
    numbers = [number for _, lessons in DAYS for _, number in lessons]
    if length == "hours":
        numbers = [number for _, lessons, _ in HOURS for number in lessons]
    for week in WEEKS:
        name = f"assignment-{week.number:02d}"
        if week.unit in numbers and name in papers:
            yield name, week


def syllabus(length: Length = "term", course: str = "..") -> str:
    """The syllabus as Markdown: weeks, days or hours; outcomes with the problems that show them.

    Args:
        length: as of `build`.
        course: where the pages of the lessons are.
    """
    lines = [f"# {_TITLE}", "", _ABOUT, ""]
    lines += {"term": _weeks, "days": _days, "hours": _hours}[length](course)
    lines += ["", "## Outcomes", "", "After the course students can:", ""]
    lines += ["| | outcome | lesson | problems |", "|---|---|---|---|"]
    taught = _taught(length)
    for number, outcome in enumerate((one for one in OUTCOMES if one.unit in taught), 1):
        lines.append(f"| {number} | {outcome.text} | {outcome.unit} | {', '.join(f'`{name}`' for name in outcome.templates)} |")
    if length == "term":
        lines += ["", "## Marks", "", _MARKS]
    return "\n".join(lines) + "\n"


_ABOUT = (
    "For students of computer science from the third year on, who know matrices, have programmed in Python, and have heard "
    "what a neural network is. Pages, decks and notebooks of the lessons need nothing but a browser; every number in them is "
    "computed by the toolkit."
)
_MARKS = (
    "Assignments 30 %, the best eleven of twelve; lab 10 %; midterm 15 %; project 20 %; final 25 %. Problems are marked by the "
    "scheme in `marking.html`, the project by its rubric."
)


def _taught(length: Length) -> set[int]:
    if length == "hours":
        return {number for _, lessons, _ in HOURS for number in lessons}
    return {unit.number for unit in UNITS}


def _weeks(course: str) -> list[str]:
    lines = ["## Weeks", "", "A lecture of 50 minutes and a class of 100 each.", "",
             "| week | lecture | class | assignment | due |", "|---|---|---|---|---|"]  # fmt: skip
    for week in WEEKS:
        unit = UNITS[week.unit - 1]
        paper = f"[{week.number}](assignment-{week.number:02d}.html)" if unit.topics else ""
        lines.append(f"| {week.number} | {_linked(unit, course)} | {week.in_class} | {paper} | {week.due} |")
    return [*lines, "", "Then, in the weeks of exams, the [final](final.html), 120 minutes, on all lessons."]


def _linked(unit: Unit, course: str) -> str:
    return f"[{unit.number}. {unit.title}]({course}/{unit.name}.html)"


def _days(course: str) -> list[str]:
    lines = ["## Three days", "", "Each lesson takes an hour; the hour after it is for its worksheet, in pairs.", "",
             "| | hour | lesson | worksheet |", "|---|---|---|---|"]  # fmt: skip
    for title, lessons in DAYS:
        for place, (hour, number) in enumerate(lessons):
            unit = UNITS[number - 1]
            paper = f"[assignment](assignment-{number:02d}.html)" if unit.topics else "teams present"
            lines.append(f"| {title if place == 0 else ''} | {hour}:00 | {_linked(unit, course)} | {paper} |")
    return lines


def _hours(course: str) -> list[str]:
    lines = ["## Three hours", "", "| | lessons | which parts |", "|---|---|---|"]
    for title, lessons, parts in HOURS:
        lines.append(f"| {title} | {', '.join(_linked(UNITS[number - 1], course) for number in lessons)} | {parts} |")
    return lines


def marking(papers: Iterable[tuple[str, Sheet]]) -> str:
    """The marking scheme as Markdown: points of each problem of each paper, with its answer.

    Args:
        papers: by name.
    """
    rules = (
        f"Each problem has {POINTS} points: 1 for the right quantities, 1 for the formula in symbols before any number, 1 for "
        "the number within its tolerance, 1 for a unit whose prefix is what it says. A number without a formula is worth 1 "
        f"point at most; a formula with a slip in the arithmetic {POINTS - 1}. Usual mistakes are in the keys: take 1 point "
        "for each, once a paper. A choice has all its points or none."
    )
    lines = ["# Marking scheme", "", rules]
    for name, sheet in papers:
        lines += ["", f"## {sheet.title}", "", f"[key]({name}-key.html)", "", "| | template | answer | |", "|---|---|---|---|"]
        for entry in sheet.problems:
            problem = entry.problem
            lines.append(f"| {entry.number} | `{entry.template}` | {problem.right_answer} | {problem.tolerance} |")
    return "\n".join(lines) + "\n"


def _page(title: str, subtitle: str, text: str, sheet: Sheet | None, *, seed: int, key: bool = False) -> str:
    style = style_sheets(_STYLES)
    written: str = (
        environment()
        .get_template("term.html.j2")
        .render(
            title=title,
            subtitle=subtitle,
            text=text,
            entries=entries(sheet, answers=key) if sheet is not None else [],
            key=key,
            points=POINTS,
            provenance=f"roofline {__version__}, data {DATA_VERSION}, seed {seed}. Text: CC BY 4.0.",
            style=style,
            policy=content_policy(style),
            script="",
        )
    )
    return written


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    return path
