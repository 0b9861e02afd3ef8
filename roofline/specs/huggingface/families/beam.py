"""Beam: attention with a gate, windows on most layers, which alone are rotated, and experts without shared ones."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import (
    DENSE,
    FULL,
    SLIDING,
    SPARSE,
    attention_kinds,
    by_kind_and_block,
    dense_block,
    windows,
)
from roofline.specs.huggingface.sections import (
    correction_biases,
    experts_of,
    gqa,
    heads,
    layers_of,
    model_keys,
    moe,
    rotary_of,
)


@family("beam", architectures=("BeamForCausalLM",), source=transformers("beam"))
def beam(config: Config) -> Draft:
    """Reads `beam` configs: norms before and after each block, and a bias of each head on the gates.

    `rope_parameters` may be given for each kind of layer; null there is a kind without positions.
    """
    count = layers_of(config)
    n_q, n_kv, head_dim = heads(config, head_dim=config.whole("head_dim"))
    biased = config.flag("attention_bias", default=False)
    # NB: transformers and vLLM have other rules for absent lists, and published files give both
    kinds = attention_kinds(config, count, (FULL, SLIDING))
    blocks = list(config.words("mlp_layer_types", count, (DENSE, SPARSE)))

    def mixer(kind: str, width: int | None) -> Section:
        return gqa(
            n_q, n_kv, head_dim, sliding_window=width, **_rotated(config, kind, head_dim), qkv_bias=biased, o_bias=biased,
            qk_norm="head", output_gate="elementwise", gate_bias=True,
        )  # fmt: skip

    if biased:
        config.off("attention_bias")  # the gate, which is projected with queries here, has none
    mixers = {kind: mixer(kind, width) for kind, width in zip(kinds, windows(config, kinds), strict=True)}
    experts, top_k = experts_of(config, ("num_experts", "num_local_experts"))
    groups = {"n_group": config.whole("n_group"), "topk_group": config.whole("topk_group")}
    limited = groups if groups["topk_group"] < groups["n_group"] else {}
    feeds = {
        DENSE: dense_block(config, blocks),
        SPARSE: moe(experts, top_k, config.whole("moe_intermediate_size"), **limited),
    }
    layers = by_kind_and_block(kinds, blocks, mixers, feeds, norms="both")
    return Draft(layers, model_keys(config, **correction_biases(layers)))


def _rotated(config: Config, kind: str, head_dim: int) -> Section:
    """What layers of a kind rotate: full attention nothing, as the class of vLLM has it, and windows what the keys say."""
    given = config.part("rope_parameters", default=None, looked_at=False)
    if given is not None and FULL in given.data and (given.data[FULL] is None) != (given.data.get(SLIDING) is not None):
        config.refuse("rope_parameters", "layers with a window are rotated, those of full attention are not")
    if kind == FULL:
        return {"rotary_dim": 0}
    by_kind = given is not None and SLIDING in given.data
    return rotary_of(config, kind, head_dim) if by_kind else {}
