"""Hardware: an accelerator (datasheet facts, each with its source), and a node that holds several."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from roofline.errors import InputError, UnknownNameError
from roofline.numeric import maximum
from roofline.specs.base import Spec, Whole
from roofline.specs.source import Bandwidth, Capacity, Clock, ComputeRate, Count, Power, Source

# What matrix units multiply. tf32 is how some treat fp32, with fewer bits.
MATRIX_DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4")


class Memory(Spec):
    """Device memory."""

    type: str = Field(description="HBM3, GDDR6, ...")
    label: Capacity = Field(description="capacity as it is sold; decimal unless the vendor says otherwise")
    reported: Capacity | None = Field(default=None, description="capacity that the driver reports; used where it is known")
    bandwidth: Bandwidth = Field(description="peak bandwidth between memory and chip")


class Link(Spec):
    """A connection from one device to others."""

    name: str
    per_direction: Bandwidth = Field(description="bandwidth in one direction, of all lanes of one device together")
    per_peer: Bandwidth | None = Field(
        default=None,
        description="bandwidth in one direction to one peer, where devices are wired to each other without a switch",
    )
    max_devices: Whole | None = Field(default=None, ge=2, description="the most devices that it joins; none: as many as asked")

    def bandwidth(self, devices: int) -> float:
        """Bytes/s that one device can send to the others of a group: without a switch, over the links to those alone."""
        if self.per_peer is None:
            return self.per_direction.value
        return min(self.per_direction.value, self.per_peer.value * (devices - 1))


class SelfCheck(Spec):
    """Compute units x clock x FMA x 2 has to give the dense peak: catches peaks that count sparsity."""

    dtype: str = Field(description="a key of `peak_flops`")
    fma_per_unit_clock: Whole = Field(description="dense FMA of one compute unit in one clock")
    tolerance: float = Field(default=0.012, description="relative difference that is accepted")


class Accelerator(Spec):
    """One accelerator as an engine sees it: one device."""

    schema_version: Literal[1]
    kind: Literal["accelerator"]
    name: str
    title: str
    vendor: str
    architecture: str
    form_factor: str = ""
    aliases: tuple[str, ...] = ()
    driver_names: tuple[str, ...] = Field(
        default=(), description="names that the driver gives the card, by which measured records know it"
    )
    devices: Whole = Field(
        default=1, ge=1, description="devices that software sees in it; the figures are those of all together"
    )
    peak_flops: dict[str, ComputeRate] = Field(description="dense peaks of the matrix units by dtype, never with sparsity")
    vector_flops: ComputeRate | None = Field(default=None, description="fp32 peak outside the matrix units")
    memory: Memory
    l2: Capacity | None = Field(default=None, description="last cache before memory that all compute units share")
    compute_units: Count | None = Field(default=None, description="SMs, CUs, cores")
    boost_clock: Clock | None = None
    tensor_clock: Clock | None = Field(default=None, description="clock of the dense peak, where it is not the boost clock")
    check: SelfCheck | None = None
    links: tuple[Link, ...] = Field(default=(), description="to other devices, the preferred one first")
    host_link: Link | None = Field(default=None, description="to the host: PCIe, or coherent")
    power: Power | None = None
    notes: tuple[str, ...] = ()
    sources: dict[str, Source]

    @model_validator(mode="after")
    def _sources_exist(self) -> Accelerator:
        _require_sources(self, self.sources)
        return self

    def self_check(self) -> tuple[float, float] | None:
        """Peak computed from units and clock, and the stated one, in FLOP/s; None where the file has no facts for it."""
        clock = self.tensor_clock or self.boost_clock
        if self.check is None or self.compute_units is None or clock is None:
            return None
        computed = self.compute_units.value * clock.value * self.check.fma_per_unit_clock * 2
        return computed, self.peak_flops[self.check.dtype].value

    @field_validator("peak_flops")
    @classmethod
    def _dtypes_known(cls, peaks: dict[str, ComputeRate]) -> dict[str, ComputeRate]:
        for dtype in peaks:
            if dtype not in MATRIX_DTYPES:
                raise ValueError(f"{dtype}: {UnknownNameError('dtype', dtype, MATRIX_DTYPES, list_all=True)}")
        if not peaks:
            raise ValueError(f"at least one dense peak is needed, of {', '.join(MATRIX_DTYPES)}")
        return peaks

    @model_validator(mode="after")
    def _check_holds(self) -> Accelerator:
        if self.check is not None and self.check.dtype not in self.peak_flops:
            msg = f"check: dtype {self.check.dtype!r} is not a key of peak_flops ({', '.join(self.peak_flops)})"
            raise ValueError(msg)
        peaks = self.self_check()
        if self.check is not None and peaks is not None and abs(peaks[0] / peaks[1] - 1) > self.check.tolerance:
            computed, stated = peaks
            msg = (
                f"peak_flops.{self.check.dtype} is {stated / 1e12:.6g} TFLOP/s, but units x clock x FMA x 2 give "
                f"{computed / 1e12:.6g} ({stated / computed:.2f} of it): a peak with sparsity, or a missing tensor_clock"
            )
            raise ValueError(msg)
        return self


class Host(Spec):
    """The host of a node."""

    memory: Capacity | None = None
    notes: str = ""


class Node(Spec):
    """Several equal accelerators in one machine."""

    schema_version: Literal[1]
    kind: Literal["node"]
    name: str
    title: str
    aliases: tuple[str, ...] = ()
    accelerator: str = Field(description="id of the accelerator")
    count: Whole = Field(ge=1, description="accelerators in the node")
    links: tuple[Link, ...] = Field(description="between the accelerators of the node, the preferred one first")
    host_link: Link | None = Field(default=None, description="from one accelerator to the host")
    network: Link | None = Field(default=None, description="to other nodes, the share of one accelerator")
    host: Host = Host()
    notes: tuple[str, ...] = ()
    sources: dict[str, Source]

    @model_validator(mode="after")
    def _sources_exist(self) -> Node:
        _require_sources(self, self.sources)
        return self


def _require_sources(spec: Spec, sources: dict[str, Source]) -> None:
    for path, fact in facts(spec):
        if fact.source not in sources:
            msg = f"{path}: source {fact.source!r} is not a key of sources ({', '.join(sources)})"
            raise ValueError(msg)


def facts(spec: Spec, prefix: str = "") -> list[tuple[str, ComputeRate | Bandwidth | Capacity | Clock | Power | Count]]:
    """Every sourced number of a spec with its dotted path, in the order of the file's schema."""
    listed = []
    for name in type(spec).model_fields:
        value = getattr(spec, name)
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, tuple) else [(None, value)]
        for key, item in items:
            path = prefix + name + (f".{key}" if key is not None else "")
            if isinstance(item, (ComputeRate, Bandwidth, Capacity, Clock, Power, Count)):
                listed.append((path, item))
            elif isinstance(item, Spec):
                listed += facts(item, path + ".")
    return listed


@dataclass(frozen=True, slots=True)
class Hardware:
    """What predictions run on: an accelerator, the node it sits in if one was named, and figures that the user put in
    the place of the file's (`overrides`: `peak_flops`, `bandwidth`, `memory_bytes`; `peak_scale` is a factor on all peaks)."""

    accelerator: Accelerator
    node: Node | None = None
    overrides: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The id of the node, or else of the accelerator."""
        return self.node.name if self.node else self.accelerator.name

    @property
    def title(self) -> str:
        """The name that a person reads."""
        return self.node.title if self.node else self.accelerator.title

    @property
    def peaks(self) -> dict[str, float]:
        """Dense matrix peak by dtype, FLOP/s."""
        scale = self.overrides.get("peak_scale", 1)
        return {
            dtype: self.overrides.get("peak_flops", rate.value) * scale for dtype, rate in self.accelerator.peak_flops.items()
        }

    def peak(self, dtype: str) -> float:
        """Dense matrix peak in FLOP/s for a dtype that the hardware multiplies."""
        if dtype not in self.accelerator.peak_flops:
            raise UnknownNameError(f"matrix dtype of {self.accelerator.name}", dtype, self.accelerator.peak_flops)
        return self.peaks[dtype]

    @property
    def vector_peak(self) -> float | None:
        """fp32 FLOP/s outside the matrix units; None where the file does not know it."""
        return self.accelerator.vector_flops.value if self.accelerator.vector_flops else None

    @property
    def bandwidth(self) -> float:
        """Device memory bandwidth, bytes/s."""
        return self.overrides.get("bandwidth", self.accelerator.memory.bandwidth.value)

    @property
    def memory_bytes(self) -> float:
        """Capacity of device memory in bytes: as reported where a source says so, else the label."""
        memory = self.accelerator.memory
        return self.overrides.get("memory_bytes", (memory.reported or memory.label).value)

    def to_host(self) -> Connection:
        """What joins one accelerator to the host: the node's link where one was named, else the accelerator's."""
        link = (self.node.host_link if self.node else None) or self.accelerator.host_link
        if link is None:
            msg = f"{self.title}: its file has no host_link, so that nothing is known of copies to and from the host"
            raise InputError(msg)
        return Connection(link, 2)

    def connection(self, devices: int) -> Connection | None:
        """What joins a group of `devices` neighbouring devices; None for a group of one.

        In a node, groups that are larger than it reach the others over the network. An accelerator on its own is joined
        by its own links, or over the host's as far as a server goes.
        """
        if devices == 1:
            return None
        if self.node is None:
            accelerator = self.accelerator
            over_host = (accelerator.host_link,) if accelerator.host_link and devices <= _IN_A_SERVER else ()
            if inside := _first_that_joins((*accelerator.links, *over_host), devices):
                return Connection(inside, devices)
            msg = (
                f"{self.title} has no link that joins {devices} devices: name a node with a network between nodes, such as "
                "dgx-h100, or describe one in a YAML file (kind: node)"
            )
            raise InputError(msg)
        count = self.node.count
        inside = _first_that_joins(self.node.links, min(devices, count))
        if devices <= count and inside is not None:
            return Connection(inside, devices)
        if devices > count and self.node.network is not None:
            return Connection(inside, count, self.node.network)
        msg = f"{self.title} has {count} accelerators and no network to other nodes: it cannot join {devices} devices"
        raise InputError(msg)


# The most devices that one server's PCIe joins.
_IN_A_SERVER = 8


def _first_that_joins(links: tuple[Link, ...], devices: int) -> Link | None:
    return next((link for link in links if link.max_devices is None or link.max_devices >= devices), None)


@dataclass(frozen=True, slots=True)
class Connection:
    """How a group of devices is joined: `inside` a node, in which `together` of them are, and over the `network`."""

    inside: Link | None
    together: int
    network: Link | None = None

    def seconds(self, link_bytes: Any, crossing_bytes: Any, peers: int) -> Any:
        """Time in which each device sends `link_bytes` among `peers` devices of its node, of which `crossing_bytes` leave
        the node. The two tiers work at the same time. Numbers of any kind."""
        if self.network is None:
            return link_bytes / self.inside.bandwidth(peers) if self.inside else 0.0
        across = crossing_bytes / self.network.per_direction.value
        if self.inside is None or self.together == 1:
            return across
        return maximum(across, (link_bytes - crossing_bytes) / self.inside.bandwidth(peers))

    def __str__(self) -> str:
        tiers = [(self.inside, self.inside.bandwidth(self.together) if self.inside and self.together > 1 else 0)]
        tiers.append((self.network, self.network.per_direction.value if self.network else 0))
        return ", between nodes ".join(f"{link.name} {rate / 1e9:g} GB/s" for link, rate in tiers if link and rate)
