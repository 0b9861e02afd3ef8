"""What lessons are made of: HTML that is well-formed and escaped, Markdown with the answer hidden, refusals in words."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

import roofline
from roofline.errors import InputError, UnknownNameError
from roofline.teach.lessons import (
    amount,
    bars,
    curves,
    exercise,
    figure,
    formula,
    lesson,
    predict,
    published,
    say,
    show,
    table,
    takeaway,
    worked,
)
from roofline.teach.markdown import Ids, html_of

VOID = {"input", "br"}


class Balanced(HTMLParser):
    """Every element is closed where it should be."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids = [], []
        self.feed(text)
        assert self.open == []
        assert len(self.ids) == len(set(self.ids))

    def handle_starttag(self, tag, attrs):
        """An element begins."""
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        assert not [name for name, _ in attrs if name.startswith("on") or name == "style"], "the page's policy refuses these"

    def handle_endtag(self, tag):
        """It ends."""
        assert self.open.pop() == tag


CHOSEN = predict("Which?", {"a $n_{kv}$": "no", "b": ""}, answer="b", why="Because.")
COUNTED = predict(
    "How many?", answer=131072, kind="bytes", tolerance=0.01, hints={65536: "K **and** V"}, why=["So", takeaway("x")]
)
SHOWN = {
    "formula": formula("kv_bytes_per_token", "llama-3.1-8b"),
    "part": formula("layers/mlp/gate_up_proj", "llama-3.1-8b", part="matrix_flops", legend=False),
    "parameters": formula("parameters", "llama-3.1-8b"),
    "table": table(("name", "`x`"), [("<b>", 1), ("n_q", 2.5)], title="A table", note="of $n_q$"),
    "curves": figure(
        curves("a", "Curves", ("x", "tokens"), ("y", "B"), {"one": ([1, 2], [10.0, None])}, marks=[("m", "x", 1.5)])
    ),
    "bars": figure(bars("b", "Bars", ("y", "s"), {"one": {"p": 1e-3, "q": 2e-3}})),
    "predict": CHOSEN,
    "number": COUNTED,
    "worked": worked(
        "w", ["A problem", table(("a",), [(1,)], title="t")], "first", formula("kv_bytes_per_token", "llama-3.1-8b")
    ),
    "exercise": exercise("kv-cache-per-token", 1),
    "published": published("F02", 131072),
    "say": say("**bold** of $d_{model}$"),
    "takeaway": takeaway("remember `this`"),
    "show": show(CHOSEN, CHOSEN),
    "lesson": lesson(1, "T", "about", goals=["g"], prerequisites=["p"], plan=[(20, "One"), (30, "Two")]),
}


@pytest.mark.parametrize("item", SHOWN.values(), ids=SHOWN)
def test_every_face(item):
    """HTML for pages, Markdown for notebooks, text for terminals; notebooks prefer HTML, so there is none by that name."""
    Balanced(item.html(Ids()))
    assert item.markdown() == item._repr_markdown_()
    assert not hasattr(item, "_repr_html_")
    assert repr(item) == item.plain() != ""
    assert "<details>" not in item.plain()


def test_a_formula_is_explained_and_not_typed():
    """2 x 32 layers x 8 heads x 128 elements x 2 bytes = 131,072."""
    item = formula("kv_bytes_per_token", "llama-3.1-8b")
    found = roofline.explain("llama-3.1-8b", "kv_bytes_per_token")
    assert found.latex in item.markdown()
    assert found.substituted_latex in item.markdown()
    assert 'data-value="131072"' in item.html(Ids())
    assert item.plain().splitlines()[1:] == ["  = 2·L·n_kv·d_head·b_kv", "  = 2·32·8·128·2", "  = 131,072 bytes = 128 KiB"]


def test_a_long_sum_can_end_a_line_between_its_terms():
    """L(...) + L d_model(...) + d_model + 2 d_model V: four pieces, after a sign each."""
    text = formula("parameters", "llama-3.1-8b").html(Ids())
    symbols = re.search(r"<p>(<math>.*?)</p>", text)[1]
    assert re.findall(r'<math><mo form="prefix">(.)</mo>', symbols) == ["=", "+", "+", "+"]


def test_an_unknown_part_is_told():
    with pytest.raises(UnknownNameError, match="matrix_flops"):
        formula("layers/mlp/gate_up_proj", "llama-3.1-8b", part="matrix_flop")


@pytest.mark.parametrize("text", [r"$2 \cdot n_q$", r"$\frac{a}{b}$", "$$x$$", r"\(x\)", "$n_qq$"])
def test_typed_formulas_are_refused(text):
    with pytest.raises((InputError, UnknownNameError)):
        say(text)
    with pytest.raises((InputError, UnknownNameError)):
        takeaway(f"so: {text}")


def test_dollars_of_money_and_code_are_no_symbols():
    assert html_of("it costs $3, or `$HOME`") == "<p>it costs $3, or <code>$HOME</code></p>\n"


def test_typed_html_is_text():
    assert "<script>" not in html_of("<script>alert(1)</script>")
    assert "&lt;b&gt;" in table(("a",), [("<b>",)], title="t").html(Ids())


def test_amounts_say_which_prefix():
    """16 GiB is exact; 16,060,522,496 is neither a whole number of GB nor of GiB."""
    assert amount(2**34, "bytes") == "17,179,869,184 bytes = 16 GiB"
    assert amount(16060522496, "bytes") == "16,060,522,496 bytes ≈ 16.06 GB ≈ 14.96 GiB"


def test_an_answer_is_hidden_in_a_notebook():
    before, _, after = COUNTED.markdown().partition("<details>")
    assert "128 KiB" not in before
    assert "128 KiB" in after


def test_choices_are_judged_by_their_place():
    assert CHOSEN.key.value == 1
    assert [mistake.value for mistake in CHOSEN.key.mistakes] == [0]
    with pytest.raises(InputError, match="none of the choices"):
        predict("?", ["a"], answer="b", why="")
    with pytest.raises(InputError, match="give choices"):
        predict("?", answer="b", why="")


def test_rows_and_roles_have_to_fit():
    with pytest.raises(InputError, match="2 cells under 1 columns"):
        table(("a",), [(1, 2)], title="t")
    with pytest.raises(InputError, match="1 lines and 2 roles"):
        curves("k", "t", ("x", ""), ("y", ""), {"a": ([1], [1])}, roles=("kv", "weights"))
    with pytest.raises(InputError, match="49 minutes"):
        lesson(1, "T", "a", goals=[], prerequisites=[], plan=[(49, "One")])


def test_an_unknown_exercise_is_told():
    with pytest.raises(UnknownNameError, match="kv-cache-per-token"):
        exercise("kv-cache-per-tokn")
