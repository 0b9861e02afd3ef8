"""What a plan costs: CPU and wall time of `roofline plan` as a process, against `roofline analyze` of one deployment.

Chat (1,155 prompt and 211 answer tokens on average, TTFT 2 s, for deepseek-v3 5 s, TPOT 50 ms) at 1, 50 and 1,000 requests/s.

    python benchmarks/plan.py [--runs 3]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

GPUS = "a100-sxm-80gb,h100-sxm,h200-sxm,l40s"
QUESTIONS = [("llama-3.1-8b", GPUS, "2 s"), ("llama-3.1-70b", GPUS, "2 s"), ("deepseek-v3", "h200-sxm,dgx-h200", "5 s")]
CHAT = ["--input-len", "lognormal:1155:900", "--output-len", "lognormal:211:160", "--tpot", "50 ms", "--json"]


def timed(arguments: list[str]) -> tuple[float, float, str]:
    """CPU and wall seconds of one process, and what it wrote."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "roofline", *arguments], stdout=subprocess.PIPE)
    out = b"" if process.stdout is None else process.stdout.read()
    _, _, usage = os.wait4(process.pid, 0)
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - start, out.decode()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="runs of each command [3]")
    runs = parser.parse_args().runs
    one = ["analyze", "llama-3.1-8b", "--hardware", "h100-sxm", "--json"]
    timed(one)
    base = statistics.median(timed(one)[0] for _ in range(runs))
    print(f"{'analyze of one deployment':<32}{base:6.2f} s CPU")
    for model, hardware, ttft in QUESTIONS:
        for rate in ("1", "50", "1000"):
            ask = ["plan", model, "--hardware", hardware, "--rate", rate, "--ttft", ttft, *CHAT]
            found = [timed(ask) for _ in range(runs)]
            cpu, wall = (statistics.median(each[place] for each in found) for place in (0, 1))
            tried = json.loads(found[0][2])["considered"]["deployments"]
            line = f"{model} at {rate}/s"
            print(f"{line:<32}{cpu:6.2f} s CPU  {wall:5.2f} s wall  {tried} deployments  {cpu / base:4.1f} x analyze")


if __name__ == "__main__":
    main()
