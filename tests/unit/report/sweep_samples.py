"""Small sweeps whose numbers can be followed by hand."""

from __future__ import annotations

from itertools import product
from typing import Any

import pandas as pd

from roofline.report.sweep.data import SweepData

HARDWARE = ("h100-sxm", "a100-sxm-80gb")
BATCHES, LENGTHS = (1, 2, 4), (1024, 2048)
ROOM = 4 * 1024
"""Tokens that fit: batch x context."""


def seconds(hardware: str, batch: int, tokens: int) -> float:
    """10 ms and 1 ms a sequence and 1,024 tokens; the A100 takes twice as long."""
    return (0.010 + 0.001 * batch * tokens / 1024) * (2 if hardware == HARDWARE[1] else 1)


def row(hardware: str, batch: int, tokens: int, **more: Any) -> dict[str, Any]:
    """A point of `roofline sweep`."""
    fits, time = batch * tokens <= ROOM, seconds(hardware, batch, tokens)
    found = {
        "model": "llama-3.1-8b", "hardware": hardware, "phase": "decode", "devices": 1, "batch": batch, "context": tokens,
        "time_bound_s": time / 2 if fits else None, "time_estimate_s": time if fits else None,
        "tokens_per_s_per_device_estimate": batch / time if fits else None, "fits": fits, "bound_by": "memory",
    }  # fmt: skip
    return {**found, **more}


def rows(**more: Any) -> list[dict[str, Any]]:
    """Two accelerators, three batches, two contexts."""
    return [row(*point, **more) for point in product(HARDWARE, BATCHES, LENGTHS)]


def described(**more: Any) -> dict[str, Any]:
    """What a folder or a JSON says of the question."""
    grid = {
        "model": ["llama-3.1-8b"],
        "hardware": list(HARDWARE),
        "phase": ["decode"],
        "batch": [*BATCHES],
        "context": [*LENGTHS],
    }
    return {
        "tool_version": "0.1.0", "data_version": "2026.1.1",
        "inputs": {"model x": {"name": "x", "sha256": "ab" * 32}},
        "grid": grid, "columns": ["time_estimate_s", "fits"], "part_rows": 1000,
        "ignore_capacity": False, "reduce": None, **more,
    }  # fmt: skip


def swept(found: list[dict[str, Any]] | None = None, **more: Any) -> SweepData:
    """All of it."""
    frame = pd.DataFrame(rows() if found is None else found)
    return SweepData(name="sweep", frame=frame, **{"described": described(), "points": 12, **more})
