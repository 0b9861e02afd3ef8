"""Which part of weights and KV cache each of eight devices has: tensor, pipeline, expert and data parallelism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import roofline
from roofline import formatting
from roofline.graph.build import Graph, build
from roofline.graph.sharding import stages
from roofline.predict.request import prepare
from roofline.specs.library import load_hardware
from roofline.specs.workload import decode
from roofline.teach.lessons.draw.canvas import Canvas, Drawing, Hue
from roofline.teach.lessons.draw.expert_parallel import mixture

Layout = Literal["tp", "pp", "tp-pp", "tp-ep", "dp", "dp-ep"]
_DEVICES = 8
_WIDE, _HIGH = 72.0, 56.0


@dataclass(frozen=True)
class _Parts:
    """How a layout is named, its sizes, and what it divides by what."""

    name: str
    sizes: dict[str, int]
    says: tuple[str, str, str]


_LAYOUTS: dict[Layout, _Parts] = {
    "tp": _Parts("Tensor parallelism", {"tp": 8}, ("heads", "inner width", "KV heads")),
    "pp": _Parts("Pipeline parallelism", {"pp": 8}, ("layers", "layers", "layers")),
    "tp-pp": _Parts(
        "Tensor parallelism in two pipeline stages", {"tp": 4, "pp": 2}, ("layers, heads", "layers, width", "layers, heads")
    ),
    "tp-ep": _Parts("Tensor-parallel attention, expert parallelism", {"tp": 8, "ep": 8}, ("heads", "experts", "KV heads")),
    "dp": _Parts("Data parallelism", {"dp": 8}, ("a copy", "a copy", "sequences")),
    "dp-ep": _Parts("Data-parallel attention, expert parallelism", {"dp": 8, "ep": 8}, ("a copy", "experts", "sequences")),
}

_EXCHANGE: dict[Layout, dict[str, str]] = {"dp-ep": {"deepep_mode": "normal"}}
"""Tokens go to the devices of their experts, whatever a usual engine does inside a node."""


def draw(
    layout: Layout = "tp", model: str = "mixtral-8x7b", node: str = "dgx-h100", batch: int = 64, context: int = 4096
) -> Drawing:
    """Draw what each of eight devices holds.

    Args:
        layout: of the devices.
        model: a mixture of 8 experts.
        node: of eight devices.
        batch: sequences of the whole deployment.
        context: tokens of each.
    """
    title, _, moe = mixture(model)
    parts = _LAYOUTS[layout]
    options = {**parts.sizes, **_EXCHANGE.get(layout, {})}
    result = roofline.analyze(model, node, batch=batch, context=context, phase="decode", ignore_capacity=True, **options)  # type: ignore[arg-type]
    memory, here = result.memory, batch // parts.sizes.get("dp", 1)
    tp, pp, ep, dp = (parts.sizes.get(name, 1) for name in ("tp", "pp", "ep", "dp"))
    request = prepare(model, node, ignore_capacity=True, **options)
    step = decode(batch, context)
    graphs = [build(request.model, request.deployment, request.precision, step, stage) for stage in stages(request.model, pp)]
    sent = [float(sum(operator.cost().link_bytes * repeat for operator, repeat in graph.values())) for graph in graphs]
    links = max(sent)
    graph = graphs[sent.index(links)]
    outside = sum(operator.cost().link_bytes * repeat for path, (operator, repeat) in graph.items() if "layers/" not in path)
    canvas = Canvas(height=352)
    left, pitch = 112.0, 81.0
    rows: tuple[tuple[str, str, Hue, float], ...] = (
        ("attention", parts.says[0], "green", 34),
        ("experts", parts.says[1], "gold", 106),
        ("KV cache", parts.says[2], "pink", 178),
    )
    for name, divided, hue, y in rows:
        canvas.label(name, 8, y + 18, strong=True, hue=hue)
        canvas.label(divided if divided == "a copy" else f"by {divided}", 8, y + 37, size=11, hue="grey")
    for device in range(_DEVICES):
        x = left + device * pitch
        canvas.label(f"device {device}", x + _WIDE / 2, 16, anchor="middle", size=12)
        stage, slice_ = device // tp % pp, device % tp
        band, tall = _HIGH * stage / pp, _HIGH / pp
        for name, _, hue, y in rows:
            canvas.box(x, y, _WIDE, _HIGH, hue="grey", empty=True)
            if name == "experts":
                parts_across, own = (moe.num_experts, device) if ep > 1 else (tp, slice_)
                _fill(canvas, x + own * _WIDE / parts_across, y + band, _WIDE / parts_across, tall, hue)
            else:
                _fill(canvas, x + slice_ * _WIDE / tp, y + band, _WIDE / tp, tall, hue)
        canvas.label(
            f"{here} seq." if dp > 1 else f"all {batch} seq.",
            x + _WIDE / 2,
            178 + _HIGH + 13,
            anchor="middle",
            size=11,
            hue="pink",
        )
    canvas.label("down: layers", 8, 178 + _HIGH + 13, size=11, hue="grey")
    cache = memory.kv_bytes_per_token * context * here
    canvas.label(
        f"On each device: {formatting.quantity(memory.weights_bytes, 'B', 3)} of weights and "
        f"{formatting.quantity(cache, 'B', 3)} of "
        f"KV cache{'' if memory.fits else '. It has less: this does not fit'}",
        8,
        282,
        strong=True,
    )
    canvas.label(
        f"Sent by it in a decode step: {formatting.quantity(links, 'B', 3)}. {_collectives(graph, float(outside))}",
        8,
        306,
        hue="purple",
    )
    where = load_hardware(node)[0].title
    canvas.label(f"{title} in bf16, {batch} sequences with {context:,} tokens each, on {where}", 8, 332, size=12, hue="grey")
    divided = f"attention: {parts.says[0]}; experts: {parts.says[1]}; KV cache: {parts.says[2]}"
    return canvas.drawing(
        f"parallel-layouts-{layout}",
        f"{parts.name} ({', '.join(f'{name.upper()} {size}' for name, size in parts.sizes.items())}): what each device holds",
        f"For each of {_DEVICES} devices three rectangles: attention's weights, experts, KV cache, with the part "
        "filled that the device "
        f"has. What is divided: {divided}. A device holds {formatting.quantity(memory.weights_bytes, 'B', 3)} of weights and "
        f"{formatting.quantity(cache, 'B', 3)} of cache, and sends {formatting.quantity(links, 'B', 3)} in a decode step.",
    )


def _fill(canvas: Canvas, x: float, y: float, wide: float, tall: float, hue: Hue) -> None:
    canvas.area((x, y), (x + wide, y), (x + wide, y + tall), (x, y + tall), hue=hue, strong=True)


def _collectives(graph: Graph, outside: float) -> str:
    """What is sent, in words; some bytes of it outside the layers."""
    names = {
        "all_reduce": "all-reduce",
        "all_to_all": "all-to-all",
        "all_gather": "all-gather",
        "reduce_scatter": "reduce-scatter",
    }
    counts: dict[str, int] = {}
    for path, (operator, _) in graph.items():
        if path.startswith("layers/") and operator.kind in names:
            counts[names[operator.kind]] = counts.get(names[operator.kind], 0) + 1
    each = ", ".join(f"{count} {name}{'s' if count > 1 else ''}" for name, count in counts.items())
    listed = [f"in each layer {each}"] if counts else []
    if any(operator.kind in names and not path.startswith("layers/") for path, (operator, _) in graph.items()):
        listed.append(f"{formatting.quantity(outside, 'B', 3)} for embedding and LM head")
    if any(operator.kind == "send_recv" for operator, _ in graph.values()):
        listed.append("a message to the next stage")
    text = ", ".join(listed) or "replicas are independent"
    return text[0].upper() + text[1:]
