"""Operators: what one kernel-sized piece of work costs. They know no model and no hardware.

`OPERATORS` holds those that ship and those that other packages add by the entry-point group `roofline.operators`.
"""

from __future__ import annotations

from operator import attrgetter

from roofline.operators.base import Operator
from roofline.registry import Registry

OPERATORS: Registry[type[Operator]] = Registry(
    "operator",
    {
        "activation": "roofline.operators.activation:Activation",
        "add": "roofline.operators.add:Add",
        "all_gather": "roofline.operators.collectives:AllGather",
        "all_reduce": "roofline.operators.collectives:AllReduce",
        "all_to_all": "roofline.operators.collectives:AllToAll",
        "altup_correct": "roofline.operators.altup:AltUpCorrect",
        "altup_predict": "roofline.operators.altup:AltUpPredict",
        "attention": "roofline.operators.attention:Attention",
        "block_scores": "roofline.operators.block_scores:BlockScores",
        "block_sparse_attention": "roofline.operators.block_sparse_attention:BlockSparseAttention",
        "causal_conv": "roofline.operators.causal_conv:CausalConv",
        "combine": "roofline.operators.combine:Combine",
        "compress": "roofline.operators.compress:Compress",
        "compressed_attention": "roofline.operators.compressed_attention:CompressedAttention",
        "copy": "roofline.operators.copy:Copy",
        "delta_rule": "roofline.operators.delta_rule:DeltaRule",
        "embedding": "roofline.operators.embedding:Embedding",
        "gemm": "roofline.operators.gemm:Gemm",
        "grouped_gemm": "roofline.operators.grouped_gemm:GroupedGemm",
        "host_copy": "roofline.operators.host_copy:HostCopy",
        "hyper_collapse": "roofline.operators.hyper_connections:HyperCollapse",
        "hyper_expand": "roofline.operators.hyper_connections:HyperExpand",
        "index_scores": "roofline.operators.index_scores:IndexScores",
        "latent_attention": "roofline.operators.latent_attention:LatentAttention",
        "linear_attention": "roofline.operators.linear_attention:LinearAttention",
        "norm": "roofline.operators.norm:Norm",
        "reduce_scatter": "roofline.operators.collectives:ReduceScatter",
        "rescale": "roofline.operators.rescale:Rescale",
        "rope": "roofline.operators.rope:Rope",
        "sampling": "roofline.operators.sampling:Sampling",
        "selective_scan": "roofline.operators.selective_scan:SelectiveScan",
        "send_recv": "roofline.operators.collectives:SendRecv",
        "top_k": "roofline.operators.top_k:TopK",
    },
    group="roofline.operators",
    key=attrgetter("kind"),
    accepts=Operator,
)
"""Classes by kind, such as "gemm"; each is imported when it is looked up."""
