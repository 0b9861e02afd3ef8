"""How evicted caches reach the host: what a user says of it, read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from roofline.predict.options import read_quantity
from roofline.units import parse_count


@dataclass(frozen=True, slots=True)
class ToHost:
    """What is said of the copies; None: what is known of the hardware.

    `host_link`: bytes/s that large copies reach in one direction. `pinned`: the host's memory is page-locked. `coalesced`:
    blocks are gathered and cross in one call each way, not in one a block, layer and tensor. `gpus_per_link`: devices behind
    one link to the host. `host_memory`: bytes for the evicted sequences of a replica.
    """

    host_link: float | None = None
    pinned: bool = True
    coalesced: bool = False
    gpus_per_link: int = 1
    host_memory: float | None = None

    @property
    def options(self) -> dict[str, Any]:
        """As `Preemption.of` takes them."""
        return asdict(self)

    @property
    def given(self) -> list[str]:
        """Flags of what differs from the default."""
        plain = ToHost().options
        changed = [name for name, value in self.options.items() if value != plain[name]]
        return ["--pageable" if name == "pinned" else f"--{name.replace('_', '-')}" for name in changed]


def to_host(
    *, host_link: str | float | None = None, pinned: bool = True, coalesced: bool = False,
    gpus_per_link: int | str | None = None, host_memory: str | float | None = None,
) -> ToHost:  # fmt: skip
    """Read flags, or what comes from Python.

    Raises:
        InputError: a wrong value, by its flag.
    """
    return ToHost(
        host_link=None if host_link is None else read_quantity("host_link", host_link, "byte/s"),
        pinned=pinned,
        coalesced=coalesced,
        gpus_per_link=1 if gpus_per_link is None else parse_count(gpus_per_link, "gpus-per-link", minimum=1),
        host_memory=None if host_memory is None else read_quantity("host_memory", host_memory, "byte"),
    )
