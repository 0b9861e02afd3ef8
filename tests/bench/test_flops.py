"""PyTorch's own FLOP counter over the very kernels that the bench times, against our matrix FLOP.

Attention is the written-out one with no mask, for the counter sees whole products and nothing of fused kernels on a host.
Tensors are on the meta device: shapes alone. What the counter cannot see is listed, and is none of the products.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the counter, is not installed")
from torch.utils.flop_counter import FlopCounterMode

from roofline.measure.bench.kernels import make
from roofline.measure.bench.kernels.base import TensorFactory
from roofline.measure.bench.point import COMPILED, EAGER, LOOP, Point
from roofline.measure.bench.suites import Scope, plan
from roofline.measure.records.columns import WEIGHT_ONLY

CUDA, CPU = Scope("cuda", 50 * 2**20, ("bf16", "fp8")), Scope("cpu", 32 * 2**20, ("fp32",))
# The counter has no rule for torch._int_mm, nor for packed weights; the others have no products.
NOT_COUNTED = {"int8", *WEIGHT_ONLY}
WITHOUT_PRODUCTS = {"copy_d2d", "copy_h2d", "copy_d2h", "add", "rmsnorm", "rope", "silu_mul", "embedding", "sampling"}
BACKEND = {"attention_prefill": EAGER, "attention_decode": EAGER, "mla_prefill": EAGER, "mla_decode": EAGER, "moe": LOOP,
           "layer": f"{EAGER}+{LOOP}", "step": f"{EAGER}+{LOOP}"}  # fmt: skip


MOST = {"moe": 10, "step": 2}
"""Sets of dimensions of a dtype and kernel that are counted, first and last of the plan among them; of other ops 40."""


@cache
def planned(scope: Scope) -> tuple[Point, ...]:
    """All points of the host or the device itself."""
    return tuple(plan(("ceilings", "operators", "transfers"), scope))


def points(op: str) -> list[Point]:
    """The points of an op in both plans, each set of dimensions once; of many of one dtype and kernel an even choice."""
    kinds: dict[str, dict[str, Point]] = defaultdict(dict)
    for point in (point for scope in (CUDA, CPU) for point in planned(scope)):
        if point.op == op and point.suite != "transfers" and point.dtype not in NOT_COUNTED:
            kept = replace(point, backend=BACKEND.get(op, point.backend))
            if "attention" in op:
                kept = replace(kept, texts={})  # how a package lays out its cache
            kinds[f"{kept.dtype} {dict(kept.texts)}"].setdefault(str(dict(kept.numbers)), kept)
    return [point for kind in kinds.values() for point in _spread(list(kind.values()), MOST.get(op, 40))]


def _spread(listed: list[Point], most: int) -> list[Point]:
    """At most `most` of them, at equal distances."""
    if len(listed) <= most:
        return listed
    return [listed[round(place * (len(listed) - 1) / (most - 1))] for place in range(most)]


def counted(point: Point) -> int:
    """FLOP of one call by PyTorch."""
    kernel = make(point, TensorFactory("meta"), unmasked=True)
    inputs = kernel.inputs()
    with FlopCounterMode(display=False) as counter:
        kernel.run(*inputs)
    return int(counter.get_total_flops())


def predicted(point: Point) -> Any:
    """Our matrix FLOP, every query against every key."""
    total = 0
    for operator, repeat in point.operators.values():
        whole = replace(operator, mask="full") if hasattr(operator, "mask") else operator
        total += whole.cost().matrix_flops * repeat
    return total


@pytest.mark.parametrize(
    "op",
    ["gemm", "bmm", "attention_prefill", "attention_decode", "mla_prefill", "mla_decode", "moe", "layer", "step"],
)
def test_kernels_do_the_flop_that_are_predicted(op: str) -> None:
    """Equal to the last one, of every kind of kernel that is ever measured, at sizes from all over its grid.

    Of 3,500 products, which differ in three numbers alone, and of attention 40 a kind; the kinds of layers whole.
    """
    listed = points(op)
    assert len(listed) >= 5
    for point in listed:
        assert counted(point) == predicted(point), point


def test_every_op_is_counted_or_has_no_products() -> None:
    """A new op of the suites is in the test above, or predicts no matrix FLOP."""
    for scope in (CUDA, CPU):
        for point in planned(scope):
            if point.op not in WITHOUT_PRODUCTS:
                assert point.op in ("gemm", "bmm") or point.op in BACKEND
                continue
            assert point.cost.matrix_flops == 0
            if point.op not in ("copy_h2d", "copy_d2h") and point.backend != COMPILED:  # those need a device
                assert counted(point) == 0


def test_the_counter_would_notice() -> None:
    """A kernel with one more token does not pass."""
    point = points("layer")[0]
    more = replace(point, numbers={**point.numbers, "kv_len": point.numbers["kv_len"] + 1})
    assert counted(more) != predicted(point)
