"""The value that says what an operator costs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from roofline.cost import FIELDS, ZERO, Cost

# Each field has a value of its own, so that no two can be mistaken for each other.
EACH = Cost(**{name: 10**position for position, name in enumerate(FIELDS)})


def test_sum_is_field_by_field() -> None:
    """A + b adds each field of a to the same field of b."""
    total = EACH + Cost(**{name: 3 * 10**position for position, name in enumerate(FIELDS)})
    assert [getattr(total, name) for name in FIELDS] == [4 * 10**position for position in range(len(FIELDS))]


def test_product_is_field_by_field_from_both_sides() -> None:
    """N * a and a * n multiply every field."""
    for product in (7 * EACH, EACH * 7):
        assert [getattr(product, name) for name in FIELDS] == [7 * 10**position for position in range(len(FIELDS))]


def test_zero_is_neutral() -> None:
    """Adding nothing changes nothing, and 0 times anything is nothing."""
    assert EACH + ZERO == EACH
    assert 0 * EACH == ZERO
    assert sum([EACH, EACH], ZERO) == 2 * EACH


def test_totals() -> None:
    """FLOP are matrix and vector; bytes are the six kinds of device memory traffic, without the link's."""
    cost = Cost(
        matrix_flops=1, vector_flops=2, weight_bytes=10, activation_bytes=20, kv_read_bytes=40, kv_write_bytes=80,
        state_read_bytes=160, state_write_bytes=320, link_bytes=10**6, messages=10**9,
    )  # fmt: skip
    assert cost.flops == 1 + 2
    assert cost.bytes == 10 + 20 + 40 + 80 + 160 + 320
    assert cost.arithmetic_intensity == 3 / 630


def test_repr_leaves_out_zeros() -> None:
    """Only what is not zero is shown, in the order of the fields."""
    assert repr(Cost(weight_bytes=4, matrix_flops=12, vector_flops=0.0)) == "Cost(matrix_flops=12, weight_bytes=4)"
    assert repr(ZERO) == "Cost()"


def test_is_frozen_and_keyword_only() -> None:
    """Costs are values: positions would mix up bytes and FLOP, and assignment is refused."""
    with pytest.raises(TypeError):
        Cost(1, 2)  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        EACH.matrix_flops = 5  # type: ignore[misc]
    with pytest.raises(AttributeError):
        object.__setattr__(EACH, "matrix_flop", 5)  # slots: a typing error is no new field


def test_holds_arrays() -> None:
    """A field may be an array of many configurations."""
    cost = Cost(matrix_flops=np.array([1.0, 2.0])) * 3 + Cost(matrix_flops=1, weight_bytes=np.array([2.0, 7.0]))
    assert cost.flops.tolist() == [4, 7]
    assert cost.arithmetic_intensity.tolist() == [2, 1]
