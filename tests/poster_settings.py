"""A poster's experiment, simulated: Yarn-Llama-2-7B-64k on one A100 of 40 GB under vLLM's V0 scheduler, requests all at once.

`tests/golden/test_preemption_simulated.py` judges by it, `docs/build_preemption.py` draws and tabulates it for
docs/preemption.md. The poster's numbers are lost: lengths of blocks, steps of memory and tokens a step are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from simulated import Event, serve

import roofline
from roofline.predict.request import prepare
from roofline.serving.simulation.preemption import preemption_policy
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.result import Simulation
from roofline.serving.simulation.schedulers import SCHEDULERS
from roofline.serving.simulation.server import engine_config, max_model_len
from roofline.serving.simulation.step_log import RUN
from roofline.serving.simulation.step_tables import StepTables, shared_tables

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

MODEL, HARDWARE, SCHEDULER = "yarn-llama-2-7b-64k", "a100-sxm-40gb", "vllm-v0"
MODES = ("recompute", "swap")
GPU_TOKENS = 40 * 2**30 / (2 * 32 * 4096 * 2)
"""Tokens whose keys and values would fill the 40 GiB: 32 layers, twice 4096 elements of 2 bytes."""
SHARES = (10, 20, 30, 40, 50, 60)
"""Per cent of the device's memory that are left to the cache; the weights take 31.4."""
BLOCK, BLOCKS = 16, (8, 16, 32, 64, 128)
REQUESTS, PROMPT, ANSWER = 32, 1500, 1024
NARROW = 12
"""Per cent in the poster's series over time."""
PAIRS = (512, 1024, 2048, 4096, 8192, 16384, 24000)
"""Tokens of two prompts that hardly fit together: 24,000 take 59 % of the memory."""
LENGTHS, BATCH = (4096, 8192, 16384, 32768), 16
"""Tokens of a sequence, half of them prompt: sixteen of 4096 are the first that do not fit into 60 %."""


@cache
def simulate(
    mode: str, *, blocks: int | None, size: int = BLOCK, requests: int = REQUESTS, prompt: int = PROMPT, answer: int = ANSWER,
    **options: Any,
) -> Simulation:  # fmt: skip
    """A run; `blocks` None: with memory without end. Times of steps do not hang on blocks: they are tabulated once."""
    room = {"memory": "8 TiB"} if blocks is None else {"num_gpu_blocks_override": blocks}
    with shared_tables(f"poster {size} {sorted(options.items())} {blocks is None}"):
        return roofline.simulate(
            MODEL, HARDWARE, workload=f"at-once:{requests}", input_len=prompt, output_len=answer, scheduler=SCHEDULER,
            preemption=mode, block_size=size, **room, **options,
        )  # fmt: skip


def blocks_of(share: float, size: int = BLOCK) -> int:
    """Blocks in so many per cent of the device's memory."""
    return int(GPU_TOKENS * share / 100) // size


def overhead(found: Simulation) -> float:
    """Seconds of a run that went into preemptions: steps that took longer to compute dropped tokens again, waits for copies."""
    return found.preemption["recompute_s"] + found.preemption["swap_s"]


def evicted(found: Simulation) -> float:
    """Tokens that were computed again, or moved out."""
    return found.preemption["recomputed_tokens"] + found.preemption["swapped_tokens"]


def by_memory(mode: str, share: float, **options: Any) -> Simulation:
    """The 32 requests with so much memory for the cache."""
    return simulate(mode, blocks=blocks_of(share, options.get("size", BLOCK)), **options)


def pair(mode: str, tokens: int, **options: Any) -> Simulation:
    """Two prompts of so many tokens that fit, and overflow when their answers have begun: one of them is evicted, once.

    There is room for so many more tokens of each that 1 % of the blocks is free when the second is let in; in whole blocks of
    any length, so that the same number of tokens is evicted with all of them.
    """
    size = options.get("size", BLOCK)
    spare = BLOCKS[-1] * -(-tokens // (90 * BLOCKS[-1]))
    return simulate(mode, blocks=2 * (tokens + spare) // size, requests=2, prompt=tokens, answer=2 * spare, **options)


def batch(mode: str, length: int, **options: Any) -> Simulation:
    """Sixteen sequences of some length in 60 % of the memory."""
    return simulate(mode, blocks=blocks_of(60), requests=BATCH, prompt=length // 2, answer=length // 2, **options)


@dataclass(frozen=True)
class Watched:
    """Step by step: columns of `RUN`, and what happened to requests, (what, time, request)."""

    steps: dict[str, Array]
    events: list[Event]
    blocks: int

    def times(self, *what: str) -> list[float]:
        """When something happened, each time once."""
        return sorted({event[1] for event in self.events if event[0] in what})

    @property
    def evictions(self) -> list[float]:
        """When somebody had to go."""
        return self.times("preempt", "swap")

    @property
    def returns(self) -> list[float]:
        """When somebody who had to go came back: with the cache from the host, or to compute it again."""
        gone: set[int] = set()
        found = set()
        for what, at, index in self.events:
            if what in ("preempt", "swap"):
                gone.add(index)
            elif what in ("admit", "resume") and index in gone:
                gone.remove(index)
                found.add(at)
        return sorted(found)

    def used(self, at: float) -> tuple[float, float]:
        """Share of the blocks that are taken in the step that ends at a time, and in the next."""
        ended = int(np.searchsorted(self.steps["ends"], at))
        return tuple(float(self.steps["blocks"][step]) / self.blocks for step in (ended, ended + 1))  # type: ignore[return-value]


@cache
def watched(mode: str, share: float = NARROW) -> Watched:
    """The 32 requests, every step on its own."""
    blocks = blocks_of(share)
    request = prepare(MODEL, HARDWARE, block_size=BLOCK)
    held = engine_config(request, SCHEDULERS[SCHEDULER], [], blocks)
    tables = StepTables(request, "estimate", max_model_len(request), held.max_num_seqs)
    requests = [Request(index, 0.0, PROMPT, ANSWER) for index in range(REQUESTS)]
    way = preemption_policy(request, mode, [])
    found = serve(SCHEDULER, requests, tables, held, stepwise=True, preemption=way)
    rows = np.array(found.log.runs).reshape(-1, len(RUN))
    return Watched(dict(zip(RUN, rows.T, strict=True)), found.of("admit", "preempt", "swap", "resume", "end"), blocks)
