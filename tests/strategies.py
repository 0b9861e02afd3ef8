"""Operators at random: for each kind the ranges of its dimensions, and every structure that it can have.

Ranges are small enough that no cost passes 2^53, so that floats hold it exactly.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from roofline.dtypes import FORMATS, Dtypes
from roofline.operators.activation import Activation
from roofline.operators.add import Add
from roofline.operators.altup import AltUpCorrect, AltUpPredict
from roofline.operators.attention import Attention
from roofline.operators.base import Operator
from roofline.operators.block_scores import BlockScores
from roofline.operators.block_sparse_attention import BlockSparseAttention
from roofline.operators.causal_conv import CausalConv
from roofline.operators.collectives import AllGather, AllReduce, AllToAll, ExpertRouting, ReduceScatter, SendRecv
from roofline.operators.combine import Combine
from roofline.operators.compress import Compress
from roofline.operators.compressed_attention import CompressedAttention
from roofline.operators.copy import Copy
from roofline.operators.delta_rule import DeltaRule
from roofline.operators.embedding import Embedding
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.operators.host_copy import HostCopy
from roofline.operators.hyper_connections import HyperCollapse, HyperExpand
from roofline.operators.index_scores import IndexScores
from roofline.operators.latent_attention import LatentAttention
from roofline.operators.linear_attention import LinearAttention
from roofline.operators.norm import Norm
from roofline.operators.rescale import Rescale
from roofline.operators.rope import Rope
from roofline.operators.sampling import Sampling
from roofline.operators.selective_scan import SelectiveScan
from roofline.operators.top_k import TopK
from roofline.specs.quantization import scheme, schemes

Range = tuple[int, int]
_WIDE: Range = (1, 512)


@cache
def needed(cls: type[Operator]) -> frozenset[str]:
    """The dimensions that operators of a class always have."""
    return frozenset(f.name for f in fields(cls) if f.type == "Expr")


@dataclass(frozen=True)
class Kind:
    """How to draw an operator of a class.

    Ranges that are not the usual one, values of fields that are numbers but no dimensions, and dimensions that may not
    exceed another.
    """

    cls: type[Operator]
    ranges: dict[str, Range] = field(default_factory=dict)
    numbers: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    at_most: dict[str, str] = field(default_factory=dict)

    def range(self, name: str) -> Range:
        """The least and the largest value of a dimension."""
        return self.ranges.get(name, _WIDE)

    def structures(self) -> list[dict[str, Any]]:
        """Every combination of what is no dimension; an optional dimension is there (True) or not (None)."""
        hints = get_type_hints(self.cls)
        choices: dict[str, tuple[Any, ...]] = {}
        for name, hint in hints.items():
            if name == "dtypes" or get_origin(hint) is ClassVar or name in needed(self.cls):
                continue
            if name in self.cls.dimensions():
                choices[name] = (None, True)
            elif get_origin(hint) is Literal:
                choices[name] = get_args(hint)
            else:
                choices[name] = (False, True) if hint is bool else self.numbers[name]
        return [dict(zip(choices, picked, strict=True)) for picked in itertools.product(*choices.values())]

    def make(self, structure: dict[str, Any], numbers: dict[str, int], dtypes: Dtypes) -> Operator:
        """The operator of a structure with the numbers drawn."""
        values = {**structure, "dtypes": dtypes}
        for name in self.cls.dimensions():
            if name in needed(self.cls) or structure[name]:
                bound = self.at_most.get(name)
                values[name] = min(numbers[name], numbers[bound]) if bound else numbers[name]
        return self.cls(**values)

    def strategy(self) -> st.SearchStrategy[Operator]:
        """Operators of every structure."""
        numbers = st.fixed_dictionaries({name: st.integers(*self.range(name)) for name in self.cls.dimensions()})
        return st.builds(self.make, st.sampled_from(self.structures()), numbers, dtypes())

    def draw(self, structure: dict[str, Any], chance: random.Random) -> Operator:
        """One operator of a structure, for tests that run many at once."""
        numbers = {name: chance.randint(*self.range(name)) for name in self.cls.dimensions()}
        return self.make(structure, numbers, chance.choice(_DTYPES))


# Sizes that floats hold exactly: all are multiples of 2^-3, scales are whole bytes.
_DTYPES = [
    Dtypes(weight=weight, activation=FORMATS[activation], kv=FORMATS[kv], state=FORMATS[state], bias=bias)
    for weight in (*FORMATS.values(), *(scheme(name).format for name in schemes()))
    for bias in (None, FORMATS["bf16"])
    for activation in ("bf16", "fp32")
    for kv in ("bf16", "fp8")
    for state in ("fp32", "bf16")
]


def dtypes() -> st.SearchStrategy[Dtypes]:
    """Formats that an operator may meet."""
    return st.sampled_from(_DTYPES)


_ATTENTION = {"batch": (1, 64), "cached": (0, 2000), "shared_prefix": (0, 2000), "prefix_reads": (0, 1), "new": (1, 300)}
_STORED = ((), ((300, 129), (7, 129)))
_SCAN: dict[str, Range] = {
    "batch": (1, 64), "new": (1, 300), "cached": (0, 2000), "n_heads": (1, 64), "chunk_size": (1, 256),
}  # fmt: skip
_WORLD: dict[str, Range] = {"world": (1, 16), "elements": (1, 10**6)}
_STRIDE = {"stride": (1, 4)}
_ROUTED = _STRIDE | {"routing": (None, ExpertRouting(top_k=8, n_group=8, topk_group=4))}
_RANKS: dict[str, Range] = {"query_ranks": (1, 8), "key_ranks": (1, 8)}

KINDS = {
    kind.cls: kind
    for kind in (
        Kind(Activation, {"spread": (1, 64)}, {"learned": (0, 2)}),
        Kind(AltUpCorrect, {"streams": (2, 8)}),
        Kind(AltUpPredict, {"streams": (2, 8)}),
        Kind(Add, {"elements": (1, 10**6)}, {"terms": (1, 2, 3)}),
        Kind(AllGather, _WORLD, _ROUTED),
        Kind(AllReduce, _WORLD, _STRIDE),
        Kind(AllToAll, _WORLD, _ROUTED),
        Kind(
            Attention,
            _ATTENTION | _RANKS | {"n_heads": (1, 64), "n_kv_heads": (1, 8), "window": (1, 1000), "sink_tokens": (1, 64)},
            at_most={"shared_prefix": "cached"},
        ),
        Kind(
            BlockScores,
            _ATTENTION | {"n_heads": (1, 64), "head_dim": (1, 128), "block": (1, 128)},
            at_most={"shared_prefix": "cached"},
        ),
        Kind(
            BlockSparseAttention,
            _ATTENTION | {"n_heads": (1, 64), "n_kv_heads": (1, 8), "block": (1, 128), "chosen_blocks": (1, 40)},
            at_most={"shared_prefix": "cached"},
        ),
        Kind(CausalConv, {"sequences": (1, 64), "resumed": (0, 64), "kernel": (1, 8)}, at_most={"resumed": "sequences"}),
        Kind(Combine, {"scales": (0, 64)}),
        Kind(Compress, _ATTENTION | {"ratio": (1, 128)}),
        Kind(
            CompressedAttention,
            _ATTENTION | {"n_heads": (1, 64), "window": (1, 1000), "ratio": (1, 128), "chosen": (1, 500)},
            at_most={"shared_prefix": "cached"},
        ),
        Kind(Copy, {"elements": (1, 10**6)}),
        Kind(DeltaRule, _SCAN | {"n_key_heads": (1, 64)}, at_most={"n_key_heads": "n_heads"}),
        Kind(Embedding),
        Kind(Gemm, {"batch": (1, 8)}, {"stored": _STORED}),
        Kind(
            GroupedGemm,
            {"experts": (2, 64), "top_k": (1, 8), "local_experts": (1, 64), "distinct": (1, 64)},
            {"skew": (0.0, 0.7), "imbalance": (1.0, 1.5), "redundant": (0, 3), "stored": _STORED},
            at_most={"top_k": "experts", "local_experts": "experts", "distinct": "experts"},
        ),
        Kind(HostCopy, {"size": (1, 10**6), "calls": (1, 1000)}),
        Kind(HyperCollapse, {"streams": (1, 8), "rounds": (0, 30)}),
        Kind(HyperExpand, {"streams": (1, 8)}),
        Kind(
            IndexScores,
            _ATTENTION | {"n_heads": (1, 64), "head_dim": (1, 128), "ratio": (1, 128)},
            at_most={"shared_prefix": "cached"},
        ),
        Kind(
            LatentAttention,
            _ATTENTION | _RANKS | {"n_heads": (1, 64), "chosen": (1, 2000), "pool": (1, 32)},
            at_most={"shared_prefix": "cached"},
        ),
        Kind(LinearAttention, _SCAN | {"n_groups": (1, 64)}, at_most={"n_groups": "n_heads"}),
        Kind(Norm, numbers={"adds": (0, 1, 2)}),
        Kind(ReduceScatter, _WORLD, _ROUTED),
        Kind(Rescale, {"parts": (1, 16)}),
        Kind(Rope),
        Kind(Sampling),
        Kind(SelectiveScan, {"batch": (1, 64), "new": (1, 300), "cached": (0, 2000), "state_size": (1, 64)}),
        Kind(SendRecv, {"elements": (1, 10**6)}, {"span": (2, 8)}),
        Kind(TopK, {"scores": (1, 10**6)}),
    )
}
"""How each kind of operator is drawn, by class."""

STRATEGIES = {cls: kind.strategy() for cls, kind in KINDS.items()}
