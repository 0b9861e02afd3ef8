"""Measured points of disaggregated prefill and decode, and pools of replicas that predict them.

`tests/golden/test_disaggregated.py` judges by it, `docs/build_disaggregated.py` writes its table into docs/accuracy.md. The
points are those of AIConfigurator. A row has TTFT, TPOT and the parallelism of a replica, but, but for seven rows, neither the
number of replicas of each pool nor the clients, nor whether drafts were verified (MTP) or attention was data-parallel. Those
of DeepSeek-R1 with TensorRT-LLM are runs of InferenceMAX, whose recipes are public (`RECIPES`) and as many as the rows are,
repeated runs aside (`runs`; one of the 65 was not run). A row does not say which recipe it ran: both are put in the order of
TPOT, and compared by rank.

A pool is as in `roofline plan --mode disaggregated`: prompts in a pool of their own, decode steps without any prompt. Clients
start together, and send a request when the one before is complete (`predicted`), so that Little's law gives what a row lacks:
the rate C/(TTFT + (n - 1) TPOT).
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heappop, heappush
from itertools import combinations
from pathlib import Path

import numpy as np
from shared_results import shared

from roofline.predict.compiled import Compiled, compile
from roofline.specs.workload import Segment

OUTPUT = 1024
MEAN = 0.9
"""Of the stated lengths: the benchmark draws prompts and outputs from 0.8 to 1 of them."""
ROUNDS = 10
"""Requests of each client, as in the benchmark."""
ACCEPTANCE = 0.6
"""Of a drafted token. The rows alone give it: 5.5 ms with drafts beside 10.3 without (H200), 7.7 beside 14.0 (H100, one
sequence to a replica in both): 1.85 times as fast, in rounds that take about 1.2 times a step."""
NODES = {"h100_sxm": ("dgx-h100", 16), "h200_sxm": ("dgx-h200", 8)}
"""Node, and devices of a replica, of either pool."""
PREFILL = {
    ("h100_sxm", 1024): (True, 2),
    ("h100_sxm", 8192): (True, 1),
    ("h200_sxm", 1024): (True, 8),
    ("h200_sxm", 8192): (False, 2),
}
"""Of the recipes of a system and prompt: whether attention is data-parallel where prompts are computed, and the prompts of a
rank in a step (`enable_attention_dp`, `max_batch_size`)."""
PROMPTS_PER_S = 2.94
"""Of 8,192 tokens, two to a step, by a replica of 8 H200 with tensor parallelism: measured alone, without outputs, by those who
made the recipes (ishandhanani/srt-slurm, recipes/trtllm/h200/rate_matching/ctx_only_8k1k.yaml, commit 068a065). Steps of
prompts are as much longer than estimated as this one is."""
HANDOVER = 0.8
"""Seconds from a free slot to the first token at the client: request and cache go to another server, and the token comes back.
The rows alone give it: TTFT of up to 100 clients fits best with 0.8 on H100, with 0.9 on H200."""
RECEIVE = 0.07
"""Seconds that a replica stands still while caches arrive, of all that arrive in a step, where recipes forbid it to decode
meanwhile (TRTLLM_DISABLE_KV_CACHE_TRANSFER_OVERLAP, of data-parallel decode on H100). The rows alone give it: TPOT fits best
with 0.07 to 0.08 for prompts of 1k, with 0.05 to 0.08 for 8k."""


@dataclass(frozen=True, order=True)
class Recipe:
    """A run: clients, replicas of each pool, whether attention is data-parallel in decode, slots of a rank, drafted tokens."""

    system: str
    prompt: int
    clients: int
    prefill: int
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
        Recipe(system, prompt, int(c), int(p[:-1]), int(d[:-1]), d[-1] == "d", int(batch), int(drafts))
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
                point = Point(round(float(row["silicon_tpot_ms"]) * 1e-3, 6), round(float(row["silicon_ttft_ms"]) * 1e-3, 6))
                groups.setdefault((row["system"], int(row["isl"])), set()).add(point)
    return {key: sorted(group) for key, group in groups.items()}


@cache
def replica(system: str, data_parallel: bool) -> Compiled:
    """A replica of either pool. The shipped DeepSeek-V3 has R1's shape and its weights in blocks with scales.

    Over two nodes the recipes take DeepEP's normal kernels in decode too (TRTLLM_FORCE_ALLTOALL_METHOD).
    """
    node, devices = NODES[system]
    layout = {"dp": devices} if data_parallel else {"tp": devices}
    formats = {"quantization": "fp8_block", "kv_cache_dtype": "fp8"}
    return compile("deepseek-v3", node, ep=devices, backend="trtllm", deepep_mode="normal", **formats, **layout)


def _seconds(steps: Compiled, step: Segment, sequences: np.ndarray) -> np.ndarray:
    return np.asarray(steps.times((step,)).kernels + steps.request.engine_seconds(sequences))


@cache
def _prompts(system: str, prompt: int) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of a step of prompts, by their number in a replica, up to the most of a step."""
    data_parallel, each = PREFILL[system, prompt]
    steps = replica(system, data_parallel)
    ranks = steps.request.deployment.data_parallel_size
    prompts = np.unique(np.geomspace(1, ranks * each, 8).round())
    took = _seconds(steps, Segment(prompts, MEAN * prompt, 0), np.maximum(prompts / ranks, 1))
    alone = _seconds(replica("h200_sxm", data_parallel=False), Segment(np.array([2.0]), 8192, 0), np.array([2.0]))
    return prompts, took * (2 / PROMPTS_PER_S) / alone


@cache
def _decoding(system: str, data_parallel: bool, prompt: int, drafts: int) -> tuple[np.ndarray, np.ndarray]:
    """TPOT by sequences on a replica, in mid-output; with drafts a round of a layer for each and a step that verifies them."""
    steps = replica(system, data_parallel)
    ranks = steps.request.deployment.data_parallel_size
    batch = np.unique(np.geomspace(1, 512 * ranks, 28).round())
    took = _seconds(steps, Segment(batch, 1 + drafts, MEAN * (prompt + OUTPUT / 2), decode=True), np.maximum(batch / ranks, 1))
    accepted = sum(ACCEPTANCE**place for place in range(drafts + 1))
    return batch, took * (1 + drafts / steps.request.model.num_hidden_layers) / accepted


def predicted(recipe: Recipe) -> Prediction:
    """Both pools of a recipe with its clients, who start together and send a request when the one before is complete.

    A prefill replica takes what waits, up to the limit of a step, in the order of arrival: where prompts arrive faster, they
    wait, and fewer sequences decode. Prompts go to the decode replicas in turn (Dynamo's default router) and wait there
    for a slot; all sequences of a replica advance together, a token in the time of a step of that many, and none while caches
    arrive that it waits for. Means are over ten requests of each client.
    """
    return _Run(recipe).predict()


class _Run:
    """A simulated run: events of prefill steps that end and of outputs that are complete, in the order of time."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.prompts, self.taken = _prompts(recipe.system, recipe.prompt)
        self.most = int(self.prompts[-1])
        self.slots = recipe.slots // recipe.decode
        batch, times = _decoding(recipe.system, recipe.decode_dp, recipe.prompt, recipe.drafts)
        self.tpot = np.interp(np.arange(self.slots + 1), batch, times).tolist()
        self.lengths = np.random.default_rng(1).uniform(2 * MEAN - 1, 1, ROUNDS * recipe.clients) * OUTPUT
        self.sent, self.events = recipe.clients, list[tuple[float, int, int, list[float]]]()
        self.waiting, self.free, self.dealt = deque([0.0] * recipe.clients), recipe.prefill, 0
        self.ready: list[deque[float]] = [deque() for _ in range(recipe.decode)]
        self.running: list[list[tuple[float, float, float]]] = [[] for _ in range(recipe.decode)]
        """Of each replica that decodes: (tokens of the replica at which an output is complete, start, length)."""
        self.tokens, self.at = [0.0] * recipe.decode, [0.0] * recipe.decode
        self.receive = RECEIVE if recipe.decode_dp and recipe.system == "h100_sxm" else 0.0
        self.received = [0.0] * recipe.decode
        """Of each replica that decodes: the end of the step at whose begin caches arrive last."""
        self.changes = [0] * recipe.decode
        self.waits, self.paces = list[float](), list[float]()

    def predict(self) -> Prediction:
        """Run to the end."""
        self._prefill(0.0)
        while self.events:
            now, where, change, prompts = heappop(self.events)
            if where < 0:
                self.free += 1
                for arrival in prompts:
                    self.ready[self.dealt % len(self.ready)].append(arrival)
                    self.dealt += 1
                    self._admit((self.dealt - 1) % len(self.ready), now)
            elif change == self.changes[where]:
                self._complete(where, now)
                self._admit(where, now)
            self._prefill(now)
        recipe, tpot, ttft = self.recipe, float(np.mean(self.paces)), float(np.mean(self.waits))
        return Prediction(tpot, ttft, rate_per_device(recipe, tpot, ttft))

    def _prefill(self, now: float) -> None:
        while self.free and self.waiting:
            self.free -= 1
            prompts = [self.waiting.popleft() for _ in range(min(len(self.waiting), self.most))]
            took = float(np.interp(len(prompts), self.prompts, self.taken))
            heappush(self.events, (now + took, -1, len(self.waits) + len(self.events), prompts))

    def _admit(self, where: int, now: float) -> None:
        self._advance(where, now)
        while self.ready[where] and len(self.running[where]) < self.slots:
            length = float(self.lengths[len(self.waits)])
            first = now + HANDOVER
            self.waits.append(first - self.ready[where].popleft())
            step = self.tpot[len(self.running[where]) + 1]
            heappush(self.running[where], (self.tokens[where] + HANDOVER / step + length - 1, first, length))
            # a cache that arrives during a step is received before the next, with all others that did
            if self.receive and self.received[where] - now <= self.receive + step:
                self.at[where] = max(self.at[where], now) + self.receive
                self.received[where] = max(self.received[where], now) + self.receive + step
        self._next(where, now)

    def _complete(self, where: int, now: float) -> None:
        self._advance(where, now)
        _, start, length = heappop(self.running[where])
        self.paces.append((now - start) / (length - 1))
        if self.sent < len(self.lengths):
            self.sent += 1
            self.waiting.append(now)

    def _advance(self, where: int, now: float) -> None:
        if self.running[where]:
            self.tokens[where] += max(now - self.at[where], 0) / self.tpot[len(self.running[where])]
        self.at[where] = max(now, self.at[where])

    def _next(self, where: int, now: float) -> None:
        self.changes[where] += 1
        if self.running[where]:
            left = max(self.running[where][0][0] - self.tokens[where], 0.0)
            at = max(now, self.at[where]) + left * self.tpot[len(self.running[where])]
            heappush(self.events, (at, where, self.changes[where], []))


def rate_per_device(recipe: Recipe, tpot: float, ttft: float) -> float:
    """Output tokens/s of a device of both pools, by Little's law over the clients."""
    return recipe.clients * MEAN * OUTPUT / (ttft + (MEAN * OUTPUT - 1) * tpot) / recipe.devices


@dataclass(frozen=True)
class Compared:
    """A row with the recipe of its rank."""

    recipe: Recipe
    measured: Point
    prediction: Prediction

    @property
    def rate_per_device(self) -> float:
        """Measured: Little's law over the clients of the recipe."""
        return rate_per_device(self.recipe, self.measured.tpot, self.measured.ttft)


def runs(rows: Iterable[Point], number: int) -> list[list[Point]]:
    """At most `number` groups of rows, of repeated runs of one recipe, by TPOT.

    Those that are closest are repetitions: where a recipe was run again TPOT is within 3 %, TTFT within 30 %.
    """
    groups = [[row] for row in sorted(rows)]
    while len(groups) > number:
        centres = np.array([np.log([[row.tpot, row.ttft] for row in group]).mean(axis=0) for group in groups]) / (0.03, 0.3)
        apart = np.linalg.norm(centres[:, None] - centres, axis=-1) + np.diag(np.full(len(groups), np.inf))
        one, other = sorted(np.unravel_index(apart.argmin(), apart.shape))
        groups[one] += groups.pop(other)
    return sorted(groups, key=lambda group: np.mean([row.tpot for row in group]))


def compared(rows: Iterable[Point], recipes: Sequence[Recipe]) -> list[Compared]:
    """Rows and recipes of a system and prompt by rank of TPOT; where recipes are more, without those that fit least."""
    ordered = sorted(((predicted(recipe), recipe) for recipe in recipes), key=lambda each: each[0].tpot)
    groups = runs(rows, len(ordered))

    def apart(some: Sequence[tuple[Prediction, Recipe]]) -> float:
        pairs = [(one, group[0]) for (one, _), group in zip(some, groups, strict=True)]
        return sum(abs(np.log(one.tpot / row.tpot)) + abs(np.log(one.ttft / row.ttft)) for one, row in pairs)

    ran = min(combinations(ordered, len(groups)), key=apart)
    return [Compared(recipe, row, one) for (one, recipe), group in zip(ran, groups, strict=True) for row in group]


def compare(path: Path) -> dict[tuple[str, int], list[Compared]]:
    """All groups of a file that have recipes; computed once in a run of tests."""
    return shared(
        f"pools-{path.stem}",
        lambda: {
            key: compared(rows, [recipe for recipe in RECIPES if (recipe.system, recipe.prompt) == key])
            for key, rows in sorted(points(path).items())
        },
    )
