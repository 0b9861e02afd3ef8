"""One deployment's costs of preemption, ready to be asked often: plain numbers in, plain numbers out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from roofline.errors import InputError
from roofline.graph.sharding import stages
from roofline.predict.memory import MemoryModel
from roofline.predict.request import Request
from roofline.serving.preemption.copies import copies
from roofline.serving.preemption.kept import Kept, kept
from roofline.serving.preemption.recompute import Recompute
from roofline.serving.preemption.swap import Swap

Cheaper = Literal["recompute", "swap"]


@dataclass(frozen=True, slots=True)
class Choice:
    """Seconds of both ways, and the cheaper one. A swap that the host has no room for is none."""

    recompute_s: float
    out_s: float
    in_s: float
    fits: bool = True

    @property
    def swap_s(self) -> float:
        """Out and in."""
        return self.out_s + self.in_s

    @property
    def cheaper(self) -> Cheaper:
        """Of equal ones the swap, which leaves the device to others."""
        return "swap" if self.fits and self.swap_s <= self.recompute_s else "recompute"


@dataclass(frozen=True)
class Preemption:
    """What it costs to bring a sequence of a deployment back, by the tokens that were evicted.

    >>> from roofline.predict.request import prepare
    >>> costs = Preemption.of(prepare("llama-3.1-8b", "h100-sxm"), coalesced=True)
    >>> costs.choice(2048).cheaper, costs.device_bytes(2048)
    ('swap', 268435456.0)
    """

    request: Request
    recompute: Recompute
    swap: Swap
    prefix: int
    host_memory: float | None
    """Bytes of host memory for the evicted sequences of one replica; None: no limit."""

    @classmethod
    def of(
        cls,
        request: Request,
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
        """The costs of a deployment.

        Args:
            request: the deployment; a shared prefix of its conventions stays on the device.
            block_size: tokens in a block; default: the deployment's.
            host_link: bytes/s that large copies reach in one direction; default: what is known of the hardware.
            pinned: whether the host's memory is page-locked.
            coalesced: blocks are gathered and cross in one call each way, not in one a block, layer and tensor.
            gpus_per_link: devices behind one link to the host; those of a replica copy at the same time.
            host_memory: bytes for the evicted sequences of a replica; default: the replica's share of the node's.
            batch: sequences of the deployment that run beside a recomputation; 0: it has the device for itself.
            context: cached tokens of each of them.

        Raises:
            InputError: no host link is known; a running batch fills the steps.
        """
        if block_size is not None:
            request = replace(request, memory=replace(request.memory, block_size=block_size))
        prefix = request.deployment.conventions.shared_prefix
        share = min(gpus_per_link, devices(request))
        swap = Swap(
            stages=tuple(kept(stage) for stage in request.memory.stages),
            copies=copies(request, pinned=pinned, host_link=host_link, share=share),
            coalesced=coalesced,
            bandwidth=request.hardware.bandwidth,
            share=share,
        )
        if swap.bytes(1, prefix) == 0:
            raise InputError(f"{request.model.name} keeps nothing of a sequence: there is nothing to evict")
        recompute = Recompute(request, batch, context, prefix)
        recompute.budget  # noqa: B018 - a batch that leaves no room is refused here
        limit = host_memory if host_memory is not None else of_node(request)
        return cls(request, recompute, swap, prefix, limit)

    def recompute_seconds(self, tokens: int) -> float:
        """Seconds to compute so many evicted tokens again: of a table, within 2 % of the kernels' sum (median 0.1 %)."""
        return self.recompute.seconds(tokens)

    def swap_seconds(self, tokens: int) -> tuple[float, float]:
        """Seconds to copy so many out, and in again: exact in the terms of the closed form."""
        out, back = self.swap.seconds(tokens, self.prefix)
        return float(out), float(back)

    def choice(self, tokens: int, held: float = 0.0) -> Choice:
        """Both, and which is the cheaper; `held` bytes of the host are taken already."""
        room = self.host_memory is None or held + self.host_bytes(tokens) <= self.host_memory
        return Choice(self.recompute_seconds(tokens), *self.swap_seconds(tokens), fits=room)

    def device_bytes(self, tokens: int) -> float:
        """Bytes that the fullest device copies one way."""
        return float(self.swap.bytes(tokens, self.prefix))

    def host_bytes(self, tokens: int) -> float:
        """Bytes that all devices of a replica put into the host's memory."""
        deployment = self.request.deployment
        each = deployment.tensor_parallel_size * deployment.context_parallel_size
        return each * sum(float(stage.bytes(tokens, self.prefix)) for stage in self._every_stage)

    @cached_property
    def _every_stage(self) -> tuple[Kept, ...]:
        """What a device of each pipeline stage holds, equal ones as often as they are."""
        memory = self.request.memory
        by_layers = {stage.stage.layers: found for stage, found in zip(memory.stages, self.swap.stages, strict=True)}
        return tuple(by_layers[stage.layers] for stage in stages(memory.model, memory.deployment.pipeline_parallel_size))

    def with_memory(self, memory: MemoryModel) -> Swap:
        """The swap of the same deployment whose memory is another one."""
        return replace(self.swap, stages=tuple(kept(stage) for stage in memory.stages))

    def with_block(self, block_size: int) -> Swap:
        """The swap with blocks of another size."""
        return self.with_memory(replace(self.request.memory, block_size=block_size))


def devices(request: Request) -> int:
    """Devices of one replica: each holds a part of a sequence."""
    deployment = request.deployment
    return deployment.devices // deployment.data_parallel_size


def of_node(request: Request) -> float | None:
    """Host memory of the nodes that a replica's devices are in, by its share of them; None where no file says it."""
    node = request.hardware.node
    if node is None or node.host.memory is None:
        return None
    return float(node.host.memory.value) * devices(request) / node.count
