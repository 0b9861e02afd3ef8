"""Published figures: each row is cited by its lesson; our table is that of outside; a false citation is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from executed_lessons import NAMES, done

from roofline.errors import InputError, UnknownNameError
from roofline.teach.lessons.published import SOURCES, citations, published, rows
from roofline.teach.markdown import Ids

WRITTEN = {int(name[:2]) for name in NAMES}
PAGE = Path(__file__).resolve().parents[4] / "docs" / "published-figures.md"
VERDICTS = {"exact in the limit": "limit"}


@pytest.mark.slow
@pytest.mark.parametrize("row", rows().values(), ids=lambda row: row.id)
def test_its_lesson_cites_it(row):
    """A row that no lesson cites is listed here by its id."""
    if row.lesson not in WRITTEN:
        pytest.skip(f"lesson {row.lesson} is not written yet")
    name = next(name for name in NAMES if int(name[:2]) == row.lesson)
    assert row.id in {found.row.id for found in done(name).cited}, f"{name} does not cite {row.id}: {row.quantity}"


def test_rows_are_those_from_outside(request):
    """Ids, subjects, numbers, tolerances and verdicts."""
    outside = request.getfixturevalue("published")
    ours = rows()
    assert list(ours) == [row["id"] for row in outside]
    for row in outside:
        mine = ours[row["id"]]
        assert mine.subject == row["subject"]
        assert mine.quantity == row["quantity"]
        assert mine.verdict == VERDICTS.get(row["verdict"], row["verdict"])
        try:
            number = float(row["published"])
        except ValueError:
            continue  # a formula or a shape
        assert mine.value == (number / 1000 if row["unit"] == "ms" else number)
        assert mine.tolerance == float(row["relative_tolerance"] or 0)


def test_verdicts_are_those_of_the_documentation():
    """`docs/published-figures.md` has the same rows; its shapes agree, as far as they say."""
    listed = dict(re.findall(r"^\| (F\d\d) \|.*\| ([\w ,%.]+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert len(listed) >= 34
    for id, verdict in listed.items():
        mine = rows()[id].verdict
        assert mine == ("qualitative" if verdict.startswith("agrees") else verdict), id


def test_a_figure_says_where_it_is_published():
    """Beside the figure in short; in full in the documentation, for the rows that are from there."""
    for key, (short, full) in SOURCES.items():
        ids = [row.id for row in rows().values() if row.source == key]
        assert f"* {' to '.join(dict.fromkeys((ids[0], ids[-1])))}: {full}\n" in PAGE.read_text(encoding="utf-8")
        assert ids == list(rows())[list(rows()).index(ids[0]) :][: len(ids)], "in one piece"
        assert not _names(short) - _names(full), "the same work"
    with citations():
        cited = published("F08", 153.0)
    assert "published: 312 TFLOPS / 2 TB/s = 156 FLOP/byte (lecture *LLM Inference System Characteristics*)" in cited.markdown()
    assert "(lecture <em>LLM Inference System Characteristics</em>)" in cited.html(Ids())


def _names(text):
    return set(re.findall(r"[A-Z]\w+|\d{4}", text))


def test_a_number_has_to_be_the_row_s():
    """F02 is exact, F08 within 2.5 %, F17 disputed: 4 FLOP/byte there, 1 here."""
    with citations() as found:
        assert "128 KiB" in published("F02", 131072).computed
        published("F08", 153.0)
        published("F17", 1.0)
    assert [one.row.id for one in found] == ["F02", "F08", "F17"]
    for id, wrong in (("F02", 131073), ("F08", 160.0), ("F17", 4.0)):
        with pytest.raises(InputError, match=id):
            published(id, wrong)


def test_a_shape_needs_an_outcome():
    with pytest.raises(InputError, match="agrees"):
        published("F35", "words")
    with pytest.raises(InputError, match="that is not qualitative"):
        published("F35", "words", agrees=False)
    with pytest.raises(InputError, match="give the computed one"):
        published("F02", "131072")
    with pytest.raises(UnknownNameError, match="F99"):
        published("F99", 1)


def test_citations_of_one_run_stay_there():
    with citations() as outer:
        published("F02", 131072)
        with citations() as inner:
            published("F03", 536870912)
    assert [one.row.id for one in inner] == ["F03"]
    assert [one.row.id for one in outer] == ["F02"]
