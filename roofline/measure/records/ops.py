"""What each op of a record is made of: a function from the columns of a row to the operators that predict it.

It is called with plain numbers for one row, or with arrays for many rows at once; what is structure (texts, whether there
is a window, the number of ranks) is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from typing import Any

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.dtypes import Dtypes, Precision
from roofline.errors import InputError, UnknownNameError
from roofline.graph.build import build
from roofline.graph.sharding import stages
from roofline.numeric import Expr, maximum, minimum
from roofline.operators.activation import Activation
from roofline.operators.add import Add
from roofline.operators.attention import Attention
from roofline.operators.base import Operator
from roofline.operators.collectives import AllGather, AllReduce, AllToAll, ReduceScatter, SendRecv
from roofline.operators.combine import Combine
from roofline.operators.copy import Copy
from roofline.operators.embedding import Embedding
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.operators.host_copy import HostCopy
from roofline.operators.latent_attention import LatentAttention
from roofline.operators.norm import Norm
from roofline.operators.rope import Rope
from roofline.operators.sampling import Sampling
from roofline.registry import Registry
from roofline.specs.deployment import Deployment
from roofline.specs.workload import Segment

Operators = dict[str, tuple[Operator, Expr]]
"""Operators by name, and how often each runs."""


@dataclass(frozen=True, slots=True)
class Call:
    """One measured call, or many of one structure: the columns that are filled.

    Attributes:
        dtypes: the formats of weights, activations and the KV cache.
        numbers: columns of kind `count` by name, each a number or an array of shape [rows].
        texts: columns of kind `text` by name, the same for all rows.
    """

    dtypes: Dtypes
    numbers: Mapping[str, Expr]
    texts: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Expr:
        return self.numbers[name]

    def get(self, name: str, default: Expr) -> Expr:
        """A number, or the default where the column is empty."""
        return self.numbers.get(name, default)

    def text(self, name: str) -> str:
        """A text; empty where the column is."""
        return self.texts.get(name, "")

    def elements(self, name: str = "bytes") -> Expr:
        """The bytes in a column as a number of elements of the activations' format."""
        return self.numbers[name] / self.dtypes.activation.bytes


@dataclass(frozen=True, slots=True)
class RecordOp:
    """An op of records: its columns, what must hold between them, and the operators that predict it.

    Attributes:
        op: its name, the value of the column `op`.
        needs: the columns that must be filled.
        operators: makes the operators of a `Call`, with the number of times that each runs.
        shape: the columns that say which layer of which model it is, whatever the traffic: a fit is judged on shapes that it
            has not seen.
        optional: columns that count where they are filled.
        at_least: the smallest value of a column where it is not 1.
        order: pairs of columns of which the first must not be more than the second.
        divides: pairs of columns of which the first must divide the second.
        allowed: the only values of a column.
    """

    op: str
    needs: tuple[str, ...]
    operators: Callable[[Call], Operators]
    shape: tuple[str, ...]
    optional: tuple[str, ...] = ()
    at_least: Mapping[str, int] = field(default_factory=dict)
    order: tuple[tuple[str, str], ...] = ()
    divides: tuple[tuple[str, str], ...] = ()
    allowed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


# GEMMs with weights: one matrix, or one per head.


def _gemm(call: Call) -> Operators:
    return {"gemm": (Gemm(m=call["m"], n=call["n"], k=call["k"], dtypes=call.dtypes), 1)}


def _bmm(call: Call) -> Operators:
    return {"bmm": (Gemm(batch=call["batch"], m=call["m"], n=call["n"], k=call["k"], dtypes=call.dtypes), 1)}


# Attention. `kv_len` counts the new tokens too: q_len = kv_len is a whole prompt, a smaller q_len a chunk of one.

# Widths of the models that use MLA: DeepSeek-V2, arXiv:2405.04434, section 2.1.
R_KV, D_NOPE, D_ROPE, D_V = 512, 128, 64, 128


def _attention(call: Call) -> Operators:
    core = Attention(
        batch=call["batch"],
        new=call["q_len"],
        cached=call["kv_len"] - call["q_len"],
        n_heads=call["n_heads"],
        n_kv_heads=call["n_kv_heads"],
        head_dim=call["head_dim"],
        window=call.numbers.get("window"),
        dtypes=call.dtypes,
    )
    return {"core": (core, 1)}


def _latent(call: Call, *, absorbed: bool) -> Operators:
    core = LatentAttention(
        batch=call["batch"],
        new=call["q_len"],
        cached=call["kv_len"] - call["q_len"],
        n_heads=call["n_heads"],
        r_kv=R_KV,
        d_nope=D_NOPE,
        d_rope=D_ROPE,
        d_v=D_V,
        absorbed=absorbed,
        dtypes=call.dtypes,
    )
    return {"core": (core, 1)}


def _expanded(call: Call) -> Operators:
    return _latent(call, absorbed=False)


def _absorbed(call: Call) -> Operators:
    return _latent(call, absorbed=True)


# The routed experts of a layer: up, activation, down, weighted sum. The router and the choice of experts are no part of it.


def _distinct(call: Call) -> Expr | None:
    """Experts whose weights this device reads: known for balanced routing, expected for uniform routing (None), and at
    least this many for a skewed one.

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


# Operators that work on each row alone.


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


# Copies in device memory and over the link to the host. `kernel` says which: `read` only reads (a sum), `write` only writes
# (a fill); anything else reads and writes.

_ONE_WAY: dict[str, dict[str, Any]] = {"read": {"write": "nothing"}, "write": {"read": "nothing"}}


def _in_memory(call: Call) -> Operators:
    return {"copy": (Copy(elements=call.elements(), **_ONE_WAY.get(call.text("kernel").lower(), {}), dtypes=call.dtypes), 1)}


def _to_host(call: Call) -> Operators:
    calls: Expr = call["bytes"] / call["chunk_bytes"] if "chunk_bytes" in call.numbers else 1
    return {"copy": (HostCopy(size=call["bytes"], calls=calls, dtypes=call.dtypes), 1)}


# Collectives. `bytes` is the larger of the two buffers of a rank, as NCCL's tests count: the whole tensor of an all-reduce,
# what an all-gather gives, what a reduce-scatter and an all-to-all take.


def _collective(op: str, operator: Callable[..., Operator]) -> RecordOp:
    def operators(call: Call) -> Operators:
        return {op: (operator(elements=call.elements(), world=call["world"], dtypes=call.dtypes), 1)}

    return RecordOp(op, ("bytes", "world"), operators, ("bytes",), at_least={"world": 2})


def _send_recv(*, elements: Expr, world: Expr, dtypes: Dtypes) -> SendRecv:
    del world  # a message goes from one rank to another, however many there are
    return SendRecv(elements=elements, dtypes=dtypes)


# A whole decoder layer, and a whole step of a model. `kernel` names the model, `MODEL:TYPE` one of its layer types.


@cache
def _model(name: str) -> Model:
    if not name:
        raise InputError("kernel is empty: for a layer and a step it names the model")
    return load_model(name)[0]


def _graph(call: Call, model: Model) -> Operators:
    formats = call.dtypes
    precision = Precision(weight=formats.weight, activation=formats.activation, kv=formats.kv)
    # one token after others is generated; records of a prompt have all its tokens
    one = isinstance(call["q_len"], int) and call["q_len"] == 1
    segment = Segment(call["batch"], call["q_len"], call["kv_len"] - call["q_len"], decode=one)
    return build(model, Deployment(), precision, (segment,), stages(model, 1)[0])


def _step(call: Call) -> Operators:
    return _graph(call, _model(call.text("kernel")))


def _layer(call: Call) -> Operators:
    name, _, kind = call.text("kernel").partition(":")
    model = _model(name)
    kinds = tuple(model.layer_types)
    if kind and kind not in kinds:
        raise UnknownNameError(f"layer type of {name}", kind, kinds, list_all=True)
    prefix = "layers/" if len(kinds) == 1 else f"layers/{kind or kinds[0]}/"
    return {
        path.removeprefix(prefix): (operator, 1)
        for path, (operator, _) in _graph(call, model).items()
        if path.startswith(prefix)
    }


_HEADS = ("batch", "q_len", "kv_len", "n_heads", "n_kv_heads", "head_dim")
_HEAD_SHAPE = ("n_heads", "n_kv_heads", "head_dim", "window")
_LATENT = ("batch", "q_len", "kv_len", "n_heads", "head_dim")
_PASS = ("batch", "q_len", "kv_len")
_LENGTHS = (("q_len", "kv_len"),)
_SHARED = (("n_kv_heads", "n_heads"),)
_EXPERTS = ("hidden", "inter", "experts", "topk")

RECORD_OPS = Registry(
    "op",
    [
        RecordOp("add", ("tokens", "hidden"), _add, ("hidden",)),
        _collective("all_gather", AllGather),
        _collective("all_reduce", AllReduce),
        _collective("all_to_all", AllToAll),
        RecordOp("attention_decode", _HEADS, _attention, _HEAD_SHAPE, ("window",), {"window": 0}, _LENGTHS, _SHARED),
        RecordOp("attention_prefill", _HEADS, _attention, _HEAD_SHAPE, ("window",), {"window": 0}, _LENGTHS, _SHARED),
        RecordOp("bmm", ("batch", "m", "n", "k"), _bmm, ("batch", "n", "k")),
        RecordOp("copy_d2d", ("bytes",), _in_memory, ("bytes",), ("chunk_bytes",)),
        RecordOp("copy_d2h", ("bytes",), _to_host, ("bytes",), ("chunk_bytes",)),
        RecordOp("copy_h2d", ("bytes",), _to_host, ("bytes",), ("chunk_bytes",)),
        RecordOp("embedding", ("tokens", "hidden"), _embedding, ("hidden",), ("n",)),
        RecordOp("gemm", ("m", "n", "k"), _gemm, ("n", "k")),
        RecordOp("layer", _PASS, _layer, ("kernel",), order=_LENGTHS),
        RecordOp("mla_decode", _LATENT, _absorbed, ("n_heads",), order=_LENGTHS, allowed={"head_dim": (R_KV + D_ROPE,)}),
        RecordOp("mla_prefill", _LATENT, _expanded, ("n_heads",), order=_LENGTHS, allowed={"head_dim": (D_NOPE + D_ROPE,)}),
        RecordOp(
            "moe",
            ("tokens", *_EXPERTS),
            _moe,
            _EXPERTS,
            ("moe_tp", "moe_ep"),
            order=(("topk", "experts"),),
            divides=(("moe_tp", "inter"), ("moe_ep", "experts")),
        ),
        _collective("p2p", _send_recv),
        _collective("reduce_scatter", ReduceScatter),
        RecordOp("rmsnorm", ("tokens", "hidden"), _rmsnorm, ("hidden",)),
        RecordOp("rope", ("tokens", "n_heads", "n_kv_heads", "head_dim"), _rope, ("n_heads", "n_kv_heads", "head_dim")),
        RecordOp("sampling", ("tokens", "n"), _sampling, ("n",)),
        RecordOp("silu_mul", ("tokens", "inter"), _silu_mul, ("inter",)),
        RecordOp("step", _PASS, _step, ("kernel",), order=_LENGTHS),
    ],
    group="roofline.record_ops",
    key=attrgetter("op"),
    accepts=RecordOp,
)
"""The ops of records by name."""
