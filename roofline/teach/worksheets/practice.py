"""The practice page: problems of every topic to draw from, checked as on a sheet, in one HTML file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from roofline.documents import DATA_VERSION, __version__
from roofline.formulas.javascript import translated
from roofline.report.page import as_json, content_policy, deflated, environment, inlined, page_scripts, style_sheets
from roofline.teach.worksheets.page import hints_html, judging, solution_html, text_html
from roofline.teach.worksheets.parsing import EXAMPLES
from roofline.teach.worksheets.problem import LEVELS, TOPICS, Problem, Worked, make
from roofline.teach.worksheets.sheet import TITLES
from roofline.teach.worksheets.templates import TEMPLATES

PROBLEMS = 12
"""Problems of each template in a page."""
_STYLES = ("figures", "style", "formulas", "print", "worksheet")
_SCRIPTS = ("elements", "actions", "bar", "packed", "answers", "practice")


def practice(seed: int = 0, *, problems: int = PROBLEMS) -> str:
    """Return the practice page as HTML that needs no other file.

    Args:
        seed: of the first problem of each template; the others have those that follow.
        problems: of each template.
    """
    drawn = {one.id: [make(one, seed + more) for more in range(problems)] for one in TEMPLATES.values()}

    def encoded(into: Any) -> list[dict[str, Any]]:
        return [
            {
                "id": one.id,
                "topic": one.topic,
                "level": one.level,
                "minutes": one.minutes,
                "problems": [_data(problem, into.encode) for problem in drawn[one.id]],
            }
            for one in TEMPLATES.values()
        ]

    program, templates = translated(judging, encoded)
    style = style_sheets(_STYLES)
    script = inlined(f'"use strict";\n{program}\n') + page_scripts(_SCRIPTS)
    provenance = f"roofline {__version__}, data {DATA_VERSION}, seeds {seed} to {seed + problems - 1}"
    return (
        environment()
        .get_template("practice.html.j2")
        .render(
            answers=f"practice, {provenance}",
            provenance=provenance,
            count=len(templates) * problems,
            topics=[(topic, TITLES[topic]) for topic in TOPICS],
            levels=LEVELS,
            style=style,
            script=script,
            policy=content_policy(style, (script,)),
            packed={"templates": deflated(as_json(templates))},
        )
    )


def _data(problem: Problem, encode: Callable[[Any], Any]) -> dict[str, Any]:
    """What the page shows of a problem; texts of several lines are HTML."""
    # hints and solution print the same formulas, which are slow to make
    steps = tuple(replace(step, make=cache(step.make)) if isinstance(step, Worked) else step for step in problem.solution)
    problem = replace(problem, solution=steps)
    return {
        "title": problem.title,
        "text": text_html(problem.text),
        "choices": problem.answer.choices,
        "help": "" if problem.answer.choices else f"Such as {EXAMPLES[problem.answer.kind]}; {problem.tolerance}.",
        "hints": [[title, str(hint)] for title, hint in hints_html(problem)],
        "solution": solution_html(problem),
        "right": problem.right_answer,
        "wrong": problem.wrong_answers,
        "source": problem.source,
        "key": encode(problem.key),
    }
