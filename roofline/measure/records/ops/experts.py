"""The routed experts of a layer: up, activation, down, weighted sum. The router and the choice are no part of it."""

from __future__ import annotations

from roofline.measure.records.ops.base import Call, Operators, Rule
from roofline.numeric import Expr, maximum, minimum
from roofline.operators.activation import Activation
from roofline.operators.combine import Combine
from roofline.operators.grouped_gemm import GroupedGemm


def _distinct(call: Call) -> Expr | None:
    """Experts whose weights this device reads: known for balanced routing, expected for uniform routing (None), and at
    least so many for a skewed one.

    Balanced: the tokens*topk rows go round, so that min(E, T k) experts meet one. Of an unknown skew it is only sure that
    no expert meets a token twice: the T k / ep rows of a device (the busiest has no fewer) meet at least k / ep experts.
    NB: that is a weak bound on purpose; nothing sharper holds for every skew.
    """
    experts, ep = call["experts"], call.get("moe_ep", 1)
    distribution = call.text("distribution")
    if distribution == "balanced":
        return minimum(experts, call["tokens"] * call["topk"]) / ep
    return None if distribution == "uniform" else maximum(call["topk"] / ep, 1)


def _moe(call: Call) -> Operators:
    ep, tp = call.get("moe_ep", 1), call.get("moe_tp", 1)
    gated = not call.text("ungated")
    inner = call["inter"] / tp
    distinct = _distinct(call)

    def grouped(n: Expr, k: Expr) -> GroupedGemm:
        return GroupedGemm(
            tokens=call["tokens"],
            n=n,
            k=k,
            experts=call["experts"],
            top_k=call["topk"],
            local_experts=call["experts"] / ep,
            distinct=distinct,
            dtypes=call.dtypes,
        )

    up = grouped((2 if gated else 1) * inner, call["hidden"])
    return {
        "up_proj": (up, 1),
        "activation": (Activation(rows=up.rows, width=inner, gated=gated, dtypes=call.dtypes), 1),
        "down_proj": (grouped(call["hidden"], inner), 1),
        "combine": (Combine(tokens=call["tokens"], width=call["hidden"], terms=call["topk"] / ep, dtypes=call.dtypes), 1),
    }


MOE = Rule(
    "moe",
    ("tokens", "hidden", "inter", "experts", "topk"),
    _moe,
    ("hidden", "inter", "experts", "topk"),
    ("moe_tp", "moe_ep"),
    order=(("topk", "experts"),),
    divides=(("moe_tp", "inter"), ("moe_ep", "experts")),
)
