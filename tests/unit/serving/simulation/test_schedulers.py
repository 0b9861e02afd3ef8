"""Schedulers are found: those of the package, and those that others add."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from dataclasses import replace

import pytest

from roofline.errors import UnknownNameError
from roofline.serving.simulation import schedulers as room
from roofline.serving.simulation.schedulers import scheduler, schedulers


def test_those_of_the_contract() -> None:
    """They are there, and each, of those that were added since too, has a sentence about it."""
    assert {"orca", "priority", "sarathi", "sjf", "static", "vllm-v0", "vllm-v1"} <= set(schedulers())
    assert all(one.about for one in schedulers().values())
    with pytest.raises(UnknownNameError, match="Did you mean static"):
        scheduler("statik")


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """What entry points load."""
    found: list[object] = []

    class Point:
        def __init__(self, value: object) -> None:
            self.value = value

        def load(self) -> object:
            return self.value

    def points(group: str) -> list[Point]:
        assert group == "roofline.schedulers"
        return [Point(value) for value in found]

    monkeypatch.setattr(importlib.metadata, "entry_points", points)
    room.schedulers.cache_clear()
    yield found
    room.schedulers.cache_clear()


def test_one_of_another_package(added: list[object]) -> None:
    """By its name; two of one name are refused."""
    mine = replace(scheduler("vllm-v1"), name="mine")
    room.schedulers.cache_clear()
    added.append(mine)
    assert scheduler("mine") is mine
    added.append(replace(mine, about="another"))
    room.schedulers.cache_clear()
    with pytest.raises(TypeError, match="two schedulers are called mine"):
        schedulers()
