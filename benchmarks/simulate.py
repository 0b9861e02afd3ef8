"""Requests a CPU second of `roofline simulate`, and what is gained by not doing every step.

The conversation trace at its own rate, Llama 3.1 8B on two replicas of an A100 of 80 GB; the same with so little memory that
requests are preempted; and the same step by step. A call is timed whole: deployment and trace are read, steps tabulated, the
run done and summed up. Step by step is set against runs of steps without the reading, which both need.

    python benchmarks/simulate.py splitwise_conv.csv [--runs 3] [--million]
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from clock import seconds

from roofline.predict.request import prepare
from roofline.serving.simulation.preemption import PreemptionPolicy
from roofline.serving.simulation.run import run
from roofline.serving.simulation.schedulers import SCHEDULERS
from roofline.serving.simulation.server import ServerConfig, engine_config, max_model_len
from roofline.serving.simulation.simulate import simulate
from roofline.serving.simulation.step_tables import StepTables
from roofline.serving.simulation.step_time import Basis
from roofline.serving.simulation.workload import read_workload
from roofline.serving.traffic import read_trace

MODEL, HARDWARE = "llama-3.1-8b", "a100-sxm-80gb"
PRESSED = {"memory": "20 GiB"}
BASES: tuple[Basis, ...] = ("estimate", "bound")
_WHOLE = "import sys; from roofline.cli.app import main; sys.exit(main())"


def served(trace: Path, **given: Any) -> Any:
    """A run of the trace."""
    return simulate(MODEL, HARDWARE, trace=trace, replicas=2, **given)


def alone(trace: Path, basis: Basis, runs: int, *, stepwise: bool) -> float:
    """CPU seconds of a run whose deployment and trace are there, with its tables."""
    request = prepare(MODEL, HARDWARE)
    policy = SCHEDULERS["vllm-v1"]
    held = engine_config(request, policy, [])
    workload = read_workload(trace=trace, notes=[])

    def once() -> None:
        longest = max_model_len(request)
        tables = StepTables(request, basis, longest, held.max_num_seqs)
        server = ServerConfig(request, policy, held, longest, tables, PreemptionPolicy(), 2, "round-robin", stepwise)
        run(server, workload, (0, 0), 0.0)

    return seconds(once, runs)


def process(trace: Path, basis: str) -> float:
    """CPU seconds of the command as a process, JSON to nowhere. Modules are compiled already, as in what pip installs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [
        sys.executable, "-c", _WHOLE, "simulate", MODEL, "--hardware", HARDWARE, "--trace", str(trace), "--replicas", "2",
        "--basis", basis, "--json",
    ]  # fmt: skip
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=compiled)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", type=Path, help="splitwise_conv.csv, of the traces of vidur or splitwise-sim")
    parser.add_argument("--runs", type=int, default=3, help="runs, of which the median counts [3]")
    parser.add_argument("--million", action="store_true", help="also a million requests, and the memory that they take")
    options = parser.parse_args()
    many = len(read_trace(options.trace))
    for basis in BASES:
        process(options.trace, basis)
        whole = statistics.median(process(options.trace, basis) for _ in range(options.runs))
        print(f"{basis:9} as a process             {many / whole:10,.0f} requests/s")
        quick = seconds(lambda basis=basis: served(options.trace, basis=basis), options.runs)
        print(f"{basis:9} roofline.simulate        {many / quick:10,.0f} requests/s")
        pressed = served(options.trace, basis=basis, rate=7, **PRESSED)
        slow = seconds(lambda basis=basis: served(options.trace, basis=basis, rate=7, **PRESSED), options.runs)
        print(f"{basis:9} {pressed.requests.preemptions:6,} preemptions       {many / slow:10,.0f} requests/s")
        runs, steps = (alone(options.trace, basis, options.runs, stepwise=stepwise) for stepwise in (False, True))
        print(f"{basis:9} run alone                {many / runs:10,.0f} requests/s")
        print(f"{basis:9} step by step             {many / steps:10,.0f} requests/s  {steps / runs:5.1f} times as long")
    if options.million:
        found = simulate(MODEL, HARDWARE, rate=11, input_len="lognormal:1155:900", output_len=211, requests=10**6, replicas=4)
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        print(f"{found.requests.completed:,} requests: at most {most:,.0f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
