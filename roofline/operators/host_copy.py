"""A copy between the memory of the device and that of the host: KV blocks swapped out and in, weights loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.cost import Cost
from roofline.numeric import Expr
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCopy(Operator):
    """Move `size` bytes over the link to the host, in either direction, by `calls` calls one after another.

    The bytes cross the link once and the device's memory once (read on the way out, written on the way in). NB: each call
    costs a latency that is no part of the bound; what the host's own memory can do is not counted either.

    >>> HostCopy(size=65536, calls=2).cost()  # the bytes once over memory and once over the link, a message a call
    Cost(activation_bytes=65536, link_bytes=65536, messages=2)

    Source: Kwon et al. 2023 (swapping of blocks), arXiv:2309.06180, section 4.5.
    """

    kind: ClassVar[str] = "host_copy"
    to_host: ClassVar[bool] = True
    size: Expr
    calls: Expr = 1

    def cost(self) -> Cost:
        """All bytes over the link to the host and over device memory; one message per call."""
        return Cost(activation_bytes=self.size, link_bytes=self.size, messages=self.calls)
