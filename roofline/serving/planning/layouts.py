"""Ways to put one replica of a model on devices: what a search looks at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roofline.blocks.model import Model
from roofline.errors import RooflineError
from roofline.graph.sharding import check_parallel, communicating
from roofline.specs.deployment import Deployment
from roofline.specs.hardware import Hardware

Layout = dict[str, int]
SIZES = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "ep": "expert_parallel_size",
    "cp": "context_parallel_size",
}
_POWERS = (1, 2, 4, 8, 16)
_IN_A_NODE = 8


def layouts(model: Model, hardware: Hardware, fixed: dict[str, Any], most: int) -> Iterator[Layout]:
    """Yield the parallel sizes of up to `most` devices that the model and the links allow, smallest first.

    * tensor parallelism within a node;
    * pipelines of 2 and 4 stages of devices without a link (pipelines communicate least), or of whole nodes;
    * MoE models: experts divided over the tensor-parallel devices;
    * MoE models: data-parallel attention with the experts over all devices (`dp` = `ep` = 8, 16, 32).

    Sizes in `fixed` are not searched; context parallelism is only used if it is given.
    """
    given = {short: int(fixed[long]) for short, long in SIZES.items() if fixed.get(long) is not None}
    experts = any(
        block.experts is not None for block in model.blocks
    )  # fmt: skip
    node = hardware.node.count if hardware.node is not None else _IN_A_NODE
    linked = bool(hardware.node.links if hardware.node is not None else hardware.accelerator.links)
    seen: set[tuple[int, ...]] = set()
    for sizes in sorted(
        _wanted(experts, linked, node, given), key=lambda one: (_devices(one), one["pp"], one["dp"], one["ep"])
    ):
        layout = sizes | given
        if "dp" in given and "ep" not in given and sizes["ep"] > 1:
            layout["ep"] = layout["tp"] * layout["dp"]
        key = tuple(layout.get(name, 1) for name in SIZES)
        if key not in seen and _devices(layout) <= most and _works(model, hardware, layout):
            seen.add(key)
            yield {name: size for name, size in layout.items() if size > 1}


def _wanted(experts: bool, linked: bool, node: int, given: Layout) -> Iterator[Layout]:
    for tp in (given["tp"],) if "tp" in given else (size for size in _POWERS if size <= node):
        stages = (1, 2, 4) if not linked or tp == node else (1,)
        for pp in stages:
            if linked or tp * pp <= node:
                for ep in {1, tp} if experts else {1}:
                    yield {"tp": tp, "pp": pp, "dp": 1, "ep": ep}
    if experts and given.get("tp", 1) == 1:
        for ranks in (8, 16, 32):
            yield {"tp": 1, "pp": 1, "dp": ranks, "ep": ranks}


def _devices(sizes: Layout) -> int:
    return sizes.get("tp", 1) * sizes.get("pp", 1) * sizes.get("dp", 1) * sizes.get("cp", 1)


def _works(model: Model, hardware: Hardware, sizes: Layout) -> bool:
    """Whether the model can be divided into these sizes, and links join the devices of each group."""
    fields = {SIZES[name]: size for name, size in sizes.items() if size > 1}
    try:
        deployment = Deployment(**fields)
        check_parallel(model, deployment)
        for group in communicating(deployment):
            hardware.connection(group)
    except RooflineError:
        return False
    return True
