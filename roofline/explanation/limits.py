"""Explanations of what memory holds: cache a token, the largest batch, the longest context."""

from __future__ import annotations

import sympy

from roofline.errors import InputError
from roofline.explanation.in_symbols import InSymbols
from roofline.explanation.value import Explanation, explanation
from roofline.formulas.symbolic import Values, evaluate, quantity, symbol
from roofline.graph import CANONICAL
from roofline.numeric import Expr, ceil_div, minimum
from roofline.specs.assumption import Assumption

_PAGED = "Kwon et al. 2023 (paged KV cache), arXiv:2309.06180"
_LEFT = quantity("M_free", r"M_{\mathrm{free}}", "bytes", "memory left beside weights and reserve", signed=True)
_WORKING = quantity("A", "A", "bytes", "activations of one sequence in a decode step")
_BLOCK = quantity("b_block", r"b_{\mathrm{block}}", "tokens", "tokens in a block of the paged cache")
_WEIGHTS = quantity("W", "W", "bytes", "weights on the device")


def kv_bytes_per_token(ask: InSymbols, phase: str = "decode") -> Explanation:
    """What one more token adds over all layers, while it is below every window."""
    del phase
    total: Expr = sympy.Integer(0)
    merged: dict[Expr, Expr] = {}
    for size, _, layers in ask.caches():  # layers that differ in their window alone add the same
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
    cache = sum(_allocated(length, window) * size * layers for size, window, layers in ask.caches())
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
    values, parts = _room(ask)
    batch = ceil_div(symbol("B"), sympy.Integer(ask.request.deployment.data_parallel_size))
    layers = ask.caches()
    room = _LEFT - batch * _WORKING
    windows = sorted({window for _, window, _ in layers if window is not None}, key=lambda found: evaluate(found, values))
    # The cache grows along straight pieces; at each window a kind of layer stops growing. The first piece that
    # ends beyond what fits holds the answer.
    for position, end in enumerate([*windows, None]):
        growing = sum(size * count for size, window, count in layers if window is None or window in windows[position:])
        filled = sum(
            _allocated(window, None) * size * count
            for size, window, count in layers if window is not None and window not in windows[position:]
        )  # fmt: skip
        if growing == 0:
            break
        tokens = _BLOCK * sympy.floor((room - batch * filled) / (batch * _BLOCK * growing))
        if end is None or evaluate(tokens, values) <= evaluate(end, values):
            expr = tokens - 1
            if evaluate(expr, values) < 0:
                expr = sympy.Max(0, expr)
            return explanation("max_context", expr, values, unit="tokens", source=_PAGED, parts=parts)
    note = Assumption("max_context", None, "default", "every layer keeps at most its window, so memory sets no limit")
    return Explanation(
        subject="max_context",
        formula="∞",
        latex=r"\infty",
        substituted="∞",
        substituted_latex=r"\infty",
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


def _allocated(length: Expr, window: Expr | None) -> Expr:
    """Tokens of whole blocks that a sequence of some length takes in one layer."""
    kept = length if window is None else minimum(length, window)
    return ceil_div(kept, _BLOCK) * _BLOCK


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
    values = {**ask.values, _LEFT: free.value, _WORKING: working.value, _BLOCK: memory.block_size}
    return values, (free, working)


def _activations(ask: InSymbols) -> Expr:
    """Working set of one sequence: all operators of decode are linear in the batch."""
    graph = ask.graph(ask.step("decode"), data_parallel_size=1)
    one = {**ask.values, symbol("B"): 1}
    sizes = [sympy.sympify(operator.cost().activation_bytes) for operator, _ in graph.values()]
    hungriest = max(sizes, key=lambda size: evaluate(size, one))
    stream = symbol("d_model") * ask.precision.activation.bytes
    return stream + sympy.factor_terms(hungriest) / symbol("B")
