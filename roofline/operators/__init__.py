"""Operators: what one kernel-sized piece of work costs. They know no model and no hardware.

`OPERATORS` holds those that ship and those that other packages add by the entry-point group `roofline.operators`.
"""

from __future__ import annotations

from operator import attrgetter

from roofline.operators.activation import Activation
from roofline.operators.add import Add
from roofline.operators.attention import Attention
from roofline.operators.base import Operator
from roofline.operators.causal_conv import CausalConv
from roofline.operators.collectives import AllGather, AllReduce, AllToAll, ReduceScatter, SendRecv
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
from roofline.registry import Registry

OPERATORS: Registry[type[Operator]] = Registry(
    "operator",
    (
        Activation,
        Add,
        AllGather,
        AllReduce,
        AllToAll,
        Attention,
        CausalConv,
        Combine,
        Compress,
        CompressedAttention,
        Copy,
        DeltaRule,
        Embedding,
        Gemm,
        GroupedGemm,
        HostCopy,
        HyperCollapse,
        HyperExpand,
        IndexScores,
        LatentAttention,
        LinearAttention,
        Norm,
        ReduceScatter,
        Rescale,
        Rope,
        Sampling,
        SelectiveScan,
        SendRecv,
        TopK,
    ),
    group="roofline.operators",
    key=attrgetter("kind"),
    accepts=Operator,
)
"""Classes by kind, such as "gemm"."""
