"""Copies in device memory, those into and out of the KV cache among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.base import Operator

Place = Literal["activations", "cache", "nothing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(Operator):
    """A copy of `elements`, read from one place and written to another: activations, or the KV cache in its own format.

    With nothing to write it is a pass that only reads (a sum), with nothing to read one that only writes (a fill). The cache
    is written where the block table of paged attention points; the table itself is not counted.

    >>> Copy(elements=16, write="cache").cost()  # 2 B*16 read, 2 B*16 written to the cache
    Cost(activation_bytes=32, kv_write_bytes=32)
    >>> Copy(elements=16, write="nothing").cost()  # 2 B*16 read
    Cost(activation_bytes=32)

    Source: Kwon et al. 2023 (paged KV cache), arXiv:2309.06180, section 4.
    """

    kind: ClassVar[str] = "copy"
    record_op: ClassVar[str] = "copy_d2d"
    elements: Expr
    read: Place = "activations"
    write: Place = "activations"

    def cost(self) -> Cost:
        """Each element read once and written once, in the format of each side; no FLOP."""
        activations = self.elements * ((self.read == "activations") + (self.write == "activations"))
        return Cost(
            activation_bytes=activations * self.dtypes.activation.bytes,
            kv_read_bytes=self.elements * self.dtypes.kv.bytes if self.read == "cache" else 0,
            kv_write_bytes=self.elements * self.dtypes.kv.bytes if self.write == "cache" else 0,
        )
