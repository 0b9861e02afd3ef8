"""Copies in device memory, and between the device and the host."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import torch

from roofline.measure.bench.kernels.base import Kernel, NotRunnableError
from roofline.measure.bench.place import whole
from roofline.measure.bench.variants import BOTH_WAYS, OVERLAPPED

WORD = 4  # bytes of the elements that are moved: fp32
_WIDTH = 8192  # of the products beside which a copy is made: 1.1 TFLOP each
_A_PRODUCT = 32 * 2**20  # bytes that a link moves in less time than the fastest of today's devices takes for one


class InMemory(Kernel):
    """Read, write, or both. In chunks: blocks are copied one call each to where a shuffled table says, as a KV cache is
    moved that was not allocated in one piece."""

    ops: ClassVar[tuple[str, ...]] = ("copy_d2d",)

    def inputs(self) -> tuple[Any, ...]:
        """Source and target."""
        size = self.point.numbers["bytes"] / WORD
        source = self.place.random(size, dtype="fp32")
        target = self.place.empty(size, dtype="fp32")
        chunk = self.point.numbers.get("chunk_bytes")
        return source, target, _blocks(source, target, chunk) if chunk else None

    def run(self, *inputs: Any) -> Any:
        """One pass over the bytes."""
        source, target, blocks = inputs
        if blocks is not None:
            for one, other in blocks:
                other.copy_(one)
            return None
        match self.point.texts.get("kernel"):
            case "read":
                return source.sum()
            case "write":
                return target.fill_(1.5)
        return target.copy_(source)


def _blocks(source: Any, target: Any, chunk: int) -> list[tuple[Any, Any]]:
    size = chunk // WORD
    order = list(range(source.numel() // size))
    shuffled = random.Random(0).sample(order, len(order))  # noqa: S311 - a block table, not a secret
    return [(source[one * size : one * size + size], target[to * size : to * size + size])
            for one, to in zip(order, shuffled, strict=True)]  # fmt: skip


class ToHost(Kernel):
    """One call, or one a chunk, over the link to the host. Beside a product: the copy runs on a stream of its own while the
    matrix units are busy. Both ways: the same bytes cross in the other direction at the same time."""

    ops: ClassVar[tuple[str, ...]] = ("copy_h2d", "copy_d2h")

    def inputs(self) -> tuple[Any, ...]:
        """Blocks on both sides, and what goes on beside them."""
        if self.place.device.type != "cuda":
            raise NotRunnableError("the device has no memory of its own")
        numbers, kind = self.point.numbers, self.point.texts.get("kernel", "")
        pinned = self.point.texts.get("pinned") == "true"
        size = whole(numbers["bytes"] / WORD)
        sides = [self._sides(size, pinned=pinned) for _ in range(2 if kind == BOTH_WAYS else 1)]
        chunk = numbers.get("chunk_bytes", numbers["bytes"])
        blocks = [_blocks(host, device, chunk) for host, device in sides]
        beside = [self.place.random(_WIDTH, _WIDTH, dtype="bf16") for _ in range(2)] if kind == OVERLAPPED else []
        return blocks, beside, torch.cuda.Stream() if kind else None

    def _sides(self, size: int, *, pinned: bool) -> tuple[Any, Any]:
        host, device = torch.empty(size, pin_memory=pinned), self.place.random(size, dtype="fp32")
        host.copy_(device)
        return host, device

    def run(self, *inputs: Any) -> Any:
        """All blocks, in one direction; the other direction or the product on another stream."""
        blocks, beside, other = inputs
        inward = self.point.op == "copy_h2d"
        if other is None:
            _move(blocks[0], inward=inward)
            return None
        here = torch.cuda.current_stream()
        other.wait_stream(here)
        with torch.cuda.stream(other):
            if beside:
                # Enough of them to outlast the copy: what is left over goes on beside the next one.
                product = [torch.mm(*beside) for _ in range(max(2, self.point.numbers["bytes"] // _A_PRODUCT))][-1]
            else:
                product = None
                _move(blocks[1], inward=not inward)
        _move(blocks[0], inward=inward)
        if not beside:
            here.wait_stream(other)
        return product


def _move(blocks: list[tuple[Any, Any]], *, inward: bool) -> None:
    for host, device in blocks:
        if inward:
            device.copy_(host, non_blocking=True)
        else:
            host.copy_(device, non_blocking=True)
