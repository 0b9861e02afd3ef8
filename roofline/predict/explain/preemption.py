"""The break-even link of an evicted cache: swapped over a faster one it comes back sooner than recomputed."""

from __future__ import annotations

import sympy

from roofline.errors import InputError
from roofline.formulas.break_even import break_even_link as formula
from roofline.formulas.symbolic import evaluate, quantity, symbol
from roofline.operators.base import Operator
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.predict.bounds import matrix_dtype
from roofline.predict.explain.in_symbols import InSymbols
from roofline.predict.explain.limits import kv_bytes_per_token
from roofline.predict.explain.value import Explanation, explanation
from roofline.predict.timing import pipeline
from roofline.specs.assumption import Assumption
from roofline.specs.workload import prefill

_SOURCE = "derived: 2 k/B = 2 N_p/(P eta), docs/preemption.md"
_KEPT = quantity("k_kv", r"k_{\mathrm{kv}}", "bytes", "cache of a token, all layers together")
_USED = quantity("N_p", "N_p", "parameters", "parameters of the layers that multiply a token")
_REACHED = quantity("eta", r"\eta", "1", "share of the peak that a prompt reaches, its FLOP counted on these parameters alone")


def break_even_link(ask: InSymbols, phase: str = "prefill") -> Explanation:
    """Bytes/s at which a token's cache crosses the link out and in as fast as the token is computed again.

    Raises:
        InputError: pipeline stages, of which each copies its own part; nothing is kept a token.
    """
    del phase
    request, hardware = ask.request, ask.request.hardware
    if request.deployment.pipeline_parallel_size > 1:
        msg = "break_even_link has no short closed form with pipeline stages: `roofline preempt` has its value"
        raise InputError(msg)
    kept = kv_bytes_per_token(ask)
    if not kept.value:
        msg = f"break_even_link: {request.model.name} keeps nothing a token"
        raise InputError(msg)
    step, length = ask.step("prefill"), symbol("S_q")
    graph = ask.graph(step, data_parallel_size=1)
    linear = {
        path: entry for path, entry in graph.items() if path.startswith("layers/") and isinstance(entry[0], Gemm | GroupedGemm)
    }
    one = {symbol("B"): 1}
    used = ask.total(linear, _multiplied).subs(one) / length
    values = {**ask.values, **one}
    parameters = explanation(
        "parameters of a token",
        sympy.expand(used),
        values,
        unit="parameters",
        source="derived: half the FLOP of a token's products",
    )
    prompt = request.workload.input_len
    busy = evaluate(
        sum(
            (2 * ask.total({path: entry}, _multiplied) / sympy.Float(hardware.peak(matrix_dtype(entry[0], hardware))))
            for path, entry in linear.items()
        ),
        values,
    )
    rates = {hardware.peak(matrix_dtype(entry[0], hardware)) for entry in linear.values()}
    peak = rates.pop() if len(rates) == 1 else 2 * parameters.value * prompt / busy  # type: ignore[operator]
    span = pipeline(request, prefill(1, prompt))
    took, basis = (span.bound, "bound") if span.estimate is None else (span.estimate, "estimate")
    known = {_KEPT: kept.value, symbol("P"): peak, _REACHED: busy / took, _USED: parameters.value}  # type: ignore[operator]
    notes = (
        Assumption("efficiency", basis, "default", f"of a prompt of {prompt:,} tokens alone (--input-len), attention and all"),
        Assumption(
            "calls", 0, "default", "copies large enough that their calls count for nothing: `roofline preempt` counts them"
        ),
        Assumption("direction", "out and in", "default", "one after the other, each at the rate of the link in one direction"),
    )
    return explanation(
        "break_even_link", formula(_KEPT, symbol("P"), _REACHED, _USED), known, unit="bytes/s", source=_SOURCE,
        assumptions=notes, parts=(kept, parameters),
    )  # fmt: skip


def _multiplied(operator: Operator) -> sympy.Expr:
    return sympy.sympify(operator.cost().matrix_flops) / 2
