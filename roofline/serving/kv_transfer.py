"""The KV cache of a sequence on its way from one server to another: over which link, and how many bytes."""

from __future__ import annotations

from roofline.predict.memory import StageMemory
from roofline.predict.request import ResolvedRequest
from roofline.predict.speculation import SpeculativeMemory
from roofline.specs.hardware import Hardware


def cache_link(hardware: Hardware) -> tuple[str, float] | None:
    """The link that caches move over between servers, as text, and its bytes/s per device in one direction.

    It is the network of a node, else the link to the host; None if neither is known.
    """
    if hardware.node is not None and hardware.node.network is not None:
        link = hardware.node.network
        return f"{link.name} between nodes", link.per_direction.value
    host = (hardware.node.host_link if hardware.node is not None else None) or hardware.accelerator.host_link
    return None if host is None else (f"{host.name}, the link to the host", host.per_direction.value)


def cache_bytes(request: ResolvedRequest, num_tokens: int) -> float:
    """The bytes of the cache and states of one sequence of `num_tokens` tokens on the device that has most of it: all devices
    of a replica send their parts at the same time, each over a link of its own. With speculative decoding the draft's too."""
    size = max(_stage_bytes(stage, num_tokens) for stage in request.memory.stages)
    draft = request.memory.draft if isinstance(request.memory, SpeculativeMemory) else None
    return size if draft is None else size + _stage_bytes(draft.fullest_stage, num_tokens)


def _stage_bytes(stage: StageMemory, num_tokens: int) -> float:
    return float(stage.kv_bytes(num_tokens, allocated=False)) + stage.state_bytes(allocated=False)
