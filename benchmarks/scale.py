"""How CPU time and memory of commands grow with their input: each as a process, at a size and at four times the size.

    python benchmarks/scale.py [NAME...] [--times 4]

Prints, for each command, sizes, CPU seconds and peak memory, and the slopes between them: what one more unit takes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODEL = ["llama-3.1-8b", "-H", "h100-sxm"]
LENGTHS = ["--input-len", "512", "--output-len", "32"]


def trace(folder: Path, rows: int) -> list[str]:
    """A trace of that many requests, ten a second."""
    path = folder / f"{rows}.csv"
    with path.open("w", encoding="utf-8") as file:
        file.write("arrived_at,num_prefill_tokens,num_decode_tokens\n")
        file.writelines(f"{row / 10:.1f},{100 + row * 7919 % 900},{1 + row * 104_729 % 60}\n" for row in range(rows))
    return ["trace", str(path)]


def simulated(folder: Path, requests: int) -> list[str]:
    """Requests at a rate that one replica serves."""
    return ["simulate", *MODEL, "--rate", "10", "--requests", str(requests), *LENGTHS]


def waiting(folder: Path, requests: int) -> list[str]:
    """Requests that all come at once, and wait."""
    return ["simulate", *MODEL, "--workload", f"at-once:{requests}", *LENGTHS]


def swept(folder: Path, points: int) -> list[str]:
    """Points of a grid, written as a table."""
    return ["sweep", *MODEL, "--batch", "1:100", "--context", f"1:{points // 100}", "-o", str(folder / f"{points}.parquet")]


def run(folder: Path, requests: int) -> list[str]:
    """A measured run of that many requests."""
    with (folder / "requests.jsonl").open("w", encoding="utf-8") as file:
        for number in range(requests):
            at = number / 10
            row = {"input_toks": 100 + number % 900, "output_toks": 9, "queued_ts": at}
            file.write(json.dumps({**row, "first_token_ts": at + 0.1, "last_token_ts": at + 0.5}) + "\n")
    return ["trace", str(folder)]


def logged(folder: Path, lines: int) -> list[str]:
    """A log of an engine with what it prints at its start, and then a line every ten seconds."""
    start = (Path(__file__).parents[1] / "tests" / "samples" / "engine_logs" / "vllm-0.22.0.log").read_text(encoding="utf-8")
    path = folder / f"{lines}.log"
    with path.open("w", encoding="utf-8") as file:
        file.write(start)
        for number in range(lines):
            file.write(
                f"INFO 09-17 08:20:{number % 60:02d} [loggers.py:123] Engine 000: Avg prompt throughput: {number % 997}.0 "
                "tokens/s, Avg generation throughput: 43.1 tokens/s, Running: 1 reqs, Waiting: 0 reqs, "
                "GPU KV cache usage: 0.4%\n"
            )
    return ["compare", "--engine-log", str(path), "-H", "h100-sxm"]


def profiled(folder: Path, kernels: int) -> list[str]:
    """A trace of PyTorch's profiler with that many kernels, each with its operator and its launch."""
    path = folder / f"{kernels}.json"
    common = {"ph": "X", "pid": 9, "tid": 9, "dur": 2.0}
    shapes = {"Input Dims": [[512, 4096], [4096, 4096]], "Input type": ["c10::BFloat16"] * 2}
    with path.open("w", encoding="utf-8") as file:
        file.write('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}], "traceEvents": [')
        for number in range(1, kernels + 1):
            at = 40.0 * number
            launched = {"correlation": number, "External id": number}
            events: list[dict[str, Any]] = [
                {**common, "cat": "cpu_op", "name": "aten::mm", "ts": at, "args": {"External id": number, **shapes}},
                {**common, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 1, "args": launched},
                {**common, "cat": "kernel", "name": f"gemm_{number % 50}", "ts": at + 6, "dur": 30.0, "tid": 7,
                 "args": {"device": 0, "stream": 7, **launched}},
            ]  # fmt: skip
            file.write(", " * (number > 1) + json.dumps(events)[1:-1])
        file.write("]}")
    return ["profile", str(path)]


def recorded(folder: Path, rows: int) -> list[str]:
    """Records of matrix multiplications of as many sizes."""
    path = folder / f"{rows}.csv"
    with path.open("w", encoding="utf-8") as file:
        file.write("source,gpu,op,dtype,backend,m,n,k,latency_us\n")
        for row in range(rows):
            m, n, k = 64 + row % 4096, 1024 * (1 + row % 7), 512 * (1 + row % 11)
            file.write(f"made up,h100-sxm,gemm,bf16,torch,{m},{n},{k},{5 + m * n * k / 4e8:.2f}\n")
    return ["validate", str(path)]


def planned(folder: Path, rate: int) -> list[str]:
    """A plan for a rate: its time does not depend on it."""
    return ["plan", *MODEL, "--rate", str(rate), "--ttft", "2 s", "--tpot", "50 ms", *LENGTHS]


@dataclass(frozen=True)
class Growth:
    """A command by its input's size, the unit of the size, and the smallest size."""

    command: Callable[[Path, int], list[str]]
    unit: str
    size: int


COMMANDS = {
    "trace": Growth(trace, "rows of a trace", 250_000),
    "run": Growth(run, "requests of a measured run", 100_000),
    "log": Growth(logged, "lines of a log", 1_000_000),
    "profile": Growth(profiled, "kernels of a profile", 50_000),
    "records": Growth(recorded, "measured kernels", 10_000),
    "simulate": Growth(simulated, "requests", 10_000),
    "at-once": Growth(waiting, "requests that wait", 25_000),
    "sweep": Growth(swept, "points", 500_000),
    "plan": Growth(planned, "requests/s", 10),
}


def measured(command: list[str]) -> tuple[float, float]:
    """CPU seconds and peak megabytes of a command."""
    script = (
        "import resource, subprocess, sys; "
        "code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE); "
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
        "print(code.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss)"
    )
    line = [sys.executable, "-c", script, sys.executable, "-m", "roofline", *command]
    code, seconds, memory = subprocess.run(line, capture_output=True, text=True, check=True).stdout.split()
    if code not in ("0", "1"):
        sys.exit(f"roofline {' '.join(command)}: exit code {code}")
    return float(seconds), float(memory) / 1e3


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(COMMANDS)}; default: all")
    parser.add_argument("--times", type=int, default=4, help="the larger size over the smaller")
    arguments = parser.parse_args()
    for name in arguments.names or COMMANDS:
        growth = COMMANDS[name]
        sizes = (growth.size, growth.size * arguments.times)
        with tempfile.TemporaryDirectory() as folder:
            (first, small), (second, large) = (measured(growth.command(Path(folder), size)) for size in sizes)
        millions = (sizes[1] - sizes[0]) / 1e6
        print(f"{name}: {sizes[0]:,} and {sizes[1]:,} {growth.unit}:", end=" ")
        print(f"{first:.1f} and {second:.1f} CPU s, {small:.0f} and {large:.0f} MB;", end=" ")
        print(f"a million more: {(second - first) / millions:,.1f} s, {(large - small) / millions:,.0f} MB", flush=True)


if __name__ == "__main__":
    main()
