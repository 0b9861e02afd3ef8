"""A deployment: the engines' flags, in range."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from roofline.specs.deployment import Conventions, Deployment


def test_defaults_are_one_device_and_the_conventions_of_the_contract() -> None:
    """One device; causal mask, fused attention, LM head on the last position, uniform routing, nothing shared."""
    plain = Deployment()
    assert plain.devices == 1
    assert plain.conventions == Conventions(
        mask="causal", attention="fused", mla="auto", logits="last", routing_skew=0, shared_prefix=0
    )
    assert (plain.reserve, plain.block_size, plain.gpu_memory_utilization) == (0, None, None)


def test_devices_are_the_product() -> None:
    """Tensor x pipeline x data parallelism; expert parallelism spreads over the same devices."""
    assert (
        Deployment(tensor_parallel_size=2, pipeline_parallel_size=3, data_parallel_size=5, expert_parallel_size=2).devices == 30
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"tensor_parallel_size": 0},
        {"gpu_memory_utilization": 0},
        {"gpu_memory_utilization": 1.01},
        {"reserve": -1},
        {"block_size": 0},
        {"max_model_len": 0},
        {"dtype": "bf17"},
        {"quantization": "awk"},
        {"reserve": "2"},
        {"reserve": "2 GB/s"},
        {"tensor_paralel_size": 2},
    ],
)
def test_out_of_range_is_refused(wrong: dict[str, Any]) -> None:
    """Sizes from 1, a share of memory up to 1, memory with a unit, names that exist."""
    with pytest.raises(ValidationError):
        Deployment(**wrong)


@pytest.mark.parametrize(("text", "value"), [("2 GiB", 2 * 2**30), ("0", 0), (0, 0), (1024, 1024), ("1 GB", 10**9)])
def test_reserve_takes_a_unit(text: object, value: int) -> None:
    """From the command line with a unit, from Python also as a number of bytes."""
    assert Deployment(reserve=text).reserve == value  # type: ignore[arg-type]


def test_is_frozen() -> None:
    """A deployment does not change behind a result's back."""
    with pytest.raises(ValidationError):
        Deployment().block_size = 32  # type: ignore[misc]
