"""A sheet as a Jupyter notebook: a problem, a cell for the answer, and a cell of plain asserts. It needs nothing but Python.

Source: nbformat 4.5, https://nbformat.readthedocs.io/en/latest/format_description.html
"""

from __future__ import annotations

import json
from typing import Any

from roofline.teach.worksheets.markdown import lettered, statement, worked_solution
from roofline.teach.worksheets.markup import plain
from roofline.teach.worksheets.problem import Numbered
from roofline.teach.worksheets.sheet import Sheet
from roofline.teach.worksheets.solution import right_answer, tolerance
from roofline.teach.worksheets.units import MEANING

_BASE = {
    "bytes": "bytes", "flop": "FLOP", "flop/s": "FLOP/s", "bytes/s": "bytes/s", "flop/byte": "FLOP/byte", "s": "seconds",
    "share": "a fraction, 0.25 for 25 %", "ratio": "a plain number", "usd": "USD",
}  # fmt: skip
_HINT_WITHIN = 0.005


def notebook(sheet: Sheet, *, answers: bool = False) -> str:
    """The notebook as JSON; with `answers`, the answers are filled in and the solutions follow, so that it runs to its end."""
    cells = [_markdown("head", f"# {sheet.title}\n\nAbout {sheet.minutes} minutes. {sheet.provenance}.\n\n{_HOW}")]
    for entry in sheet.problems:
        cells += _cells(entry, answers=answers)
    book = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(book, ensure_ascii=False, indent=1) + "\n"


_HOW = (
    "Put a number, or an expression such as `2 * 32 * 4096`, in the place of `...`, in the unit that stands beside it, "
    "and run the "
    "cell after it. It says nothing but `Right` if it is, and what is off if it is a usual mistake."
)


def _cells(entry: Numbered, *, answers: bool) -> list[dict[str, Any]]:
    problem, number = entry.problem, entry.number
    title = f"## {number}. {problem.title} ({entry.minutes} min)"
    found = [
        _markdown(f"problem-{number}", f"{title}\n\n{statement(problem)}"),
        _code(f"answer-{number}", f"answer_{number} = {_filled(entry) if answers else '...'}  # {_unit(entry)}"),
        _code(f"check-{number}", _check(entry)),
    ]
    if answers:
        found.append(_markdown(f"solution-{number}", worked_solution(problem)))
    return found


def _filled(entry: Numbered) -> str:
    answer = entry.problem.answer
    return repr(lettered(answer.choices)[int(answer.value)][0]) if answer.choices else repr(answer.value)


def _unit(entry: Numbered) -> str:
    """What is to be written, in a comment."""
    answer = entry.problem.answer
    if answer.choices:
        return "a letter in quotes: " + ", ".join(repr(letter) for letter, _ in lettered(answer.choices))
    unit = _BASE.get(answer.kind) or MEANING[answer.kind].removeprefix("a number of ").removeprefix("a rate of ")
    return f"{unit}; {tolerance(entry.problem)}" if answer.kind != "tokens/s" else f"tokens/s; {tolerance(entry.problem)}"


def _check(entry: Numbered) -> str:
    """Asserts: something there, of the right type, none of the usual mistakes, the right one."""
    name, answer = f"answer_{entry.number}", entry.problem.answer
    lines = [f'assert {name} is not ..., "Nothing here yet. Have a guess: a usual mistake is told what is off."']
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
    return "\n".join([*lines, f"print({'Right: ' + right_answer(entry.problem)!r})"])


def _markdown(key: str, text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": key, "metadata": {}, "source": text.splitlines(keepends=True)}


def _code(key: str, text: str) -> dict[str, Any]:
    return {
        "cell_type": "code", "execution_count": None, "id": key, "metadata": {}, "outputs": [],
        "source": text.splitlines(keepends=True),
    }  # fmt: skip
