"""The same formula with ints, floats, arrays and symbols gives the same cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import STRATEGIES

from roofline.cost import FIELDS, Cost
from roofline.formulas.symbolic import evaluate
from roofline.operators import OPERATORS
from roofline.operators.base import Operator

# Kinds whose formulas divide by something that need not be a power of two: floats round there.
DIVIDING = {"all_gather", "all_reduce", "all_to_all", "reduce_scatter", "grouped_gemm"}
# Of others, dimensions that divide where they are there.
DIVISORS = ("query_ranks", "key_ranks")
ROUNDING = 1e-12


def converted(operator: Operator, convert: Any) -> Operator:
    """The operator with its dimensions in another kind of number."""
    # NB: skewed routing walks the experts one by one, so that their number is structure there.
    structure = ("experts", "top_k") if getattr(operator, "skew", 0) else ()
    return replace(operator, **{name: convert(name, value) for name, value in operator.dims().items() if name not in structure})


def check(operator: Operator, found: Cost, read: Any) -> None:
    """Every field agrees with the cost in ints: exactly, or to rounding where the formula divides."""
    expected = operator.cost()
    divides = operator.kind in DIVIDING or any(getattr(operator, name, None) for name in DIVISORS)
    for name in FIELDS:
        wanted, got = getattr(expected, name), read(getattr(found, name))
        assert abs(wanted) < 2**53
        if divides:
            assert got == pytest.approx(wanted, rel=ROUNDING, abs=1e-9), name
        else:
            assert got == wanted, name


@pytest.mark.parametrize("cls", OPERATORS.values(), ids=lambda cls: cls.kind)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_floats(cls: type[Operator], data: st.DataObject) -> None:
    """Floats below 2^53 hold what ints hold."""
    operator = data.draw(STRATEGIES[cls])
    check(operator, converted(operator, lambda _, value: float(value)).cost(), float)


@pytest.mark.parametrize("cls", OPERATORS.values(), ids=lambda cls: cls.kind)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_arrays(cls: type[Operator], data: st.DataObject) -> None:
    """An array of several workloads gives, in its place, the cost of each."""
    operator = data.draw(STRATEGIES[cls])
    beside = converted(operator, lambda _, value: np.array([1.0, float(value), 3.0 * value + 2]))
    check(operator, beside.cost(), lambda value: np.broadcast_to(value, 3)[1])


@pytest.mark.parametrize("cls", OPERATORS.values(), ids=lambda cls: cls.kind)
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_symbols(cls: type[Operator], data: st.DataObject) -> None:
    """The closed form, with the numbers put in, is the cost."""
    operator = data.draw(STRATEGIES[cls])
    symbols = {name: sympy.Symbol(name, nonnegative=True, integer=True) for name in operator.dims()}
    values = {symbols[name]: value for name, value in operator.dims().items()}
    check(operator, converted(operator, lambda name, _: symbols[name]).cost(), lambda value: evaluate(value, values))


def test_symbols_stay_exact_where_floats_do_not() -> None:
    """2mnk of 2^20 x 2^20 x 2^20 + 1 has 61 bits: symbols and ints keep all of them."""
    gemm, m, n, k = OPERATORS["gemm"], *sympy.symbols("m n k", positive=True)
    flops = gemm(m=m, n=n, k=k).cost().matrix_flops
    assert evaluate(flops, {m: 2**20, n: 2**20, k: 2**20 + 1}) == 2**41 * (2**20 + 1)
