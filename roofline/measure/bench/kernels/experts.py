"""The routed experts of a layer."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.nn import functional

from roofline.measure.bench.kernels.base import Kernel, NotRunnableError, first_line
from roofline.measure.bench.place import Place, whole
from roofline.measure.bench.variants import GROUPED


@dataclass(frozen=True)
class Routing:
    """Which rows each expert has: tokens sorted by expert, and where each expert's rows end. Known to the host, so that a
    call needs no look at the device."""

    tokens: Any
    ends: list[int]
    ends_on_device: Any
    gates: Any


def route(place: Place, *, tokens: int, experts: int, topk: int, balanced: bool, dtype: str) -> Routing:
    """Balanced: the choices go round. Uniform: each token draws `topk` different experts, all equally likely."""
    chance = random.Random(f"{tokens} {experts} {topk}")  # noqa: S311 - a routing, not a secret
    rows: list[list[int]] = [[] for _ in range(experts)]
    for token in range(tokens):
        around = [(token * topk + turn) % experts for turn in range(topk)]
        for expert in around if balanced else chance.sample(range(experts), topk):
            rows[expert].append(token)
    ends, total = [], 0
    for listed in rows:
        total += len(listed)
        ends.append(total)
    order = [token for listed in rows for token in listed]
    gates = place.random(total, 1, dtype=dtype)
    return Routing(place.whole_numbers(order), ends, place.whole_numbers(ends).to(torch.int32), gates)


def multiply(rows: Any, weights: Any, routing: Routing, backend: str) -> Any:
    """rows[r] times the matrix of the expert whose row it is; weights are [experts, n, k]."""
    if backend == GROUPED:
        grouped = getattr(functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
        if grouped is None:
            raise NotRunnableError("this torch has no grouped product")
        try:
            return grouped(rows, weights.transpose(1, 2), offs=routing.ends_on_device)
        except RuntimeError as error:
            raise NotRunnableError(f"grouped: {first_line(error)}") from None
    out = torch.empty(rows.shape[0], weights.shape[1], dtype=rows.dtype, device=rows.device)
    for expert, (start, end) in enumerate(zip([0, *routing.ends], routing.ends, strict=False)):
        if end > start:
            torch.mm(rows[start:end], weights[expert].t(), out=out[start:end])
    return out


def experts(x: Any, up: Any, down: Any, routing: Routing, backend: str, *, gated: bool = True) -> Any:
    """Gather each expert's rows, up, activation, down, and add what the experts of a token gave, scaled by its gates."""
    inner = multiply(x[routing.tokens], up, routing, backend)
    if gated:
        gate, value = inner.chunk(2, dim=-1)
        inner = functional.silu(gate) * value
    else:
        inner = functional.silu(inner)
    out = multiply(inner, down, routing, backend)
    return torch.zeros_like(x).index_add_(0, routing.tokens, out * routing.gates)


class Experts(Kernel):
    """All routed experts of a layer on one device."""

    ops: ClassVar[tuple[str, ...]] = ("moe",)
    composed: ClassVar[bool] = True

    def inputs(self) -> tuple[Any, ...]:
        """Tokens, both weights, and a routing."""
        up, down, place = self.operator("up_proj"), self.operator("down_proj"), self.place
        balanced = self.point.texts.get("distribution") == "balanced"
        x = place.random(up.tokens, up.k, dtype=self.dtype)
        wide = place.random(up.experts, up.n, up.k, dtype=self.dtype, scale=0.02)
        narrow = place.random(down.experts, down.n, down.k, dtype=self.dtype, scale=0.02)
        sizes = {"tokens": whole(up.tokens), "experts": whole(up.experts), "topk": whole(up.top_k)}
        return x, wide, narrow, route(place, **sizes, balanced=balanced, dtype=self.dtype)

    def run(self, *inputs: Any) -> Any:
        """Up, activation, down, sum."""
        x, up, down, routing = inputs
        return experts(x, up, down, routing, self.point.backend)
