"""How long a study of 200 simulations takes: 5 policies, 8 rates and 5 seeds of the conversation trace, on two cores.

The study is killed (SIGKILL) when a third of its runs are finished, and goes on; then it is done again on a Dask cluster of
this machine, and both folders must have the same bytes.

    python benchmarks/study.py splitwise_conv.csv [--executor processes:2] [--no-dask]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STUDY = """\
schema_version: 1
kind: study
options: {{model: llama-3.1-8b, hardware: a100-sxm-80gb, replicas: 2, trace: {trace}, ttft: 1 s, tpot: 50 ms}}
policies:
  vllm-v1: {{scheduler: vllm-v1}}
  least loaded: {{scheduler: vllm-v1, balancer: least-loaded}}
  vllm-v0: {{scheduler: vllm-v0}}
  sarathi: {{scheduler: sarathi}}
  sjf: {{scheduler: sjf}}
rates: [2, 4, 6, 8, 10, 12, 14, 16]
seeds: 5
"""
RUNS = 200


def command(study: Path, out: Path, executor: str) -> list[str]:
    """The command line of a study."""
    return [sys.executable, "-m", "roofline", "study", str(study), "--executor", executor, "-o", str(out)]


def bytes_of(path: Path) -> dict[str, str]:
    """Every file, by a hash of what is in it."""
    files = [*sorted(path.rglob("*.json")), path / "table.csv"]
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", type=Path, help="splitwise_conv.csv, of the traces of vidur or splitwise-sim")
    parser.add_argument("--executor", default="processes:2", help="of the study that is killed [processes:2]")
    parser.add_argument("--no-dask", action="store_true", help="leave the second study out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study, out = Path(folder) / "study.yaml", Path(folder) / "out"
        study.write_text(STUDY.format(trace=options.trace.resolve()))
        start = time.monotonic()
        with subprocess.Popen(command(study, out, options.executor), stderr=subprocess.DEVNULL) as process:
            while len(list(out.glob("runs/*.json"))) < RUNS // 3:
                time.sleep(0.1)
            os.kill(process.pid, signal.SIGKILL)
        print(f"killed after {time.monotonic() - start:,.0f} s with {len(list(out.glob('runs/*.json')))} runs")
        subprocess.run(command(study, out, options.executor), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        took = time.monotonic() - start
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = used.ru_utime + used.ru_stime
        print(f"{options.executor}: {RUNS} runs in {took:,.0f} s, {seconds:,.0f} CPU seconds of the commands that ended")
        if not options.no_dask:
            other, start = Path(folder) / "other", time.monotonic()
            subprocess.run(command(study, other, "dask"), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            same = "the same bytes" if bytes_of(out) == bytes_of(other) else "OTHER BYTES"
            print(f"dask: {RUNS} runs in {time.monotonic() - start:,.0f} s, {same}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
