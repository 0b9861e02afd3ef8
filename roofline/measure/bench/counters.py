"""Hardware counters, where the machine allows it: Nsight Compute over a sample of the points, in a process of its own.

What is counted (bytes of device memory, bytes through L2, matrix FLOP) checks predicted counts directly, not by way of a
time. The profiler empties the caches before each kernel, so that what is counted is cold.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.measure.bench.point import COMPILED, Point

if TYPE_CHECKING:
    from roofline.measure.bench.kernels import Kernel

_MARK = "spin_kernel"
"""The kernel of `torch.cuda._sleep`, which runs before and after each point to mark it."""
BYTES = {
    "dram__bytes_read.sum": "counters_dram_read_bytes",
    "dram__bytes_write.sum": "counters_dram_write_bytes",
    "lts__t_bytes.sum": "counters_l2_bytes",
}
TENSOR_OPS = "sm__ops_path_tensor_src_"
"""How counters of the matrix units begin: operations by the dtype they take; an FMA is two."""
# Which of them there are depends on the chip.
FLOPS = tuple(
    f"{TENSOR_OPS}{name}.sum"
    for name in (
        *("bf16_dst_fp32", "fp16_dst_fp16", "fp16_dst_fp32", "tf32_dst_fp32"),
        *("fp8", "fp8_dst_fp16", "fp8_dst_fp32", "int8"),
    )
)
_MAX_POINTS = 24
_SECONDS, _QUERY = 180.0, 20.0
_PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu", "/usr/local/NVIDIA-Nsight-Compute*/ncu")


@dataclass(slots=True)
class Counted:
    """Counters of points, and the reason for the user where there are none.

    `by_point` has, by the text of a point, the columns `counters_...` of its record: bytes or FLOP of one call.
    """

    by_point: dict[str, dict[str, float]] = field(default_factory=dict)
    note: str = ""


def _sample(points: list[Point]) -> list[Point]:
    """The first few points of each op, as many as the profiler does in a minute or two."""
    seen: dict[str, int] = {}
    chosen = []
    for point in points:
        launches = point.texts.get("kernel", "").startswith("launch")
        if point.suite in ("transfers", "collectives") or point.op == "step" or point.backend == COMPILED or launches:
            continue  # links are not counted here, a step is hundreds of kernels, and a compiler would be profiled too
        seen[point.op] = seen.get(point.op, 0) + 1
        if seen[point.op] <= 3:
            chosen.append(point)
    return chosen[:_MAX_POINTS]


def count(points: list[Point], kind: str, left: float | None) -> Counted:
    """Profile a sample of the points; never an error, since timing goes on without counters.

    Args:
        points: of which the first three of each op are profiled, 24 in all at most.
        kind: the kind of the device; only "cuda" has counters.
        left: seconds of the budget, of which a third may be used, at most 180 s; None: no limit.
    """
    if kind != "cuda":
        return Counted(note="no counters: --counters needs a CUDA device")
    program = _program()
    if program is None:
        return Counted(note="no counters: Nsight Compute (ncu) is not installed")
    chosen = _sample(points)
    deadline = time.monotonic() + min(_SECONDS, _SECONDS if left is None else left / 3)
    output, note = _profile(program, [*BYTES, *_known(program, FLOPS)], chosen, deadline)
    by_point = parse(output, [str(point) for point in chosen])
    if by_point:
        return Counted(by_point, note and f"not all counters: {note}")
    return Counted(note=f"no counters: {note or 'the profiler reported no kernel'}")


def _known(program: str, metrics: Iterable[str]) -> list[str]:
    """Those of the counters that the chip has: an unknown one would end the whole profile."""
    output, _ = _run([program, "--query-metrics"], time.monotonic() + _QUERY)
    return [metric for metric in metrics if re.search(rf"^{re.escape(metric.removesuffix('.sum'))}\s", output, re.MULTILINE)]


def _program() -> str | None:
    if program := shutil.which("ncu"):
        return program
    for pattern in _PLACES:
        for path in sorted(Path("/").glob(pattern.lstrip("/")), reverse=True):
            return str(path)
    return None


def _profile(program: str, metrics: Iterable[str], points: list[Point], deadline: float) -> tuple[str, str]:
    """What the profiler prints, and what is wrong with it."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder, "points.json")
        listed.write_text(json.dumps([asdict(point) for point in points]), encoding="utf-8")
        seconds = deadline - time.monotonic()
        # Clocks are left alone: the profiler would lock them. The program stops by itself a little before its time is up, so
        # that what was counted is printed.
        command = [
            *(program, "--csv", "--page", "raw", "--print-units", "base"),
            *("--clock-control", "none", "--profile-from-start", "off", "--metrics", ",".join(metrics)),
            *(sys.executable, "-m", "roofline.measure.bench.counters", str(listed), f"{0.8 * seconds:.0f}"),
        ]
        return _run(command, deadline)


def _run(command: list[str], deadline: float) -> tuple[str, str]:
    """Output of a program, and what went wrong. At the deadline all its processes are ended: one that went on would be
    measured with everything that is measured after it."""
    try:
        with subprocess.Popen(  # noqa: S603 - our own command
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True
        ) as process:
            try:
                text, _ = process.communicate(timeout=max(deadline - time.monotonic(), 1.0))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                text, _ = process.communicate()
                return text, "the profiler did not end in time"
    except OSError as error:
        return "", f"{command[0]}: {error.strerror}"
    if "ERR_NVGPUCTRPERM" in text:
        return text, "the driver gives no permission to read them (ERR_NVGPUCTRPERM)"
    if process.returncode:
        lines = [line for line in text.splitlines() if "ERROR" in line or "Error" in line] or text.splitlines()[-1:]
        return text, f"the profiler ended with {process.returncode}: {(lines or [''])[0]:.160}"
    return text, ""


def parse(output: str, points: list[str]) -> dict[str, dict[str, float]]:
    """Sum the counters of the kernels of each point: mark, kernels of a point, mark, and so on.

    Args:
        output: what the profiler prints: lines of its own, then a table in CSV with a row of units under the header.
        points: the texts of the points in the order in which they ran.

    Returns:
        The columns `counters_...` (bytes, FLOP) by the text of the point; empty where the output has no table.
    """
    lines = output.splitlines()
    start = next((index for index, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return {}
    rows = list(csv.DictReader(io.StringIO("\n".join(lines[start:]))))
    by_point: dict[str, dict[str, float]] = {}
    position, inside = -1, False
    for row in rows:
        if not (row.get("ID") or "").strip().isdigit():
            continue  # the units
        if _MARK in (row.get("Kernel Name") or ""):
            inside = not inside
            position += inside
            continue
        if not inside or position >= len(points):
            continue
        sums = by_point.setdefault(points[position], {})
        for metric, name in BYTES.items():
            _add(sums, name, row.get(metric))
        for metric in FLOPS:
            _add(sums, "counters_flops", row.get(metric))
    for sums in by_point.values():
        parts = [sums[name] for name in ("counters_dram_read_bytes", "counters_dram_write_bytes") if name in sums]
        if parts:
            sums["counters_dram_bytes"] = sum(parts)
    return by_point


def _add(sums: dict[str, float], name: str, cell: str | None) -> None:
    try:
        value = float((cell or "").replace(",", ""))
    except ValueError:
        return  # the counter does not exist here: n/a
    sums[name] = sums.get(name, 0.0) + value


def _run_points(listed: Path, seconds: float) -> None:
    """What the profiler runs: warm up and run every point of a list once, between marks, until the time is up.

    A point that fails leaves its marks with nothing between.
    """
    import torch

    from roofline.measure.bench.kernels import make
    from roofline.measure.bench.kernels.base import TensorFactory, tf32

    def ready(point: Point) -> tuple[Kernel | None, tuple[Any, ...]]:
        """A kernel that has run once, and its inputs; None where it does not run."""
        try:
            kernel = make(point, factory)
            inputs = kernel.inputs()
            kernel.run(*inputs)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next point is counted
            sys.stderr.write(f"{point}: {error}\n")  # timing it will say so too
            return None, ()
        return kernel, inputs

    end, factory = time.monotonic() + seconds, TensorFactory("cuda")
    for entry in json.loads(listed.read_text(encoding="utf-8")):
        if time.monotonic() > end:
            break
        point = Point(**entry)
        with tf32(allowed=point.dtype == "tf32"), torch.no_grad():
            kernel, inputs = ready(point)
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
            torch.cuda._sleep(1)  # noqa: SLF001 - the one kernel whose name nothing else has
            if kernel is not None:
                kernel.run(*inputs)
            torch.cuda._sleep(1)  # noqa: SLF001
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()
        del kernel, inputs
        torch.cuda.empty_cache()


if __name__ == "__main__":
    _run_points(Path(sys.argv[1]), float(sys.argv[2]))
