"""The lessons' sources: what all of them have, what none of them may have; jupytext reads the same cells."""

from __future__ import annotations

import ast
import re
import sys

import pytest
from executed_lessons import NAMES, SOURCES, done

from roofline.teach.lessons.execute import cells
from roofline.teach.lessons.items import Takeaway
from roofline.teach.lessons.questions import Question
from roofline.teach.markdown import slug, symbols_in

TYPED = re.compile(r"\\(?:frac|times|cdot|sum|sqrt|text|mathrm|left|right|begin)\b|\$\$|\\\(|\\\[")
"""LaTeX of formulas, as opposed to a symbol."""


@pytest.fixture(params=SOURCES, ids=NAMES)
def path(request):
    return request.param


def headings(path):
    text = "\n".join(cell.text for cell in cells(path) if cell.kind == "markdown")
    return re.findall(r"^## (.+)$", text, re.MULTILINE)


@pytest.mark.slow
def test_numbers_are_those_of_the_files():
    assert [done(name).head.number for name in NAMES] == [int(name[:2]) for name in NAMES]
    assert [done(name).title.split(". ")[0] for name in NAMES] == [str(int(name[:2])) for name in NAMES]


def test_no_formula_is_typed(path):
    """Formulas come from the toolkit; between dollars stands a symbol, which building looks up."""
    for cell in cells(path):
        assert not TYPED.search(cell.text), f"{path.name}:{cell.line}"
        if cell.kind == "markdown":
            for latex in symbols_in(cell.text):
                assert re.fullmatch(r"\\?\w+(_\{?\w+\}?)?", latex), f"{path.name}:{cell.line}: {latex}"


def test_code_imports_what_a_student_has(path):
    """The toolkit, what it brings, and the standard library: nothing that Colab or a laptop would have to be given besides."""
    for cell in cells(path):
        if cell.kind == "code":
            for node in ast.walk(ast.parse(cell.text)):
                names = [entry.name for entry in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                for name in names:
                    assert name.split(".")[0] in ("roofline", "numpy", "pandas", *sys.stdlib_module_names), name


def test_the_plan_is_the_lesson(path):
    """Its parts are the headings, in order, and take 50 minutes."""
    lesson = done(path.stem)
    assert [slug(part) for _, part in lesson.head.plan] == [slug(title) for title in headings(path)]
    assert sum(minutes for minutes, _ in lesson.head.plan) == 50


def test_every_part_asks_and_ends_with_a_takeaway(path):
    """All but the last one, which is for practice."""
    lesson = done(path.stem)
    parts, kinds = headings(path), {}
    here = None
    for entry in lesson.cells:
        if entry.cell.kind == "markdown" and (found := re.findall(r"^## (.+)$", entry.cell.text, re.MULTILINE)):
            here = found[-1]
        if here is not None and entry.value is not None:
            kinds.setdefault(here, []).extend(getattr(entry.value, "parts", [entry.value]))
    for part in parts[:-1]:
        assert any(isinstance(item, Question) for item in kinds[part]), f"{part}: nothing is predicted"
        assert any(isinstance(item, Takeaway) for item in kinds[part]), f"{part}: no takeaway"


def test_goals_exercises_and_something_to_move(path):
    lesson = done(path.stem)
    assert len(lesson.head.goals) >= 3
    assert lesson.head.prerequisites
    asked = [item for item in lesson.items() if isinstance(item, Question) and item.kind == "exercise"]
    assert len(asked) == len(lesson.head.exercises) >= 3
    assert lesson.play is not None
    assert "batch" in {control.key for control in lesson.play.controls}


def test_jupytext_reads_the_same_cells(path):
    """Notebooks that people open by jupytext are those that we write."""
    jupytext = pytest.importorskip("jupytext", reason="jupytext is not installed")
    ours = [(cell.kind, cell.text, list(cell.tags)) for cell in cells(path)]
    theirs = [
        (cell.cell_type, cell.source, cell.metadata.get("tags", [])) for cell in jupytext.read(path, fmt="py:percent").cells
    ]
    assert ours == theirs
