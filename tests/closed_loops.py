"""Measured serving points of closed loops, and which load generator they were measured with: what nobody recorded.

`tests/golden/test_closed_loop_ttft.py` judges by it, `docs/build_closed_loop.py` writes its tables into docs/closed-loop.md.
The points are those of AIConfigurator (see `roofline/measure/validate/serving.py` for their columns). A load generator is
chosen for each source (engine) on one half of its points, the same half that what engines add to a step was fitted to
(`roofline/measure/calibrate.py`), and judged by the other.
"""

from __future__ import annotations

import csv
import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from roofline.measure.validate.serving import model_id
from roofline.serving.simulation.run import run
from roofline.serving.simulation.server import ServerConfig, resolve_replica, resolve_server
from roofline.serving.simulation.workload import read_workload

SCHEDULERS = {"vllm": "vllm-v1", "trtllm": "orca", "sglang": "vllm-v0"}
"""By what engines document, not by the error. vLLM: V1, chunks within 8,192 tokens. TensorRT-LLM: in-flight batching with
GUARANTEED_NO_EVICT (blocks of the whole answer reserved) and chunked context off, so whole prompts beside decodes. SGLang:
prompts first, in steps of their own (mixed chunks are off), 8,192 tokens at a time."""
BUDGET = 8192
"""New tokens a step: the default of vLLM's server on an H100, of TensorRT-LLM's `max_num_tokens`, of SGLang's
`chunked_prefill_size` on 80 GB and more."""
LEFT_OUT = ("vllm", "llama-3.1-8b", "h200_sxm")
"""Beats its own prefill: no closed loop of so many clients (docs/accuracy.md). Reported apart."""
SAME_TPOT = 0.1
"""How far TPOT may be off, in the median, under a load generator that is chosen."""
_SEATS, _LONGEST = 512, 20_000


@dataclass(frozen=True, order=True)
class Point:
    """A measured point; times in seconds."""

    engine: str
    model: str
    system: str
    devices: int
    quantization: str
    clients: int
    prompt: int
    answer: int
    ttft: float
    tpot: float

    @property
    def deployment(self) -> tuple[str, str, str, int, str]:
        """What a server is made of."""
        return self.engine, self.model, self.system, self.devices, self.quantization

    @property
    def suspect(self) -> bool:
        """Whether it is left out."""
        return (self.engine, self.model, self.system) == LEFT_OUT

    @property
    def judges(self) -> bool:
        """Whether it is of the half that judges. A configuration is in the same half as for `roofline calibrate`."""
        request = server(self.deployment).request
        dtype = request.precision.dtypes("linear").weight.name
        sizes = map(float, (self.devices, self.clients, self.prompt, self.answer))
        key = "/".join(map(str, (request.model.name, request.hardware.name, dtype, *sizes)))
        return bool(zlib.crc32(key.encode()) % 2)


@dataclass(frozen=True, order=True)
class Generator:
    """A load generator, and whether the server has a seat less than there are clients."""

    prompts: int
    spread: str = "1-1"
    ramp: int = 0
    warm_up: int = 0
    short: int = 0
    """Seats fewer than clients."""

    def workload(self, clients: int) -> str:
        """As `--workload` has it."""
        parts = [f"closed:{clients}", f"prompts={self.prompts}"]
        parts += [f"spread={self.spread}"] if self.spread != "1-1" else []
        parts += [f"ramp={self.ramp} s"] if self.ramp else []
        parts += [f"warm-up={self.warm_up}"] if self.warm_up else []
        return ":".join(parts)


GRID = tuple(
    Generator(*one)
    for one in product((1, 2, 3, 5, 10), ("1-1", "0.8-1", "0.5-1", "0-1"), (0, 10), (0, 1), (0, 1))
    if one[0] > one[3]
)
DOCUMENTED = {"vllm": Generator(10, "0.8-1"), "trtllm": Generator(10), "sglang": Generator(10)}
"""What scripts of the sources say. vLLM's points on the 70B have the lengths and clients of InferenceMAX, whose script sends
ten prompts per client, drawn from 0.8 to 1 of the length, after a warm-up apart (SemiAnalysis, InferenceMAX,
benchmarks/benchmark_lib.sh); the others may be AIConfigurator's own runs: ten prompts per client, all of one length, after a
warm-up apart (ai-dynamo/aiconfigurator, src/aiconfigurator/eval/benchmarks)."""
CHOSEN = {"vllm": Generator(10, "0.8-1"), "trtllm": Generator(10, short=1), "sglang": Generator(3, "0.8-1")}
"""What `choose` finds among all of `GRID`."""


def points(path: Path) -> list[Point]:
    """All of a file, in order."""
    with path.open(encoding="utf-8", newline="") as file:
        return sorted(
            Point(
                row["backend"], model_id(row["model_path"]), row["system"], int(float(row["tp_size"])),
                "none" if row["gemm_quant_mode"] in ("", "bf16", "float16") else row["gemm_quant_mode"],
                int(float(row["batch_size"])), int(row["isl"]), int(row["osl"]), float(row["silicon_ttft_ms"]) * 1e-3,
                float(row["silicon_tpot_ms"]) * 1e-3,
            )
            for row in csv.DictReader(file)
        )  # fmt: skip


@cache
def server(deployment: tuple[str, str, str, int, str]) -> ServerConfig:
    """A server with more seats than any point has clients; its step times are tabulated once."""
    engine, model, system, devices, quantization = deployment
    request = resolve_replica(
        model, system, {
            "tp": devices, "backend": engine, "quantization": quantization, "max_num_seqs": _SEATS,
            "max_num_batched_tokens": BUDGET, "max_model_len": _LONGEST,
        },
    )  # fmt: skip
    return resolve_server(
        request, scheduler=SCHEDULERS[engine], preemption=None, basis="estimate", replicas=None, balancer=None, stepwise=False,
        notes=[],
    )  # fmt: skip


def simulated(point: Point, generator: Generator) -> tuple[float, float]:
    """Mean TTFT and TPOT, seconds."""
    here = server(point.deployment)
    config = replace(here.config, max_num_seqs=max(point.clients - generator.short, 1))
    load = generator.workload(point.clients)
    workload = read_workload(workload=load, input_len=point.prompt, output_len=point.answer, notes=[])
    times = run(replace(here, config=config), workload, (0, 0), 0.0).metrics.times
    ttft, tpot = times["ttft"].mean, times["tpot"].mean
    assert ttft is not None
    return ttft, math.nan if tpot is None else tpot


def errors(some: Iterable[Point], generator: Generator) -> np.ndarray:
    """Relative errors of TTFT and TPOT, a row a point."""
    return np.array(
        [[ttft / point.ttft - 1, tpot / point.tpot - 1] for point in some for ttft, tpot in [simulated(point, generator)]]
    )


def medians(found: np.ndarray) -> tuple[float, float]:
    """Of the absolute errors of TTFT and TPOT."""
    ttft, tpot = np.median(np.abs(found), axis=0).tolist()
    return ttft, tpot


def scores(some: Sequence[Point], grid: Iterable[Generator] = GRID) -> dict[Generator, tuple[float, float]]:
    """Medians of the absolute errors of TTFT and TPOT under each load generator."""
    return {generator: medians(errors(some, generator)) for generator in grid}


def choose(found: dict[Generator, tuple[float, float]]) -> Generator:
    """The load generator under which mean TTFT is nearest, in the median, of those under which TPOT is what it was."""
    return min((ttft, generator) for generator, (ttft, tpot) in found.items() if tpot <= SAME_TPOT)[1]
