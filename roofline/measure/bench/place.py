"""Where tensors are made: on a device, random, in the dtype of a record."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

DTYPES: dict[str, Any] = {
    "fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16,
    "fp8": torch.float8_e4m3fn, "int8": torch.int8,
}  # fmt: skip


class Place:
    """Makes the inputs of kernels. On torch's meta device they have shapes and no content, which is enough to count."""

    def __init__(self, device: str, seed: int = 0) -> None:
        self.device = torch.device(device)
        where = "cpu" if device == "meta" else device
        self.generator = torch.Generator(device=where).manual_seed(seed)

    def random(self, *shape: float, dtype: str, scale: float = 1.0) -> Any:
        """Normal random numbers (whole ones from -8 to 7 for int8). NB: zeros run faster than data do."""
        sizes = [whole(size) for size in shape]
        kind = DTYPES[dtype]
        if self.device.type == "meta":
            return torch.empty(sizes, dtype=kind, device=self.device)
        if kind is torch.int8:
            return torch.randint(-8, 8, sizes, dtype=kind, device=self.device, generator=self.generator)
        made = torch.float32 if kind in (torch.float32, torch.float8_e4m3fn) else kind
        values = torch.randn(sizes, dtype=made, device=self.device, generator=self.generator)
        return (values.mul_(scale) if scale != 1.0 else values).to(kind)

    def whole_numbers(self, values: list[int]) -> Any:
        """Indices, from the host."""
        return torch.tensor(values, dtype=torch.long, device=self.device)

    def indices(self, count: float, below: float) -> Any:
        """Random indices."""
        if self.device.type == "meta":
            return torch.empty(whole(count), dtype=torch.long, device=self.device)
        return torch.randint(0, whole(below), (whole(count),), device=self.device, generator=self.generator)

    def empty(self, *shape: float, dtype: str) -> Any:
        """Memory to write into."""
        return torch.empty([whole(size) for size in shape], dtype=DTYPES[dtype], device=self.device)


def whole(size: float) -> int:
    """A dimension as torch takes it: the formulas may have made a float of it."""
    number = round(size)
    if not math.isclose(number, size):
        msg = f"{size} is no whole dimension"
        raise ValueError(msg)
    return number


@contextmanager
def tf32(*, allowed: bool) -> Iterator[None]:
    """Whether fp32 products may be multiplied with fewer bits, for the time of a point."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
