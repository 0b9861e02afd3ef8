"""Drawings: what no plot of data shows, such as blocks, heads, memories, rings and schedules. One file each.

`DRAWINGS["attention-heads"](kind="gqa")` makes one. Sizes, counts and speeds in it come from model and hardware files or are
computed; only layout is chosen by hand.
"""

from __future__ import annotations

from collections.abc import Callable

from roofline.registry import Registry
from roofline.teach.lessons.draw.canvas import Drawing

_NAMES = (
    "attention-heads", "cache-growth", "chunked-prefill", "collectives", "continuous-batching", "expert-parallel",
    "flash-attention", "gpu-memory", "kv-tiers", "launch-gaps", "littles-law", "mla-absorb", "moe-routing", "paged-blocks",
    "parallel-layouts", "pipeline-parallel", "prefill-and-decode", "prefill-decode-pools", "prefix-tree", "quantized-group",
    "recompute-or-swap", "request-timeline", "ring-all-reduce", "roofline-anatomy", "scheduler-loop", "sliding-window",
    "speculation-tree", "tensor-parallel", "tiles-and-waves", "transformer-block",
)  # fmt: skip


def _of_file(draw: Callable[..., Drawing]) -> str:
    """The name of a drawing is that of its file."""
    return draw.__module__.rpartition(".")[2].replace("_", "-")


DRAWINGS: Registry[Callable[..., Drawing]] = Registry(
    "drawing", {name: f"{__name__}.{name.replace('-', '_')}:draw" for name in _NAMES}, key=_of_file
)
"""Functions that draw, by name. Without arguments they draw what their subject usually looks like."""
