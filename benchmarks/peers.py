# ruff: noqa: PLC0415  (a peer is imported where it is asked, so that the others run without it)
"""One decode step asked of other calculators, call by call, beside points a second of `roofline.compile`.

The question is the same kind of question for all: a step of llama-3.1-8b (or the nearest model that a package has) on an
A100 with 80 GB, for a batch with a context. What each call includes differs, and is printed; see README.md. Calls are warm,
on one core, by CPU time. A package that is not installed is passed over with a line that says so.

    python benchmarks/peers.py [--batch 64] [--context 1024] [--side 1000] [--runs 5]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")  # before NumPy is imported

import numpy as np  # noqa: E402
from clock import calls_a_second  # noqa: E402

import roofline  # noqa: E402

MODEL, HARDWARE = "llama-3.1-8b", "a100-sxm-80gb"
FEW = ("time_bound_s", "memory_bytes", "fits")


@dataclass(frozen=True)
class Peer:
    """Another calculator: what is called, and what the answer holds."""

    package: str
    module: str
    call: str
    includes: str
    required: int
    """How many times its calls a second our points a second are meant to be."""
    prepare: Callable[[int, int], Callable[[], float]]
    """From batch and context to a call without arguments that gives milliseconds of the step."""


def mlsysim(batch: int, context: int) -> Callable[[], float]:
    """The registry's Llama-3.1-8B and A100 (80 GiB), looked up once."""
    from mlsysim import Hardware, Models
    from mlsysim.solvers import ServingModel

    model, hardware, solver = Models.Language.Llama3_8B, Hardware.Cloud.A100, ServingModel()

    def call() -> float:
        answer = solver.solve(model, hardware, seq_len=context + 1, batch_size=batch, precision="fp16")
        return float(answer.itl.magnitude)  # ms, as `solve` converts it

    return call


def genz(batch: int, context: int) -> Callable[[], float]:
    """Its llama3_8b is Llama-3.1-8B; one beam."""
    from GenZ import decode_moddeling

    def call() -> float:
        question = {"model": "llama3_8b", "system_name": "A100_80GB_GPU", "bits": "bf16"}
        return float(decode_moddeling(**question, batch_size=batch, input_tokens=context, Bb=1)["Latency"])

    return call


def llm_analysis(batch: int, context: int) -> Callable[[], float]:
    """Llama-2-7b: of the models it has the nearest, the same depth and width; 14336/4096 is no whole number, which it asks for.

    One new token a sequence, as its `inference` asks for a decode step; what is cached (`context`) this call leaves out.
    """
    from llm_analysis.analysis import LLMAnalysis
    from llm_analysis.config import get_gpu_config_by_name, get_model_config_by_name

    model = get_model_config_by_name("NousResearch_Llama-2-7b-hf")
    analysis = LLMAnalysis(model, get_gpu_config_by_name("a100-sxm-80gb"), flops_efficiency=0.5, hbm_memory_efficiency=1.0)
    return lambda: float(analysis.get_latency_fwd(batch, 1)[0] * 1e3)


PEERS = (
    Peer(
        package="mlsysim",
        module="mlsysim",
        call="ServingModel.solve",
        includes="prefill and decode time, memory, whether it fits, a sentence about it",
        required=100,
        prepare=mlsysim,
    ),
    Peer(
        package="genz-llm",
        module="GenZ",
        call="decode_moddeling",
        includes="a table of operators, twice, its sums, memory, a refusal of what does not fit",
        required=100,
        prepare=genz,
    ),
    Peer(
        package="llm-analysis",
        module="llm_analysis",
        call="get_latency_fwd",
        includes="time of a forward pass and its parts; no cache read, no memory",
        required=20,
        prepare=llm_analysis,
    ),
)


def beside(grid: Callable[[], object], call: Callable[[], object], points: int, runs: int) -> tuple[float, float, float]:
    """Points a second of a grid, calls a second of a call, and how many times as many: medians over runs that take turns."""
    grid()
    call()
    found = []
    for _ in range(runs):
        rate = points * calls_a_second(grid)
        calls = calls_a_second(call)
        found.append((rate, calls, rate / calls))
    first, second, third = (statistics.median(column) for column in zip(*found, strict=True))
    return first, second, third


def main() -> int:
    """Measure and print: ours first, each peer beside it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=64, help="sequences of the step that peers are asked about [64]")
    parser.add_argument("--context", type=int, default=1024, help="tokens cached before it [1024]")
    parser.add_argument("--side", type=int, default=1000, help="points along each axis of our grid [1000]")
    parser.add_argument("--runs", type=int, default=5, help="runs, of which the median counts [5]")
    options = parser.parse_args()

    step = roofline.compile(MODEL, HARDWARE)
    grid: dict[str, Any] = {
        "batch": np.arange(1.0, options.side + 1)[:, None],
        "context": np.linspace(0, 100_000, options.side).round()[None, :],
    }

    def points() -> object:
        return step(**grid, columns=FEW)

    def one() -> object:
        return step(batch=options.batch, context=options.context, columns=FEW)

    bound = float(step(batch=options.batch, context=options.context)["time_bound_s"]) * 1e3
    print(f"roofline {roofline.__version__}, numpy {np.__version__}, Python {sys.version.split()[0]}")
    print(f"batch {options.batch}, {options.context} cached tokens: {bound:.2f} ms at the bound")
    rate, single, _ = beside(points, one, options.side**2, options.runs)
    print(f"  a grid of {options.side:,} x {options.side:,}: {rate:,.0f} points/s (bound, memory, fits)")
    print(f"  a point a call: {single:,.0f} calls/s")
    for peer in PEERS:
        if importlib.util.find_spec(peer.module) is None:
            print(f"{peer.package}: not installed, passed over (pip install {peer.package})")
            continue
        call = peer.prepare(options.batch, options.context)
        milliseconds = call()
        rate, calls, times = beside(points, call, options.side**2, options.runs)
        print(f"{peer.package} {version(peer.package)}, {peer.call}: {milliseconds:.2f} ms")
        print(f"  includes {peer.includes}")
        print(f"  {calls:,.0f} calls/s; ours {rate:,.0f} points/s: {times:,.0f} times (at least {peer.required})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
