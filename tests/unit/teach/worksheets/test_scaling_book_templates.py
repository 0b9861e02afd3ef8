"""The book's own numbers in the problems of the topic `scaling-book`: ours are the book's, or the solution says why not.

Values: How to Scale Your Model (Austin et al., 2025), https://jax-ml.github.io/scaling-book: chapters roofline, inference,
applied-inference. tests/golden/test_textbook.py answers the same by commands.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import pytest

from roofline.teach.worksheets import by_topic, make
from roofline.teach.worksheets.problem import Problem, Template, Worked, checked


def module(name: str) -> ModuleType:
    return import_module(f"roofline.teach.worksheets.templates.scaling_book_{name}")


def book(name: str, at: int = 0) -> Problem:
    """The problem with the book's numbers."""
    made = checked(module(name).problem(*module(name).BOOK[at]))
    assert made is not None, "a mistake passes as right"
    return made


def said(problem: Problem) -> str:
    """The texts of the solution."""
    return " ".join(step for step in problem.solution if isinstance(step, str))


@pytest.mark.parametrize(
    ("name", "at", "published", "rel"),
    [
        ("cache_per_token", 0, 160 * 1024, 0),  # 2 x 8 x 128 x 80 B = 160 KiB
        ("cache_per_token", 1, 2 * 8 * 256 * 64, 0),  # 256 KiB
        ("parameters", 0, 18.4e9, 2e-3),
        ("smallest_slice", 0, 16, 0),  # bf16: 8.75 chips, 4 x 4
        ("smallest_slice", 1, 8, 0),  # int8: 4.38, 4 x 2
        ("smallest_slice", 2, 4, 0),  # int4: 2 x 2
        ("sequences_on_a_slice", 1, 7, 0),
        ("decode_bound", 0, 1.4e-3, 0.01),  # 18.4e9 / (16 x 8.1e11)
        ("decode_bound", 1, 17e-3, 0.03),
        ("decode_bound", 2, 8.5e-3, 0.03),
        ("full_memory_step", 0, 19e-3, 0.03),  # 16e9 / 8.2e11
        ("queries_per_chip", 0, 0.27, 0.02),
        ("queries_per_chip", 1, 0.66, 0.02),
        ("queries_per_chip", 2, 1.72, 0.04),  # 67 / (0.019 x 512 x 4)
        ("critical_batch", 0, 120, 3e-3),
        ("critical_batch", 1, 240, 3e-3),
        ("critical_batch", 2, 240, 3e-3),
        ("critical_batch", 3, 60, 3e-3),
        ("prefill_time", 0, 0.91, 0.01),  # 2 x 70e9 x 8192 / (16 x 1.97e14 x 0.4)
        ("prefill_time", 1, 0.91 * 0.4, 0.01),
        ("prefill_servers", 0, 3, 0.03),
    ],
)
def test_answers_are_the_book_s(name: str, at: int, published: float, rel: float) -> None:
    problem = book(name, at)
    assert problem.answer.value == pytest.approx(published, rel=rel or 1e-12)
    assert problem.source.startswith("Austin et al., How to Scale Your Model (2025)")


@pytest.mark.parametrize(
    ("name", "at", "ours", "published", "why"),
    [
        # (70.55e9 + 240 x 32768 x 163840) / 16e9 = 84.9; the book: (70e9 + 1.3e12) / 16e9 = 85.6, which it rounds up
        ("chips_for_a_batch", 0, 85, 86, "rounds to 70e9 parameters and 1.3 TB"),
        # (128e9 - 70.55e9) / (8192 x 163840) = 42.8; the book's table of bf16: 116e9 / (8192 x 324e3) = 43.7
        ("sequences_on_a_slice", 0, 42, 43, "rounds to 70e9 parameters and 324 kB"),
    ],
)
def test_where_ours_is_not_the_book_s_the_solution_says_why(name: str, at: int, ours: int, published: int, why: str) -> None:
    problem = book(name, at)
    assert problem.answer.value == ours
    assert str(published) in said(problem)
    assert why in said(problem)


def test_one_kv_head() -> None:
    """Question 2 with one: 64 x 2 x 256 B a token are an eighth, so that (256e9 - 17.4e9) / (128000 x 32768) = 56 fit."""
    assert book("sequences_on_a_slice", 2).answer.value == 56


@pytest.mark.parametrize("template", by_topic("scaling-book"), ids=lambda one: one.id)
def test_seeds_draw_the_book_s_numbers_and_others(template: Template) -> None:
    """Every setting of the book is a draw; all problems name their chapter and question."""
    own = module(template.id.removeprefix("scaling-book-").replace("-", "_")).BOOK
    drawn = [make(template, seed) for seed in range(400)]
    for at in range(len(own)):
        wanted = book(template.id.removeprefix("scaling-book-").replace("-", "_"), at)
        assert wanted.text in {one.text for one in drawn}, f"no seed draws {own[at]}"
    theirs = [one for one in drawn if one.source.startswith("Austin")]
    assert 0 < len(theirs) < len(drawn)
    assert all(one.source.removeprefix("after ").startswith("Austin et al.") for one in drawn)
    assert all("https://jax-ml.github.io/scaling-book/" in one.source for one in drawn)


@pytest.mark.parametrize("template", by_topic("scaling-book"), ids=lambda one: one.id)
def test_solutions_of_the_book_s_numbers(template: Template) -> None:
    """Each ends in its answer, and says what the book has wherever the two differ by more than 1 %."""
    name = template.id.removeprefix("scaling-book-").replace("-", "_")
    for at in range(len(module(name).BOOK)):
        problem = book(name, at)
        steps = [step for step in problem.solution if isinstance(step, Worked)]
        if steps:
            value = steps[-1].make().value
            assert value is not None
            assert int(value) == problem.answer.value or value == pytest.approx(problem.answer.value, rel=1e-6)
        else:
            assert problem.right_answer in said(problem)


def test_there_are_eight_problems() -> None:
    assert len(by_topic("scaling-book")) >= 8
