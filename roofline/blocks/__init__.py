"""Blocks: a section of a model's file and the operators that it becomes. One kind a class, side by side with its costs.

`BLOCKS` holds those that ship and those that other packages add by the entry-point group `roofline.blocks`.
"""

from __future__ import annotations

from typing import get_args

from roofline.blocks.base import Block, Role
from roofline.blocks.csa import CompressedAttentionBlock
from roofline.blocks.delta_net import GatedDeltaNet, KimiDeltaAttention
from roofline.blocks.gqa import GroupedQueryAttention
from roofline.blocks.lightning_attention import LightningAttention
from roofline.blocks.linear import LinearMixer, LinearMlp
from roofline.blocks.mamba import Mamba, Mamba2
from roofline.blocks.mla import LatentAttentionBlock
from roofline.blocks.mlp import GatedMlp, Mlp
from roofline.blocks.moe import MixtureOfExperts
from roofline.registry import Registry


def name_of(block: type[Block]) -> str:
    """Role and kind: two roles may each have a kind of one name."""
    return f"{block.role}/{get_args(block.model_fields['kind'].annotation)[0]}"


BLOCKS: Registry[type[Block]] = Registry(
    "block",
    (
        CompressedAttentionBlock,
        GatedDeltaNet,
        GroupedQueryAttention,
        KimiDeltaAttention,
        LightningAttention,
        LinearMixer,
        Mamba,
        Mamba2,
        LatentAttentionBlock,
        GatedMlp,
        LinearMlp,
        Mlp,
        MixtureOfExperts,
    ),
    group="roofline.blocks",
    key=name_of,
    accepts=Block,
)
"""By role and kind, such as "mixer/gqa"."""


def kinds(role: Role) -> dict[str, type[Block]]:
    """Blocks of a role, by kind in alphabetical order."""
    return {name.partition("/")[2]: BLOCKS[name] for name in sorted(BLOCKS) if BLOCKS[name].role == role}
