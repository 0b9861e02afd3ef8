"""Collectives. `bytes` is the larger of the two buffers of a rank, as NCCL's tests count: the whole tensor of an
all-reduce, what an all-gather gives, what a reduce-scatter and an all-to-all take."""

from __future__ import annotations

from roofline.measure.records.ops.base import Call, Operators, Rule
from roofline.operators.all_gather import AllGather
from roofline.operators.all_reduce import AllReduce
from roofline.operators.all_to_all import AllToAll
from roofline.operators.reduce_scatter import ReduceScatter
from roofline.operators.send_recv import SendRecv


def _all_reduce(call: Call) -> Operators:
    return {"all_reduce": (AllReduce(elements=call.elements(), world=call["world"], dtypes=call.dtypes), 1)}


def _all_gather(call: Call) -> Operators:
    return {"all_gather": (AllGather(elements=call.elements(), world=call["world"], dtypes=call.dtypes), 1)}


def _reduce_scatter(call: Call) -> Operators:
    return {"reduce_scatter": (ReduceScatter(elements=call.elements(), world=call["world"], dtypes=call.dtypes), 1)}


def _all_to_all(call: Call) -> Operators:
    return {"all_to_all": (AllToAll(elements=call.elements(), world=call["world"], dtypes=call.dtypes), 1)}


def _p2p(call: Call) -> Operators:
    return {"p2p": (SendRecv(elements=call.elements(), dtypes=call.dtypes), 1)}


_NEEDS, _SIZE, _PAIR = ("bytes", "world"), ("bytes",), {"world": 2}

ALL_REDUCE = Rule("all_reduce", _NEEDS, _all_reduce, _SIZE, at_least=_PAIR)
ALL_GATHER = Rule("all_gather", _NEEDS, _all_gather, _SIZE, at_least=_PAIR)
REDUCE_SCATTER = Rule("reduce_scatter", _NEEDS, _reduce_scatter, _SIZE, at_least=_PAIR)
ALL_TO_ALL = Rule("all_to_all", _NEEDS, _all_to_all, _SIZE, at_least=_PAIR)
P2P = Rule("p2p", _NEEDS, _p2p, _SIZE, at_least=_PAIR)
