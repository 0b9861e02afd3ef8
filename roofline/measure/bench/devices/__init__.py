"""Devices: their names and facts, and how a call is timed on them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from roofline.errors import InputError


def best() -> str:
    """The name of the device to measure where none was named: "cuda" if torch has a CUDA device, else "cpu"."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def device(name: str) -> Device:
    """The device of a name: "cuda" (the first one) or "cpu".

    Raises:
        InputError: if there is no CUDA device, or the name is another one.
    """
    if name == "cpu":
        from roofline.measure.bench.devices.cpu import Cpu

        return Cpu()
    if name == "cuda":
        import torch

        if not torch.cuda.is_available():
            msg = "--device cuda: torch sees no CUDA device here (or is a build without CUDA); --device cpu works everywhere"
            raise InputError(msg)
        from roofline.measure.bench.devices.cuda import Cuda

        return Cuda()
    msg = f"--device must be cuda or cpu, not {name!r}"
    raise InputError(msg)


Call = Callable[[], None]
"""Something that the device is to do."""
Run = Callable[[int], None]
"""Run a call on the i-th set of inputs, modulo the number of sets."""


class DeviceLostError(Exception):
    """The device is in a state that only a new process gets out of; the message is that of its last error."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one call: median, 10th and 90th percentile of `samples` samples of `calls` calls each."""

    median: float
    p10: float
    p90: float
    samples: int
    calls: int
    how: str

    @property
    def notes(self) -> str:
        """How it was timed, for the record."""
        return f"{self.how}; {self.samples} samples of {self.calls} call{'s' if self.calls > 1 else ''}"


def timing(samples: list[float], calls: int, how: str) -> Timing:
    """The `Timing` of samples in seconds per call, each the mean of `calls` calls; `how` says how they were timed.

    >>> timing([3.0, 1.0, 2.0], 1, "test").median
    2.0
    """
    ordered = sorted(samples)

    def quantile(q: float) -> float:
        # linear between order statistics: type 7 of Hyndman and Fan, The American Statistician 50(4), 1996
        rank = q * (len(ordered) - 1)
        low = math.floor(rank)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (rank - low) * (ordered[high] - ordered[low])

    return Timing(quantile(0.5), quantile(0.1), quantile(0.9), len(samples), calls, how)


@dataclass(frozen=True, slots=True)
class SamplingBudget:
    """The seconds of sampling per point, and the number of samples at least and at most."""

    seconds: float
    least: int = 7
    most: int = 50

    def samples(self, each: float) -> int:
        """The number of samples, if one takes `each` seconds."""
        return max(self.least, min(self.most, round(self.seconds / max(each, 1e-9))))


class Device:
    """A device that runs calls and times them."""

    kind: ClassVar[Literal["cuda", "cpu"]]
    name: str
    """Its name by the driver or the system."""
    cache_bytes: int
    """Bytes of the last cache before memory."""
    memory_bytes: int
    cores: Sequence[int] = ()
    """Cores of a host that is the device itself, where processes can be bound to them."""

    def free_bytes(self) -> int:
        """Bytes of memory that may be allocated now."""
        raise NotImplementedError

    def measure(self, run: Run, sets: int, effort: SamplingBudget, *, launches: bool, composed: bool) -> Timing:
        """Time a call.

        Args:
            run: makes the call on the set of inputs with this index, modulo `sets`.
            sets: the number of sets of inputs, which take turns.
            effort: how long to sample.
            launches: whether the time includes that of launching each call from the host.
            composed: whether a call is many kernels.
        """
        raise NotImplementedError

    def laps(self, calls: Sequence[Call]) -> list[float]:
        """The seconds of each of some calls that follow one another, from the end of the call before to its own.

        Nothing waits for the device between them: where the host is too slow at launching, that is in the times.
        """
        raise NotImplementedError

    def captured(self, calls: Sequence[Call]) -> list[Call] | None:
        """The calls as CUDA graphs, which run them without launching their kernels one by one; None where there are none.

        They share memory for what is temporary: one runs at a time, and what a call leaves has to be in tensors from before it.
        Each call is run once here.

        Raises:
            NotRunnableError: if a graph cannot hold them.
        """
        del calls
        return None

    def wait(self) -> None:
        """Wait until the device has done all its work."""

    def finish(self) -> None:
        """Wait, and release memory.

        Raises:
            DeviceLostError: if the device does not respond any more.
        """
        raise NotImplementedError

    def noise(self) -> dict[str, float]:
        """The seconds that timing itself takes: `timer_s` and `timer_p90_s`, median and 90th percentile of timing nothing."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Clocks in MHz, power in W, temperature in °C, free bytes: what may change from run to run."""
        raise NotImplementedError

    def load_warning(self) -> str:
        """A warning where something else is using the device; empty where nothing seems to."""
        return ""

    def facts(self) -> dict[str, Any]:
        """What stays the same: the device and its libraries, as JSON values."""
        raise NotImplementedError

    @property
    def slug(self) -> str:
        """The name as an id: lower case, with dashes."""
        return _slug(self.name)


def _slug(name: str) -> str:
    """A name as an id.

    >>> _slug("AMD EPYC 9R14 96-Core")
    'amd-epyc-9r14-96-core'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unknown"


CORES: tuple[int, ...] = tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()
"""The cores that this process had when this module was loaded; none where the system does not say."""


def bind() -> None:
    """Bind each thread to its core, unless the environment says otherwise. To be called before torch is loaded.

    OpenMP, which runs torch's threads on a host, reads its environment when it is loaded, and then binds the first thread too:
    from then on the process seems to have one core.
    """
    os.environ.setdefault("OMP_PROC_BIND", "true")
