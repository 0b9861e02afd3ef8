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
    reported: Capacity | None = Field(
        default=None,
        description="capacity that the driver reports, or lets the GPU have of unified memory; used where it is known",
    )
    bandwidth: Bandwidth = Field(description="peak bandwidth between memory and chip")


class Link(Spec):
    """An interconnect from one device to others, such as NVLink or PCIe."""

    name: str
    per_direction: Bandwidth = Field(description="bandwidth in one direction, of all lanes of one device together")
    per_peer: Bandwidth | None = Field(
        default=None,
        description="bandwidth in one direction to one peer, where devices are wired to each other without a switch",
    )
    max_devices: Whole | None = Field(default=None, ge=2, description="the most devices that it joins; none: as many as asked")

    @property
    def over_host(self) -> bool:
        """Whether it is PCIe."""
        return self.name.startswith("PCIe")

    def bandwidth(self, devices: int) -> float:
        """Bandwidth in byte/s, in one direction, that a device has to all others of a group together.

        Args:
            devices: size of the group, this device included; without a switch only the links within the group count.
        """
        if self.per_peer is None:
            return self.per_direction.value
        return min(self.per_direction.value, self.per_peer.value * (devices - 1))


class SelfCheck(Spec):
    """A check of the dense peak: compute units x clock x FMA x 2 has to give it. Finds peaks that count sparsity."""

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
    best_matmul: ComputeRate | None = Field(default=None, description="best bf16 matrix product of any size that was measured")
    memory: Memory
    l2: Capacity | None = Field(default=None, description="last cache before memory that all compute units share")
    l2_bandwidth: Bandwidth | None = Field(default=None, description="peak bandwidth at which all compute units read `l2`")
    compute_units: Count | None = Field(default=None, description="SMs, CUs, cores")
    registers: Capacity | None = Field(default=None, description="register file of one compute unit")
    shared_memory: Capacity | None = Field(
        default=None,
        description="memory of one compute unit that its programs manage, at most: NVIDIA's shared memory, AMD's LDS",
    )
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
        """The peak computed from units and clock, and the stated one, in FLOP/s; None where the file lacks facts for it."""
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
        if self.best_matmul is not None and "bf16" not in self.peak_flops:
            msg = f"best_matmul: is of a bf16 product, and peak_flops has no bf16 (it has {', '.join(self.peak_flops)})"
            raise ValueError(msg)
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
    """Every number of a spec that has a source, with its path of keys joined by dots, in the order of the schema.

    Args:
        spec: an accelerator, a node, or a section of one.
        prefix: put before each path.
    """
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
    """The hardware of a prediction.

    Attributes:
        accelerator: one device.
        node: the machine that holds several; None where the user named an accelerator.
        overrides: figures of the user instead of the file's: `peak_flops` (FLOP/s, of every dtype), `bandwidth` (byte/s),
            `memory_bytes`, `link_bandwidth` (byte/s, one direction, between the devices of a node); `peak_scale` is a factor
            on all peaks; `mfu`, `mbu` and `allreduce_bandwidth` (byte/s) are of estimates alone.
    """

    accelerator: Accelerator
    node: Node | None = None
    overrides: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The id of the node, or else of the accelerator."""
        return self.node.name if self.node else self.accelerator.name

    @property
    def title(self) -> str:
        """The name for people, of the node, or else of the accelerator."""
        return self.node.title if self.node else self.accelerator.title

    @property
    def peaks(self) -> dict[str, float]:
        """Dense peak of the matrix units of one device in FLOP/s, by dtype; overrides applied."""
        return {dtype: self.peak(dtype) for dtype in self.accelerator.peak_flops}

    def peak(self, dtype: str) -> float:
        """Dense peak of the matrix units of one device in FLOP/s.

        Raises:
            UnknownNameError: the matrix units do not multiply this dtype.
        """
        rate = self.accelerator.peak_flops.get(dtype)
        if rate is None:
            raise UnknownNameError(f"matrix dtype of {self.accelerator.name}", dtype, self.accelerator.peak_flops)
        return self.overrides.get("peak_flops", rate.value) * self.overrides.get("peak_scale", 1)

    @property
    def vector_peak(self) -> float | None:
        """Peak fp32 rate outside the matrix units in FLOP/s; None where the file does not have it."""
        return self.accelerator.vector_flops.value if self.accelerator.vector_flops else None

    @property
    def bandwidth(self) -> float:
        """Peak bandwidth of device memory in byte/s; overrides applied."""
        return self.overrides.get("bandwidth", self.accelerator.memory.bandwidth.value)

    @property
    def memory_bytes(self) -> float:
        """Capacity of device memory in bytes: overridden, else as the driver reports it, else as it is sold."""
        memory = self.accelerator.memory
        return self.overrides.get("memory_bytes", (memory.reported or memory.label).value)

    @property
    def given_shares(self) -> tuple[float, float] | None:
        """The shares of matrix peak and bandwidth that the user gave for estimates, 1 for one not given; None of neither."""
        mfu, mbu = self.overrides.get("mfu"), self.overrides.get("mbu")
        if mfu is None and mbu is None:
            return None
        return 1.0 if mfu is None else mfu, 1.0 if mbu is None else mbu

    def to_host(self) -> Connection:
        """The connection of one accelerator to the host: the node's link, else the accelerator's.

        Raises:
            InputError: neither file has a `host_link`.
        """
        link = (self.node.host_link if self.node else None) or self.accelerator.host_link
        if link is None:
            msg = f"{self.title}: its file has no host_link, so that nothing is known of copies to and from the host"
            raise InputError(msg)
        return Connection(link, 2)

    def connection(self, devices: int) -> Connection | None:
        """The connection of a group of `devices` neighbouring devices; None for a group of one.

        A group larger than the node also uses the network. Without a node, devices are connected by their own links, or up to
        8 of them over the host's.

        Raises:
            InputError: no link or network that connects that many devices.
        """
        if devices == 1:
            return None
        if self.node is None:
            accelerator = self.accelerator
            over_host = (accelerator.host_link,) if accelerator.host_link and devices <= IN_A_SERVER else ()
            if inside := _first_that_joins((*accelerator.links, *over_host), devices):
                return Connection(inside, devices, rate=self.overrides.get("link_bandwidth"))
            msg = (
                f"{self.title} has no link that joins {devices} devices: name a node with a network between nodes, such as "
                "dgx-h100, or describe one in a YAML file (kind: node)"
            )
            raise InputError(msg)
        count = self.node.count
        inside = _first_that_joins(self.node.links, min(devices, count))
        if devices <= count and inside is not None:
            return Connection(inside, devices, rate=self.overrides.get("link_bandwidth"))
        if devices > count and self.node.network is not None:
            return Connection(inside, count, self.node.network, self.overrides.get("link_bandwidth"))
        msg = f"{self.title} has {count} accelerators and no network to other nodes: it cannot join {devices} devices"
        raise InputError(msg)


IN_A_SERVER = 8
"""The most devices that one server's PCIe joins."""


def _first_that_joins(links: tuple[Link, ...], devices: int) -> Link | None:
    return next((link for link in links if link.max_devices is None or link.max_devices >= devices), None)


@dataclass(frozen=True, slots=True)
class Connection:
    """How a group of devices is connected.

    Attributes:
        inside: link within a node; None where nothing is known of it.
        together: number of the devices that share a node.
        network: link between nodes; None where one node holds all.
        rate: byte/s of the link within a node in one direction, instead of the link's own.
    """

    inside: Link | None
    together: int
    network: Link | None = None
    rate: float | None = None

    def within(self, peers: int) -> float:
        """Byte/s, in one direction, of the link within a node to all peers together."""
        if self.rate is not None:
            return self.rate
        return self.inside.bandwidth(peers) if self.inside else 0.0

    @property
    def over_host(self) -> bool:
        """Whether devices reach each other over the host's PCIe, of which hosts differ, and not over links of their own."""
        return self.inside is not None and self.inside.over_host

    def seconds(self, link_bytes: Any, crossing_bytes: Any, peers: int) -> Any:
        """Seconds in which each device sends its bytes; the links within nodes and the network work at the same time.

        Args:
            link_bytes: bytes that each device sends, in all: numbers, arrays or symbols.
            crossing_bytes: those of them that leave the node.
            peers: devices of the group within a node, the sending one included.
        """
        inside, across = self.by_tier(link_bytes, crossing_bytes, peers)
        if self.network is None:
            return inside
        return across if isinstance(inside, float) and not inside else maximum(across, inside)

    def by_tier(self, link_bytes: Any, crossing_bytes: Any, peers: int) -> tuple[Any, Any]:
        """Seconds of the links within nodes, and of the network; arguments as of `seconds`. 0.0 for one that is not used."""
        if self.network is None:
            return link_bytes / self.within(peers) if self.inside else 0.0, 0.0
        across = crossing_bytes / self.network.per_direction.value
        if self.inside is None or self.together == 1:
            return 0.0, across
        return (link_bytes - crossing_bytes) / self.within(peers), across

    def __str__(self) -> str:
        tiers = [(self.inside, self.within(self.together) if self.inside and self.together > 1 else 0)]
        tiers.append((self.network, self.network.per_direction.value if self.network else 0))
        return ", between nodes ".join(f"{link.name} {rate / 1e9:g} GB/s" for link, rate in tiers if link and rate)
