"""Every operator has what an operator must have; a new one cannot be forgotten."""

from __future__ import annotations

import doctest

import pytest
from strategies import STRATEGIES

from roofline.operators import OPERATORS
from roofline.operators.base import Operator

CLASSES = list(OPERATORS.values())


@pytest.mark.parametrize("operator", CLASSES, ids=lambda operator: operator.kind)
def test_operator_has_a_doctest_of_its_cost(operator: type[Operator]) -> None:
    """The class docstring calls the operator and shows what it costs: that is its golden value."""
    examples = doctest.DocTestParser().get_examples(operator.__doc__ or "")
    assert any(f"{operator.__name__}(" in example.source for example in examples)
    assert any(".cost()" in example.source and example.want.startswith("Cost(") for example in examples)


@pytest.mark.parametrize("operator", CLASSES, ids=lambda operator: operator.kind)
def test_operator_names_its_source(operator: type[Operator]) -> None:
    """The docstring of the class, or of the base that holds its formula, says where the formula is from."""
    assert "Source" in (operator.__doc__ or "")


@pytest.mark.parametrize("operator", CLASSES, ids=lambda operator: operator.kind)
def test_operator_has_a_strategy(operator: type[Operator]) -> None:
    """Property tests can draw it."""
    assert operator in STRATEGIES


TOGETHER = {
    "altup": {"altup_correct", "altup_predict"},
    "collectives": {"all_gather", "all_reduce", "all_to_all", "reduce_scatter", "send_recv"},
    "hyper_connections": {"hyper_collapse", "hyper_expand"},
}
"""Modules of several operators that make one subject."""


def test_operators_stand_in_files_that_are_named_after_them() -> None:
    """One file an operator, named after its kind, but for those that make one subject."""
    files: dict[str, set[str]] = {}
    for operator in CLASSES:
        package, _, name = operator.__module__.rpartition(".")
        assert package == "roofline.operators"
        files.setdefault(name, set()).add(operator.kind)
    assert {name: kinds for name, kinds in files.items() if kinds != {name}} == TOGETHER
