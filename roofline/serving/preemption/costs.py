"""Costs of preemption: the cache of a sequence in blocks, its swap to the host and back, and the choice against recomputing.

A block of b tokens holds b n_kv d_head elements in the key tensor of a layer, and as many in its value tensor: 2 L copies per
block. Latents (MLA) have one tensor per layer, an indexer one more for its keys. Layers with a window keep the blocks within
it, whatever the sequence's length. Recurrent state is two tensors per layer.

Swapping one way takes n a + D/B on each device (`copies.py`), all devices at the same time; the slowest stage decides. Blocks
that are gathered first (`coalesced`) cross in one call, after a pass over device memory that reads and writes them once.

Source: the layout of vLLM's `swap_blocks` (Kwon et al. 2023, arXiv:2309.06180, section 4.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from roofline.errors import InputError
from roofline.graph.sharding import Stage, caches, stages, states
from roofline.numeric import Expr, maximum
from roofline.operators.sparse_counts import entries
from roofline.predict.allocation import Kind
from roofline.predict.memory import MemoryModel, StageMemory
from roofline.predict.request import ResolvedRequest
from roofline.serving.preemption.copies import Copies, Curve, SwapCurves, copies
from roofline.serving.preemption.recompute import Recompute

Cheaper = Literal["recompute", "swap"]
_STATE_TENSORS = 2
"""Tensors of a recurrent layer: the inputs of its convolution, and the state."""


@dataclass(frozen=True, slots=True)
class BlockGroup:
    """Equal layers.

    Args:
        kind: how their tokens fall into blocks.
        layers: number of layers.
        block_bytes: bytes of a block in one layer.
        tensors: tensors per layer.
    """

    kind: Kind
    layers: int
    block_bytes: float
    tensors: int

    def blocks(self, tokens: Expr, prefix: int) -> Expr:
        """Blocks of one layer for `tokens` tokens (a number or an array) after `prefix` ones, whose whole blocks stay."""
        cached = prefix + tokens - 1
        every = self.kind.blocks(cached, 1)
        if prefix == 0:
            return every
        whole, gone = entries(prefix, self.kind.ratio) // self.kind.block, self.kind.passed(cached) // self.kind.block
        return every - maximum(whole - gone, 0)

    @property
    def chunk(self) -> float:
        """Bytes of one copy: a block's part of one tensor."""
        return self.block_bytes / self.tensors


@dataclass(frozen=True, slots=True)
class SequenceCache:
    """What one device of a pipeline stage caches of a sequence. Counts may be arrays.

    Args:
        groups: layers that cache in blocks.
        state_bytes: bytes of the recurrent state.
        state_calls: copies of the recurrent state, one way.
    """

    groups: tuple[BlockGroup, ...]
    state_bytes: float = 0.0
    state_calls: int = 0

    def bytes(self, tokens: Expr, prefix: int = 0) -> Expr:
        """Bytes of whole blocks for `tokens` tokens after `prefix` ones that stay, and of the recurrent state."""
        total: Expr = self.state_bytes
        for group in self.groups:
            total = total + group.blocks(tokens, prefix) * (group.layers * group.block_bytes)
        return total

    def calls(self, tokens: Expr, prefix: int = 0) -> Expr:
        """Number of copies of `tokens` tokens after `prefix` ones that stay: one per block, layer and tensor."""
        total: Expr = self.state_calls
        for group in self.groups:
            total = total + group.blocks(tokens, prefix) * (group.layers * group.tensors)
        return total

    @property
    def divisible(self) -> bool:
        """Whether every layer caches every token, so that any part of the sequence can be copied alone."""
        plain = all(group.kind.window is group.kind.chunk is group.kind.ratio is None for group in self.groups)
        return plain and not self.state_bytes

    @property
    def chunk(self) -> float:
        """Bytes of the smallest copy; 0 if no layer caches in blocks."""
        return min((group.chunk for group in self.groups), default=0.0)


def sequence_cache(memory: StageMemory) -> SequenceCache:
    """The cache of a sequence on a device of a pipeline stage, in the blocks of its engine.

    >>> from roofline.predict.request import prepare
    >>> cache = sequence_cache(prepare("llama-3.1-8b", "a100-sxm-80gb").memory.fullest_stage)
    >>> cache.calls(2048), cache.bytes(2048) / 2**20, cache.chunk  # 128 blocks x 32 layers x 2; 16 tokens x 8 heads x 128 x 2 B
    (8192, 256.0, 32768.0)
    """
    kinds, stage = list(memory.layout.kinds), memory.stage
    groups: list[BlockGroup] = []
    known: dict[tuple[float, tuple[object, ...]], Kind] = {}
    for name, count in stage.layers:
        alone: Stage = replace(stage, layers=((name, count),))
        mixer = memory.model.layer_types[name].mixer
        keeps = mixer.cache_kinds() if mixer is not None else set()
        for cache, layers in caches(memory.model, memory.deployment, alone):
            size = float(cache.elements * memory.precision.kv.bytes)
            limits = _window_and_chunk(memory, cache.window, chunked=cache.chunked)
            key = (size, (*limits, cache.ratio))
            if key not in known:  # kinds are in the order in which layers of another size or limits first occur
                known[key] = next(
                    (kind for kind in kinds if (kind.window, kind.chunk, kind.ratio) == (*limits, cache.ratio)), kinds[0]
                )
                kinds = [kind for kind in kinds if kind is not known[key]] or kinds
            tensors = (1 if keeps & {"latent", "compressed"} else 2) + (1 if cache.index else 0)
            groups.append(BlockGroup(known[key], layers, known[key].block * size, tensors))
    held = states(memory.model, memory.deployment, stage)
    calls = _STATE_TENSORS * sum(count for _, count in held)
    return SequenceCache(tuple(groups), memory.layout.state_bytes, calls)


def _window_and_chunk(memory: StageMemory, window: Expr | None, *, chunked: bool) -> tuple[Expr | None, Expr | None]:
    """Window and chunk of a cache in its engine; none if it keeps all tokens."""
    kinds = {(kind.window, kind.chunk) for kind in memory.layout.kinds}
    wanted = (None, window) if chunked else (window, None)
    return wanted if wanted in kinds else (None, None)


@dataclass(frozen=True, slots=True)
class Swap:
    """Copies of a sequence out of the devices of a replica, and back.

    Args:
        stages: the cache on a device of each (different) pipeline stage.
        copies: their time.
        coalesced: whether blocks are gathered into one call.
        bandwidth: of device memory, bytes/s.
        share: devices that copy over one link at the same time; the curves are those that each of them has.
    """

    stages: tuple[SequenceCache, ...]
    copies: Copies
    coalesced: bool
    bandwidth: float
    share: int = 1

    @staticmethod
    def of(request: ResolvedRequest, *, host_link: float | None, pinned: bool, coalesced: bool, gpus_per_link: int) -> Swap:
        """The copies of a deployment; arguments and errors are those of `Preemption.of`."""
        share = min(gpus_per_link, devices(request))
        return Swap(
            stages=tuple(sequence_cache(stage) for stage in request.memory.stages),
            copies=copies(request, pinned=pinned, host_link=host_link, share=share),
            coalesced=coalesced,
            bandwidth=request.hardware.bandwidth,
            share=share,
        )

    def seconds(self, tokens: Expr, prefix: int = 0, curves: SwapCurves | None = None) -> tuple[Expr, Expr]:
        """Seconds to copy a sequence out, and back in: of the slowest pipeline stage each.

        Args:
            tokens: evicted tokens, a number or an array.
            prefix: tokens before them that stay on the device.
            curves: of the copies; None: the expected ones.
        """
        curves = curves or self.copies.curves
        return self._one_way(curves.out, tokens, prefix), self._one_way(curves.back, tokens, prefix)

    def both(self, tokens: Expr, prefix: int = 0) -> Expr:
        """Seconds to copy `tokens` tokens after `prefix` ones out and back in, one after the other. May be arrays."""
        out, back = self.seconds(tokens, prefix)
        return out + back

    def bound(self, tokens: Expr, prefix: int = 0) -> Expr:
        """Lower bound of `both`, s: all bytes at the link's own rate, without a time per call."""
        return 2 * self.bytes(tokens, prefix) / self.copies.peak

    def bytes(self, tokens: Expr, prefix: int = 0) -> Expr:
        """Bytes that the fullest device copies one way, for `tokens` tokens after `prefix` ones that stay."""
        size = self.stages[0].bytes(tokens, prefix)
        for stage in self.stages[1:]:
            size = maximum(size, stage.bytes(tokens, prefix))
        return size

    def calls(self, stage: SequenceCache, tokens: Expr, prefix: int = 0) -> Expr:
        """Copy calls of a device of a stage, one way; at most one if blocks are coalesced."""
        calls = stage.calls(tokens, prefix)
        return calls / maximum(calls, 1) if self.coalesced else calls  # one, or none if there is nothing to copy

    def gather(self, size: Expr) -> Expr:
        """Seconds to gather or scatter `size` bytes of blocks in device memory, one way; 0 unless they are coalesced."""
        return 2 * size / self.bandwidth if self.coalesced else 0.0

    def overlapped_cost(self, tokens: Expr, prefix: int = 0) -> Expr:
        """Seconds of device memory that overlapped copies out and back take from kernels: every byte crosses it once per
        way, and twice more if blocks are coalesced."""
        size = self.bytes(tokens, prefix)
        return 2 * (size / self.bandwidth + self.gather(size))

    def _one_way(self, curve: Curve, tokens: Expr, prefix: int) -> Expr:
        slowest: Expr | None = None
        for stage in self.stages:
            size = stage.bytes(tokens, prefix)
            took = curve.seconds(size, self.calls(stage, tokens, prefix)) + self.gather(size)
            slowest = took if slowest is None else maximum(slowest, took)
        return slowest


@dataclass(frozen=True, slots=True)
class Choice:
    """Seconds of recomputing and swapping, and the cheaper one. `fits`: whether the host has memory for the swap."""

    recompute_s: float
    out_s: float
    in_s: float
    fits: bool = True

    @property
    def swap_s(self) -> float:
        """Seconds to copy the cached blocks to the host and back."""
        return self.out_s + self.in_s

    @property
    def cheaper(self) -> Cheaper:
        """The cheaper way; if equal the swap, which leaves the device to others."""
        return "swap" if self.fits and self.swap_s <= self.recompute_s else "recompute"


@dataclass(frozen=True)
class Preemption:
    """Costs of restoring a preempted sequence of a deployment, by the number of evicted tokens.

    Args:
        request: the deployment.
        recompute: the cost of recomputing.
        swap: the cost of swapping.
        prefix: tokens of a shared prefix, which stay on the device.
        host_memory: bytes of host memory for the evicted sequences of one replica; None: no limit.

    >>> from roofline.predict.request import prepare
    >>> costs = Preemption.of(prepare("llama-3.1-8b", "h100-sxm"), coalesced=True)
    >>> costs.choice(2048).cheaper, costs.device_bytes(2048)
    ('swap', 268435456.0)
    """

    request: ResolvedRequest
    recompute: Recompute
    swap: Swap
    prefix: int
    host_memory: float | None

    @classmethod
    def of(
        cls,
        request: ResolvedRequest,
        *,
        block_size: int | None = None,
        host_link: float | None = None,
        pinned: bool = True,
        coalesced: bool = False,
        gpus_per_link: int = 1,
        host_memory: float | None = None,
        batch: int = 0,
        context: int = 0,
    ) -> Preemption:
        """Prepare the costs of a deployment.

        Args:
            request: the deployment; a shared prefix of its conventions stays on the device.
            block_size: tokens in a block; default: the deployment's.
            host_link: bytes/s that large copies reach in one direction; default: as the hardware's files say.
            pinned: whether the host's memory is page-locked.
            coalesced: blocks are gathered and copied in one call each way, not in one per block, layer and tensor.
            gpus_per_link: devices that share one link to the host; those of a replica copy at the same time.
            host_memory: bytes for the evicted sequences of a replica; default: the replica's share of the node's.
            batch: sequences of the deployment that run during a recomputation; 0: none.
            context: cached tokens of each of them.

        Raises:
            InputError: the host link is unknown; the model caches nothing of a sequence; a running batch fills the steps.
        """
        if block_size is not None:
            request = replace(request, memory=replace(request.memory, block_size=block_size))
        prefix = request.deployment.conventions.shared_prefix
        swap = Swap.of(request, host_link=host_link, pinned=pinned, coalesced=coalesced, gpus_per_link=gpus_per_link)
        if swap.bytes(1, prefix) == 0:
            raise InputError(f"{request.model.name} keeps nothing of a sequence: there is nothing to evict")
        recompute = Recompute(request, batch, context, prefix)
        recompute.budget  # noqa: B018 - refuses a batch that fills the steps
        limit = host_memory if host_memory is not None else _node_memory(request)
        return cls(request, recompute, swap, prefix, limit)

    def recompute_seconds(self, tokens: int) -> float:
        """Seconds to recompute a number of evicted tokens: from a table, within 2 % of the exact time (median 0.1 %)."""
        return self.recompute.seconds(tokens)

    def swap_seconds(self, tokens: int) -> tuple[float, float]:
        """Seconds to copy a number of evicted tokens out, and back in, by the closed form of the module's docstring."""
        out, back = self.swap.seconds(tokens, self.prefix)
        return float(out), float(back)

    def choice(self, tokens: int, held: float = 0.0) -> Choice:
        """Seconds to recompute and to swap a number of evicted tokens; `held`: bytes already in use on the host."""
        fits = self.host_memory is None or held + self.host_bytes(tokens) <= self.host_memory
        return Choice(self.recompute_seconds(tokens), *self.swap_seconds(tokens), fits=fits)

    def device_bytes(self, tokens: int) -> float:
        """Bytes that the fullest device copies one way for a number of evicted tokens."""
        return float(self.swap.bytes(tokens, self.prefix))

    def host_bytes(self, tokens: int) -> float:
        """Bytes of host memory for a number of evicted tokens: the cache on all devices of a replica."""
        return sum(_devices_per_stage(self.request) * float(stage.bytes(tokens, self.prefix)) for stage in self._every_stage)

    @cached_property
    def _every_stage(self) -> tuple[SequenceCache, ...]:
        return _every_stage(self.request, self.swap.stages)

    def with_memory(self, memory: MemoryModel) -> Swap:
        """The swap of the deployment with the cache of another memory model."""
        return replace(self.swap, stages=tuple(sequence_cache(stage) for stage in memory.stages))

    def with_block(self, block_size: int) -> Swap:
        """The swap of the deployment with another block size, in tokens."""
        return self.with_memory(replace(self.request.memory, block_size=block_size))


def _every_stage(request: ResolvedRequest, caches: Sequence[SequenceCache]) -> tuple[SequenceCache, ...]:
    """The cache on a device of each pipeline stage, equal ones repeated, from those of the different stages."""
    memory = request.memory
    by_layers = {stage.stage.layers: cache for stage, cache in zip(memory.stages, caches, strict=True)}
    return tuple(by_layers[stage.layers] for stage in stages(memory.model, memory.deployment.pipeline_parallel_size))


def _devices_per_stage(request: ResolvedRequest) -> int:
    return request.deployment.tensor_parallel_size * request.deployment.context_parallel_size


def replica_bytes(request: ResolvedRequest, tokens: int) -> float:
    """Return the bytes of a sequence of `tokens` tokens in whole blocks, over all devices of a replica.

    >>> from roofline.predict.request import prepare
    >>> replica_bytes(prepare("llama-3.1-8b", "h100-sxm", tensor_parallel_size=2), 16) / 2**20  # 2 x 32 x 16 x 1024 x 2 B
    2.0
    """
    caches = [sequence_cache(stage) for stage in request.memory.stages]
    return sum(_devices_per_stage(request) * float(cache.bytes(tokens)) for cache in _every_stage(request, caches))


def devices(request: ResolvedRequest) -> int:
    """Number of devices of one replica, each of which holds a part of a sequence."""
    deployment = request.deployment
    return deployment.devices // deployment.data_parallel_size


def _node_memory(request: ResolvedRequest) -> float | None:
    """A replica's share of the host memory of its node, bytes; None if unknown."""
    node = request.hardware.node
    if node is None or node.host.memory is None:
        return None
    return float(node.host.memory.value) * devices(request) / node.count
