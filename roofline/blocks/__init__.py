"""Blocks: a section of a model's file and the operators that it becomes. One kind a class, side by side with its costs.

`BLOCKS` holds those that ship and those that other packages add by the entry-point group `roofline.blocks`.
"""

from __future__ import annotations

from typing import get_args

from roofline.blocks.base import Block, Role
from roofline.registry import Registry
from roofline.specs.base import AnyOf


def name_of(block: type[Block]) -> str:
    """The name of a block class in the registry: its role and kind, such as "mixer/gqa". Two roles may use one kind name."""
    return f"{block.role}/{get_args(block.model_fields['kind'].annotation)[0]}"


BLOCKS: Registry[type[Block]] = Registry(
    "block",
    {
        "mixer/block_sparse_gqa": "roofline.blocks.block_sparse_gqa:BlockSparseGroupedQueryAttention",
        "mixer/csa": "roofline.blocks.csa:CompressedAttentionBlock",
        "mixer/gqa_and_mamba2": "roofline.blocks.attention_and_mamba:AttentionAndMamba2",
        "mixer/gated_delta_net": "roofline.blocks.delta_net:GatedDeltaNet",
        "mixer/gqa": "roofline.blocks.gqa:GroupedQueryAttention",
        "mixer/kda": "roofline.blocks.delta_net:KimiDeltaAttention",
        "mixer/lightning_attention": "roofline.blocks.lightning_attention:LightningAttention",
        "mixer/linear_mixer": "roofline.blocks.linear:LinearMixer",
        "mixer/loop_attention": "roofline.blocks.loop_attention:LoopAttention",
        "mixer/mamba": "roofline.blocks.mamba:Mamba",
        "mixer/mamba2": "roofline.blocks.mamba:Mamba2",
        "mixer/mla": "roofline.blocks.mla:LatentAttentionBlock",
        "mixer/short_conv": "roofline.blocks.short_conv:ShortConvolution",
        "mlp/gated_mlp": "roofline.blocks.mlp:GatedMlp",
        "mlp/linear_mlp": "roofline.blocks.linear:LinearMlp",
        "mlp/mlp": "roofline.blocks.mlp:Mlp",
        "mlp/moe": "roofline.blocks.moe:MixtureOfExperts",
    },
    group="roofline.blocks",
    key=name_of,
    accepts=Block,
)
"""By role and kind, such as "mixer/gqa"; each is imported when it is looked up."""


def kinds(role: Role) -> dict[str, type[Block]]:
    """The block classes of a role, by kind in alphabetical order, those of other installed packages included."""
    return {name.partition("/")[2]: BLOCKS[name] for name in sorted(BLOCKS) if name.startswith(f"{role}/")}


def any_kind(role: Role) -> AnyOf:
    """The annotation of a section that is a block of a role, of whatever kind it names."""
    return AnyOf("kind", lambda kind: BLOCKS.get(f"{role}/{kind}"), lambda: kinds(role).values())
