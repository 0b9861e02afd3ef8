"""One answer of a plan: so many replicas of a deployment, what users see, what it costs, what breaks first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofline.serving.planning.expected import Expected
from roofline.serving.planning.sizing import Binds


@dataclass(frozen=True, slots=True)
class Pool:
    """Replicas of one deployment. `role`: both phases, prompts alone, or answers alone. Sizes of a replica; `spare` of the
    replicas are there for those that fail."""

    role: str
    replicas: int
    spare: int
    devices: int
    deployment: dict[str, Any]
    engine_flags: dict[str, list[str]]
    max_rate: float
    """Requests a second that a replica serves within the objectives."""
    binds: Binds
    running: float
    """Sequences that decode on a replica, mean over time."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "role": self.role, "replicas": self.replicas, "spare": self.spare, "devices": self.devices,
            "deployment": self.deployment, "engine_flags": self.engine_flags, "max_rate": self.max_rate, "binds": self.binds,
            "running": self.running,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cost:
    """An hour of all devices, within the range of the price, and a million tokens at the mean load. Input and output by the
    time that a request's prompt and answer keep a replica busy. None without a price."""

    per_hour: float | None
    low: float | None
    high: float | None
    input: float | None
    output: float | None
    total: float | None
    currency: str | None
    price: str | None
    """A device's hour, in words, with its source."""
    scaled_per_hour: float | None = None
    """With as many replicas as each part of the day needs; None without a profile."""


@dataclass(frozen=True, slots=True)
class Power:
    """At most, from the TDP of all devices."""

    watts: float | None
    joules_per_output_token: float | None
    pue: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to serve the load. `devices` and `replicas` are of the whole, spares included."""

    hardware: str
    title: str
    mode: str
    precision: str
    pools: tuple[Pool, ...]
    expected: Expected
    requests_per_s: float
    output_tokens_per_s: float
    input_tokens_per_s: float
    cost: Cost
    power: Power
    headroom: float | None
    """What more of the planned rate could be served within the objectives, as a fraction of it."""
    breaks_at: float | None
    """Requests a second at which an objective is missed, or the replicas saturate."""
    basis: str
    notes: tuple[str, ...] = ()

    @property
    def devices(self) -> int:
        """Accelerators of all replicas."""
        return sum(pool.devices * pool.replicas for pool in self.pools)

    @property
    def replicas(self) -> int:
        """Of all pools."""
        return sum(pool.replicas for pool in self.pools)

    @property
    def tightest(self) -> Pool:
        """The pool that has least room."""
        return min(self.pools, key=lambda pool: pool.max_rate * (pool.replicas - pool.spare))

    @property
    def binds(self) -> Binds:
        """What stops it from serving more."""
        return self.tightest.binds

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the documented layout."""
        main = self.pools[-1]
        return {
            "hardware": self.hardware,
            "title": self.title,
            "devices": self.devices,
            "replicas": self.replicas,
            "spare": sum(pool.spare for pool in self.pools),
            "mode": self.mode,
            "precision": self.precision,
            "deployment": main.deployment,
            "engine_flags": main.engine_flags,
            "pools": [pool.to_dict() for pool in self.pools],
            "ttft_s": self.expected.ttft.to_dict(),
            "tpot_s": self.expected.tpot.to_dict(),
            "classes": {
                name: {"ttft_s": ttft.to_dict(), "tpot_s": tpot.to_dict()}
                for name, (ttft, tpot) in self.expected.classes.items()
            },
            "throughput": {
                "requests_per_s": self.requests_per_s,
                "output_tokens_per_s": self.output_tokens_per_s,
                "input_tokens_per_s": self.input_tokens_per_s,
            },
            "utilisation": self.expected.utilisation,
            "running": self.expected.running,
            "cost_per_hour": self.cost.per_hour,
            "cost_per_hour_range": None if self.cost.low is None else [self.cost.low, self.cost.high],
            "cost_per_hour_scaled": self.cost.scaled_per_hour,
            "cost_per_million_tokens": {"input": self.cost.input, "output": self.cost.output, "total": self.cost.total},
            "currency": self.cost.currency,
            "price": self.cost.price,
            "power": {
                "watts_at_most": self.power.watts,
                "joules_per_output_token_at_most": self.power.joules_per_output_token,
                "pue": self.power.pue,
            },
            "binds": self.binds,
            "breaks_first": {"what": self.binds, "rate": self.breaks_at},
            "headroom": self.headroom,
            "basis": self.basis,
            "notes": list(self.notes),
        }
