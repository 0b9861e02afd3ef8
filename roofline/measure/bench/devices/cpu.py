"""The host's processor, timed with the monotonic clock."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import re
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch

from roofline.errors import InputError
from roofline.measure.bench.devices import CORES, Call, Device, Run, SamplingBudget, Timing, timing

_REGION = 2e-4  # seconds of one sample at least: a thousand times what reading the clock takes
_MAX_LOAD = 0.6  # load a core
_SYSTEM = Path("/sys/devices/system/cpu")


class Cpu(Device):
    """All cores that this process may use, one thread each."""

    kind: ClassVar[Literal["cuda", "cpu"]] = "cpu"

    def __init__(self) -> None:
        self.cores = CORES
        self.threads = len(CORES) or os.cpu_count() or 1
        torch.set_num_threads(self.threads)
        self.name = f"{_model()} x{self.threads}"
        self.cache_bytes = _last_cache()
        self.memory_bytes = _memory("MemTotal")
        self.retained_pages = _retain_pages()

    def free_bytes(self) -> int:
        """Bytes that the system can give without swapping."""
        return _memory("MemAvailable")

    def measure(self, run: Run, sets: int, effort: SamplingBudget, *, launches: bool, composed: bool) -> Timing:
        """Samples of a few calls each, long enough for the clock."""
        turn = 0

        def sample(calls: int) -> float:
            nonlocal turn
            begin = time.perf_counter_ns()
            for _ in range(calls):
                run(turn)
                turn += 1
            return (time.perf_counter_ns() - begin) * 1e-9 / calls

        sample(1)  # the first call finds libraries and memory
        warm = sample(1)
        for _ in range(min(sets, round(effort.seconds / 4 / max(warm, 1e-9)))):
            sample(1)
        calls = max(1, round(_REGION / max(warm, 1e-9)))
        count = effort.samples(calls * warm)
        return timing([sample(calls) for _ in range(count)], calls, "monotonic clock")

    def laps(self, calls: Sequence[Call]) -> list[float]:
        """By the clock after each call: on the host it is over when it returns."""
        readings = [time.perf_counter_ns()]
        for call in calls:
            call()
            readings.append(time.perf_counter_ns())
        return [(end - begin) * 1e-9 for begin, end in pairwise(readings)]

    def finish(self) -> None:
        """Give memory back once much of it is taken."""
        if self.free_bytes() < 0.5 * self.memory_bytes:
            gc.collect()

    def noise(self) -> dict[str, float]:
        """Two readings of the clock, one after the other."""
        samples = []
        for _ in range(1000):
            begin = time.perf_counter_ns()
            samples.append((time.perf_counter_ns() - begin) * 1e-9)
        timer = timing(samples, 1, "")
        return {"timer_s": timer.median, "timer_p90_s": timer.p90}

    def state(self) -> dict[str, Any]:
        """Clocks as the system reports them, and how busy it is."""
        try:
            text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        except OSError:
            text = ""
        clocks = [float(value) for value in re.findall(r"cpu MHz\s*:\s*([\d.]+)", text)]
        load = os.getloadavg() if hasattr(os, "getloadavg") else None
        return {"clock_mhz": clocks or None, "load_average": list(load) if load else None, "free_bytes": self.free_bytes()}

    def load_warning(self) -> str:
        """A warning where other processes use the host: measured times, ceilings included, are then too long."""
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        if load < _MAX_LOAD * self.threads:
            return ""
        return f"the machine was busy when this run began (load {load:.1f} on {self.threads} cores): its figures are too slow"

    def facts(self) -> dict[str, Any]:
        """Model, caches, instruction sets that torch uses."""
        return {
            "kind": "cpu",
            "name": self.name,
            "cores": self.threads,
            "threads": torch.get_num_threads(),
            "pinned": os.environ.get("OMP_PROC_BIND"),
            "cache_bytes": self.cache_bytes,
            "memory_bytes": self.memory_bytes,
            "vector_instructions": torch.backends.cpu.get_cpu_capability(),
            "allocator_keeps_pages": self.retained_pages,
        }


def _model() -> str:
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        match = None
    return match[1].strip() if match else platform.processor() or platform.machine()


def _last_cache() -> int:
    sizes = []
    for path in _SYSTEM.glob("cpu0/cache/index*/size"):
        match = re.fullmatch(r"(\d+)([KM])", path.read_text(encoding="utf-8").strip())
        if match:
            sizes.append(int(match[1]) * (1024 if match[2] == "K" else 1024**2))
    return max(sizes, default=32 * 1024**2)


def _memory(key: str) -> int:
    try:
        match = re.search(rf"^{key}:\s*(\d+) kB", Path("/proc/meminfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        match = None
    if match:
        return int(match[1]) * 1024
    if not hasattr(os, "sysconf"):
        raise InputError("the host is measured on Linux and macOS: this system does not say how much memory it has")
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _retain_pages() -> bool:
    """Let the C library keep freed memory, so that an output does not cost a page fault for each of its pages: an engine
    allocates its buffers once."""
    try:
        libc = ctypes.CDLL(None)
        no_maps, no_trim = libc.mallopt(-4, 0), libc.mallopt(-1, 2**31 - 1)  # M_MMAP_MAX, M_TRIM_THRESHOLD
    except (OSError, AttributeError):
        return False
    return bool(no_maps and no_trim)
