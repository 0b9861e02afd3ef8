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
from roofline.predict.memory import StageMemory
from roofline.predict.request import ResolvedRequest
from roofline.predict.speculation import SpeculativeStage
from roofline.specs.hardware import IN_A_SERVER, Hardware, Link, Node
from roofline.specs.source import Bandwidth, Source
from roofline.specs.workload import Step

Split = dict[str, int]
"""Sizes of `tp`, `pp`, `dp` and `ep`, and `redundant` experts, if there are any."""
MAX_DEVICES = 2**14
UNKNOWN_NETWORK = "unknown network"
"""The name of the network that is taken to join servers of which none is known."""
_NO_TIME = Bandwidth(value="1000000 TB/s", source=UNKNOWN_NETWORK)
"""The bandwidth of that network: messages take no time."""
MAX_SEQUENCES = 2**20
"""Of a replica; larger batches are not looked at."""


def device_count(statement: Statement, hardware: Hardware) -> int:
    """Number of devices of a claim: as stated, else the product of its parallel sizes, else those of the node, else 1."""
    if statement.devices is not None:
        return statement.devices
    if _sized(statement):
        return statement.tp_pp_dp
    return hardware.node.count if hardware.node else 1


def splits(statement: Statement, model: Model, hardware: Hardware) -> Iterator[Split]:
    """Yield the ways to divide a model over the devices: the one that is stated, else every one that they allow.

    An expert model is also tried with its experts divided over all devices, unless `ep` is stated.

    Raises:
        InputError: more than 2^14 devices, or a number of them that is no multiple of tp x pp x dp.
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
            if statement.ep is None and dp > 1 and pp == 1:
                yield from (_split(tp, pp, dp, ep, copies) for ep, copies in _expert_sizes(model, devices, tp))


def _expert_sizes(model: Model, devices: int, tp: int) -> Iterator[tuple[int, int]]:
    """Numbers of devices that may divide the experts, each with the copies of experts that it needs: all devices, with copies
    if they do not divide the experts, and the largest number of devices that does.

    >>> from roofline.blocks.model_files import load_model
    >>> list(_expert_sizes(load_model("deepseek-v3")[0], 144, 1))  # 256 experts: 288 slots, or 16 each
    [(144, 32), (16, 0)]
    """
    counts = {block.experts[0] for block in model.blocks if block.experts is not None}
    if not counts:
        return
    yield devices, min(-count % devices for count in counts)
    sizes = [size for size in _divisors(devices) if size % tp == 0 and all(count % size == 0 for count in counts)]
    if sizes and max(sizes) not in (1, devices):
        yield max(sizes), 0


def _sized(statement: Statement) -> bool:
    """Whether the claim says how the model is divided."""
    sizes = (statement.tp, statement.pp, statement.dp, statement.deployment.get("context_parallel_size"))
    return any(size is not None for size in sizes)


def _split(tp: int, pp: int, dp: int, ep: int, copies: int = 0) -> Split:
    return {"tp": tp, "pp": pp, "dp": dp, "ep": ep} | ({"redundant": copies} if copies else {})


def _divisors(number: int) -> list[int]:
    return [size for size in range(number, 0, -1) if number % size == 0]


def format_split(split: Split) -> str:
    """Text of the sizes above one, as engines write them.

    >>> format_split({"tp": 4, "pp": 1, "dp": 2, "ep": 1}), format_split({"tp": 1, "pp": 1, "dp": 1, "ep": 1})
    ('tp 4, dp 2', 'one device')
    """
    return ", ".join(f"{name} {size}" for name, size in split.items() if size > 1) or "one device"


def joined(hardware: Hardware, statement: Statement) -> Hardware:
    """The hardware with a network that takes no time, where the division is open and no known link joins all its devices.

    Of cards that someone put into many servers the claim does not say how these are connected.
    """
    devices = device_count(statement, hardware)
    if devices == 1 or _sized(statement) or hardware.node is not None:
        return hardware
    try:
        hardware.connection(devices)
    except InputError:
        accelerator = hardware.accelerator
        links = (*accelerator.links, *((accelerator.host_link,) if accelerator.host_link else ()))
        count = max((link.max_devices or IN_A_SERVER for link in links), default=1)
        network = Link(name=UNKNOWN_NETWORK, per_direction=_NO_TIME)
        node = Node(
            schema_version=1, kind="node", name=accelerator.name, title=accelerator.title, accelerator=accelerator.name,
            count=count, links=links, network=network,
            sources=accelerator.sources | {UNKNOWN_NETWORK: Source(title=UNKNOWN_NETWORK)},
        )  # fmt: skip
        return Hardware(accelerator, node, hardware.overrides)
    return hardware


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """What the fullest device has to hold, in bytes.

    Attributes:
        weights: bytes of weights.
        per_sequence: bytes of KV cache and state of one sequence.
        sequences: number of sequences of one replica.
        capacity: bytes of memory of the device.
        shared: bytes of `per_sequence` that all sequences have in common; they are stored once.
    """

    weights: float
    per_sequence: float
    sequences: int
    capacity: float
    shared: float = 0.0

    @property
    def bytes(self) -> float:
        """Bytes needed: weights, the shared prefix once, and the rest of each sequence."""
        return self.weights + self.shared + (self.per_sequence - self.shared) * self.sequences

    @property
    def fits(self) -> bool:
        """Whether the bytes needed are at most the capacity."""
        return self.bytes <= self.capacity


def capacity(request: ResolvedRequest) -> float:
    """Bytes of memory of a device: the label or what the driver reports (or the user gave), whichever is more."""
    return max(request.memory.capacity, request.hardware.accelerator.memory.label.value)


def memory_need(request: ResolvedRequest, batch: int, length: int, cache_factor: float = 1.0) -> MemoryNeed:
    """Memory that a batch needs on the device where it takes the most: weights, cache and state, nothing else.

    Args:
        request: the deployment.
        batch: sequences of the whole deployment; a replica holds its share, rounded up.
        length: tokens of each sequence.
        cache_factor: multiplies the bytes of the KV cache, but not of recurrent state.
    """
    share = -(-batch // request.deployment.data_parallel_size)
    needs = []
    for stage in request.memory.stages:
        held = _cache(stage, length) * cache_factor + stage.state_bytes(allocated=False)
        prefix = min(request.deployment.conventions.shared_prefix, length)
        shared = float(stage.kv_bytes(prefix, allocated=False)) * cache_factor if prefix else 0.0
        needs.append(MemoryNeed(stage.loaded_bytes, held, share, capacity(request), shared))
    return max(needs, key=lambda entry: entry.bytes)


def _cache(stage: StageMemory, length: int) -> float:
    """Bytes of one sequence's cache, and of its draft's."""
    own = float(stage.kv_bytes(length, allocated=False))
    draft = stage.draft.fullest_stage if isinstance(stage, SpeculativeStage) and stage.draft is not None else None
    return own if draft is None else own + float(draft.kv_bytes(length, allocated=False)) + draft.state_bytes(allocated=False)


def fits_engine_limits(request: ResolvedRequest, step: Step, cache_factor: float = 1.0) -> bool:
    """Whether a step fits by the engine's own rules on every pipeline stage: its blocks, its share of memory, its activations.

    Args:
        request: the deployment.
        step: the step of the whole deployment.
        cache_factor: multiplies the bytes that the sequences need.
    """
    return all(stage.needed_bytes(step) * cache_factor <= stage.usable_bytes(step) for stage in request.memory.stages)


def largest_batch(request: ResolvedRequest, length: int) -> int:
    """The largest number of sequences of `length` tokens that the memory of the whole deployment holds.

    At most 2^20 per replica; 0 where not one sequence fits. Nothing is reserved, and blocks are not rounded up.
    """
    batch = MAX_SEQUENCES
    for stage in request.memory.stages:
        free = capacity(request) - stage.loaded_bytes
        held = _cache(stage, length) + stage.state_bytes(allocated=False)
        if free < held:
            return 0
        if held:
            batch = min(batch, int(free // held))
    return batch * request.deployment.data_parallel_size
