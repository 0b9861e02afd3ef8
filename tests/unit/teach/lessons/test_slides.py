"""Slides: which there are, in which order, what is shown and what is told, and that nothing of a lesson is lost."""

from __future__ import annotations

import re
from html import unescape

import pytest
from executed_lessons import NAMES, done
from small_lesson import SMALL_LESSON

from roofline.errors import UnknownNameError
from roofline.teach.lessons.drawn import Drawn
from roofline.teach.lessons.execute import cells, execute
from roofline.teach.lessons.figures import Plot
from roofline.teach.lessons.items import Table
from roofline.teach.lessons.published import Published
from roofline.teach.lessons.slide_blocks import SIZES, Points, Prose, chunks, column_widths, key_sentences, sentences
from roofline.teach.lessons.slides import slides


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("sources") / "01_small.py"
    path.write_text(SMALL_LESSON, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def listed(path):
    return slides(execute(path))


def text(html):
    """What a reader sees of HTML."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def test_order(listed):
    """Few slides: a sentence leads to what follows it, a takeaway stands below code, exercises are lines of one slide."""
    assert [(slide.label, slide.kind, text(slide.kicker), text(slide.title)) for slide in listed] == [
        ("1", "title", "", "1. Small"),
        ("2", "goals", "", "After this lesson you can"),
        ("3", "question", "Predict first", "Is it?"),
        ("4", "question", "Predict first", "A token comes. How much?"),
        ("5", "answer", "A token comes. How much?", "Answer: 128 KiB (131,072 B)"),
        ("6", "formula", "", "One token"),
        ("7", "table", "", "Twelve rows"),
        ("8", "table", "", "Twelve rows continued"),
        ("9", "published", "Published figure F02", "KV cache per token, llama\u20113.1\u20118b, fp16"),
        ("10", "figure", "", "Kinds"),
        ("11", "figure", "", "Grouped-query attention: 32 query heads, 8 KV heads"),
        ("11b", "figure", "", "Multi-query attention: 32 query heads, 1 KV head"),
        ("12", "takeaway", "Takeaway", "First part"),
        ("13", "code", "", "First part"),
        ("14", "play", "", "Play and practise"),
        ("15", "worked", "Worked problem", "A problem"),
        ("16", "exercise", "", "Exercises"),
    ]
    assert [slide.part for slide in listed] == [-1] * 2 + [0] * 12 + [1] * 3


def test_the_title_has_the_plan(listed):
    assert text(listed[0].body) == "about little First part 20 min Play and practise 30 min"


def test_prose_is_told_and_its_key_sentences_are_shown(listed):
    question = listed[2]
    assert text(question.body).startswith("A ridge is where two lines meet. one entry another entry yes")
    assert text(question.notes).startswith("Not shown at all. A ridge is where two lines meet. Told as well.")
    assert "Told at the beginning." in text(listed[0].notes)
    assert "numbers" in text(listed[1].notes)
    assert "The end." in text(listed[-1].notes)


def test_a_press_shows_the_answer(listed):
    choice, number, why = listed[2:5]
    assert choice.body.count("data-step") == 2  # the mark at "yes", and why
    assert '<li class="right">yes<span class="mark" data-step="1">' in choice.body
    assert text(choice.body).endswith("It is so.")
    assert "no: Look again." in text(choice.notes)
    assert number.body.count("data-step") == 1
    assert text(number.body) == "Write down a number, with its unit. 128 KiB (131,072 B)"
    assert text(why.body).startswith("Count it. KV cache of one more token = 2 \u22c5 32")  # no space for the symbols
    assert "= 131,072 bytes = 128 KiB More tokens" in text(why.body)


def test_a_long_table_goes_on(listed):
    first, second = listed[6:8]
    assert [first.body.count("<tr>"), second.body.count("<tr>")] == [7, 7]  # 12 rows in halves, each with a head
    assert ("A remark." in text(first.body), "A remark." in text(second.body)) == (True, False)
    assert "step 5" in first.body
    assert "step 6" in second.body
    assert first.size == second.size


def test_what_belongs_together_stands_together(listed):
    """A sentence with computed numbers goes below what its cell shows."""
    assert text(listed[8].body).endswith("A sentence with a bold word.")
    assert "One without." in text(listed[8].notes)


def test_drawings_in_one_place_are_as_large(listed):
    """One scale: the same width, and a margin above and below."""
    boxes = [re.search('viewBox="([^"]+)"', listed[at].body)[1].split() for at in (10, 11)]
    assert boxes[0] == boxes[1]


def test_tags_override(listed, path):
    code = listed[13]
    assert text(code.body) == 'print("printed") printed Shown as a whole, without bold. Remember that too.'
    assert '<div class="remember">' in code.body
    assert "Told, though bold" in text(code.notes)
    assert "For the presenter a b x 1" in text(code.notes)
    other = path.with_name("02_other.py")
    other.write_text('# %% tags=["shown"]\n1\n', encoding="utf-8")
    with pytest.raises(UnknownNameError, match="slide"):
        cells(other)


def test_exercises_name_their_templates_and_play_its_page(listed):
    play, worked, exercise = listed[14:]
    assert 'href="../01_small.html#play"' in play.body
    assert "Try it." in text(play.body)
    assert text(play.notes) == "Move it."
    assert text(worked.body) == "What is it? This is it."
    assert worked.body.count("data-step") == 1
    assert "kv-cache-per-token" in exercise.body
    assert "equation" in exercise.notes


JOINED = """# %% [markdown]
# # 1. Joined

# %%
from roofline.teach.lessons import lesson, predict, published, table
lesson(1, "Joined", "about", goals=["count"], prerequisites=["numbers"], plan=[(50, "Part")])

# %% [markdown]
# ## Part

# %%
table(("a", "b"), [("x", 1)], title="A table")

# %% [markdown]
# A **word** for what comes now.

# %%
before = "A long introduction has some words, which are not the question. " * 3
predict(before + "Is it?", {"yes": "", "no": ""}, answer="no", why="No.")

# %%
published("F20", 46702792704)

# %%
published("F22", 235741434880)
"""


def test_a_sentence_goes_to_what_follows_and_published_figures_to_a_table(tmp_path):
    path = tmp_path / "01_joined.py"
    path.write_text(JOINED, encoding="utf-8")
    table, question, published = slides(execute(path))[2:]
    assert text(table.body) == "a b x 1"
    assert text(question.title) == "Is it?"
    assert text(question.body).startswith("A word for what comes now. A long introduction has some words")
    assert text(published.title) == "Published and computed"
    assert published.body.count("<tr>") == 3
    assert "F20: total parameters, mixtral-8x7b 47B 46,702,792,704 parameters exact . From its config." in text(published.body)


def letters(text):
    """Letters and digits alone."""
    return re.sub(r"[\W_]", "", text)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_a_lesson_is_lost(name):
    """All prose, tables, pictures and published figures are on slides or in notes."""
    lesson = done(name)
    made = slides(lesson)
    html = "".join(slide.kicker + slide.title + slide.body + slide.notes for slide in made)
    seen = text(html).replace("\u00a0", " ").replace("\u2011", "-")
    bare = letters(seen)
    prose = [piece for entry in lesson.cells[1:] if entry.cell.kind == "markdown" for piece in chunks(entry.cell.text)]
    assert [piece for kind, piece in prose if kind == "prose" and "$" not in piece and letters(piece) not in bare] == []
    for item in lesson.items():
        if isinstance(item, Table):
            lost = [cell for row in item.rows for cell in row if "$" not in cell and letters(cell) not in bare]
            assert lost == [], item.title
        elif isinstance(item, Plot):
            assert f'id="{item.figure.key}-title"' in html
        elif isinstance(item, Drawn):
            assert all(f'id="{drawing.key}-title"' in html for drawing in item.drawings)
        elif isinstance(item, Published):
            assert item.row.id in seen
    assert [slide.part for slide in made] == sorted(slide.part for slide in made)
    assert made[-1].part == len(lesson.head.plan) - 1
    assert {slide.size for slide in made} <= set(SIZES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_deck_is_for_50_minutes(name):
    """20 to 35 slides, of which none has more than 120 words of prose."""
    made = slides(done(name))
    assert 20 <= int(made[-1].label) <= 35
    prose = {slide.label: text(re.sub(r"<(table|svg|math|pre).*?</\1>", "", slide.body, flags=re.DOTALL)) for slide in made}
    assert {label: words for label, words in prose.items() if len(words.split()) > 120} == {}


def test_sentences():
    assert sentences("One of 3.1 GB. Two, e.g. Ainslie et al. 2023. (Three. Still three.) Four?") == [
        "One of 3.1 GB.",
        "Two, e.g. Ainslie et al. 2023.",
        "(Three. Still three.)",
        "Four?",
    ]
    assert key_sentences("Nothing. **A. B.** Then. End with **c**.") == ["**A. B.** Then.", "End with **c**."]
    assert key_sentences("So **bold** begins it. But not **this one**.") == ["**Bold** begins it.", "Not **this one**."]


def test_text_is_divided_between_sentences_and_entries():
    long = Prose(" ".join(f"Sentence number {at} takes some room on the slide." for at in range(40)))
    first, rest = long.split(28, 300.0)
    assert first.height(28) <= 300.0
    assert f"{first.text} {rest.text}" == long.text
    entries = Points([f"entry {at}" for at in range(20)], first=1)
    first, rest = entries.split(28, 300.0)
    assert (first.first, rest.first) == (1, 1 + len(first.entries))
    assert (*first.entries, *rest.entries) == entries.entries


def test_columns_share_what_there_is():
    wide = Table(("a", "b"), [("word " * 40, "x")], "", "")
    narrow, whole = column_widths(wide, 23, 600.0), column_widths(wide, 23, 6000.0)
    assert sum(narrow) <= 600.0 < sum(whole)
    assert narrow[1] == pytest.approx(whole[1], rel=0.5)
