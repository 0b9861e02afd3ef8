"""What every kernel is: inputs to make as often as needed, and a call on one set of them; where its tensors are made."""

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
    r"""What an error says, cut to a line.

    >>> first_line(RuntimeError("")), first_line(ValueError("one\ntwo"))
    ('', 'one')
    """
    return (str(error).strip().splitlines() or [""])[0][:160]


class Kernel:
    """Runs the operators of a point, whose dimensions it reads from the operators themselves."""

    ops: ClassVar[tuple[str, ...]] = ()
    composed: ClassVar[bool] = False
    """Whether a call is many kernels, so that launching them one by one would be what is measured."""

    def __init__(self, point: Point, place: Place, *, whole_products: bool = False) -> None:
        self.point, self.place, self.dtype = point, place, point.dtype
        self.whole_products = whole_products
        """Every query against every key, as a counter of products sees them; never for timing."""

    def operator(self, name: str = "") -> Any:
        """One of the operators of the point; the only one where no name is given. NB: Any, for its dimensions."""
        operators = self.point.operators
        return (operators[name] if name else next(iter(operators.values())))[0]

    def inputs(self) -> tuple[Any, ...]:
        """A fresh set: activations, weights, caches. Tensors, or nests of them."""
        raise NotImplementedError

    def run(self, *inputs: Any) -> Any:
        """One call. What it returns is kept until the next call on the same set."""
        raise NotImplementedError


def nbytes(value: Any) -> int:
    """Bytes of all tensors in a nest of tuples, lists and mappings; views of one memory count once."""
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
