"""What is held out: whole shapes, always the same ones, about a third."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roofline.measure.calibrate.family import folds, held_out

NAMES = st.lists(st.text("abc0123/", min_size=1, max_size=6), min_size=1, max_size=40)


@given(NAMES)
def test_a_third_of_the_shapes_is_held_out(shapes: list[str]) -> None:
    """ceil((n - 1)/3) of n distinct ones, however often each occurs, and in whatever order."""
    distinct = len(set(shapes))
    out = held_out(shapes)
    assert out <= set(shapes)
    assert len(out) == -(-(distinct - 1) // 3)
    assert out == held_out([*reversed(shapes), *shapes])


@given(NAMES, st.integers(1, 6))
def test_folds_hold_each_shape_once(shapes: list[str], count: int) -> None:
    """Every shape is in one part, and the parts differ by one at most."""
    parts = folds(shapes, count)
    assert sorted(shape for part in parts for shape in part) == sorted(set(shapes))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
