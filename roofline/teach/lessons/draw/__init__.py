"""Drawings: what no plot of data shows, such as blocks, heads, memories, rings and schedules. One file each.

`DRAWINGS["attention-heads"](kind="gqa")` makes one. Sizes, counts and speeds in it come from model and hardware files or are
computed; only layout is chosen by hand.
"""

from __future__ import annotations

from collections.abc import Callable

from roofline.registry import Registry
from roofline.teach.lessons.draw.canvas import Drawing

_NAMES = (
    "attention-heads", "cache-growth", "chunked-prefill", "continuous-batching", "flash-attention", "gpu-memory", "launch-gaps",
    "paged-blocks", "prefill-and-decode", "quantized-group", "request-timeline", "roofline-anatomy", "sliding-window",
    "tiles-and-waves", "transformer-block",
)  # fmt: skip


def _of_file(draw: Callable[..., Drawing]) -> str:
    """The name of a drawing is that of its file."""
    return draw.__module__.rpartition(".")[2].replace("_", "-")


DRAWINGS: Registry[Callable[..., Drawing]] = Registry(
    "drawing", {name: f"{__name__}.{name.replace('-', '_')}:draw" for name in _NAMES}, key=_of_file
)
"""Functions that draw, by name. Without arguments they draw what their subject usually looks like."""
