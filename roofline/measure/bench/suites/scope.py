"""What a suite is cut to: the kind of device, its cache, and the dtypes that were asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MIB, GIB = 2**20, 2**30


@dataclass(frozen=True, slots=True)
class Scope:
    """`dtypes` are those of the operators; ceilings are measured for every dtype that the device may multiply."""

    kind: Literal["cuda", "cpu"]
    cache_bytes: int
    dtypes: tuple[str, ...]
    devices: int = 1

    @property
    def large(self) -> bool:
        """A datacenter accelerator, as opposed to a host's processor, which is a thousand times slower."""
        return self.kind == "cuda"

    @property
    def attention_backends(self) -> tuple[str, ...]:
        """Backends of torch's attention that such a device may have."""
        return ("sdpa-flash", "sdpa-cudnn", "sdpa-efficient", "sdpa-math") if self.large else ("sdpa-flash", "sdpa-math")

    @property
    def elementwise_backends(self) -> tuple[str, ...]:
        """Compiling needs Triton on a GPU; on the host it would need a C++ compiler, and is left out."""
        return ("torch", "compiled") if self.large else ("torch",)

    @property
    def expert_backends(self) -> tuple[str, ...]:
        """One grouped product, or one product an expert."""
        return ("grouped", "loop") if self.large else ("loop",)
