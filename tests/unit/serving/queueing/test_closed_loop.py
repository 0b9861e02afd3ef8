"""Mean TPOT of clients that wait for their responses: what the prompts of others add, and how many run."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from roofline.predict.compiled import StepTimes
from roofline.serving.queueing.closed_loop import ClosedLoop
from roofline.serving.queueing.replica import prompts_of_round
from roofline.specs.workload import Segment, Step


def _tpot(clients: float = 16, *, dp: int = 1, **options: Any) -> dict[str, float]:
    loop = ClosedLoop.of("llama-3.1-8b", "h100-sxm" if dp == 1 else "dgx-h100", dp=dp)
    return {name: float(value) for name, value in loop.tpot(clients, 1000, 200, **options).items()}


def test_a_lone_client_has_no_others() -> None:
    """Its steps are decode steps alone; of 16 clients each has the prompts of 15 others in its 200 steps."""
    one, many = _tpot(1), _tpot(16)
    assert (one["prefill"], one["shared_bound"], one["running"]) == (0, one["bound"], 1)
    assert many["running"] == 16
    assert many["shared_bound"] > many["bound"]
    assert many["estimate"] > many["decode"] + many["engine"]


def test_memory_and_a_given_number_limit_what_runs() -> None:
    """Of 64 clients those run that fit; each of two replicas has half of them."""
    assert _tpot(64)["running"] == 64
    assert _tpot(64, max_running=10)["running"] == 10
    assert _tpot(64, dp=2)["running"] == 32


def test_cached_tokens_are_none_unless_given() -> None:
    """Prompts are computed as a whole; with 900 of 1000 tokens cached they add less."""
    plain = _tpot(16)
    assert _tpot(16, cached_len=0.0) == plain
    assert _tpot(16, cached_len=900.0)["prefill"] < plain["prefill"] / 2


def test_the_fullest_rank_has_more_prompts() -> None:
    """Where ranks are not in step a step waits for the one with more prompts than the mean: only with several ranks."""
    even = _tpot(64, dp=2)
    uneven = _tpot(64, dp=2, excess=lambda prompts: prompts / 2)
    assert uneven["prefill"] > even["prefill"]
    assert uneven["decode"] == even["decode"]
    assert _tpot(16, excess=lambda prompts: prompts / 2) == _tpot(16)
    assert np.isfinite(even["high"])


class MadeUp:
    """Steps that take the seconds of a formula with a term for each thing that a step has; none of them is linear."""

    def __init__(self, ranks: int, stages: int) -> None:
        self.request = SimpleNamespace(
            deployment=SimpleNamespace(data_parallel_size=ranks, pipeline_parallel_size=stages),
            memory=SimpleNamespace(max_batch=lambda tokens: 40_000 // tokens),
            engine_seconds=lambda sequences: 1e-4 + 1e-6 * sequences,
            engine_band=(0.9, 1.4),
        )

    def times(self, step: Step) -> StepTimes:
        """By the sequences and prompts of a step, each with its tokens and those before it."""
        loads = [s.count * ((0.9 if s.decode else 1.0) * s.new**1.1 + 1e-4 * s.new * s.cached) for s in step]
        total = 0.001 + 1e-5 * sum(loads) + 1e-8 * sum(loads) * loads[0]
        bound = total + 1e-5 * sum(loads) ** 0.8
        return StepTimes(bound, 0.5 * total + 4e-4 * loads[0] ** 0.5, 1.4 * total + 2e-3 * loads[-1] ** 0.4, 1e-7 * total**2)


def by_hand(loop: MadeUp, clients: float, prompt: float, output: float, options: dict[str, Any]) -> dict[str, float]:
    """The formula of the module's docstring, for one load and the mean of nine contexts."""
    request, per_step = loop.request, options.get("tokens_per_step", 1.0)
    ranks, stages = request.deployment.data_parallel_size, request.deployment.pipeline_parallel_size
    held = options.get("max_running") or request.memory.max_batch(int(prompt + output // 2))
    running = min(clients, max(held, ranks))
    microbatch = max(running / stages, min(running, ranks))
    each = max(running / ranks, 1.0)
    contexts = [math.floor(prompt + max(output - 2, 0) * i / 8) for i in range(9)]
    decoded = [sum(x) / 9 for x in zip(*(loop.times((Segment(microbatch, 1, c, decode=True),)) for c in contexts), strict=True)]
    share = (each - 1) / (1 + (output - 1) / per_step)
    share = float(prompts_of_round(np.array(share), stages, options.get("variance", 0.0)))
    cached = options.get("cached_len", 0.0)
    middle = Segment(microbatch, 1, contexts[4], decode=True)
    without, all_of_them, one = (
        loop.times((middle, *(Segment(count, prompt - cached, cached) for count in counts))) for counts in ((), (ranks,), (1,))
    )
    added = [share * (a - b) for a, b in zip(all_of_them, without, strict=True)]
    if "excess" in options and ranks > 1:
        # a = (R w_1 - w_R)/(R - 1), of the fullest rank
        more = float(options["excess"](share)) / (ranks - 1)
        added = [
            x + more * max(ranks * (w_1 - b) - (w_r - b), 0)
            for x, w_1, w_r, b in zip(added, one, all_of_them, without, strict=True)
        ]
    shared, kernels, alone, launches = (a + b for a, b in zip(decoded, added, strict=True))
    engine = request.engine_seconds(max(microbatch / ranks, 1.0)) - (alone - kernels)
    estimate = max(alone + engine, decoded[0])
    seconds = {
        "bound": decoded[0], "shared_bound": shared, "estimate": estimate, "low": max(0.9 * estimate, decoded[0]),
        "high": 1.4 * estimate, "launches": launches, "decode": decoded[2], "prefill": added[2], "engine": engine,
    }  # fmt: skip
    return {**{name: value / per_step for name, value in seconds.items()}, "running": each}


def test_every_part_by_hand() -> None:
    """Loads in one call: a client and hundreds, outputs of 1, 2 and more tokens, memory for some; ranks, stages and drafts."""
    clients, prompts, outputs = np.array([1.0, 64.0, 300.0]), np.array([100.0, 901.0]), np.array([1.0, 2.0, 99.0])
    for ranks, stages, options in (
        (1, 1, {}),
        (1, 1, {"tokens_per_step": 2.5, "cached_len": 60.0, "max_running": 40.0}),
        (4, 1, {"excess": lambda share: 0.4 * np.sqrt(share)}),
        (4, 1, {"excess": lambda share: 0.4 * np.sqrt(share), "max_running": 3.0}),
        (1, 1, {"excess": lambda share: 0.4 * np.sqrt(share)}),
        (1, 3, {"variance": 0.3}),
        (2, 3, {}),
    ):
        loop = MadeUp(ranks, stages)
        computed = ClosedLoop(loop).tpot(clients, prompts[:, None], outputs[:, None, None], **options)  # type: ignore[arg-type]
        for k, output in enumerate(outputs):
            for j, prompt in enumerate(prompts):
                for i, number in enumerate(clients):
                    expected = by_hand(loop, float(number), float(prompt), float(output), options)
                    assert {name: values[k, j, i] for name, values in computed.items()} == pytest.approx(expected, rel=1e-12)
