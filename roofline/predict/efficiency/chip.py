"""The datasheet figures that forms use, in base units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from roofline.operators.base import Operator
from roofline.predict.bounds import matrix_dtype
from roofline.specs.hardware import Connection, Hardware


@dataclass(frozen=True, slots=True)
class Chip:
    """One device. Figures that a file does not have stand at a value that changes nothing (see `chip`)."""

    hardware: Hardware
    architecture: str
    peaks: Mapping[str, float]
    """Dense matrix peak by dtype, FLOP/s."""
    vector: float
    """FLOP/s outside the matrix units."""
    bandwidth: float
    """Device memory, bytes/s."""
    units: float
    """SMs, CUs, cores."""
    l2: float
    """Last shared cache, bytes."""

    def peak(self, operator: Operator) -> float:
        """Matrix peak at the format in which an operator multiplies, FLOP/s."""
        return self.hardware.peak(matrix_dtype(operator, self.hardware))

    @property
    def sixteen_bit(self) -> float:
        """Matrix peak of 16-bit floats, FLOP/s: by which chips are compared, whatever they multiply."""
        return next(self.peaks[dtype] for dtype in ("bf16", "fp16", *self.peaks) if dtype in self.peaks)

    def link(self, devices: int) -> Connection | None:
        """What joins so many devices."""
        return self.hardware.connection(devices)


def chip(hardware: Hardware) -> Chip:
    """The figures of hardware. Without a count of units it is one; without vector units their time is nothing; without a
    figure for the cache there is none."""
    accelerator = hardware.accelerator
    return Chip(
        hardware=hardware,
        architecture=accelerator.architecture,
        peaks=hardware.peaks,
        vector=hardware.vector_peak or float("inf"),
        bandwidth=hardware.bandwidth,
        units=accelerator.compute_units.value if accelerator.compute_units else 1.0,
        l2=accelerator.l2.value if accelerator.l2 else 0.0,
    )
