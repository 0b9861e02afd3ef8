"""A model with other dimensions, as controls set them. Pages run a translation of this module."""

from __future__ import annotations

from typing import Any

from roofline.blocks.gqa import GroupedQueryAttention
from roofline.blocks.mla import LatentAttentionBlock
from roofline.blocks.model import Model
from roofline.errors import InputError

Values = dict[str, Any]
"""What the controls hold, by key. Of a dimension 0 is the model's own."""

# What DeepSeek-V2 has, for models that are given latent attention here.
LATENT, ROTATED = 512, 64

_WIDTHS = {"d_model": "hidden_size", "vocab": "vocab_size"}


def edited(model: Model, values: Values) -> Model:
    """The model with what the controls change of it.

    Raises:
        InputError: dimensions that do not go together.
    """
    layers = {
        name: layer.model_copy(update={"mixer": mixer(layer.mixer, values), "mlp": mlp(layer.mlp, values)})
        for name, layer in model.layer_types.items()
    }
    changed: Values = {"layer_types": layers}
    for key, field in _WIDTHS.items():
        if number(values, key) > 0:
            changed[field] = number(values, key)
    if number(values, "layers") > 0:
        if len(model.layers) != 1 or len(model.layers[0].pattern) != 1:
            raise InputError(f"{model.title} has layers of several kinds: leave their number as it is")
        changed["layers"] = (model.layers[0].model_copy(update={"repeat": number(values, "layers")}),)
    return model.model_copy(update=changed)


def number(values: Values, key: str) -> int:
    """What a control holds, 0 where there is none."""
    return int(values.get(key, 0) or 0)


def mixer(found: Any, values: Values) -> Any:
    """The attention of a layer: its heads, window and latent, or latent attention in its place."""
    if isinstance(found, GroupedQueryAttention):
        return _latent(found, values) if values.get("attention", "") == "mla" else _grouped(found, values)
    if isinstance(found, LatentAttentionBlock) and number(values, "latent") > 0:
        return found.model_copy(update={"kv_lora_rank": number(values, "latent")})
    return found


def _grouped(found: GroupedQueryAttention, values: Values) -> Any:
    heads = number(values, "heads") or found.num_attention_heads
    kept = number(values, "kv_heads") or found.num_key_value_heads
    if kept > heads or heads % kept != 0:
        raise InputError(f"{heads} query heads cannot share {kept} KV heads evenly: choose a number that divides {heads}")
    window = number(values, "window")
    return found.model_copy(
        update={
            "num_attention_heads": heads,
            "num_key_value_heads": kept,
            "sliding_window": window if window > 0 else None if window < 0 else found.sliding_window,
        }
    )


def _latent(found: GroupedQueryAttention, values: Values) -> Any:
    return LatentAttentionBlock(
        kind="mla",
        num_attention_heads=number(values, "heads") or found.num_attention_heads,
        q_lora_rank=None,
        kv_lora_rank=number(values, "latent") or LATENT,
        qk_nope_head_dim=found.head_dim,
        qk_rope_head_dim=ROTATED,
        v_head_dim=found.head_dim,
    )


def mlp(found: Any, values: Values) -> Any:
    """The feed-forward block of a layer, with another inner width or other experts."""
    if getattr(found, "num_experts", None) is not None:
        return _experts(found, number(values, "experts"), number(values, "top_k"))
    width = number(values, "d_ff")
    if width > 0 and getattr(found, "intermediate_size", None) is not None:
        return found.model_copy(update={"intermediate_size": width})
    return found


def _experts(found: Any, experts: int, chosen: int) -> Any:
    experts = experts or found.num_experts
    chosen = chosen or found.num_experts_per_tok
    if chosen > experts:
        raise InputError(f"a token cannot use {chosen} of {experts} experts")
    return found.model_copy(update={"num_experts": experts, "num_experts_per_tok": chosen})
