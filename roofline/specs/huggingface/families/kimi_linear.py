"""Kimi Linear: Kimi Delta Attention, latent attention without positions in every fourth layer, DeepSeek-V3's experts."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.sections import (
    KIMI_LINEAR,
    correction_biases,
    dense_and_moe,
    layers_of,
    listed_kinds_of_mlp,
    mla,
    model_keys,
    mtp,
)

_WORDS = {"linear_attention": "kda", "full_attention": "mla"}


@family("kimi_linear", architectures=("KimiLinearForCausalLM",), source=transformers("kimi_linear"))
def kimi_linear(config: Config) -> Draft:
    """Reads `kimi_linear` configs: layers are numbered from 1. What is not rotated of a latent key is cached all the same."""
    config.only("mla_use_nope", True, "latent attention of this family has no positions")
    config.harmless("moe_renormalize", "moe_router_activation_func", "num_expert_group", "use_grouped_topk")
    config.only("num_expert_group", 1, "experts in several groups")
    count = layers_of(config)
    inner = config.part("linear_attn_config", default=None)
    kinds = _kinds(config, inner, count)
    mixers = {"kda": _kda(config, inner), "mla": {**mla(config), "use_rope": False}}
    by_kind = dense_and_moe(config, listed_kinds_of_mlp(config, count), [mixers[kind] for kind in kinds], KIMI_LINEAR)
    layers = [Layer(f"{kind}_{layer.name}", layer.mixer, layer.mlp) for kind, layer in zip(kinds, by_kind, strict=True)]
    mtp(config, "num_nextn_predict_layers")
    positions = config.whole("max_position_embeddings", "model_max_length")
    if inner is not None:
        inner.finish()
    return Draft(layers, model_keys(config, positions=positions, **correction_biases(layers)))


def _kinds(config: Config, inner: Config | None, count: int) -> list[str]:
    """As words, or as two lists of layers that together hold each once."""
    words = config.words("layer_types", count, _WORDS, default=None)
    if words is not None and inner is not None:
        inner.harmless("kda_layers", "full_attn_layers")
    if words is not None:
        return [_WORDS[word] for word in words]
    inner = config.part("linear_attn_config") if inner is None else inner
    delta, full = (inner.indices(name, count + 1) for name in ("kda_layers", "full_attn_layers"))
    if sorted([*delta, *full]) != list(range(1, count + 1)):
        inner.refuse("kda_layers", f"must hold, with full_attn_layers, each of the layers 1 to {count} once")
    return ["mla" if index + 1 in set(full) else "kda" for index in range(count)]


def _kda(config: Config, inner: Config | None) -> Section:
    """Sizes of the delta layers: in a part of their own as published, or beside the others as transformers saves them."""
    if inner is None:
        names, where = ("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim"), config
    else:
        names, where = ("num_heads", "head_dim", "short_conv_kernel_size"), inner
        config.harmless("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim")
    heads, head_dim, kernel = (where.whole(name) for name in names)
    return {"kind": "kda", "linear_num_heads": heads, "linear_head_dim": head_dim, "linear_conv_kernel_dim": kernel}
