"""A worksheet as one HTML page that checks answers, and prints as a sheet to write on.

What judges an answer in the page is `roofline.teach.worksheets.feedback`, translated. The right numbers stand in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from roofline.formulas.javascript import translated
from roofline.report.page import as_json, content_policy, environment, inlined, page_scripts, style_sheets
from roofline.report.page_program import new_program
from roofline.teach.markdown import html_of
from roofline.teach.worksheets.feedback import AnswerKey, KnownMistake, KnownQuantity, judge
from roofline.teach.worksheets.parsing import EXAMPLES
from roofline.teach.worksheets.problem import Numbered, Problem, Worked
from roofline.teach.worksheets.sheet import Sheet
from roofline.text import clean

if TYPE_CHECKING:
    from markupsafe import Markup

    from roofline.formulas.javascript import Program

# A symbol in brackets, to keep on one line.
_BRACKETED = re.compile(r"\(<math>(?:(?!</math>).)*</math>\)")
_STYLES = ("figures", "style", "formulas", "print", "worksheet")
_SCRIPTS = ("elements", "actions", "bar", "answers", "worksheet")
_HINTS = ("Hint: which formula?", "Hint: which numbers?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A problem as the page template reads it; no solution unless answers are printed."""

    number: int
    title: str
    minutes: int
    text: Markup
    choices: tuple[str, ...]
    example: str
    near: str
    hints: list[tuple[str, Markup]]
    solution: Markup | None
    right: str
    wrong: list[tuple[str, str]]
    source: str


def page(sheet: Sheet, *, answers: bool = False) -> str:
    """Return the page of a sheet as HTML that needs no other file; with `answers`, every problem has a solution to open."""
    style = style_sheets(_STYLES)
    program, keys = translated(judging, lambda into: [into.encode(entry.problem.key) for entry in sheet.problems])
    script = inlined(f'"use strict";\n{program}\n') + page_scripts(_SCRIPTS)
    return (
        environment()
        .get_template("worksheet.html.j2")
        .render(
            sheet=sheet,
            answers=sheet.provenance,
            entries=entries(sheet, answers=answers),
            style=style,
            script=script,
            policy=content_policy(style, (script,)),
            keys=as_json(keys),
        )
    )


def entries(sheet: Sheet, *, answers: bool = False) -> list[Entry]:
    """The problems of a sheet as templates read them; with `answers`, with their solutions."""
    return [_entry(entry, answers=answers) for entry in sheet.problems]


def judging() -> Program:
    """Return a program that judges answers, for pages."""
    made = new_program()
    made.export("judge", judge)
    # NB: what data is made of becomes part of the program when it is first met: here, so that all pages have the same one
    mistakes, quantities = (KnownMistake(value=0.0, hint=""),), (KnownQuantity(value=0.0, name=""),)
    made.encode(AnswerKey(kind="", value=0.0, tolerance=0.0, choices=(), mistakes=mistakes, quantities=quantities))
    return made


def _entry(entry: Numbered, *, answers: bool) -> Entry:
    from markupsafe import Markup

    problem = entry.problem
    return Entry(
        number=entry.number,
        title=problem.title,
        minutes=entry.minutes,
        text=Markup(text_html(problem.text)),  # noqa: S704 - escaped below, piece by piece
        choices=problem.answer.choices,
        example=EXAMPLES.get(problem.answer.kind, ""),
        near=problem.tolerance,
        hints=hints_html(problem),
        solution=Markup(solution_html(problem)) if answers else None,  # noqa: S704 - likewise
        right=problem.right_answer,
        wrong=problem.wrong_answers,
        source=problem.source,
    )


def solution_html(problem: Problem) -> str:
    """Return the worked solution as HTML."""
    return "".join(map(_step, problem.solution))


def hints_html(problem: Problem) -> list[tuple[str, Markup]]:
    """Return hints with their titles: formulas in symbols, then with numbers, never with their values."""
    from markupsafe import Markup

    made = []
    for place, hint in enumerate(problem.hints, len(_HINTS) - len(problem.hints)):
        inside = "".join(text_html(step) if isinstance(step, str) else _formula_hint(step, place == 0) for step in hint)
        made.append((_HINTS[place], Markup(inside)))  # noqa: S704 - escaped, piece by piece
    return made


def _formula_hint(step: Worked, symbols: bool) -> str:
    formula = step.make()
    return _lines(step.lead, (formula.mathml if symbols else formula.substituted_mathml,))


def text_html(text: str) -> str:
    """Return a text as HTML; a symbol in brackets stays on one line."""
    return _BRACKETED.sub(r'<span class="whole">\g<0></span>', html_of(clean(text, keep_lines=True)))


def _step(step: str | Worked) -> str:
    if isinstance(step, str):
        return text_html(step)
    from roofline.formulas.mathml import spaced

    formula = step.make()
    value = "∞" if formula.value is None else spaced(formula.value)
    unit = "" if formula.unit == "1" else f" {escape(formula.unit)}"
    return _lines(step.lead, (formula.mathml, f"= {formula.substituted_mathml}", f"= {escape(value)}{unit}"))


def _lines(lead: str, lines: Iterable[str]) -> str:
    """A lead and the lines of its formula."""
    rows = "".join(f"<div>{line}</div>" for line in lines)
    return f'{text_html(lead)}<div class="worked" tabindex="0" role="group" aria-label="Formula">{rows}</div>\n'
