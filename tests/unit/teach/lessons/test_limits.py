"""How long lessons are: what is counted, the table in lessons/README.md, and the limits that each lesson keeps."""

from __future__ import annotations

import pytest
from executed_lessons import FOLDER, NAMES, done

from roofline.teach.lessons.execute import execute
from roofline.teach.lessons.extent import BEFORE, BEGIN, END, Extent, by_part, extent, listed, with_table

pytestmark = pytest.mark.slow

COUNTED = """# %% [markdown]
# # 1. Small
#
# About little.

# %%
from roofline.teach.lessons import bars, draw, exercise, figure, lesson, predict, say, show, table, takeaway, worked
lesson(1, "Small", "about", goals=["goal"], prerequisites=["before"], plan=[(30, "One part"), (20, "The *other* part")])

# %% [markdown]
# ## One part
#
# Six words are in this line. And `code` is one - a dash none.

# %% tags=["open"]
print("two printed")

# %%
figure(bars("kinds", "Four words of title", ("share", "%"), {"one": {"a": 0.25}}, note="A note."))

# %%
predict("Is it so?", ["yes", "no"], answer="yes", why="So it is.")

# %% [markdown]
# ## The *other* part

# %%
show(table(("head", "heads"), [("cell", 1)], title="Title"), takeaway("Remember this."))

# %%
worked("Name", "Asked.", "Solved at once.")
"""
ONE = 13 + 2 + 4 + 2 + 2 + (2 + 3 + 2) + (1 + 1 + 3)
"""Prose; what is printed; title and note of the figure; heading; the question, its kind, choices; "Answer", and the answer."""
OTHER = 3 + (1 + 2 + 2) + (1 + 2) + (3 + 1) + (1 + 3)
"""Heading; title, heads, cells of the table; the takeaway and its kind; the worked problem; "Solution", and the solution."""


def test_what_is_counted(tmp_path):
    """Answers and solutions are read; code, tables behind a figure, buttons and summaries are not."""
    path = tmp_path / "01_small.py"
    path.write_text(COUNTED, encoding="utf-8")
    found = extent(execute(path))
    assert list(found.parts) == [BEFORE, "One part", "The other part"]
    assert found.parts["One part"] == ONE
    assert found.parts["The other part"] == OTHER
    assert (found.figures, found.drawings, found.predictions, found.exercises, found.minutes) == (1, 0, 1, 0, 50)
    assert found.words == sum(found.parts.values())


def made(**changed):
    values = {"parts": {"All": 3000}, "figures": 4, "drawings": 9, "predictions": 5, "exercises": 3, "minutes": 50}
    return Extent(name="09_new", title="9. New", **{**values, **changed})


@pytest.mark.parametrize(
    ("changed", "beyond"),
    [
        ({}, []),
        ({"figures": 6}, []),
        ({"parts": {"All": 2000, "More": 1001}}, ["3,001 words, of 3,000"]),
        ({"figures": 3}, ["3 figures, of 4 to 6"]),
        ({"figures": 7, "minutes": 51}, ["51 minutes, of 50", "7 figures, of 4 to 6"]),
    ],
)
def test_limits_are_told(changed, beyond):
    assert made(**changed).beyond() == beyond


def test_the_table_has_its_place():
    """Between the markers, whatever stood there; without them there is none."""
    page = with_table(f"Before.\n{BEGIN}\nold\n{END}\nAfter.\n", [made()])
    assert page.startswith(f"Before.\n{BEGIN}\n\n| lesson |")
    assert "| 9. New | 3,000 | 17 | 4 | 9 | 5 | 3 | 50 |" in page  # 3000 / 180
    assert page.endswith(f"{END}\nAfter.\n")
    assert "old" not in page
    with pytest.raises(ValueError, match="no place"):
        with_table("Nothing.", [made()])
    assert "3,000  All" in by_part(made())


def test_the_readme_has_the_table_of_the_lessons():
    """`python lessons/build.py` writes it."""
    assert f"{BEGIN}\n\n{listed(extent(done(name)) for name in NAMES)}\n\n{END}" in (FOLDER / "README.md").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_keeps_its_limits(name):
    """`python lessons/build.py --words NN` says in which part the words are."""
    beyond = extent(done(name)).beyond()
    assert not beyond, f"{name}: {'; '.join(beyond)}"
