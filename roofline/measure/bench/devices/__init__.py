"""Devices: what they are called, and how a call is timed on them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from roofline.errors import InputError


def best() -> str:
    """The device to measure where none was named: a CUDA device if there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def device(name: str) -> Device:
    """The device of that name: cuda (the first one) or cpu."""
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


Run = Callable[[int], None]
"""Run a call on the i-th set of inputs, modulo the number of sets."""


class DeviceLostError(Exception):
    """The device is in a state that only a new process gets out of; the message says what it said last."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one call."""

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
    """Median, 10th and 90th percentile of samples, each the mean of `calls` calls.

    >>> timing([3.0, 1.0, 2.0], 1, "test").median
    2.0
    """
    ordered = sorted(samples)

    def quantile(q: float) -> float:
        # linear between order statistics: type 7 of Hyndman and Fan, The American Statistician 50(4), 1996
        place = q * (len(ordered) - 1)
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (place - low) * (ordered[high] - ordered[low])

    return Timing(quantile(0.5), quantile(0.1), quantile(0.9), len(samples), calls, how)


@dataclass(frozen=True, slots=True)
class SamplingBudget:
    """How long a point may be sampled, and how often at least and at most."""

    seconds: float
    least: int = 7
    most: int = 50

    def samples(self, each: float) -> int:
        """Samples of this many seconds each."""
        return max(self.least, min(self.most, round(self.seconds / max(each, 1e-9))))


class Device:
    """A device that runs calls and times them."""

    kind: ClassVar[Literal["cuda", "cpu"]]
    name: str
    """What the driver or the system calls it."""
    cache_bytes: int
    """The last cache before memory."""
    memory_bytes: int
    cores: Sequence[int] = ()
    """Cores of a host that is the device itself, where processes can be bound to them."""

    def free_bytes(self) -> int:
        """Memory that may be taken now."""
        raise NotImplementedError

    def measure(self, run: Run, sets: int, effort: SamplingBudget, *, launches: bool, composed: bool) -> Timing:
        """Time a call on `sets` sets of inputs in turn. `launches`: include what launching each call takes; `composed`: a
        call is many kernels."""
        raise NotImplementedError

    def wait(self) -> None:
        """Wait for all work."""

    def finish(self) -> None:
        """Wait, and give memory back. `DeviceLostError` where the device does not answer any more."""
        raise NotImplementedError

    def noise(self) -> dict[str, float]:
        """Seconds that the clock itself takes: the median and 90th percentile of timing nothing."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Clocks, power, temperature, and whatever else may change from run to run."""
        raise NotImplementedError

    def load_warning(self) -> str:
        """A warning where something else is using the device; empty where nothing seems to."""
        return ""

    def facts(self) -> dict[str, Any]:
        """What stays the same: the device and its libraries."""
        raise NotImplementedError

    @property
    def slug(self) -> str:
        """The name as an id.

        >>> slug("AMD EPYC 9R14 96-Core")
        'amd-epyc-9r14-96-core'
        """
        return slug(self.name)


def slug(name: str) -> str:
    """A name as an id: lower case, with dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unknown"


CORES: tuple[int, ...] = tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()
"""The cores that this process had when this module was loaded; none where the system does not say."""


def bind() -> None:
    """Let each thread stay on its core, unless the user has said otherwise. To be called before torch is loaded.

    OpenMP, which runs torch's threads on a host, reads its environment when it is loaded, and then binds the first thread too:
    from then on the process seems to have one core.
    """
    os.environ.setdefault("OMP_PROC_BIND", "true")
