"""What a short answer costs: CPU time of `roofline analyze` against that of importing the packages it stands on.

CPU time is user plus system time of the whole process. The two commands take turns, so that a busy machine slows both
alike; each figure is a median. Exit code 1 when the ratio is above the limit.

    python benchmarks/cli_start.py [--runs 15] [--limit 1.5]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys

ANSWER = ["-m", "roofline", "analyze", "llama-3.1-8b", "--hardware", "a100-sxm-80gb", "--json"]
IMPORTS = ["-c", "import typer, rich, pydantic, ruamel.yaml, numpy"]


def cpu_seconds(arguments: list[str]) -> float:
    """User and system time of one Python process."""
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(arguments)}: exit code {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    """Measure, print, compare with the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15, help="runs of each command [15]")
    parser.add_argument("--limit", type=float, default=1.5, help="largest ratio that passes [1.5]")
    options = parser.parse_args()
    for arguments in (ANSWER, IMPORTS):
        cpu_seconds(arguments)  # writes the bytecode, fills the file cache
    answer, imports = [], []
    for _ in range(options.runs):
        answer.append(cpu_seconds(ANSWER))
        imports.append(cpu_seconds(IMPORTS))
    medians = statistics.median(answer), statistics.median(imports)
    ratio = medians[0] / medians[1]
    print(f"analyze  {medians[0] * 1e3:6.0f} ms CPU  ({min(answer) * 1e3:.0f} to {max(answer) * 1e3:.0f})")
    print(f"imports  {medians[1] * 1e3:6.0f} ms CPU  ({min(imports) * 1e3:.0f} to {max(imports) * 1e3:.0f})")
    print(f"ratio    {ratio:6.2f}         (limit {options.limit:g}, medians of {options.runs} runs each)")
    return 0 if ratio <= options.limit else 1


if __name__ == "__main__":
    sys.exit(main())
