"""Measured points of disaggregated prefill and decode, and pools of replicas that predict them.

`tests/golden/test_disaggregated.py` judges by it, `docs/build_disaggregated.py` writes its table into docs/accuracy.md. The
points are those of AIConfigurator. A row has TTFT, TPOT and the parallelism of a replica, but, but for seven rows, neither the
number of replicas of each pool nor the clients, nor whether drafts were verified (MTP) or attention was data-parallel. Those
of DeepSeek-R1 with TensorRT-LLM are runs of InferenceMAX, whose recipes are public (`RECIPES`) and as many as the rows are,
repeated runs aside. A row does not say which recipe it ran: both are put in the order of TPOT, and compared by rank.

A pool is as in `roofline plan --mode disaggregated`: prompts in a pool of their own, decode steps without any prompt. Clients
send a request when the one before is complete, so that Little's law gives what a row lacks: the rate C/(TTFT + (n - 1) TPOT).
The rate X is the least of what the prefill pool computes, what the slots of the decode pool complete, and what clients ask for;
TTFT is what is left of C/X, mostly the wait for a slot.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from roofline.predict.compiled import Compiled, compile
from roofline.specs.workload import Segment

OUTPUT = 1024
BUDGET = 8192
"""Prompt tokens of a step of a prefill rank: the default of TensorRT-LLM's `max_num_tokens`."""
ACCEPTANCE = 0.6
"""Of a drafted token. The rows alone give it: 5.5 ms with drafts beside 10.3 without (H200), 7.7 beside 14.0 (H100, one
sequence to a replica in both): 1.85 times as fast, in rounds that take about 1.2 times a step."""
NODES = {"h100_sxm": ("dgx-h100", 16), "h200_sxm": ("dgx-h200", 8)}
"""Node, and devices of a replica, of either pool."""


@dataclass(frozen=True, order=True)
class Recipe:
    """A run: clients, replicas of each pool, whether their attention is data-parallel, slots of a rank, drafted tokens."""

    system: str
    prompt: int
    clients: int
    prefill: int
    prefill_dp: bool
    decode: int
    decode_dp: bool
    batch: int
    drafts: int

    @property
    def devices(self) -> int:
        """Of both pools."""
        return (self.prefill + self.decode) * NODES[self.system][1]

    @property
    def slots(self) -> int:
        """Sequences that decode at a time, in all replicas."""
        return self.decode * self.batch * (NODES[self.system][1] if self.decode_dp else 1)


def _recipes(system: str, prompt: int, rows: str) -> list[Recipe]:
    """Rows: clients; replicas that prefill, tensor- or data-parallel ("t", "d"); that decode; slots of a rank; drafts."""
    table = [row.split() for row in rows.split(",")]
    return [
        Recipe(system, prompt, int(c), int(p[:-1]), p[-1] == "d", int(d[:-1]), d[-1] == "d", int(batch), int(drafts))
        for c, p, d, batch, drafts in table
    ]


RECIPES = [
    *_recipes("h200_sxm", 1024, (
        "11 1d 11t 1 3, 44 1t 11t 128 3, 88 1t 11t 128 3, 144 1t 9t 128 3, 352 1t 11t 128 3, 512 1d 8d 128 3, 896 1d 7d 128 3,"
        "1024 1d 4d 128 3, 1024 1d 2d 256 1, 9 1d 9t 1 0, 36 1t 9t 256 0, 72 1t 9t 256 0, 144 1t 9t 256 0, 288 1t 9t 256 0,"
        "576 1t 9t 256 0, 1152 1d 9d 512 0, 1536 1d 6d 512 0, 3584 2d 7d 512 0"
    )),
    *_recipes("h200_sxm", 8192, (
        "7 1t 7t 1 3, 28 1t 7t 32 3, 48 1t 6t 32 3, 48 1t 3t 32 2, 160 3t 5t 32 3, 64 1d 1d 32 2, 128 2d 1d 32 2,"
        "256 3d 1d 32 2, 512 3d 1d 64 1, 7 1t 7t 1 0, 28 1t 7t 32 0, 48 1t 6t 16 0, 48 1t 3t 32 0, 160 2t 5t 128 0,"
        "192 2d 3d 128 0, 128 1d 1d 256 0, 768 5d 3d 256 0, 512 3d 1d 512 0"
    )),
    *_recipes("h100_sxm", 1024, (
        "6 1d 3t 1 3, 9 1d 3t 2 3, 30 1d 3t 8 3, 60 1d 3t 16 3, 117 1d 3t 32 3, 231 1d 3d 4 3, 462 1d 3t 128 3, 615 1d 1d 32 2,"
        "1229 1d 1d 64 1, 6 1d 3t 1 0, 9 1d 3t 2 0, 30 1d 3t 8 0, 60 1d 3t 16 0, 231 1d 3d 4 0, 462 1d 3d 8 0, 924 1d 3d 16 0,"
        "1845 1d 3d 32 0, 4916 2d 1d 256 0"
    )),
    *_recipes("h100_sxm", 8192, (
        "6 1d 3t 1 3, 9 1d 3t 2 3, 30 1d 3t 8 3, 77 1d 1d 4 3, 78 1d 2t 32 3, 154 2d 1d 8 3, 6 1d 3t 1 0, 9 1d 3t 2 0,"
        "30 1d 3t 8 0, 154 1d 2t 64 0, 308 2d 1d 16 0"
    )),
]  # fmt: skip
"""Of InferenceMAX, .github/configs/nvidia-master.yaml (SemiAnalysisAI/InferenceX, commit 0004cf5), dsr1-fp8-h200-dynamo-trt and
dsr1-fp8-h100-dynamo-trt; slots and drafts from the names of the files that it refers to. Clients are `concurrencies` in those
files, which the runner reports (ishandhanani/srt-slurm, recipes/trtllm/h200, commit 4893f83): on H200 the list of clients, and
the c of a file's name, are of one replica that decodes (c4 with nine of them: 36)."""


@dataclass(frozen=True, order=True)
class Point:
    """A measured row; times in seconds."""

    tpot: float
    ttft: float


@dataclass(frozen=True)
class Prediction:
    """Of a recipe: seconds, and output tokens/s per device of both pools."""

    tpot: float
    ttft: float
    rate_per_device: float


def points(path: Path) -> dict[tuple[str, int], list[Point]]:
    """Distinct rows of DeepSeek-R1 with TensorRT-LLM by system and prompt, by TPOT."""
    groups: dict[tuple[str, int], set[Point]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["backend"] == "trtllm" and row["model_path"].endswith("DeepSeek-R1"):
                point = Point(float(row["silicon_tpot_ms"]) * 1e-3, float(row["silicon_ttft_ms"]) * 1e-3)
                groups.setdefault((row["system"], int(row["isl"])), set()).add(point)
    return {key: sorted(group) for key, group in groups.items()}


@cache
def replica(system: str, data_parallel: bool) -> Compiled:
    """A replica of either pool. The shipped DeepSeek-V3 has R1's shape and its weights in blocks with scales."""
    node, devices = NODES[system]
    layout = {"dp": devices} if data_parallel else {"tp": devices}
    return compile("deepseek-v3", node, ep=devices, quantization="fp8_block", kv_cache_dtype="fp8", backend="trtllm", **layout)


def _seconds(steps: Compiled, step: Segment, sequences: np.ndarray) -> np.ndarray:
    return np.asarray(steps.times((step,)).kernels + steps.request.engine_seconds(sequences))


@cache
def _decoding(system: str, data_parallel: bool, prompt: int, drafts: int) -> tuple[np.ndarray, np.ndarray]:
    """TPOT by sequences on a replica, in mid-output; with drafts a round of a layer for each and a step that verifies them."""
    steps = replica(system, data_parallel)
    ranks = steps.request.deployment.data_parallel_size
    batch = np.unique(np.geomspace(1, 512 * ranks, 28).round())
    took = _seconds(steps, Segment(batch, 1 + drafts, prompt + OUTPUT / 2, decode=True), np.maximum(batch / ranks, 1))
    accepted = sum(ACCEPTANCE**place for place in range(drafts + 1))
    return batch, took * (1 + drafts / steps.request.model.num_hidden_layers) / accepted


def predicted(recipe: Recipe) -> Prediction:
    """Both pools of a recipe in the steady state of its clients."""
    prefill = replica(recipe.system, recipe.prefill_dp)
    ranks = prefill.request.deployment.data_parallel_size
    prompts = ranks * max(BUDGET // recipe.prompt, 1)
    alone = float(_seconds(prefill, Segment(1, recipe.prompt, 0), np.ones(1))[0])
    served = recipe.prefill * prompts / float(_seconds(prefill, Segment(prompts, recipe.prompt, 0), np.ones(1))[0])
    batch, times = _decoding(recipe.system, recipe.decode_dp, recipe.prompt, recipe.drafts)
    running, rate = float(min(recipe.clients, recipe.slots)), 0.0
    tpot = 0.0
    for _ in range(40):
        tpot = float(np.interp(running / recipe.decode, batch, times))
        decoding = (OUTPUT - 1) * tpot
        rate = min(served, recipe.slots / decoding, recipe.clients / (alone + decoding))
        running = (running + rate * decoding) / 2
    return Prediction(tpot, recipe.clients / rate - (OUTPUT - 1) * tpot, rate * OUTPUT / recipe.devices)


@dataclass(frozen=True)
class Compared:
    """A row with the recipe of its rank."""

    recipe: Recipe
    measured: Point
    prediction: Prediction

    @property
    def rate_per_device(self) -> float:
        """Measured: Little's law over the clients of the recipe."""
        point, recipe = self.measured, self.recipe
        return recipe.clients * OUTPUT / (point.ttft + (OUTPUT - 1) * point.tpot) / recipe.devices


def compared(rows: Iterable[Point], recipes: Iterable[Recipe]) -> list[Compared]:
    """Rows and recipes of a system and prompt by rank of TPOT, where rows are more in proportion."""
    ordered = sorted(((predicted(recipe), recipe) for recipe in recipes), key=lambda each: each[0].tpot)
    some = sorted(rows)
    places = [int((place + 0.5) / len(some) * len(ordered)) for place in range(len(some))]
    return [Compared(ordered[place][1], point, ordered[place][0]) for point, place in zip(some, places, strict=True)]


def compare(path: Path) -> dict[tuple[str, int], list[Compared]]:
    """All groups of a file that have recipes."""
    return {
        key: compared(rows, [recipe for recipe in RECIPES if (recipe.system, recipe.prompt) == key])
        for key, rows in sorted(points(path).items())
    }
