"""Operators that work on each row alone. `compiled` fuses what eager torch runs as several kernels."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

import torch
from torch.nn import functional

from roofline.measure.bench.kernels.base import Kernel, NotRunnableError, first_line
from roofline.measure.bench.variants import COMPILED


def rms_norm(x: Any, weight: Any) -> Any:
    """Each row over its root mean square, times a weight."""
    return functional.rms_norm(x, (x.shape[-1],), weight, 1e-5)


def rope(x: Any, cos: Any, sin: Any) -> Any:
    """Rotate the two halves of each head by the angles of its token. Source: Su et al. 2021, arXiv:2104.09864, eq. 34."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def silu_mul(x: Any) -> Any:
    """silu(gate) * up of rows that hold both."""
    gate, up = x.chunk(2, dim=-1)
    return functional.silu(gate) * up


def draw(logits: Any) -> Any:
    """One index a row, with the probabilities of a softmax: the largest of p / e over exponential e, which asks the host
    for nothing. Source: Efraimidis and Spirakis, Information Processing Letters 97(5), 2006."""
    chances = torch.softmax(logits, dim=-1)
    return torch.argmax(chances / torch.empty_like(chances).exponential_(), dim=-1)


FUNCTIONS = {"rmsnorm": rms_norm, "rope": rope, "silu_mul": silu_mul, "add": torch.add, "sampling": draw}


@cache
def _compiled(op: str, width: int) -> Any:
    """One a width: with the width known, a row is reduced as an engine's kernel does it; the number of rows is left open."""
    del width
    return torch.compile(FUNCTIONS[op])


_BROKEN: dict[str, str] = {}
"""Why an op could not be compiled: asked once, for a compiler that fails takes seconds each time."""


class Elementwise(Kernel):
    """One pass over a tensor, or a few."""

    ops: ClassVar[tuple[str, ...]] = (*FUNCTIONS, "embedding")
    _table: Any = None
    """One table for all sets of indices: each set reads other rows of it."""

    def inputs(self) -> tuple[Any, ...]:
        """The tensors of the op."""
        op, place, dtype = self.operator(), self.place, self.dtype
        match self.point.op:
            case "rmsnorm":
                return place.random(op.rows, op.width, dtype=dtype), place.random(op.width, dtype=dtype)
            case "rope":
                angles = [place.random(op.tokens, 1, op.rotary_dim / 2, dtype=dtype) for _ in range(2)]
                return place.random(op.tokens, op.heads, op.rotary_dim, dtype=dtype), *angles
            case "silu_mul":
                return (place.random(op.rows, 2 * op.width, dtype=dtype),)
            case "add":
                return place.random(op.elements, dtype=dtype), place.random(op.elements, dtype=dtype)
            case "sampling":
                return (place.random(op.rows, op.choices, dtype=dtype),)
        if self._table is None:
            self._table = place.random(op.entries, op.width, dtype=dtype)
        return place.indices(op.tokens, op.entries), self._table

    def run(self, *inputs: Any) -> Any:
        """The op."""
        op = self.point.op
        if op == "embedding":
            return functional.embedding(*inputs)
        if self.point.backend != COMPILED:
            return FUNCTIONS[op](*inputs)
        if op in _BROKEN:
            raise NotRunnableError(_BROKEN[op])
        try:
            return _compiled(op, inputs[0].shape[-1])(*inputs)
        except Exception as error:  # noqa: BLE001 - torch's compiler, Triton's and the C compiler raise errors of their own
            _BROKEN[op] = f"compiled: {type(error).__name__}: {first_line(error)}"
            raise NotRunnableError(_BROKEN[op]) from None
