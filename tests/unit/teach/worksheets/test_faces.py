"""The faces of a sheet: what is in each with and without answers, and notebooks that run."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from roofline.errors import InputError
from roofline.teach.worksheets import TOPICS, sheet
from roofline.teach.worksheets.export import lettered, markdown, notebook
from roofline.teach.worksheets.page import page
from roofline.teach.worksheets.problem import Problem
from roofline.teach.worksheets.sheet import answer_rows, parse_seeds


def cells(text: str, kind: str = "code") -> dict[str, str]:
    """Cells of a notebook by id."""
    return {cell["id"]: "".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == kind}


def checks(found: dict[str, str], number: int, answer: object) -> str:
    """What the check of a problem says to an answer: the message of its assertion, or nothing."""
    names: dict[str, Any] = {f"answer_{number}": answer}
    try:
        exec(found[f"check-{number}"], names)  # noqa: S102 - a cell of ours
    except AssertionError as error:
        return str(error)
    return ""


def written(problem: Problem, value: float) -> object:
    """A value as a notebook wants it."""
    return lettered(problem.answer.choices)[int(value)][0] if problem.answer.choices else value


@pytest.mark.parametrize("topic", TOPICS)
def test_markdown(topic: str) -> None:
    """Without answers none is in it; with answers every one is, after the problems."""
    made = sheet(topic, 3)
    bare, full = markdown(made), markdown(made, answers=True)
    assert full.startswith(bare.rstrip("\n"))
    rest = full.removeprefix(bare.rstrip("\n"))
    for entry in made.problems:
        assert f"**Answer: {entry.problem.right_answer}**" in rest
        assert "**Answer" not in bare
        for mistake in entry.problem.mistakes:
            assert mistake.hint not in bare
    assert not re.search(r"\$\w*_\w{2,}\$", bare), "indices of more than a letter stand in braces"
    assert bare.count("____") >= len(made.problems)


@pytest.mark.parametrize("topic", TOPICS)
def test_notebooks_check(topic: str) -> None:
    """In plain Python: nothing written is told so, the right answer passes, each usual mistake gets its hint."""
    made = sheet(topic, 3)
    found = cells(notebook(made))
    for entry in made.problems:
        problem, number = entry.problem, entry.number
        assert found[f"answer-{number}"].startswith(f"answer_{number} = ...  # ")
        assert "Nothing here yet" in checks(found, number, ...)
        assert checks(found, number, written(problem, problem.answer.value)) == ""
        for mistake in problem.mistakes:
            assert checks(found, number, written(problem, mistake.value)) == mistake.hint.replace("$", "")
        if problem.answer.choices:
            assert "one of the letters" in checks(found, number, 3)
        else:
            assert "without quotes" in checks(found, number, "128 KiB")
            assert "Not yet" in checks(found, number, problem.answer.value * 1.37e-5)


@pytest.mark.parametrize("topic", TOPICS)
def test_notebooks_with_answers_run_through(topic: str) -> None:
    made = notebook(sheet(topic, 3), answers=True)
    names: dict[str, Any] = {}
    for source in cells(made).values():
        exec(source, names)  # noqa: S102 - cells of ours
    assert sum("**Answer" in source for source in cells(made, "markdown").values()) == len(sheet(topic, 3).problems)
    assert "**Answer" not in notebook(sheet(topic, 3))


def test_notebook_format() -> None:
    """Nbformat 4.5: ids that differ, of the letters that are allowed; no outputs."""
    book = json.loads(notebook(sheet("kv-cache", 1)))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in book["cells"]]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", one) for one in ids)
    for cell in book["cells"]:
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | (
            {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        )
        assert cell.get("outputs", []) == []


def test_page_with_and_without_solutions() -> None:
    """Solutions are in the file only with `answers`; the numbers that it checks by are in both."""
    made = sheet("kv-cache", 3)
    bare, full = page(made), page(made, answers=True)
    assert '<details class="solution"' not in bare
    assert full.count('<details class="solution"') == len(made.problems)
    assert "not for an exam" in " ".join(bare.split())
    for entry in made.problems:
        assert f"Answer: {entry.problem.right_answer}" not in bare
        assert f"Answer: {entry.problem.right_answer}" in full
    assert page(made) == bare


def test_key() -> None:
    """One row a problem and sheet, in the order of seeds."""
    rows = answer_rows([sheet("kv-cache", seed) for seed in (4, 5)])
    count = len(sheet("kv-cache", 4).problems)
    assert [row["seed"] for row in rows] == [4] * count + [5] * count
    assert [row["problem"] for row in rows] == [*range(1, count + 1)] * 2
    first = sheet("kv-cache", 4).problems[0].problem.answer
    assert (rows[0]["answer"], rows[0]["unit"], rows[0]["tolerance"]) == (first.value, "B", 0.01)
    choices = [row for row in rows if row["unit"] == "choice"]
    assert choices
    assert all(isinstance(row["answer"], str) for row in choices)


def test_seeds() -> None:
    assert parse_seeds("1..120") == list(range(1, 121))
    assert parse_seeds(" 7 , 9..10") == [7, 9, 10]
    for wrong in ("", "a", "5..1", "1..", "..4", "1...4", "-1..4", "1..4,3", "0..2000", "1e3", "9999999999", "1;2"):
        with pytest.raises(InputError, match="seeds"):
            parse_seeds(wrong)
