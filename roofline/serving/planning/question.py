"""What a plan is asked: the model, the load, what may be searched, what is fixed, and what it may cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from roofline.blocks.model import Model
from roofline.serving.planning.load import Load
from roofline.serving.planning.prices import Prices
from roofline.serving.traffic.classes import Traffic
from roofline.specs.hardware import Hardware
from roofline.specs.library import Input

Rank = Literal["cost", "gpus", "latency"]
RANKS = ("cost", "gpus", "latency")
Mode = Literal["colocated", "disaggregated"]
MODES = ("colocated", "disaggregated", "any")
MOST_DEVICES = 32
"""Of a replica."""


@dataclass(frozen=True)
class Question:
    """A plan's question with nothing left open. `fixed` are options of `analyze` that are not searched."""

    model: Model
    traffic: Traffic
    load: Load
    hardware: tuple[Hardware, ...]
    fixed: dict[str, Any]
    prices: Prices
    inputs: tuple[Input, ...]
    rank: Rank = "cost"
    modes: tuple[Mode, ...] = ("colocated", "disaggregated")
    spare: int = 0
    max_gpus: int | None = None
    max_cost: float | None = None
    inventory: dict[str, int] | None = None
    pue: float = 1.0
    top: int = 10

    def devices(self, hardware: Hardware) -> int:
        """The most that may be used of a kind of hardware."""
        limits = [self.max_gpus] if self.max_gpus is not None else []
        if self.inventory is not None:
            named = (hardware.name, hardware.accelerator.name)
            limits.append(max((self.inventory[name] for name in named if name in self.inventory), default=0))
        return min(limits, default=2**60)
