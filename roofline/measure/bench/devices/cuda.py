"""The first CUDA device, timed with its own events; short kernels inside a CUDA graph."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, ClassVar, Literal

import torch

from roofline.measure.bench.devices import Call, Device, DeviceLostError, Run, SamplingBudget, Timing, timing
from roofline.measure.bench.kernels.base import NotRunnableError, first_line

_GRAPH_BELOW = 5e-4  # seconds: above it the time between two launches no longer matters
_REGION = 1e-3  # seconds of a graph at least: events are good to about half a microsecond
_MOST_CALLS = 1024
_MUCH = 0.4  # share of the device's memory
_WARM, _MOST_WARM = 0.02, 200  # seconds of replays before sampling, and how many at most
_CLOCKS = {"sm": "NVML_CLOCK_SM", "memory": "NVML_CLOCK_MEM"}


def _turns(calls: float, sets: int) -> int:
    """At least this many calls, in whole turns over the sets."""
    return math.ceil(max(1, min(_MOST_CALLS, math.ceil(calls))) / sets) * sets


class Cuda(Device):
    """One device. Its settings are left as they are: what it does is recorded, not changed."""

    kind: ClassVar[Literal["cuda", "cpu"]] = "cuda"

    def __init__(self) -> None:
        properties = torch.cuda.get_device_properties(0)
        self.name = properties.name
        self.units = properties.multi_processor_count
        self.cache_bytes = getattr(properties, "L2_cache_size", 0) or 50 * 1024**2
        self.memory_bytes = properties.total_memory
        self.capability = f"{properties.major}.{properties.minor}"
        self._nvml = _Nvml()
        self._aside = torch.cuda.Stream()  # one for all points: each stream keeps a workspace of its own

    def free_bytes(self) -> int:
        """Bytes that the driver reports as free, and those that torch has reserved and does not use."""
        free, _ = torch.cuda.mem_get_info()
        return int(free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated())

    def measure(self, run: Run, sets: int, effort: SamplingBudget, *, launches: bool, composed: bool) -> Timing:
        """Events around replays of a graph of calls, or around each call where it is long."""
        each, how = self._warm_up(run), "launched one by one"
        if not launches and (composed or each < _GRAPH_BELOW):
            try:
                return self._replayed(run, sets, each, effort)
            except (RuntimeError, NotRunnableError) as error:
                how = f"launched one by one, for a graph cannot hold it ({first_line(error):.60})"
            self._after_capture()
        calls = max(1, min(_MOST_CALLS, round(_REGION / 10 / each)))
        turn = 0

        def launch() -> None:
            nonlocal turn
            for _ in range(calls):
                run(turn)
                turn += 1

        return timing(self._timed(launch, effort.samples(calls * each), calls), calls, how)

    @staticmethod
    def _timed(work: Callable[[], None], samples: int, calls: int) -> list[float]:
        """Seconds of a call by events before and after each sample; the host runs ahead of the device."""
        pairs = []
        for _ in range(samples):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            work()
            end.record()
            pairs.append((begin, end))
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) * 1e-3 / calls for begin, end in pairs]

    def _warm_up(self, run: Run) -> float:
        """Seconds of a call after a few, launches included. On a stream of its own, as a later capture wants it."""
        stream = self._aside
        stream.wait_stream(torch.cuda.current_stream())
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(stream):
            for turn in range(3):
                if turn == 2:
                    begin.record()
                run(turn)
            end.record()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        return max(float(begin.elapsed_time(end)) * 1e-3, 1e-7)

    @staticmethod
    def _capture(run: Run, calls: int) -> Any:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for turn in range(calls):
                run(turn)
        return graph

    def _replayed(self, run: Run, sets: int, each: float, effort: SamplingBudget) -> Timing:
        """A graph of whole turns over the sets, so that each replay finds the caches as the last one left them.

        What a call takes with its launch says how long a graph has to be at most; once one was replayed, what a call takes
        without it says how long it has to be.
        """
        calls = _turns(_REGION / each, sets)
        graph = self._capture(run, calls)
        graph.replay()
        real = max(self._timed(graph.replay, 3, calls)[-1], 1e-8)
        if real * calls < _REGION / 2 and (longer := _turns(_REGION / real, sets)) > calls:
            del graph
            calls = longer
            graph = self._capture(run, calls)
        for _ in range(max(2, min(_MOST_WARM, math.ceil(_WARM / (real * calls))))):
            graph.replay()  # clocks rise with work
        samples = self._timed(graph.replay, effort.samples(real * calls), calls)
        del graph
        return timing(samples, calls, "CUDA graph")

    def laps(self, calls: Sequence[Call]) -> list[float]:
        """By events between the calls, which are read when all are over."""
        events = [torch.cuda.Event(enable_timing=True) for _ in range(len(calls) + 1)]
        events[0].record()
        for call, event in zip(calls, events[1:], strict=True):
            call()
            event.record()
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) * 1e-3 for begin, end in pairwise(events)]

    def captured(self, calls: Sequence[Call]) -> list[Call]:
        """One graph per call, after a run of all of them on a stream of its own, in which libraries allocate what they keep."""
        stream = self._aside
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for call in calls:
                call()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        pool, graphs = torch.cuda.graph_pool_handle(), []
        try:
            for call in calls:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=pool):
                    call()
                graphs.append(graph)
        except (RuntimeError, NotRunnableError) as error:
            self._after_capture()
            raise NotRunnableError(f"a CUDA graph cannot hold it: {first_line(error)}") from None
        return [graph.replay for graph in graphs]

    @staticmethod
    def _after_capture() -> None:
        """Leave the stream of a capture that failed, which torch does not."""
        torch.cuda.set_stream(torch.cuda.default_stream())
        torch.cuda.synchronize()

    def wait(self) -> None:
        """Wait for all work."""
        torch.cuda.synchronize()

    def finish(self) -> None:
        """Wait, and give memory back once there is much of it: both take as long as a point does."""
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:  # an illegal access: every later call of this process would say the same
            raise DeviceLostError(first_line(error)) from None
        if torch.cuda.memory_reserved() > _MUCH * self.memory_bytes:
            gc.collect()
            torch.cuda.empty_cache()

    def noise(self) -> dict[str, float]:
        """Two events, one after the other, with nothing between."""
        pairs = []
        for _ in range(200):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            end.record()
            pairs.append((begin, end))
        torch.cuda.synchronize()
        timer = timing([begin.elapsed_time(end) * 1e-3 for begin, end in pairs], 1, "")
        return {"timer_s": timer.median, "timer_p90_s": timer.p90}

    def state(self) -> dict[str, Any]:
        """Clocks, power, temperature, throttle reasons, as the driver reports them."""
        free = None
        with suppress(RuntimeError):  # the device may be lost: then the rest is worth the more
            free = self.free_bytes()
        return {**self._nvml.state(), "free_bytes": free}

    def facts(self) -> dict[str, Any]:
        """The device and the libraries that run on it."""
        return {
            "kind": "cuda",
            "name": self.name,
            "capability": self.capability,
            "compute_units": self.units,
            "cache_bytes": self.cache_bytes,
            "memory_bytes": self.memory_bytes,
            "devices": torch.cuda.device_count(),
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            **self._nvml.facts(),
        }


class _Nvml:
    """The driver's management library, where it is installed; otherwise everything it would say is null."""

    def __init__(self) -> None:
        try:
            import pynvml

            pynvml.nvmlInit()
            self._library: Any = pynvml
            # NB: devices by position; CUDA_VISIBLE_DEVICES may name another one, so look for the same bus.
            self._handle = self._of_torch()
        except Exception:  # noqa: BLE001 - whatever is wrong with the library, measuring goes on without it
            self._library = None

    def _of_torch(self) -> Any:
        identity = getattr(torch.cuda.get_device_properties(0), "uuid", None)
        if identity is not None:
            with suppress(Exception):
                return self._library.nvmlDeviceGetHandleByUUID(f"GPU-{identity}".encode())
        return self._library.nvmlDeviceGetHandleByIndex(0)

    def _query(self, name: str, *arguments: Any) -> Any:
        """One question; None where the driver does not answer it."""
        try:
            value = getattr(self._library, name)(self._handle, *arguments)
        except Exception:  # noqa: BLE001 - each driver leaves something out
            return None
        return value.decode() if isinstance(value, bytes) else value

    def state(self) -> dict[str, Any]:
        """What changes."""
        if self._library is None:
            return {"nvml": None}
        clocks = {
            f"clock_{name}_mhz": self._query("nvmlDeviceGetClockInfo", getattr(self._library, constant, 1))
            for name, constant in _CLOCKS.items()
        }
        power = self._query("nvmlDeviceGetPowerUsage")
        reasons = self._query("nvmlDeviceGetCurrentClocksThrottleReasons")
        return {
            **clocks,
            "power_w": None if power is None else power / 1000,
            "temperature_c": self._query("nvmlDeviceGetTemperature", 0),
            "throttle_reasons": None if reasons is None else self._words(reasons),
        }

    def _words(self, bits: int) -> list[str]:
        """The reasons by the names of their constants."""
        prefix = "nvmlClocksThrottleReason"
        names = {
            name.removeprefix(prefix): value
            for name, value in vars(self._library).items()
            if name.startswith(prefix) and isinstance(value, int) and value & (value - 1) == 0
        }
        return sorted(name for name, value in names.items() if value and bits & value)

    def facts(self) -> dict[str, Any]:
        """What stays."""
        if self._library is None:
            return {"driver": None}
        driver = None
        with suppress(Exception):
            driver = self._library.nvmlSystemGetDriverVersion()
        limit = self._query("nvmlDeviceGetPowerManagementLimit")
        return {
            "driver": driver.decode() if isinstance(driver, bytes) else driver,
            "power_limit_w": None if limit is None else limit / 1000,
            "clock_sm_max_mhz": self._query("nvmlDeviceGetMaxClockInfo", getattr(self._library, "NVML_CLOCK_SM", 1)),
            "ecc": self._query("nvmlDeviceGetEccMode"),
        }
