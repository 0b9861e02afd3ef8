"""Products with weights: one matrix, or one a head."""

from __future__ import annotations

from roofline.measure.records.ops.base import Call, Operators, Rule
from roofline.operators.gemm import Gemm


def _gemm(call: Call) -> Operators:
    return {"gemm": (Gemm(m=call["m"], n=call["n"], k=call["k"], dtypes=call.dtypes), 1)}


def _bmm(call: Call) -> Operators:
    return {"bmm": (Gemm(batch=call["batch"], m=call["m"], n=call["n"], k=call["k"], dtypes=call.dtypes), 1)}


GEMM = Rule("gemm", ("m", "n", "k"), _gemm, ("n", "k"))
BMM = Rule("bmm", ("batch", "m", "n", "k"), _bmm, ("batch", "n", "k"))
