"""Options of plans, simulations and preemption: one entry each, of which the flags and the functions are made."""

from __future__ import annotations

import inspect

import pytest

from roofline.predict.options import OPTIONS, Option
from roofline.serving.options import COPIES, PLAN, REPLAY, SIMULATE
from roofline.serving.planning.plan import TRAFFIC, plan
from roofline.serving.preemption.preempt import preempt
from roofline.serving.simulation.simulate import simulate
from roofline.serving.traffic import single

SCHEMAS = {"plan": PLAN, "simulate": SIMULATE, "preempt": COPIES, "replay": REPLAY}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=list(SCHEMAS))
def test_entries_are_whole(schema: dict[str, Option]) -> None:
    """A name, a group, a sentence of help; what is no flag has a name for its value."""
    for name, option in schema.items():
        assert option.name == name
        assert option.group
        assert option.help.endswith(".")
        assert (option.kind == "flag") == (not option.metavar)


def test_one_class_of_traffic_takes_what_the_schema_says() -> None:
    """The options of a class are the keywords of `single`."""
    assert set(TRAFFIC) <= set(inspect.signature(single).parameters)


def test_functions_take_what_the_schema_says() -> None:
    """Each option is a parameter, or one of a class, of the deployment, or of `plan --check`."""
    known = set(inspect.signature(plan).parameters) | set(TRAFFIC) | {"check", "replicas"}
    assert set(PLAN) <= known
    assert set(COPIES) <= set(inspect.signature(preempt).parameters)
    assert set(SIMULATE) <= set(inspect.signature(simulate).parameters) | set(OPTIONS)
