"""Every operator has what an operator must have; a new one cannot be forgotten."""

from __future__ import annotations

import doctest
import inspect
import sys

import pytest
from strategies import STRATEGIES

from roofline.operators import registry
from roofline.operators.base import Operator

OPERATORS = list(registry().values())


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.kind)
def test_operator_has_a_doctest_of_its_cost(operator: type[Operator]) -> None:
    """The class docstring calls the operator and shows what it costs: that is its golden value."""
    examples = doctest.DocTestParser().get_examples(operator.__doc__ or "")
    assert any(f"{operator.__name__}(" in example.source for example in examples)
    assert any(".cost()" in example.source and example.want.startswith("Cost(") for example in examples)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.kind)
def test_operator_names_its_source(operator: type[Operator]) -> None:
    """The docstring of the class, or of the base that holds its formula, says where the formula is from."""
    assert "Source" in (operator.__doc__ or "")


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.kind)
def test_operator_has_a_strategy(operator: type[Operator]) -> None:
    """Property tests can draw it."""
    assert operator in STRATEGIES


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.kind)
def test_operator_stands_in_a_file_of_its_own(operator: type[Operator]) -> None:
    """One file an operator, named after its kind."""
    assert operator.__module__ == f"roofline.operators.{operator.kind}"
    module = sys.modules[operator.__module__]
    others = [
        cls for _, cls in inspect.getmembers(module, inspect.isclass) if cls in OPERATORS and cls.__module__ == module.__name__
    ]
    assert others == [operator]
