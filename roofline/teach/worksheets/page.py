"""A worksheet as one HTML page that checks answers, and prints as a sheet to write on.

What judges an answer in the page is `roofline.teach.worksheets.feedback`, translated. The right numbers stand in the file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from roofline.formulas.javascript import translated
from roofline.report.live import program
from roofline.report.page import as_json, csp_hash, environment, inlined, style_sheets
from roofline.specs.library import shipped
from roofline.teach.worksheets.feedback import Asked, Known, judge
from roofline.teach.worksheets.markup import Block, Span, blocks
from roofline.teach.worksheets.problem import Numbered, Problem, Worked
from roofline.teach.worksheets.sheet import Sheet
from roofline.teach.worksheets.solution import right_answer, tolerance, wrong_answers
from roofline.teach.worksheets.units import EXAMPLES
from roofline.text import clean

if TYPE_CHECKING:
    from markupsafe import Markup

    from roofline.formulas.javascript import Program

# A symbol in brackets, which no line is to part.
_BRACKETED = re.compile(r"\(<math>(?:(?!</math>).)*</math>\)")
_STYLES = ("style", "formulas", "print", "still", "worksheet")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A problem as the template wants it; without a solution where none is shown."""

    number: int
    title: str
    minutes: int
    text: Markup
    choices: tuple[str, ...]
    example: str
    near: str
    solution: Markup | None
    right: str
    wrong: list[tuple[str, str]]
    source: str


def page(sheet: Sheet, *, answers: bool = False) -> str:
    """The whole file; with `answers`, a solution can be opened at every problem, and is printed."""
    folder = shipped("reports")
    style = style_sheets(_STYLES)
    program, asked_of = translated(_program, lambda into: [into.encode(asked(entry.problem)) for entry in sheet.problems])
    own = (folder / "worksheet.js").read_text(encoding="utf-8")
    script = inlined(f'"use strict";\n{program}\n(() => {{\n{own}}})();\n')
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {csp_hash(script)}",
            f"style-src {csp_hash(style)}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    return (
        environment()
        .get_template("worksheet.html.j2")
        .render(
            sheet=sheet,
            entries=[_entry(entry, answers=answers) for entry in sheet.problems],
            style=style,
            script=script,
            policy=policy,
            asked=as_json(asked_of),
        )
    )


def asked(problem: Problem) -> Asked:
    """What the page needs to judge an answer."""
    answer = problem.answer
    return Asked(
        kind=answer.kind,
        value=float(answer.value),
        tolerance=answer.tolerance,
        choices=answer.choices,
        mistakes=tuple(Known(value=float(mistake.value), hint=mistake.hint) for mistake in problem.mistakes),
    )


def _program() -> Program:
    made = program()
    made.export("judge", judge)
    # NB: what data is made of becomes part of the program when it is first met: here, so that all pages have the same one
    made.encode(Asked(kind="", value=0.0, tolerance=0.0, choices=(), mistakes=(Known(value=0.0, hint=""),)))
    return made


def _entry(entry: Numbered, *, answers: bool) -> _Entry:
    from markupsafe import Markup

    problem = entry.problem
    return _Entry(
        number=entry.number,
        title=problem.title,
        minutes=entry.minutes,
        text=Markup(_text(problem.text)),  # noqa: S704 - escaped below, piece by piece
        choices=problem.answer.choices,
        example=EXAMPLES.get(problem.answer.kind, ""),
        near=tolerance(problem),
        solution=Markup("".join(map(_step, problem.solution))) if answers else None,  # noqa: S704 - likewise
        right=right_answer(problem),
        wrong=wrong_answers(problem),
        source=problem.source,
    )


def _text(text: str) -> str:
    """A text's blocks as HTML."""
    return "".join(map(_block, blocks(text)))


def _block(block: Block) -> str:
    lines = [_BRACKETED.sub(r'<span class="whole">\g<0></span>', "".join(map(_span, line))) for line in block.lines]
    if block.kind == "list":
        return f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>\n"
    inside = f"<p>{lines[0]}</p>\n"
    return f"<blockquote>{inside}</blockquote>\n" if block.kind == "quote" else inside


def _span(span: Span) -> str:
    from roofline.formulas.mathml import symbol_mathml

    if span.kind == "symbol":
        return symbol_mathml(span.text)
    shown = escape(clean(span.text))
    tag = {"strong": "strong", "code": "code"}.get(span.kind)
    return f"<{tag}>{shown}</{tag}>" if tag else shown


def _step(step: str | Worked) -> str:
    if isinstance(step, str):
        return _text(step)
    from roofline.formulas.mathml import spaced

    found = step.make()
    value = "∞" if found.value is None else spaced(found.value)
    unit = "" if found.unit == "1" else f" {escape(found.unit)}"
    lines = (found.mathml, f"= {found.substituted_mathml}", f"= {escape(value)}{unit}")
    rows = "".join(f"<div>{line}</div>" for line in lines)
    return f'{_text(step.lead)}<div class="worked" tabindex="0" role="group" aria-label="Formula">{rows}</div>\n'
