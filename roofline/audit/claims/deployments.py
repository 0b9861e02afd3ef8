"""Deployments that a claim allows: the ways to divide a model over devices, and what each device has to hold.

What a claim leaves open is read in its favour: every division is tried, and all of memory counts: weights and the tokens that
must be kept, nothing reserved, no block rounded up, no activations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from roofline.audit.claims.claim import Statement
from roofline.blocks.model import Model
from roofline.errors import InputError
from roofline.predict.request import ResolvedRequest
from roofline.specs.hardware import Hardware
from roofline.specs.workload import Step

Split = dict[str, int]
"""Sizes of `tp`, `pp`, `dp` and `ep`."""
MAX_DEVICES = 2**14
MAX_SEQUENCES = 2**20
"""Of a replica; larger batches are not looked at."""


def device_count(statement: Statement, hardware: Hardware) -> int:
    """Devices of the claim: as stated, as the sizes make, or those of the node."""
    if statement.devices is not None:
        return statement.devices
    if _sized(statement):
        return statement.tp_pp_dp
    return hardware.node.count if hardware.node else 1


def splits(statement: Statement, model: Model, hardware: Hardware) -> Iterator[Split]:
    """The ways to divide a model: the stated one, else every one that the devices allow.

    Raises:
        InputError: too many devices, or a number of them that the stated sizes do not divide.
    """
    devices = device_count(statement, hardware)
    if devices > MAX_DEVICES:
        raise InputError(f"{devices:,} devices are more than the {MAX_DEVICES:,} that are looked at")
    if _sized(statement):
        stated = statement.tp_pp_dp
        if devices % stated:
            msg = f"{devices} devices are not a multiple of the {stated} that tp, pp and dp make"
            raise InputError(msg)
        dp = (statement.dp or 1) * (devices // stated)
        yield _split(statement.tp or 1, statement.pp or 1, dp, statement.ep or 1)
        return
    for tp in _divisors(devices):
        for pp in _divisors(devices // tp):
            dp = devices // tp // pp
            if pp > 1 and dp > 1:
                continue  # gains nothing that pipelines or replicas alone do not
            yield _split(tp, pp, dp, statement.ep or 1)
            if statement.ep is None and dp > 1 and pp == 1 and any(block.experts for block in model.blocks):
                yield _split(tp, pp, dp, devices)


def _sized(statement: Statement) -> bool:
    """Whether the claim says how the model is divided."""
    sizes = (statement.tp, statement.pp, statement.dp, statement.deployment.get("context_parallel_size"))
    return any(size is not None for size in sizes)


def _split(tp: int, pp: int, dp: int, ep: int) -> Split:
    return {"tp": tp, "pp": pp, "dp": dp, "ep": ep}


def _divisors(number: int) -> list[int]:
    return [size for size in range(number, 0, -1) if number % size == 0]


def described(split: Split) -> str:
    """Sizes above one, as engines write them.

    >>> described({"tp": 4, "pp": 1, "dp": 2, "ep": 1}), described({"tp": 1, "pp": 1, "dp": 1, "ep": 1})
    ('tp 4, dp 2', 'one device')
    """
    return ", ".join(f"{name} {size}" for name, size in split.items() if size > 1) or "one device"


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes that the fullest device has to hold.

    Attributes:
        weights: of the model.
        per_sequence: cache and state of one sequence.
        sequences: of one replica.
        capacity: what the device has.
        shared: of a sequence's bytes, those that all sequences share and that are held once.
    """

    weights: float
    per_sequence: float
    sequences: int
    capacity: float
    shared: float = 0.0

    @property
    def bytes(self) -> float:
        """All that has to be held."""
        return self.weights + self.shared + (self.per_sequence - self.shared) * self.sequences

    @property
    def fits(self) -> bool:
        """Whether it can be held."""
        return self.bytes <= self.capacity


def capacity(request: ResolvedRequest) -> float:
    """Bytes of a device: as it is sold or as it is reported, whichever is more."""
    return max(request.memory.capacity, request.hardware.accelerator.memory.label.value)


def memory_need(request: ResolvedRequest, batch: int, length: int, cache_factor: float = 1.0) -> MemoryNeed:
    """What `batch` sequences of `length` tokens need on the fullest device, with caches `cache_factor` times as large."""
    share = -(-batch // request.deployment.data_parallel_size)
    needs = []
    for stage in request.memory.stages:
        held = float(stage.kv_bytes(length, allocated=False)) * cache_factor + stage.state_bytes(allocated=False)
        prefix = min(request.deployment.conventions.shared_prefix, length)
        shared = float(stage.kv_bytes(prefix, allocated=False)) * cache_factor if prefix else 0.0
        needs.append(MemoryNeed(stage.weights_bytes, held, share, capacity(request), shared))
    return max(needs, key=lambda entry: entry.bytes)


def engine_holds(request: ResolvedRequest, step: Step, cache_factor: float = 1.0) -> bool:
    """Whether a step also fits by the engine's own rules."""
    return all(stage.needed_bytes(step) * cache_factor <= stage.usable_bytes(step) for stage in request.memory.stages)


def largest_batch(request: ResolvedRequest, length: int) -> int:
    """The largest batch of the whole deployment that memory can hold, up to 2^20 per replica; 0: not one sequence."""
    batch = MAX_SEQUENCES
    for stage in request.memory.stages:
        free = capacity(request) - stage.weights_bytes
        held = float(stage.kv_bytes(length, allocated=False)) + stage.state_bytes(allocated=False)
        if free < held:
            return 0
        if held:
            batch = min(batch, int(free // held))
    return batch * request.deployment.data_parallel_size
