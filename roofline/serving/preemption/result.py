"""The answer to `roofline preempt`: frozen values, and their form as JSON and as rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofline.predict.result import Analysis, dump_json
from roofline.registry import HasFigures
from roofline.serving.preemption.break_even import Asymptote
from roofline.serving.preemption.copies import Basis
from roofline.serving.preemption.curves import Heat, Point
from roofline.serving.preemption.partial import Partial
from roofline.serving.preemption.preemption import Cheaper
from roofline.serving.preemption.recompute import Recomputed
from roofline.serving.preemption.variants import VariantRow
from roofline.specs.source import Assumption
from roofline.version import envelope


@dataclass(frozen=True, slots=True)
class Asked:
    """The question: tokens that were evicted and those that stay before them, what runs beside, how copies are made."""

    tokens: int
    prefix: int
    batch: int
    context: int
    block_size: int
    pinned: bool
    coalesced: bool
    overlapped: bool
    gpus_per_link: int


@dataclass(frozen=True, slots=True)
class Swapped:
    """Copies of a device: seconds out and in and between what both together lie; bytes, calls and the bytes of a call, one way.

    `link` is the rate of large copies over the link, in bytes/s, `attained` that of these."""

    out_s: float
    in_s: float
    low_s: float
    high_s: float
    bound_s: float
    bytes: float
    calls: int
    chunk_bytes: float
    link: float
    attained: float
    curve: tuple[float, float]
    """Seconds of a call, and bytes/s of large copies, of one device."""
    basis: Basis

    @property
    def seconds(self) -> float:
        """Out and in."""
        return self.out_s + self.in_s


@dataclass(frozen=True, slots=True)
class Stolen:
    """Seconds that the device does not work for others, by either way; tokens that these would have had meanwhile (None where
    nothing runs beside)."""

    recompute_s: float
    swap_s: float
    recompute_tokens: float | None
    swap_tokens: float | None


@dataclass(frozen=True, slots=True)
class HostRoom:
    """What the evicted sequence takes in the host's memory, and what there is for those of a replica (None: no limit)."""

    bytes: float
    memory: float | None

    @property
    def fits(self) -> bool:
        """Whether there is room for this one."""
        return self.memory is None or self.bytes <= self.memory

    @property
    def sequences(self) -> int | None:
        """How many such sequences there is room for."""
        return None if self.memory is None else int(self.memory // self.bytes)


@dataclass(frozen=True, slots=True)
class Answer:
    """Both ways, and everything that is made of them."""

    recompute: Recomputed
    """As it is asked about: beside the running batch, if there is one."""
    alone: Recomputed
    swap: Swapped
    cheaper: Cheaper
    break_even_link: float | None
    asymptote: Asymptote
    crossover_tokens: tuple[int, ...]
    crossover_block_size: int | None
    partial: tuple[Partial, ...]
    stolen: Stolen
    host: HostRoom
    variants: tuple[VariantRow, ...]
    curves: tuple[Point, ...]
    heat: Heat

    @property
    def ratio(self) -> float:
        """Recompute over swap."""
        return self.recompute.seconds / self.swap.seconds

    @property
    def certain(self) -> bool:
        """Whether the intervals of both lie apart."""
        low, high = self.recompute.low or self.recompute.bound, self.recompute.high
        return self.swap.high_s < low or (high is not None and high < self.swap.low_s)


@dataclass(frozen=True, slots=True)
class Preempted(HasFigures):
    """The cost of bringing an evicted sequence back, recomputed against swapped; no times where the sequence does not fit."""

    inputs: dict[str, Any]
    model: dict[str, Any]
    hardware: dict[str, Any]
    deployment: dict[str, Any]
    asked: Asked
    basis: str
    """What the recomputation's times are: estimate, or bound."""
    answer: Answer | None
    assumptions: tuple[Assumption, ...]
    unfit: Analysis | None = None
    """The analysis of the sequence on the device, where it does not fit: it says what would."""

    @property
    def fits(self) -> bool:
        """Whether the device holds the sequence at all."""
        return self.unfit is None

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the documented layout."""
        asked = self.asked
        return {
            **envelope(self.inputs),
            "model": self.model,
            "hardware": self.hardware,
            "deployment": self.deployment,
            "tokens": asked.tokens,
            "kept_tokens": asked.prefix,
            "block_size": asked.block_size,
            "fits": self.fits,
            "basis": self.basis,
            **_answer(self.answer, asked, self.basis),
            "assumptions": [
                {"name": note.name, "value": note.value, "origin": note.origin, "why": note.why} for note in self.assumptions
            ],
        }

    def to_json(self, indent: int | None = 2) -> str:
        """JSON text; no NaN and no infinity."""
        return dump_json(self.to_dict(), indent)

    def flat(self) -> list[dict[str, Any]]:
        """One flat row a number of tokens; units in the names."""
        return [] if self.answer is None else [_point(point) for point in self.answer.curves]


def _answer(found: Answer | None, asked: Asked, basis: str) -> dict[str, Any]:
    if found is None:
        nothing = ("cheaper", "certain", "ratio", "break_even_link", "break_even", "crossover_block_size", "steals", "host")
        empty: dict[str, Any] = dict.fromkeys(nothing)
        lists: dict[str, list[Any]] = {"crossover_tokens": [], "partial": [], "variants": [], "curves": []}
        times = {"recompute": {"time_s": None}, "swap": {"time_s": None, "out_s": None, "in_s": None}}
        return {**times, **empty, **lists, "heatmap": None}
    swap, terms = found.swap, found.asymptote
    return {
        "recompute": {
            **_recomputed(found.recompute),
            "basis": basis,
            "batch": asked.batch,
            "context": asked.context if asked.batch else None,
            "alone": _recomputed(found.alone),
        },
        "swap": {
            "time_s": swap.seconds,
            "out_s": swap.out_s,
            "in_s": swap.in_s,
            "low_s": swap.low_s,
            "high_s": swap.high_s,
            "bound_s": swap.bound_s,
            "basis": swap.basis,
            "bytes": swap.bytes,
            "calls": swap.calls,
            "chunk_bytes": swap.chunk_bytes,
            "link": swap.link,
            "attained": swap.attained,
            "pinned": asked.pinned,
            "coalesced": asked.coalesced,
            "overlapped": asked.overlapped,
            "gpus_per_link": asked.gpus_per_link,
        },
        "cheaper": found.cheaper,
        "certain": found.certain,
        "ratio": found.ratio,
        "break_even_link": found.break_even_link,
        "break_even": {
            "exact": found.break_even_link,
            "asymptotic": terms.link,
            "kv_bytes_per_token": terms.kv_bytes,
            "peak_flops": terms.peak,
            "efficiency": terms.efficiency,
            "parameters": terms.parameters,
        },
        "crossover_tokens": list(found.crossover_tokens),
        "crossover_block_size": found.crossover_block_size,
        "partial": [
            {
                "order": part.order,
                "recomputed_tokens": part.recomputed,
                "swapped_tokens": part.swapped,
                "time_s": part.seconds,
                "recompute_s": part.recompute_s,
                "out_s": part.out_s,
                "in_s": part.in_s,
            }
            for part in found.partial
        ],
        "steals": {
            "recompute_s": found.stolen.recompute_s,
            "swap_s": found.stolen.swap_s,
            "recompute_tokens": found.stolen.recompute_tokens,
            "swap_tokens": found.stolen.swap_tokens,
        },
        "host": {
            "bytes": found.host.bytes,
            "memory_bytes": found.host.memory,
            "fits": found.host.fits,
            "sequences": found.host.sequences,
        },
        "variants": [
            {
                "variant": row.variant,
                "bytes": row.bytes,
                "swap_s": row.swap_s,
                "break_even_link": row.break_even_link,
                "cheaper": row.cheaper,
                "why": row.why,
            }
            for row in found.variants
        ],
        "curves": [_point(point) for point in found.curves],
        "heatmap": {
            "tokens": list(found.heat.tokens),
            "block_sizes": list(found.heat.blocks),
            "recompute_over_swap": [list(row) for row in found.heat.ratios],
        },
    }


def _recomputed(found: Recomputed) -> dict[str, Any]:
    return {
        "time_s": found.seconds,
        "bound_s": found.bound,
        "low_s": found.low,
        "high_s": found.high,
        "steps": found.steps,
    }


def _point(point: Point) -> dict[str, Any]:
    return {
        "tokens": point.tokens,
        "recompute_s": point.recompute_s,
        "swap_s": point.swap_s,
        "swap_coalesced_s": point.coalesced_s,
        "partial_s": point.partial_s,
    }
