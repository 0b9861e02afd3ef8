"""The query of a plan: the model, the load, what may be searched, what is fixed, and the limits."""

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
MAX_DEVICES = 32
"""Per replica."""


@dataclass(frozen=True)
class Query:
    """A resolved query.

    Args:
        model: the model.
        traffic: what arrives.
        load: its summary.
        hardware: kinds of hardware to search.
        fixed: options of `analyze` that are not searched.
        prices: prices by hardware.
        inputs: files that were read.
        rank: order of the candidates.
        modes: colocated, disaggregated, or both.
        spare: replicas of each pool for those that fail.
        max_gpus: maximum accelerators.
        max_cost: maximum cost per hour, in the currency of the prices.
        inventory: available accelerators by name.
        pue: energy of the building over that of its machines.
        top: number of candidates to return.
    """

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
        """Maximum devices of a kind of hardware."""
        limits = [self.max_gpus] if self.max_gpus is not None else []
        if self.inventory is not None:
            named = (hardware.name, hardware.accelerator.name)
            limits.append(max((self.inventory[name] for name in named if name in self.inventory), default=0))
        return min(limits, default=2**60)
