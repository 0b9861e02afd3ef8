"""Formulas of memory: parameters, weights, a cached token, recurrent state, the largest batch, the longest context, and the
break-even link of preemption: over a faster one, an evicted cache comes back sooner than it is recomputed.
"""

from __future__ import annotations

from dataclasses import replace

import sympy

from roofline.dtypes import FP32
from roofline.errors import InputError
from roofline.formulas import break_even_link as formula
from roofline.formulas.symbolic import Values, evaluate, quantity, symbol
from roofline.graph.build import CANONICAL, build
from roofline.numeric import Expr, ceil_div
from roofline.operators.base import Operator
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.predict.allocation import Allocation
from roofline.predict.bounds import matrix_dtype
from roofline.predict.explain.explanation import Explanation, explanation
from roofline.predict.explain.symbolic_request import SymbolicRequest, any_hardware
from roofline.predict.request import prepare
from roofline.predict.speculation import SpeculativeMemory
from roofline.predict.timing import pipeline
from roofline.specs.deployment import Deployment
from roofline.specs.source import Assumption
from roofline.specs.workload import prefill

_PAGED = "Kwon et al. 2023 (paged KV cache), arXiv:2309.06180"
_LEFT = quantity("M_free", r"M_{\mathrm{free}}", "bytes", "memory left after weights and reserve", signed=True)
_WORKING = quantity("A", "A", "bytes", "activations of one sequence in a decode step")
_BLOCK = quantity("b_block", r"b_{\mathrm{block}}", "tokens", "tokens in a block of the paged cache")
_GROUPED = "the engine groups them"
_WEIGHTS = quantity("W", "W", "bytes", "weights on the device")


def parameters(symbolic: SymbolicRequest, phase: str) -> Explanation:
    """Every parameter of the language model, tied weights once."""
    del phase
    # Of the whole model on one device, whatever the deployment is.
    whole = SymbolicRequest(prepare(symbolic.request.model, any_hardware()))
    graph = build(whole.symbolic_model.model, Deployment(), whole.precision, CANONICAL)
    source = "derived: the weights that the operators hold"
    blocks = whole.blocks(graph, lambda operator: operator.parameters)
    parts = [explanation(name, expr, whole.values, unit="parameters", source=source) for name, expr in blocks.items()]
    return explanation("parameters", sum(blocks.values()), whole.values, unit="parameters", source=source, parts=parts)


def weight_bytes(symbolic: SymbolicRequest, phase: str = "decode") -> Explanation:
    """Explain the bytes of weights on a device of the fullest pipeline stage."""
    del phase
    held = symbolic.total(symbolic.graph(CANONICAL), lambda operator: operator.held_bytes)
    source = "derived: the weights that the operators hold, in their formats"
    value = symbolic.request.memory.fullest_stage.weights_bytes
    return explanation("weight_bytes", held, symbolic.values, unit="bytes", source=source, value=value)


def state_bytes_per_sequence(symbolic: SymbolicRequest, phase: str = "decode") -> Explanation:
    """Explain the bytes of recurrent state that a sequence keeps on a device; 0 without such layers.

    They are fp32 unless a format was given; an engine may lay them out in another way, which is noted.
    """
    del phase
    request = symbolic.request
    stage, given = request.memory.fullest_stage, request.deployment.mamba_ssm_cache_dtype
    values = symbolic.values if given else {**symbolic.values, symbol("b_s"): FP32.bytes}
    label = f"{request.engine.name}@{request.engine.version}"
    notes = (Assumption("allocated", stage.state_bytes(allocated=True), "default", f"bytes, as {label} lays it out"),)
    return explanation(
        "state_bytes_per_sequence", symbolic.state(allocated=False), values, unit="bytes",
        source="derived: what the recurrent layers keep between steps (docs/conventions.md)",
        value=stage.state_bytes(allocated=False), assumptions=notes,
    )  # fmt: skip


def kv_bytes_per_token(symbolic: SymbolicRequest, phase: str = "decode") -> Explanation:
    """Explain the cache bytes that one more token adds over all layers of a device, while it is below every window."""
    del phase
    total: Expr = sympy.Integer(0)
    merged: dict[Expr, Expr] = {}
    for cache, layers in symbolic.caches():  # layers that differ in their window alone add the same
        size = cache.per_token * symbolic.precision.kv.bytes
        merged[size] = merged.get(size, 0) + layers
    every = sum(count for _, count in symbolic.stage.layers)
    for size, layers in merged.items():
        whole = layers.is_Add and evaluate(layers, symbolic.values) == every
        total += size * (symbol("L") if whole else layers)
    return explanation(
        "kv_bytes_per_token", total, symbolic.values, unit="bytes",
        source="Shazeer 2019, arXiv:1911.02150 (keys and values of every token are kept); MLA: DeepSeek-V2, arXiv:2405.04434",
    )  # fmt: skip


def max_batch(symbolic: SymbolicRequest, phase: str = "decode") -> Explanation:
    """Explain the largest batch whose decode step after S_c cached tokens fits.

    Raises:
        InputError: a shared prefix, or attention that keeps its scores.
    """
    del phase
    _refuse(symbolic, "max_batch")
    values, parts = _memory_left(symbolic)
    length = symbol("S_c") + 1  # the cache holds the new token too
    layout = symbolic.request.memory.fullest_stage.layout
    if symbolic.request.memory.fullest_stage.plain or not layout.kinds:
        size = symbolic.precision.kv.bytes
        cache = sum(_whole(length) * cache.elements * size * layers for cache, layers in symbolic.caches()) + symbolic.state(
            allocated=True
        )
    else:
        cache, pages = _paged(layout)
        values = {**values, **pages}
    deployment = symbolic.request.deployment
    expr: Expr = sympy.floor(_LEFT / (cache + _WORKING))
    if evaluate(expr, values) < 0:
        expr = sympy.Max(0, expr)
    if deployment.max_num_seqs is not None:
        expr = sympy.Min(expr, deployment.max_num_seqs)
    return explanation("max_batch", deployment.data_parallel_size * expr, values, unit="sequences", source=_PAGED, parts=parts)


def max_context(symbolic: SymbolicRequest, phase: str = "decode") -> Explanation:
    """Explain the largest number of cached tokens with which a decode step of B sequences fits.

    Raises:
        InputError: a shared prefix, attention that keeps its scores, or layers that do not keep every token.
    """
    del phase
    _refuse(symbolic, "max_context")
    if symbolic.request.memory.fullest_stage.layout.kinds and not symbolic.request.memory.fullest_stage.plain:
        searched = symbolic.request.memory.max_context(symbolic.request.workload.batch)
        what = "no limit" if searched is None else f"{searched} by search"
        msg = f"max_context has no short closed form where layers do not keep every token as it is: analyze finds {what}"
        raise InputError(msg)
    values, parts = _memory_left(symbolic)
    batch = ceil_div(symbol("B"), sympy.Integer(symbolic.request.deployment.data_parallel_size))
    left = _LEFT - batch * (_WORKING + symbolic.state(allocated=True))
    growing = sum(cache.elements * symbolic.precision.kv.bytes * count for cache, count in symbolic.caches())
    if growing != 0:
        expr = _BLOCK * sympy.floor(left / (batch * _BLOCK * growing)) - 1
        if evaluate(expr, values) < 0:
            expr = sympy.Max(0, expr)
        return explanation("max_context", expr, values, unit="tokens", source=_PAGED, parts=parts)
    note = Assumption("max_context", None, "default", "no layer keeps anything per token, so memory sets no limit")
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


def _refuse(symbolic: SymbolicRequest, subject: str) -> None:
    conventions = symbolic.request.deployment.conventions
    if isinstance(symbolic.request.memory, SpeculativeMemory):
        memory, workload = symbolic.request.memory, symbolic.request.workload
        number = memory.max_batch(workload.context) if subject == "max_batch" else memory.max_context(workload.batch)
        what = "no limit" if number is None else f"{number} by search"
        msg = f"{subject} has no short closed form with a draft: analyze finds {what}"
        raise InputError(msg)
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


def _memory_left(symbolic: SymbolicRequest) -> tuple[Values, tuple[Explanation, ...]]:
    """Memory left, and activations per sequence: values of their symbols, and where they come from."""
    memory = symbolic.request.memory
    capacity = quantity("C", "C", "bytes", "capacity of the device's memory")
    share = quantity("u", "u", "1", "share of the memory that the engine uses")
    reserve = quantity("R", "R", "bytes", "reserve")
    held = replace(weight_bytes(symbolic), subject="weights")
    known = {capacity: memory.capacity, share: memory.utilization, _WEIGHTS: held.value}
    # of what weights and activations leave, or of all; activations may have to fit beside the share
    of_free, beside = memory.share_of == "free", memory.share_of == "static"
    left = capacity - _WEIGHTS if of_free else share * capacity - _WEIGHTS
    if towers := memory.fullest_stage.tower_bytes:
        tower = quantity(
            "W_v", r"W_{\mathrm{v}}", "bytes", "towers beside the language model and their projectors, on the device"
        )
        left, known = left - tower, {**known, tower: towers}
    if symbolic.request.deployment.reserve:
        left, known = left - reserve, {**known, reserve: symbolic.request.deployment.reserve}
    left = share * left if of_free else left
    free = explanation("memory left", left, known, unit="bytes", source=_PAGED, parts=(held,))
    taken = _activations(symbolic) * (share if of_free else 0 if beside else 1)
    working = explanation(
        "activations of a sequence", taken, {**symbolic.values, share: memory.utilization} if of_free else symbolic.values,
        unit="bytes",
        source="derived: the residual stream, and what the hungriest operator reads and writes",
    )  # fmt: skip
    values = {**symbolic.values, _LEFT: free.value, _WORKING: working.value, _BLOCK: memory.block_tokens}
    return values, (free, working)


def _activations(symbolic: SymbolicRequest) -> Expr:
    """Working set of one sequence: all operators of decode are linear in the batch."""
    graph = symbolic.graph(symbolic.step("decode"), data_parallel_size=1)
    one = {**symbolic.values, symbol("B"): 1}
    sizes = [sympy.sympify(operator.cost().activation_bytes, strict=True) for operator, _ in graph.values()]
    hungriest = max(sizes, key=lambda size: evaluate(size, one))
    stream = symbolic.symbolic_model.model.stream_width * symbolic.precision.activation.bytes
    return stream + sympy.factor_terms(hungriest) / symbol("B")


_BREAK_EVEN = "derived: 2 k/B = 2 N_p/(P eta), docs/preemption.md"
_CACHE = quantity("k_kv", r"k_{\mathrm{kv}}", "bytes", "cache of one token, all layers together")
_USED = quantity("N_p", "N_p", "parameters", "parameters of the layers that multiply a token")
_REACHED = quantity("eta", r"\eta", "1", "share of the peak that a prompt reaches, its FLOP counted on these parameters alone")


def break_even_link(symbolic: SymbolicRequest, phase: str = "prefill") -> Explanation:
    """Explain the bandwidth (bytes/s) at which a token's cache crosses the link out and in as fast as the token is recomputed.

    Raises:
        InputError: pipeline stages, of which each copies its own part; nothing is kept per token.
    """
    del phase
    request, hardware = symbolic.request, symbolic.request.hardware
    if request.deployment.pipeline_parallel_size > 1:
        msg = "break_even_link has no short closed form with pipeline stages: `roofline preempt` has its value"
        raise InputError(msg)
    cache = kv_bytes_per_token(symbolic)
    if not cache.value:
        msg = f"break_even_link: {request.model.name} keeps nothing per token"
        raise InputError(msg)
    step, length = symbolic.step("prefill"), symbol("S_q")
    graph = symbolic.graph(step, data_parallel_size=1)
    linear = {
        path: entry for path, entry in graph.items() if path.startswith("layers/") and isinstance(entry[0], Gemm | GroupedGemm)
    }
    one = {symbol("B"): 1}
    used = symbolic.total(linear, _multiplied).subs(one) / length
    values = {**symbolic.values, **one}
    parameters = explanation(
        "parameters of a token",
        sympy.expand(used),
        values,
        unit="parameters",
        source="derived: half the FLOP of a token's products",
    )
    prompt = request.workload.input_len
    compute_time = evaluate(
        sum(
            (2 * symbolic.total({path: entry}, _multiplied) / sympy.Float(hardware.peak(matrix_dtype(entry[0], hardware))))
            for path, entry in linear.items()
        ),
        values,
    )
    rates = {hardware.peak(matrix_dtype(entry[0], hardware)) for entry in linear.values()}
    peak = rates.pop() if len(rates) == 1 else 2 * parameters.value * prompt / compute_time  # type: ignore[operator]
    span = pipeline(request, prefill(1, prompt))
    took, basis = span.best, "bound" if span.estimate is None else "estimate"
    known = {_CACHE: cache.value, symbol("P"): peak, _REACHED: compute_time / took, _USED: parameters.value}  # type: ignore[operator]
    notes = (
        Assumption("efficiency", basis, "default", f"of a prompt of {prompt:,} tokens alone (--input-len), attention and all"),
        Assumption(
            "calls", 0, "default", "copies large enough that their calls count for nothing: `roofline preempt` counts them"
        ),
        Assumption("direction", "out and in", "default", "one after the other, each at the rate of the link in one direction"),
    )
    return explanation(
        "break_even_link", formula(_CACHE, symbol("P"), _REACHED, _USED), known, unit="bytes/s", source=_BREAK_EVEN,
        assumptions=notes, parts=(cache, parameters),
    )  # fmt: skip


def _multiplied(operator: Operator) -> sympy.Expr:
    return sympy.sympify(operator.cost().matrix_flops, strict=True) / 2
