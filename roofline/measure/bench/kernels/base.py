"""The base class of kernels: inputs to make as often as needed, and a call on one set of them; the factory of tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch

from roofline.measure.bench.point import Point


class NotRunnableError(Exception):
    """The device, the library or the backend cannot run a point; the message says why."""


def first_line(error: BaseException) -> str:
    r"""The first line of an error's message, at most 160 characters.

    >>> first_line(RuntimeError("")), first_line(ValueError("one\ntwo"))
    ('', 'one')
    """
    return (str(error).strip().splitlines() or [""])[0][:160]


class Kernel:
    """Runs the operators of a point, whose dimensions it reads from the operators themselves.

    Args:
        point: what is measured.
        factory: makes its tensors.
        unmasked: attention without a mask, as counters of FLOP see it; never for timing.
    """

    ops: ClassVar[tuple[str, ...]] = ()
    composed: ClassVar[bool] = False
    """Whether a call is many kernels, so that launching them one by one would be what is measured."""

    def __init__(self, point: Point, factory: TensorFactory, *, unmasked: bool = False) -> None:
        self.point, self.factory, self.dtype = point, factory, point.dtype
        self.unmasked = unmasked

    def operator(self, name: str = "") -> Any:
        """An operator of the point by name; the first one where no name is given. NB: Any, for its dimensions."""
        operators = self.point.operators
        return (operators[name] if name else next(iter(operators.values())))[0]

    def inputs(self) -> tuple[Any, ...]:
        """Make a new set of activations, weights and caches: tensors, or nested tuples, lists and mappings of them.

        Raises:
            NotRunnableError: if the device or torch cannot run the point.
        """
        raise NotImplementedError

    def run(self, *inputs: Any) -> Any:
        """Make one call on a set of `inputs`. The caller holds the result until the next call on the same set.

        Raises:
            NotRunnableError: if the device or torch cannot run the point.
        """
        raise NotImplementedError


def nbytes(value: Any) -> int:
    """The bytes of all tensors in nested tuples, lists and mappings; views of the same storage count once."""
    seen: dict[int, int] = {}

    def visit(item: Any) -> None:
        if hasattr(item, "untyped_storage"):
            seen[item.untyped_storage().data_ptr()] = item.untyped_storage().nbytes()
        elif isinstance(item, dict):
            for part in item.values():
                visit(part)
        elif isinstance(item, (tuple, list)):
            for part in item:
                visit(part)

    visit(value)
    return sum(seen.values())


_DTYPES: dict[str, Any] = {
    "fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16,
    "fp8": torch.float8_e4m3fn, "int8": torch.int8,
}  # fmt: skip


class TensorFactory:
    """Makes the tensors of kernels. On torch's meta device they have shapes and no content, which is enough to count FLOP.

    Args:
        device: "cuda", "cpu" or "meta".
        seed: of the random numbers.
    """

    def __init__(self, device: str, seed: int = 0) -> None:
        self.device = torch.device(device)
        where = "cpu" if device == "meta" else device
        self.generator = torch.Generator(device=where).manual_seed(seed)

    def random(self, *shape: float, dtype: str, scale: float = 1.0) -> Any:
        """A tensor of this shape with normal random numbers times `scale` (for int8 integers from -8 to 7, not scaled).

        NB: zeros would run faster than data do.

        Raises:
            KeyError: if the dtype is none that torch multiplies.
        """
        sizes = [whole(size) for size in shape]
        kind = _DTYPES[dtype]
        if self.device.type == "meta":
            return torch.empty(sizes, dtype=kind, device=self.device)
        if kind is torch.int8:
            return torch.randint(-8, 8, sizes, dtype=kind, device=self.device, generator=self.generator)
        made = torch.float32 if kind in (torch.float32, torch.float8_e4m3fn) else kind
        values = torch.randn(sizes, dtype=made, device=self.device, generator=self.generator)
        return (values.mul_(scale) if scale != 1.0 else values).to(kind)

    def nibbles(self, rows: float, columns: float) -> Any:
        """A tensor of int32 with random integers from 0 to 15."""
        sizes = [whole(rows), whole(columns)]
        if self.device.type == "meta":
            return torch.empty(sizes, dtype=torch.int32, device=self.device)
        return torch.randint(0, 16, sizes, dtype=torch.int32, device=self.device, generator=self.generator)

    def scales(self, *shape: float, dtype: str = "fp32") -> Any:
        """A tensor of this shape with random numbers from 0.5 to 1.5."""
        return self.random(*shape, dtype=dtype).sigmoid_().add_(0.5)

    def whole_numbers(self, values: list[int]) -> Any:
        """A tensor of int64 with these values, shape [len(values)]."""
        return torch.tensor(values, dtype=torch.long, device=self.device)

    def indices(self, count: float, below: float) -> Any:
        """A tensor of int64 with random integers from 0 to `below` - 1, shape [count]."""
        if self.device.type == "meta":
            return torch.empty(whole(count), dtype=torch.long, device=self.device)
        return torch.randint(0, whole(below), (whole(count),), device=self.device, generator=self.generator)

    def empty(self, *shape: float, dtype: str) -> Any:
        """A tensor of this shape with any content, to write into."""
        return torch.empty([whole(size) for size in shape], dtype=_DTYPES[dtype], device=self.device)


def whole(size: float) -> int:
    """A dimension as an integer, as torch takes it: formulas may have made a float of it.

    Raises:
        ValueError: if it is not whole.
    """
    number = round(size)
    if not math.isclose(number, size):
        msg = f"{size} is no whole dimension"
        raise ValueError(msg)
    return number


@contextmanager
def tf32(*, allowed: bool) -> Iterator[None]:
    """Allow or forbid TF32 for fp32 GEMMs on CUDA inside the block."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
