"""The operations that every kind of number has to agree on."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from roofline.numeric import ceil_div, maximum, minimum, ratio, triangle


@pytest.mark.parametrize(
    ("a", "b", "up"), [(525, 75, 7), (526, 75, 8), (0, 16, 0), (1, 16, 1), (16, 16, 1), (17, 16, 2), (7, 1, 7)]
)
def test_ceil_div_of_every_kind(a: int, b: int, up: int) -> None:
    """The same whole number for ints, floats and arrays; 525/75 is 7, which a product with 1/75 misses."""
    assert 525 * (1 / 75) > 7  # the trap: rounded up, this would be 8
    assert ceil_div(a, b) == up
    assert isinstance(ceil_div(a, b), int)
    assert ceil_div(float(a), float(b)) == up
    assert ceil_div(np.array([a, a]), b).tolist() == [up, up]
    assert ceil_div(np.array([float(a)]), float(b)).tolist() == [up]


def test_ceil_div_of_all_exact_divisions() -> None:
    """k*b/b is k for every kind of number, over a square of cases."""
    for b in range(1, 200):
        whole = np.arange(1, 200)
        assert (ceil_div(whole * b, b) == whole).all()
        assert (ceil_div((whole * b).astype(float), float(b)) == whole).all()
        assert [ceil_div(int(k) * b, b) for k in whole] == whole.tolist()


def test_ceil_div_of_large_ints_is_exact() -> None:
    """Python ints do not pass through a float: (2^80 + 1)/2 rounds up to 2^79 + 1."""
    assert ceil_div(2**80 + 1, 2) == 2**79 + 1


def test_maximum_and_minimum_broadcast() -> None:
    """Plain numbers stay plain, arrays work element by element and against scalars."""
    assert (maximum(3, 5.5), minimum(3, 5.5)) == (5.5, 3)
    assert maximum(np.array([1, 9]), 5).tolist() == [5, 9]
    assert minimum(5, np.array([1, 9])).tolist() == [1, 5]
    assert maximum(np.array([[1], [9]]), np.array([2, 3])).tolist() == [[2, 3], [9, 9]]


def test_triangle_is_a_sum() -> None:
    """1 + 2 + ... + n, whole where n is, and the same for arrays."""
    assert [triangle(n) for n in range(50)] == [sum(range(n + 1)) for n in range(50)]
    assert isinstance(triangle(7), int)
    assert triangle(np.array([3.0, 4.0])).tolist() == [6, 10]


def test_triangle_of_millions_is_exact() -> None:
    """A prompt of 2^40 tokens has 2^39 (2^40 + 1) pairs, beyond what a float or an int64 holds exactly."""
    assert triangle(2**40) == 2**39 * (2**40 + 1)


@pytest.mark.parametrize(("a", "b"), [(6, 3), (0, 7), (2**80, 2**40)])
def test_ratio_stays_whole(a: int, b: int) -> None:
    """What divides exactly stays an int."""
    assert ratio(a, b) == a // b
    assert isinstance(ratio(a, b), int)


@pytest.mark.parametrize(("a", "b"), [(1, 2), (7, 3), (1.5, 0.5)])
def test_ratio_else_divides(a: float, b: float) -> None:
    """What does not is divided."""
    assert ratio(a, b) == pytest.approx(float(Fraction(a) / Fraction(b)), rel=1e-15)
