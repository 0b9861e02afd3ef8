"""Axes of a grid: names, values, ranges, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from roofline.errors import InputError, UnknownNameError
from roofline.predict.sweeps.axes import AXES, DEPLOYMENT, read, values_of

pytestmark = pytest.mark.every_case


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1:5", (1, 2, 3, 4, 5)),
        ("0:100:25", (0, 25, 50, 75, 100)),
        ("1:512:x8", (1, 8, 64, 512)),
        ("1:10:x1.5", (1, 2, 3, 5, 8)),  # 1, 1.5, 2.25, 3.375, 5.0625, 7.59: each whole number once
        ("1k:8k:x2", (1024, 2048, 4096, 8192)),
        ("1:1000:log4", (1, 10, 100, 1000)),
        ("2:200:log3", (2, 20, 200)),
        ("7:700:log1", (7,)),
        ("1:3:log50", (1, 2, 3)),
        ("8, 1:4:x2, 1k", (8, 1, 2, 4, 1024)),
    ],
)
def test_ranges(text: str, values: tuple[int, ...]) -> None:
    """Steps, factors, logarithms; in the order in which they are written."""
    assert values_of("context", text) == values


def test_rows_have_one_order() -> None:
    """Model, hardware, phase, deployment as given, batch, lengths: however a grid is written."""
    grid = read(
        {
            "context": 5,
            "kv-cache-dtype": "fp8,bf16",
            "batch": range(1, 3),
            "tensor_parallel_size": 2,
            "hardware": "l4",
            "model": "m",
        }
    )
    assert list(grid) == ["model", "hardware", "phase", "kv_cache_dtype", "tp", "batch", "context"]
    assert grid["batch"] == (1, 2)
    assert grid["phase"] == ("decode",)
    assert read({"model": "m", "hardware": "l4", "phase": "both"})["phase"] == ("prefill", "decode")


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"hardware": "l4"}, "needs the axis 'model'"),
        ({"model": "m"}, "needs the axis 'hardware'"),
        ({"model": "m", "hardware": []}, "'hardware' has no values: the grid is empty"),
        ({"model": "m", "hardware": "l4", "batch": ""}, "empty value"),
        ({"model": "m", "hardware": "l4", "batch": "4:1"}, "no range"),
        ({"model": "m", "hardware": "l4", "batch": "1:4:1:1"}, "no range"),
        ({"model": "m", "hardware": "l4", "batch": "1:4:x1"}, "must be more than 1"),
        ({"model": "m", "hardware": "l4", "batch": "1:1M:0"}, "step of a range must be at least 1"),
        ({"model": "m", "hardware": "l4", "batch": "0:4"}, "at least 1"),
        ({"model": "m", "hardware": "l4", "batch": [1, 2.5]}, "whole number"),
        ({"model": "m", "hardware": "l4", "batch": True}, "whole number"),
        ({"model": "m", "hardware": "l4", "batch": "1,2,1"}, "has 1 twice"),
        ({"model": "m", "hardware": "l4", "context": "0:1000M:1"}, "more than 10,000,000 values"),
        ({"model": "m", "hardware": "l4", "tp": 1, "tensor-parallel-size": 2}, "same axis"),
    ],
)
def test_what_is_no_grid_is_refused(grid: dict[str, Any], message: str) -> None:
    """By the axis, with what is allowed."""
    with pytest.raises(InputError, match=message):
        read(grid)


def test_unknown_axes_are_named() -> None:
    """With the nearest that there is."""
    with pytest.raises(UnknownNameError, match="Did you mean batch"):
        read({"model": "m", "hardware": "l4", "bach": 1})


def test_every_option_of_a_deployment_is_an_axis() -> None:
    """What `compile` takes, but how a config.json is read, and what changes no number."""
    import inspect

    import roofline
    from roofline.predict.options import ALIASES

    taken = set(inspect.signature(roofline.compile).parameters) - {"model", "hardware", "phase"}
    assert taken - {"assume", "ignore_capacity", "enable_prefix_caching"} == {ALIASES.get(name, name) for name in DEPLOYMENT}
    assert len(set(AXES)) == len(AXES)
