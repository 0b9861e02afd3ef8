"""Closed forms that answer a question: intensities and their limits, the critical batch, where the cache overtakes weights."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Any, Literal

import sympy

from roofline.cost import Cost
from roofline.formulas.symbolic import symbol
from roofline.numeric import Expr, minimum
from roofline.operators.base import Operator

Flops = Literal["total", "matrix", "vector"]
Traffic = Literal["weight", "activation", "kv_read", "kv_write", "state_read", "state_write"]
ALL_TRAFFIC: tuple[Traffic, ...] = ("weight", "activation", "kv_read", "kv_write", "state_read", "state_write")


def intensity(operator: Operator, flops: Flops = "total", traffic: Iterable[Traffic] = ALL_TRAFFIC) -> Expr:
    """Return the arithmetic intensity of an operator in symbols, in FLOP/byte.

    Args:
        operator: with symbols for dimensions.
        flops: the work that counts: "total", "matrix" or "vector".
        traffic: kinds of memory traffic that count.

    With weight traffic alone a linear layer does 2mnk FLOP for b_w*n*k bytes; at two bytes per weight that is m:

    >>> from roofline.operators.gemm import Gemm
    >>> intensity(Gemm(m=symbol("B"), n=symbol("d_ff"), k=symbol("d_model")), "matrix", ["weight"])
    B
    """
    cost = operator.cost()
    return sympy.cancel(sympy.together(sympy.sympify(_flops(cost, flops), strict=True) / _bytes(cost, traffic)))


def _flops(cost: Cost, kind: Flops) -> Expr:
    return {"total": cost.flops, "matrix": cost.matrix_flops, "vector": cost.vector_flops}[kind]


def _bytes(cost: Cost, traffic: Iterable[Traffic]) -> Expr:
    return reduce(add, (getattr(cost, f"{kind}_bytes") for kind in traffic))


def limit_tokens(expr: Expr) -> Expr:
    """Return the limit of an intensity for many tokens per step (of many sequences).

    >>> from roofline.operators.gemm import Gemm
    >>> limit_tokens(intensity(Gemm(m=symbol("B"), n=symbol("d_ff"), k=symbol("d_model"))))
    d_ff*d_model/(d_ff + d_model)
    """
    return _limit(_limit(expr, symbol("T")), symbol("B"))


def limit_context(expr: Expr) -> Expr:
    """What an intensity tends to as more tokens are cached.

    Every cached token costs decode attention 4 n_q d_head FLOP and is 2 n_kv d_head elements long:

    >>> from roofline.operators.attention import Attention
    >>> B, s, n_q, n_kv, d = (symbol(name) for name in ("B", "S_c", "n_q", "n_kv", "d_head"))
    >>> limit_context(intensity(Attention(batch=B, new=1, cached=s, n_heads=n_q, n_kv_heads=n_kv, head_dim=d), "matrix"))
    n_q/n_kv
    """
    return _limit(expr, symbol("S_c"))


def _limit(expr: Expr, variable: sympy.Symbol) -> Expr:
    """The limit at infinity; which argument of a maximum or minimum wins there is settled first."""
    settled = sympy.sympify(expr, strict=True)
    # From the inside out: what an inner one settles to decides on the outer.
    while open_ones := [extreme for extreme in settled.atoms(sympy.Max, sympy.Min) if extreme.has(variable)]:
        chosen = min(open_ones, key=sympy.count_ops)
        settled_to = _at_infinity(chosen, variable)
        if settled_to == chosen:
            break
        settled = settled.subs(chosen, settled_to)
    return sympy.limit(sympy.cancel(sympy.together(settled)), variable, sympy.oo)


def _at_infinity(chosen: Any, variable: sympy.Symbol) -> Any:
    ends = {arg: sympy.limit(arg, variable, sympy.oo) for arg in chosen.args}
    first, last = (sympy.oo, -sympy.oo) if chosen.func is sympy.Max else (-sympy.oo, sympy.oo)
    if winners := [arg for arg, end in ends.items() if end == first]:
        return chosen.func(*winners)
    return chosen.func(*(arg for arg, end in ends.items() if end != last))


def ridge_point() -> Expr:
    """Return the arithmetic intensity (FLOP/byte) at which compute and memory take equally long: P/beta, in symbols.

    Source: Williams et al., "Roofline", CACM 52(4), 2009.
    """
    return symbol("P") / symbol("beta")


def critical_batch() -> Expr:
    """Return the batch (sequences) at which dense weights take as long to multiply as to read, in symbols.

    A step of B tokens does 2B FLOP per weight and reads b_w bytes per weight: 2B/P = b_w/beta.

    >>> critical_batch()
    P*b_w/(2*beta)
    """
    batch, peak, size, bandwidth = symbol("B"), symbol("P"), symbol("b_w"), symbol("beta")
    (solution,) = sympy.solve(sympy.Eq(2 * batch / peak, size / bandwidth), batch)
    return solution


def critical_tensor_parallel(seconds: Expr, sent: Expr, rate: Expr) -> Expr:
    """Return the tensor-parallel size at which all-reduces take as long as the work that the devices share.

    Work of T seconds on one device takes T/t on t of them. A ring all-reduce of S bytes sends 2 (t - 1)/t S from each device.
    Both are equal at t = 1 + T W/(2 S): more devices make the links the slower part.

    Args:
        seconds: T, of the shared work on one device.
        sent: S, bytes of the tensors that are summed, all all-reduces together.
        rate: W, bytes/s of a device's links in one direction.

    An MLP of two matrices (d_ff = 28,672) with one all-reduce on TPU v5p: 4 B d d_ff FLOP, 2 B d bytes. The book neglects
    that a device's own piece is not sent, which is the 1, and finds 28,672 x 2/2,550 = 22 for two axes of 180 GB/s:

    >>> f"{critical_tensor_parallel(4 * 8192 * 28672 / 459e12, 2 * 8192, 2 * 180e9):.2f}"
    '23.49'

    Source: Austin et al., "How to Scale Your Model", 2025, https://jax-ml.github.io/scaling-book/training (tensor parallelism).
    """
    return 1 + seconds * rate / (2 * sent)


def context_where_kv_overtakes_weights(
    weight_bytes: Expr, layers: Iterable[tuple[Expr, Expr | None, Expr]], batch: Expr
) -> Expr | None:
    """Return the cached tokens per sequence at which a decode step reads as many bytes of cache as of weights; None: it never
    does.

    Without windows B(s + 1)k = W, so s = W/(Bk) - 1. With windows the bytes grow along straight pieces, whose slope
    falls at each window: the answer lies on the first piece that reaches W. 0 where the new tokens alone weigh more.

    Args:
        weight_bytes: W, bytes of weights that the step reads.
        layers: (bytes per token k, window in tokens or None, number of layers); a layer reads the new token and
            min(s, window - 1) cached ones.
        batch: B, sequences.

    >>> W, B, k = sympy.symbols("W B k", positive=True)
    >>> context_where_kv_overtakes_weights(W, [(k, None, 1)], B)
    -1 + W/(B*k)
    >>> context_where_kv_overtakes_weights(100, [(2, None, 1), (3, 5, 1)], 1)  # 2(s + 1) + 3*5 = 100
    41.5
    """
    kinds = list(layers)
    windows = sorted({window for _, window, _ in kinds if window is not None})
    for position, end in enumerate([*windows, None]):
        growing = sum(size * count for size, window, count in kinds if window is None or window in windows[position:])
        filled = sum(
            size * count * window for size, window, count in kinds if window is not None and window not in windows[position:]
        )
        if growing == 0:
            return None
        cached = (weight_bytes - batch * filled) / (batch * growing) - 1
        if end is None or cached <= end - 1:
            return cached if isinstance(cached, sympy.Basic) else max(cached, 0)
    return None


def kv_read_bytes(layers: Iterable[tuple[Expr, Expr | None, Expr]], batch: Expr, cached: Expr) -> Expr:
    """Return the bytes of cache that one decode step reads.

    Args:
        layers: (bytes per token, window in tokens or None, number of layers).
        batch: sequences.
        cached: tokens cached per sequence before the step.

    >>> kv_read_bytes([(2, None, 1), (3, 5, 1)], 1, 9)  # 2*(9 + 1) + 3*5
    35
    """
    return sum(
        batch * size * count * (1 + (cached if window is None else minimum(cached, window - 1)))
        for size, window, count in layers
    )
