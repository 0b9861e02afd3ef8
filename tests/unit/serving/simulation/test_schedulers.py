"""Schedulers by name: those that ship, and those of other packages."""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace

import pytest

from roofline.errors import UnknownNameError
from roofline.registry import Registry
from roofline.serving.simulation.scheduler import SchedulingPolicy
from roofline.serving.simulation.schedulers import SCHEDULERS, VLLM_V1


def test_those_of_the_contract() -> None:
    """They are there, and each, of those that were added since too, has a sentence about it."""
    assert {"orca", "priority", "sarathi", "sjf", "static", "vllm-v0", "vllm-v1"} <= set(SCHEDULERS)
    assert all(one.about for one in SCHEDULERS.values())
    with pytest.raises(UnknownNameError, match="Did you mean static"):
        SCHEDULERS["statik"]


def _registry(monkeypatch: pytest.MonkeyPatch, *added: object) -> Registry[SchedulingPolicy]:
    """A registry as `SCHEDULERS` is made, with packages that add schedulers."""

    class Point:
        name = "point"

        def __init__(self, value: object) -> None:
            self.value = value

        def load(self) -> object:
            return self.value

    def points(group: str) -> list[Point]:
        assert group == "roofline.schedulers"
        return [Point(value) for value in added]

    monkeypatch.setattr(importlib.metadata, "entry_points", points)
    return Registry(SCHEDULERS.kind, [VLLM_V1], group=SCHEDULERS.group, accepts=SchedulingPolicy)


def test_one_of_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name; two of one name are refused, and what is no scheduler."""
    mine = replace(VLLM_V1, name="mine")
    assert _registry(monkeypatch, mine)["mine"] is mine
    with pytest.raises(TypeError, match="two schedulers are called 'mine'"):
        _registry(monkeypatch, mine, replace(mine, about="another"))["mine"]
    with pytest.raises(TypeError, match="not to a SchedulingPolicy"):
        _registry(monkeypatch, "mine")["mine"]
