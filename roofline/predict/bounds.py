"""Time of an operator from its cost: the bound (perfect overlap) and the sum (none).

Never FLOP / attainable FLOP/s, which divides by zero for a copy. Each of four resources is busy for its own time: the
matrix units, the vector units, device memory, the link. With perfect overlap an operator takes as long as the busiest;
with none, the sum of the four. The truth lies between (or above, where a kernel is poor): the two differ by 4 at most.

Source: Williams et al., "Roofline", CACM 52(4), 2009; max and sum as lower and upper bound: Austin et al., "How to Scale
Your Model", 2025, https://jax-ml.github.io/scaling-book/roofline.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.cost import Cost
from roofline.numeric import Expr, maximum
from roofline.operators.base import Operator
from roofline.specs.hardware import Hardware

# Which of the four times is which kind of bound.
RESOURCES = {"matrix": "compute", "vector": "compute", "memory": "memory", "link": "link"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds for which each resource of a device is busy. Numbers, or arrays that broadcast."""

    matrix: Expr
    vector: Expr
    memory: Expr
    link: Expr

    @property
    def bound(self) -> Expr:
        """Return the seconds with perfect overlap: the longest of the four."""
        longest = self.memory
        for seconds in (self.matrix, self.vector, self.link):
            if not (isinstance(seconds, float) and seconds == 0):
                longest = maximum(longest, seconds)
        return longest

    @property
    def sum(self) -> Expr:
        """Return the seconds with no overlap: the sum of the four."""
        return self.matrix + self.vector + self.memory + self.link

    @property
    def bound_by(self) -> str:
        """Return the resource that is busy longest, for plain numbers: "compute", "memory" or "link"; of equal ones memory."""
        longest, by = self.memory, "memory"
        for name, kind in RESOURCES.items():
            if getattr(self, name) > longest:
                longest, by = getattr(self, name), kind
        return by


def matrix_dtype(operator: Operator, hardware: Hardware) -> str:
    """Return the dtype whose matrix peak an operator runs at: that of its weights if the hardware multiplies it, else that of
    its
    activations.
    """
    wanted = operator.dtypes.matrix
    native = operator.multiplies_weights and wanted in hardware.accelerator.peak_flops
    return wanted if native else operator.dtypes.activation.name


def times(operator: Operator, cost: Cost, hardware: Hardware) -> Times:
    """Return the seconds for which one operator keeps each resource of a device busy.

    Args:
        operator: gives the dtypes and, of communication, the devices that take part.
        cost: of any number of its calls; fields may be arrays.
        hardware: its peaks, bandwidth and links.

    Returns:
        The four times, whose maximum is the bound.

    Raises:
        InputError: the hardware has no peak for the dtype, or no link that joins that many devices.

    Source: Williams et al., "Roofline", CACM 52(4), 2009.
    """
    link = 0.0
    if not (isinstance(cost.link_bytes, int) and cost.link_bytes == 0):
        joined = hardware.to_host() if operator.to_host else hardware.connection(getattr(operator, "span", 2))
        if joined is not None:
            crossing = cost.link_bytes * operator.crossing(joined.together)
            link = joined.seconds(cost.link_bytes, crossing, operator.peers(joined.together))
    vector = hardware.vector_peak
    nothing = isinstance(cost.matrix_flops, int) and cost.matrix_flops == 0  # then no peak is needed
    return Times(
        matrix=0.0 if nothing else cost.matrix_flops / hardware.peak(matrix_dtype(operator, hardware)),
        vector=cost.vector_flops / vector if vector else 0.0,
        memory=cost.bytes / hardware.bandwidth,
        link=link,
    )
