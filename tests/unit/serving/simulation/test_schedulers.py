"""Schedulers by name: those that ship, and those of other packages."""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from simulated import AffineStepTime, serve

import roofline
from roofline.errors import UnknownNameError
from roofline.registry import Registry
from roofline.serving.simulation.decode_batch import run_seconds, steps_until
from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.scheduler import Scheduler, SchedulingPolicy
from roofline.serving.simulation.schedulers import SCHEDULERS, VLLM_V1


def test_those_of_the_contract() -> None:
    """They are there, and each, of those that were added since too, has a sentence about it."""
    assert {"orca", "priority", "sarathi", "sjf", "static", "vllm-v0", "vllm-v1"} <= set(SCHEDULERS)
    assert all(one.about for one in SCHEDULERS.values())
    with pytest.raises(UnknownNameError, match="Did you mean static"):
        SCHEDULERS["statik"]


def test_no_evict_is_orca_by_its_usual_name() -> None:
    """TensorRT-LLM's GUARANTEED_NO_EVICT reserves all blocks of a request, as Orca does: the same run."""
    setting: dict[str, Any] = {
        "workload": "at-once", "requests": 200, "input_len": 128, "output_len": 512, "engine": "trtllm",
        "num_gpu_blocks_override": 600,
    }  # fmt: skip
    runs = {
        name: roofline.simulate("llama-3.1-8b", "h100-sxm", scheduler=name, **setting).to_dict()
        for name in (None, "no-evict", "orca", "vllm-v1")
    }
    assert runs[None]["preemption"] == runs["no-evict"]["preemption"] == runs["orca"]["preemption"]
    assert runs[None]["throughput"] == runs["no-evict"]["throughput"] == runs["orca"]["throughput"]
    assert runs["vllm-v1"]["throughput"] != runs["no-evict"]["throughput"]
    used = next(note for note in runs[None]["assumptions"] if note["name"] == "scheduler")
    assert (used["value"], used["origin"]) == ("no-evict", "default")


def test_sglang_computes_prompts_first_and_in_chunks() -> None:
    """Of 8 tokens per step: A with 6 and 2 of B's 6, then the other 4 and 4 of C's 6, then its last 2. None decodes before."""
    config = EngineConfig(100, 4, 8, max_num_batched_tokens=8)
    served = serve("sglang", [Request(index, 0.0, 6, 3) for index in range(3)], AffineStepTime(1.0), config)
    assert [(event[3], event[4]) for event in served.of("mixed")] == [
        (0, ((0, 6, 0), (1, 2, 0))), (0, ((1, 4, 2), (2, 4, 0))), (0, ((2, 2, 4),)),
    ]  # fmt: skip
    assert [(event[3], event[4]) for event in served.of("decode")] == [(2, 3)]


def test_a_tight_fit_is_no_faster_than_its_bound() -> None:
    """Llama-3.1-70B in FP8 on one H100, 128 tokens in and 2,048 out: 912 tok/s measured (TensorRT-LLM 0.17, fraction 0.95).

    Of 85.5 GB weights take 72.7; 0.95 of the rest holds 33 sequences at 2,176 tokens of 163,840 bytes, where vLLM's 0.95 of
    all memory holds 24. Steps at the bound give more than was measured.
    """
    ran = roofline.simulate(
        "llama-3.1-70b", "h100-sxm", workload="at-once", requests=330, input_len=128, output_len=2048, quantization="fp8",
        kv_cache_dtype="fp8", basis="bound", engine="trtllm", kv_cache_free_gpu_memory_fraction=0.95,
    )  # fmt: skip
    assert ran.to_dict()["throughput"]["output_tokens_per_s"] > 912


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


def test_steps_that_grow_shorter() -> None:
    """The first step takes (n - 1/2)/k s, and each 1/k s less than the one before.

    The n-th ends where the parabola has its top: what a root is taken of is 0 there, and may be rounded to less.
    """
    for n in range(1, 30):
        for k in range(3, 12):
            seconds, slope = (n - 0.5) / k, -1 / k
            ends = run_seconds(n, seconds, slope)
            assert ends == pytest.approx(n * n / (2 * k))
            assert steps_until(ends, 0.0, seconds, slope, n) == n


def test_unfinished_requests_are_in_one_of_five_places() -> None:
    """1 waits, 2 run, 3 are swapped, of 4 the cache comes, and of 5 it has come."""
    places: Any = SimpleNamespace(waiting=[0], running=[0] * 2, swapped=[0] * 3, num_receiving=4, received=[0] * 5)
    assert Scheduler.num_unfinished.fget(places) == 15  # type: ignore[attr-defined]


def test_what_sets_schedulers_apart() -> None:
    """As their `about` and `source` say.

    Chunks came with Sarathi; Orca and what follows it reserve blocks for whole outputs; static batching, vLLM's V0 and SGLang
    do not mix prompts and decodes in a step.
    """
    v1 = {"vllm-v1", "vllm-v1-async", "fair", "priority", "sjf"}
    expected = {
        "full_prompt_must_fit": v1 | {"sglang"},
        "chunked_prefill": v1 | {"sglang", "sarathi"},
        "reserves_output": {"orca", "no-evict", "static"},
        "slot_while_receiving": {"no-evict"},
        "static_batching": {"static"},
        "async_scheduling": {"vllm-v1-async", "sglang"},
        "mixed_steps": set(SCHEDULERS) - {"static", "vllm-v0", "sglang"},
        "loads_prefixes": set(SCHEDULERS) - {"static", "vllm-v0"},
    }
    for flag, names in expected.items():
        assert {name for name, policy in SCHEDULERS.items() if getattr(policy, flag)} == names, flag
