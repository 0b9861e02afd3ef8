"""A sheet as Markdown, with LaTeX for formulas, and as a Jupyter notebook that needs nothing but Python.

A problem in a notebook is a text, a cell for the answer, and a cell of plain asserts. Source: nbformat 4.5,
https://nbformat.readthedocs.io/en/latest/format_description.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roofline.documents import code_cell, markdown_cell, notebook_json
from roofline.teach.markdown import plain, with_latex
from roofline.teach.worksheets.parsing import MEANING
from roofline.teach.worksheets.problem import Numbered, Problem, Worked
from roofline.teach.worksheets.sheet import Sheet


def markdown(sheet: Sheet, *, answers: bool = False) -> str:
    """Return the sheet as Markdown with formulas in LaTeX; with `answers`, solutions and usual mistakes follow."""
    return "\n\n".join([*_head(sheet), *_problems(sheet), *(_answers(sheet) if answers else ())]) + "\n"


def _statement(problem: Problem) -> str:
    """The text of a problem, and its choices."""
    choices = "\n".join(f"* ({letter}) {choice}" for letter, choice in lettered(problem.answer.choices))
    return "\n\n".join(filter(None, [with_latex(problem.text), choices]))


def _worked_solution(problem: Problem) -> str:
    """The way to the answer, and the answer."""
    steps = [_step(step) for step in problem.solution]
    return "\n\n".join([*steps, f"**Answer: {problem.right_answer}**"])


def _head(sheet: Sheet) -> Iterator[str]:
    yield f"# {sheet.title}"
    yield f"About {sheet.minutes} minutes. {sheet.provenance}."


def _problems(sheet: Sheet) -> Iterator[str]:
    for entry in sheet.problems:
        yield _title(entry)
        yield _statement(entry.problem)
        near = entry.problem.tolerance
        yield f"Answer{f' ({near})' if near else ''}: ____________________"


def _answers(sheet: Sheet) -> Iterator[str]:
    yield "---"
    yield "# Answers"
    for entry in sheet.problems:
        yield _title(entry)
        yield _worked_solution(entry.problem)
        if entry.problem.source:
            yield f"Source: {entry.problem.source}."
        yield "Usual mistakes:"
        yield "\n".join(f"* {number}: {hint}" for number, hint in entry.problem.wrong_answers)


def _title(entry: Numbered) -> str:
    return f"## {entry.number}. {entry.problem.title} ({entry.minutes} min)"


def _step(step: str | Worked) -> str:
    if isinstance(step, str):
        return with_latex(step)
    return f"{with_latex(step.lead)}\n\n$$ {step.latex()} $$"


def lettered(choices: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return choices with their letters, from "a" on.

    >>> lettered(("yes", "no"))
    [('a', 'yes'), ('b', 'no')]
    """
    return [(chr(ord("a") + place), choice) for place, choice in enumerate(choices)]


_BASE = {
    "bytes": "bytes", "flop": "FLOP", "flop/s": "FLOP/s", "bytes/s": "bytes/s", "flop/byte": "FLOP/byte", "s": "seconds",
    "share": "a fraction, 0.25 for 25 %", "ratio": "a plain number", "usd": "USD",
    "joules": "joules",
}  # fmt: skip
_HINT_WITHIN = 0.005


def notebook(sheet: Sheet, *, answers: bool = False) -> str:
    """Return the sheet as a notebook, in JSON; with `answers`, filled in and with solutions, so that it runs to its end."""
    cells = [markdown_cell("head", f"# {sheet.title}\n\nAbout {sheet.minutes} minutes. {sheet.provenance}.\n\n{_HOW}")]
    for entry in sheet.problems:
        cells += _cells(entry, answers=answers)
    return notebook_json(cells)


_HOW = (
    "Put a number, or an expression such as `2 * 32 * 4096`, instead of `...`, in the unit in the comment, "
    "and run the cell after it. It prints `Right` if it is right, and a hint if it is a usual mistake."
)


def _cells(entry: Numbered, *, answers: bool) -> list[dict[str, Any]]:
    problem, number = entry.problem, entry.number
    title = f"## {number}. {problem.title} ({entry.minutes} min)"
    cells = [
        markdown_cell(f"problem-{number}", f"{title}\n\n{_statement(problem)}"),
        code_cell(f"answer-{number}", f"answer_{number} = {_filled(entry) if answers else '...'}  # {_unit(entry)}"),
        code_cell(f"check-{number}", _check(entry)),
    ]
    if answers:
        cells.append(markdown_cell(f"solution-{number}", _worked_solution(problem)))
    return cells


def _filled(entry: Numbered) -> str:
    answer = entry.problem.answer
    return repr(lettered(answer.choices)[int(answer.value)][0]) if answer.choices else repr(answer.value)


def _unit(entry: Numbered) -> str:
    """What to write, in a comment."""
    answer = entry.problem.answer
    if answer.choices:
        return "a letter in quotes: " + ", ".join(repr(letter) for letter, _ in lettered(answer.choices))
    unit = _BASE.get(answer.kind) or MEANING[answer.kind].removeprefix("a number of ").removeprefix("a rate of ")
    return f"{unit}; {entry.problem.tolerance}" if answer.kind != "tokens/s" else f"tokens/s; {entry.problem.tolerance}"


def _check(entry: Numbered) -> str:
    """Asserts: something there, of the right type, none of the usual mistakes, the right one."""
    name, answer = f"answer_{entry.number}", entry.problem.answer
    lines = [f'assert {name} is not ..., "Nothing here yet. Have a guess: a usual mistake gets a hint."']
    if answer.choices:
        letters = [letter for letter, _ in lettered(answer.choices)]
        wrong = {letters[int(mistake.value)]: plain(mistake.hint) for mistake in entry.problem.mistakes}
        lines += [
            f'assert {name} in {letters!r}, "Write one of the letters, in quotes."',
            f"hints = {wrong!r}",
            f"assert {name} == {letters[int(answer.value)]!r}, hints.get({name}, 'Not this one.')",
        ]
    else:
        listed = "".join(f"    ({mistake.value!r}, {plain(mistake.hint)!r}),\n" for mistake in entry.problem.mistakes)
        within = answer.tolerance or 1e-9
        lines += [
            f'assert isinstance({name}, (int, float)), "Write a number in base units, without quotes and unit."',
            f"hints = [\n{listed}]",
            (
                f"hint = next((hint for wrong, hint in hints if abs({name} - wrong) <= {min(within, _HINT_WITHIN)!r} * "
                f"abs(wrong)), None)"
            ),
            f"right = abs({name} - {answer.value!r}) <= {within!r} * {answer.value!r}",
            "assert right or hint is None, hint",
            'assert right, "Not yet, and none of the usual mistakes. Check the unit, then each factor."',
        ]
    return "\n".join([*lines, f"print({'Right: ' + entry.problem.right_answer!r})"])
