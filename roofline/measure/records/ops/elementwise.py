"""Operators that work on each row alone."""

from __future__ import annotations

from roofline.measure.records.ops.base import Call, Operators, Rule
from roofline.operators.activation import Activation
from roofline.operators.add import Add
from roofline.operators.embedding import Embedding
from roofline.operators.norm import Norm
from roofline.operators.rope import Rope
from roofline.operators.sampling import Sampling


def _rmsnorm(call: Call) -> Operators:
    return {"rmsnorm": (Norm(rows=call["tokens"], width=call["hidden"], dtypes=call.dtypes), 1)}


def _rope(call: Call) -> Operators:
    heads = call["n_heads"] + call["n_kv_heads"]
    return {"rope": (Rope(tokens=call["tokens"], heads=heads, rotary_dim=call["head_dim"], dtypes=call.dtypes), 1)}


def _silu_mul(call: Call) -> Operators:
    return {"silu_mul": (Activation(rows=call["tokens"], width=call["inter"], dtypes=call.dtypes), 1)}


def _add(call: Call) -> Operators:
    return {"add": (Add(elements=call["tokens"] * call["hidden"], dtypes=call.dtypes), 1)}


def _embedding(call: Call) -> Operators:
    table = Embedding(tokens=call["tokens"], width=call["hidden"], entries=call.get("n", 1), dtypes=call.dtypes)
    return {"embedding": (table, 1)}


def _sampling(call: Call) -> Operators:
    return {"sampling": (Sampling(rows=call["tokens"], choices=call["n"], dtypes=call.dtypes), 1)}


RMSNORM = Rule("rmsnorm", ("tokens", "hidden"), _rmsnorm, ("hidden",))
ROPE = Rule("rope", ("tokens", "n_heads", "n_kv_heads", "head_dim"), _rope, ("n_heads", "n_kv_heads", "head_dim"))
SILU_MUL = Rule("silu_mul", ("tokens", "inter"), _silu_mul, ("inter",))
ADD = Rule("add", ("tokens", "hidden"), _add, ("hidden",))
EMBEDDING = Rule("embedding", ("tokens", "hidden"), _embedding, ("hidden",), ("n",))
SAMPLING = Rule("sampling", ("tokens", "n"), _sampling, ("n",))
