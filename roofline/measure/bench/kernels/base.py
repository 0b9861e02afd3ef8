"""What every kernel is: inputs to make as often as needed, and a call on one set of them."""

from __future__ import annotations

from typing import Any, ClassVar

from roofline.measure.bench.place import Place
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
