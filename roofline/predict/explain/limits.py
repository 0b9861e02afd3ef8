"""Explanations of what memory holds: cache a token, the largest batch, the longest context."""

from __future__ import annotations

from dataclasses import replace

import sympy

from roofline.errors import InputError
from roofline.formulas.symbolic import Values, evaluate, quantity, symbol
from roofline.graph import CANONICAL
from roofline.numeric import Expr, ceil_div
from roofline.predict.allocation import Allocation
from roofline.predict.explain.in_symbols import InSymbols
from roofline.predict.explain.value import Explanation, explanation
from roofline.specs.assumption import Assumption

_PAGED = "Kwon et al. 2023 (paged KV cache), arXiv:2309.06180"
_LEFT = quantity("M_free", r"M_{\mathrm{free}}", "bytes", "memory left beside weights and reserve", signed=True)
_WORKING = quantity("A", "A", "bytes", "activations of one sequence in a decode step")
_BLOCK = quantity("b_block", r"b_{\mathrm{block}}", "tokens", "tokens in a block of the paged cache")
_GROUPED = "the engine groups them"
_WEIGHTS = quantity("W", "W", "bytes", "weights on the device")


def kv_bytes_per_token(ask: InSymbols, phase: str = "decode") -> Explanation:
    """What one more token adds over all layers, while it is below every window."""
    del phase
    total: Expr = sympy.Integer(0)
    merged: dict[Expr, Expr] = {}
    for cache, layers in ask.caches():  # layers that differ in their window alone add the same
        size = cache.per_token * ask.precision.kv.bytes
        merged[size] = merged.get(size, 0) + layers
    every = sum(count for _, count in ask.stage.layers)
    for size, layers in merged.items():
        whole = layers.is_Add and evaluate(layers, ask.values) == every
        total += size * (symbol("L") if whole else layers)
    return explanation(
        "kv_bytes_per_token", total, ask.values, unit="bytes",
        source="Shazeer 2019, arXiv:1911.02150 (keys and values of every token are kept); MLA: DeepSeek-V2, arXiv:2405.04434",
    )  # fmt: skip


def max_batch(ask: InSymbols, phase: str = "decode") -> Explanation:
    """The largest batch whose decode step after S_c cached tokens fits."""
    del phase
    _refuse(ask, "max_batch")
    values, parts = _room(ask)
    length = symbol("S_c") + 1  # the cache holds the new token too
    layout = ask.request.memory.fullest.layout
    if ask.request.memory.fullest.plain or not layout.kinds:
        size = ask.precision.kv.bytes
        cache = sum(_whole(length) * cache.elements * size * layers for cache, layers in ask.caches()) + ask.state()
    else:
        cache, pages = _paged(layout)
        values = {**values, **pages}
    deployment = ask.request.deployment
    expr: Expr = sympy.floor(_LEFT / (cache + _WORKING))
    if evaluate(expr, values) < 0:
        expr = sympy.Max(0, expr)
    if deployment.max_num_seqs is not None:
        expr = sympy.Min(expr, deployment.max_num_seqs)
    if deployment.data_parallel_size > 1:
        expr = deployment.data_parallel_size * expr
    return explanation("max_batch", expr, values, unit="sequences", source=_PAGED, parts=parts)


def max_context(ask: InSymbols, phase: str = "decode") -> Explanation:
    """The most cached tokens with which a decode step of B sequences fits."""
    del phase
    _refuse(ask, "max_context")
    if ask.request.memory.fullest.layout.kinds and not ask.request.memory.fullest.plain:
        searched = ask.request.memory.max_context(ask.request.workload.batch)
        what = "no limit" if searched is None else f"{searched} by search"
        msg = f"max_context has no short closed form where layers do not keep every token as it is: analyze finds {what}"
        raise InputError(msg)
    values, parts = _room(ask)
    batch = ceil_div(symbol("B"), sympy.Integer(ask.request.deployment.data_parallel_size))
    room = _LEFT - batch * (_WORKING + ask.state())
    growing = sum(cache.elements * ask.precision.kv.bytes * count for cache, count in ask.caches())
    if growing != 0:
        expr = _BLOCK * sympy.floor(room / (batch * _BLOCK * growing)) - 1
        if evaluate(expr, values) < 0:
            expr = sympy.Max(0, expr)
        return explanation("max_context", expr, values, unit="tokens", source=_PAGED, parts=parts)
    note = Assumption("max_context", None, "default", "no layer keeps anything a token, so memory sets no limit")
    return Explanation(
        subject="max_context",
        formula="∞",
        latex=r"\infty",
        substituted="∞",
        substituted_latex=r"\infty",
        mathml="<math><mi>∞</mi></math>",
        substituted_mathml="<math><mi>∞</mi></math>",
        value=None,
        unit="tokens",
        source=_PAGED,
        assumptions=(note,),
        parts=parts,
    )


def _refuse(ask: InSymbols, subject: str) -> None:
    conventions = ask.request.deployment.conventions
    if conventions.shared_prefix:
        msg = f"{subject} has no short closed form with a shared prefix: leave out --shared-prefix, or see `roofline limits`"
        raise InputError(msg)
    if conventions.attention == "eager":
        msg = f"{subject} has no closed form where scores are kept: leave out --attention eager, or see `roofline limits`"
        raise InputError(msg)


def _whole(length: Expr) -> Expr:
    """Tokens of whole blocks that a sequence of some length takes in one layer."""
    return ceil_div(length, _BLOCK) * _BLOCK


def _paged(layout: Allocation) -> tuple[Expr, Values]:
    """Bytes of a sequence in a decode step where kinds of layers take blocks of their own, and the sizes of these."""
    total: Expr = sympy.Integer(0)
    values: Values = {}
    for number, kind in enumerate(layout.kinds, 1):
        seen = (
            f"with a window of {kind.window}"
            if kind.window
            else f"in chunks of {kind.chunk}"
            if kind.chunk
            else "that keep all"
        )
        block = quantity(f"b_{number}", f"b_{number}", "tokens", f"tokens in a block of the layers {seen}")
        size = quantity(f"P_{number}", f"P_{number}", "bytes", f"bytes of such a block in all of these layers, as {_GROUPED}")
        total = total + size * replace(kind, block=block).blocks(symbol("S_c"), 1)
        values |= {block: kind.block, size: kind.block_bytes}
    if layout.state_bytes:
        state = quantity("R_s", "R_s", "bytes", "recurrent state of a sequence, in whole pages")
        total, values[state] = total + state, layout.state_bytes
    return total, values


def _room(ask: InSymbols) -> tuple[Values, tuple[Explanation, ...]]:
    """Memory left, and activations a sequence: values of their symbols, and where they come from."""
    memory = ask.request.memory
    capacity = quantity("C", "C", "bytes", "capacity of the device's memory")
    share = quantity("u", "u", "1", "share of it that the engine uses")
    reserve = quantity("R", "R", "bytes", "reserve")
    weights = ask.total(ask.graph(CANONICAL), lambda operator: operator.held_bytes)
    held = explanation("weights", weights, ask.values, unit="bytes", source="derived: the weights that the operators hold")
    known = {capacity: memory.capacity, share: memory.utilization, _WEIGHTS: held.value}
    left = share * capacity - _WEIGHTS
    if ask.request.deployment.reserve:
        left, known = left - reserve, {**known, reserve: ask.request.deployment.reserve}
    free = explanation("memory left", left, known, unit="bytes", source=_PAGED, parts=(held,))
    working = explanation(
        "activations of a sequence", _activations(ask), ask.values, unit="bytes",
        source="derived: the residual stream, and what the hungriest operator reads and writes",
    )  # fmt: skip
    values = {**ask.values, _LEFT: free.value, _WORKING: working.value, _BLOCK: memory.block_tokens}
    return values, (free, working)


def _activations(ask: InSymbols) -> Expr:
    """Working set of one sequence: all operators of decode are linear in the batch."""
    graph = ask.graph(ask.step("decode"), data_parallel_size=1)
    one = {**ask.values, symbol("B"): 1}
    sizes = [sympy.sympify(operator.cost().activation_bytes) for operator, _ in graph.values()]
    hungriest = max(sizes, key=lambda size: evaluate(size, one))
    stream = ask.symbolic.model.stream_width * ask.precision.activation.bytes
    return stream + sympy.factor_terms(hungriest) / symbol("B")
