"""What preemptions cost, by hand and in random worlds: tokens and seconds of computing again, seconds of copies.

The server of `test_by_hand.py`: a step takes 1 s and a quarter of a second for each prompt token; ten blocks of four tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from simulated import AffineStepTime, LinearCosts, Served, serve, world

from roofline.errors import InputError
from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.metrics import Metrics
from roofline.serving.simulation.preemption import PreemptionPolicy
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.simulate import simulate
from roofline.serving.simulation.step_log import END, RECOMPUTED, RUN

A, B, C = 0, 1, 2


def served(name: str, answers: tuple[int, int, int] = (12, 12, 6), *, budget: int = 16, **more: Any) -> Served:
    """A and B come at 0 with prompts of 8 tokens, C at 1.5 s with 12."""
    requests = [Request(A, 0.0, 8, answers[A]), Request(B, 0.0, 8, answers[B]), Request(C, 1.5, 12, answers[C])]
    return serve(name, requests, AffineStepTime(1.0, token=0.25), EngineConfig(10, 4, 8, budget), **more)


def rows(found: Sequence[float], names: Sequence[str]) -> list[dict[str, float]]:
    """Of a log."""
    width = len(names)
    return [dict(zip(names, found[at : at + width], strict=True)) for at in range(0, len(found), width)]


def test_a_step_of_its_own_counts_whole() -> None:
    """V0: C goes at 13 s with 16 tokens cached, and computes them with its next one from 20 s to 25.25."""
    log = served("vllm-v0").log
    assert log.recomputed == [20.0, 25.25, 16, 5.25]
    metrics = Metrics()
    metrics.read(log)
    assert (metrics.recomputed_tokens, metrics.recompute_s, metrics.swapped_tokens, metrics.swap_s) == (16, 5.25, 0, 0)
    assert float(metrics.series.sums["recomputed_tokens"].sum()) == pytest.approx(16)
    assert float(metrics.series.sums["prompt_tokens"].sum()) == pytest.approx(8 + 8 + 12 + 17)


def test_beside_others_it_counts_what_the_step_takes_longer() -> None:
    """V1: C goes at 12 s with 15 tokens cached. A ends at 13.

    C comes back beside B, with 15 tokens in a step of 1 + 15/4 s, which would have taken 1. Its next token is another chunk,
    and was never computed.
    """
    assert served("vllm-v1", (6, 12, 6)).log.recomputed == [13.0, 17.75, 15, 3.75]
    assert served("vllm-v1", (6, 12, 6), budget=17).log.recomputed == [13.0, 18.0, 15, 4.0]  # in one: 1 + 16/4, for 1


def test_copies_count_out_and_in() -> None:
    """16 tokens at 1/16 s each: a second out, a second in."""
    metrics = Metrics()
    metrics.read(served("vllm-v0", preemption=PreemptionPolicy("swap", LinearCosts(recompute=1.0, move=1 / 16))).log)
    assert (metrics.recomputed_tokens, metrics.recompute_s, metrics.swapped_tokens, metrics.swap_s) == (0, 0, 16, 2.0)


def test_blocks_in_use_rise_within_a_run_of_steps() -> None:
    """One request, 4 tokens of prompt and 17 of answer: from 2 s on 16 steps of 1 s.

    A block is taken as the step begins that needs its first token: 2 blocks at 2 s, 3 at 6, 4 at 10, 5 at 14. In the series it
    is a ramp between them.
    """
    found = serve("vllm-v1", [Request(0, 0.0, 4, 17)], AffineStepTime(1.0, token=0.25), EngineConfig(10, 4, 8, 16))
    (_, run) = rows(found.log.runs, RUN)
    assert (run["begins"], run["ends"], run["steps"]) == (2.0, 18.0, 16)
    assert (run["blocks"], run["grown"]) == (3.5, 3)
    metrics = Metrics()
    metrics.read(found.log)
    blocks = metrics.series.sums["blocks"] / metrics.series.width
    at = [float(blocks[int(second / metrics.series.width)]) for second in (1.0, 2.01, 9.99, 10.01, 17.99)]
    assert at == pytest.approx([1.0, 2.0, 3.5, 3.5, 5.0], abs=0.02)
    assert float(metrics.series.sums["blocks"].sum()) == pytest.approx(2 * 1 + 16 * 3.5)


@pytest.mark.parametrize("seed", range(0, 400, 4))
def test_what_is_computed_twice_is_counted(seed: int) -> None:
    """All chunks are the prompts but what was cached, what was computed again, and the next token of requests that came back.

    One that comes back within its prompt may find more than it had, where others have computed the same. No step takes longer
    for them than it takes (these worlds count no pairs within a chunk: a later one may cost more than the whole; it is 0 then).
    Copies are those of all that went and came.
    """
    one = world(seed)
    found = one.run(False)
    chunks = sum(new for _, event in found.events if event[0] == "mixed" for _, new, _ in event[4])
    refused = {*found.refused, *found.shed}
    prompts = sum(prompt for request, (_, prompt, _, _) in enumerate(one.requests) if request not in refused)
    ended = sum(1 for _, event in found.events if event[0] == "token")
    again = rows(found.log.recomputed, RECOMPUTED)
    cached = sum(row["cached"] for row in rows(found.log.ends, END))
    whole = prompts - cached + sum(row["tokens"] for row in again) + ended - (len(one.requests) - len(refused))
    assert chunks <= whole if one.shares else chunks == whole
    assert all(0 <= row["seconds"] <= row["ends"] - row["begins"] for row in again)
    moved = found.log.swapped[1::2]
    costs = found.replicas[0].scheduler.preemption.costs
    waited = sum(row["lead"] for row in rows(found.log.runs, RUN))
    assert waited == pytest.approx(sum(sum(costs.swap_seconds(int(tokens))) for tokens in moved))


PRESSED = {
    "model": "llama-3.1-8b", "hardware": "a100-sxm-80gb", "workload": "at-once:40", "input_len": 500, "output_len": 300,
    "scheduler": "vllm-v0", "num_gpu_blocks_override": 1000,
}  # fmt: skip


def swapped(**given: Any) -> float:
    """Seconds of copies."""
    found = simulate(**{**PRESSED, "preemption": "swap", **given})
    assert found.preemption["swapped_tokens"] > 0
    return found.preemption["swap_s"]


@pytest.mark.slow
def test_words_of_copies_are_those_of_preempt() -> None:
    """Each says what it does: slower links and unpinned memory take longer, one call is quicker than one a block."""
    plain = swapped()
    assert swapped(host_link="5 GB/s") > swapped(host_link="20 GB/s") > swapped(host_link="200 GB/s")
    assert swapped(pinned=False) > plain
    assert swapped(coalesced=True) < plain
    shared = swapped(tp=2, gpus_per_link=2, num_gpu_blocks_override=1000)
    assert shared > swapped(tp=2, num_gpu_blocks_override=1000)
    full = simulate(**PRESSED, preemption="swap", host_memory="1 MB")  # no request fits: computed again
    assert full.preemption["swapped_tokens"] == 0
    assert full.preemption["recomputed_tokens"] > 0


def test_assumptions_say_what_copies_stand_on() -> None:
    """How they are made, a call, the link, the host's room; the file of typical values is among the inputs."""
    found = simulate(**PRESSED, preemption="swap", pinned=False, host_memory="64 GiB")
    notes = {note.name: note for note in found.assumptions}
    assert {"copies", "host_copy.call", "host_copy.rate", "host_memory", "blocks"} <= set(notes)
    assert (notes["host_memory"].value, notes["host_memory"].origin) == (64 * 2**30, "given")
    assert (notes["blocks"].value, notes["blocks"].origin) == (1000, "given")
    assert "host copies" in found.inputs


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"host_link": "10 GB/s"}, "--host-link is of copies to the host, and caches are recomputed: give --preemption swap"),
        ({"pinned": False, "preemption": "recompute"}, "--pageable is of copies"),
        ({"coalesced": True}, "--coalesced is of copies"),
        ({"preemption": "swap", "host_link": "fast"}, "--host-link"),
        ({"preemption": "swap", "host_memory": "-1 GB"}, "--host-memory"),
        ({"preemption": "swap", "gpus_per_link": 0}, "gpus-per-link"),
    ],
)
def test_wrong_words_of_copies(given: dict[str, Any], message: str) -> None:
    """By flag, and what is allowed."""
    with pytest.raises(InputError, match=message):
        simulate(**{**PRESSED, **given})
