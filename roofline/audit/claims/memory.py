"""What a deployment has to hold, in the kindest reading: weights and the tokens that must be kept, in all of memory."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.predict.request import Request
from roofline.specs.workload import Step

MOST = 2**20
"""Sequences of a replica beyond which no batch is looked at."""


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes of the fullest device: nothing is reserved, no block is rounded up, activations take no room."""

    weights: float
    a_sequence: float
    """Cache and state of one sequence."""
    sequences: int
    """Of one replica."""
    capacity: float
    common: float = 0.0
    """Of a sequence's bytes, those that all sequences share and that are held once."""

    @property
    def bytes(self) -> float:
        """All that has to be held."""
        return self.weights + self.common + (self.a_sequence - self.common) * self.sequences

    @property
    def fits(self) -> bool:
        """Whether it can be held."""
        return self.bytes <= self.capacity


def capacity(request: Request) -> float:
    """Bytes of a device: as it is sold or as it is reported, whichever is more."""
    return max(request.memory.capacity, request.hardware.accelerator.memory.label.value)


def need(request: Request, batch: int, length: int, scale: float = 1.0, weights: float = 1.0) -> Need:
    """What `batch` sequences of `length` tokens need on the device that has least room."""
    share = -(-batch // request.deployment.data_parallel_size)
    found = []
    for part in request.memory.stages:
        held = float(part.kv_bytes(length, allocated=False)) * scale + part.state_bytes(allocated=False)
        prefix = min(request.deployment.conventions.shared_prefix, length)
        common = float(part.kv_bytes(prefix, allocated=False)) * scale if prefix else 0.0
        found.append(Need(part.weights_bytes * weights, held, share, capacity(request), common))
    return max(found, key=lambda entry: entry.bytes)


def engine_holds(request: Request, step: Step, scale: float = 1.0) -> bool:
    """Whether the engine's own rules leave room for a step, with caches `scale` times as large."""
    return all(part.needed_bytes(step) * scale <= part.usable_bytes(step) for part in request.memory.stages)


def largest_batch(request: Request, length: int) -> int:
    """The most sequences of the whole deployment that memory can hold, up to 2^20 a replica; 0: not one."""
    most = MOST
    for part in request.memory.stages:
        room = capacity(request) - part.weights_bytes
        held = float(part.kv_bytes(length, allocated=False)) + part.state_bytes(allocated=False)
        if room < held:
            return 0
        if held:
            most = min(most, int(room // held))
    return most * request.deployment.data_parallel_size
