"""A sheet as Markdown, with LaTeX for formulas."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.teach.worksheets.markup import markdown as plain_markdown
from roofline.teach.worksheets.problem import Numbered, Problem, Worked
from roofline.teach.worksheets.sheet import Sheet
from roofline.teach.worksheets.solution import latex, right_answer, tolerance, wrong_answers


def markdown(sheet: Sheet, *, answers: bool = False) -> str:
    """The sheet; with `answers`, solutions and usual mistakes come after the problems."""
    return "\n\n".join([*_head(sheet), *_problems(sheet), *(_answers(sheet) if answers else ())]) + "\n"


def statement(problem: Problem) -> str:
    """The text of a problem, and what there is to choose from."""
    choices = "\n".join(f"* ({letter}) {choice}" for letter, choice in lettered(problem.answer.choices))
    return "\n\n".join(filter(None, [plain_markdown(problem.text), choices]))


def worked_solution(problem: Problem) -> str:
    """The way to the answer, and the answer."""
    steps = [_step(step) for step in problem.solution]
    return "\n\n".join([*steps, f"**Answer: {right_answer(problem)}**"])


def _head(sheet: Sheet) -> Iterator[str]:
    yield f"# {sheet.title}"
    yield f"About {sheet.minutes} minutes. {sheet.provenance}."


def _problems(sheet: Sheet) -> Iterator[str]:
    for entry in sheet.problems:
        yield _title(entry)
        yield statement(entry.problem)
        near = tolerance(entry.problem)
        yield f"Answer{f' ({near})' if near else ''}: ____________________"


def _answers(sheet: Sheet) -> Iterator[str]:
    yield "---"
    yield "# Answers"
    for entry in sheet.problems:
        yield _title(entry)
        yield worked_solution(entry.problem)
        if entry.problem.source:
            yield f"Source: {entry.problem.source}."
        yield "Usual mistakes:"
        yield "\n".join(f"* {number}: {hint}" for number, hint in wrong_answers(entry.problem))


def _title(entry: Numbered) -> str:
    return f"## {entry.number}. {entry.problem.title} ({entry.minutes} min)"


def _step(step: str | Worked) -> str:
    if isinstance(step, str):
        return plain_markdown(step)
    return f"{plain_markdown(step.lead)}\n\n$$ {latex(step)} $$"


def lettered(choices: tuple[str, ...]) -> list[tuple[str, str]]:
    """Choices with their letters.

    >>> lettered(("yes", "no"))
    [('a', 'yes'), ('b', 'no')]
    """
    return [(chr(ord("a") + place), choice) for place, choice in enumerate(choices)]
