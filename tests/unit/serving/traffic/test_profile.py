"""Load over a day: any weights become factors with a mean of 1."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import InputError
from roofline.serving.traffic import parse_profile


def test_weights_in_a_text() -> None:
    """1, 1, 2, 4 have the mean 2: factors 0.5, 0.5, 1, 2, of six hours each; the next day is like this one."""
    found = parse_profile("1, 1, 2, 4")
    assert found.factors == (0.5, 0.5, 1, 2)
    assert (found.peak_factor, found.part) == (2, 6 * 3600)
    assert [found.at(hours * 3600) for hours in (0, 6, 12, 18, 23.99, 24, 24 + 18)] == [0.5, 0.5, 1, 2, 2, 0.5, 2]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("day.yaml", "name: office\nweights: [1, 1, 2, 4]\n"),
        ("day.csv", "1\n1\n2\n4\n"),
        ("day.csv", "weight\n1\n1\n2\n4\n"),
        ("day.csv", "hour,weight\n0,1\n6,1\n12,2\n18,4\n"),
    ],
)
def test_weights_in_a_file(tmp_path: Path, name: str, content: str) -> None:
    """The same from each form."""
    (tmp_path / name).write_text(content)
    found = parse_profile(name, tmp_path)
    assert found.factors == parse_profile([1, 1, 2, 4]).factors
    assert found.source is not None
    assert found.source.path == str(tmp_path / name)


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=200).filter(lambda weights: sum(weights) > 1e-3))
def test_mean_is_one(weights: list[float]) -> None:
    """Whatever the weights; the peak is the highest over the mean."""
    found = parse_profile(weights)
    assert sum(found.factors) / len(found.factors) == pytest.approx(1)
    assert found.peak_factor == pytest.approx(max(weights) * len(weights) / sum(weights))
    assert found.peak_factor >= 1 - 1e-12


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("day.csv", "weight\n1\nx\n", "day.csv:3: must be a weight, 0 or more, not 'x'"),
        ("day.csv", "weight\n1\n-2\n", "day.csv:3: a weight must be 0 or more, not -2"),
        ("day.csv", "1\n", "day.csv: weights: a profile has 2 to 86,400 parts of a day, not 1"),
        ("day.csv", "1,2\n3,4\n", "day.csv:1: has 2 columns and no header: give one weight per line"),
        ("day.csv", "hour,w\n0,1\n", "day.csv:1: unknown columns 'hour, w'"),
        ("day.yaml", "weights: [0, 0]\n", "day.yaml:1: weights: all weights are 0"),
        ("day.yaml", "weight: [1, 2]\n", "day.yaml:1:1: unknown key 'weight'. Did you mean weights?"),
        ("day.yaml", "weights: [1, .nan]\n", "must be a weight, 0 or more, not 'nan'"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    """With line, and what is allowed."""
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError) as caught:
        parse_profile(name, tmp_path)
    assert message in str(caught.value)


@pytest.mark.parametrize("value", ["", "5", 5, None, "1,,2", "1,inf", [1], [], [1, -1], [0, 0], [1, True]])
def test_values_that_are_refused(value: object) -> None:
    """No weights, one, none above 0, a negative one."""
    with pytest.raises(InputError):
        parse_profile(value)
