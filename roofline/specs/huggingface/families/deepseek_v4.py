"""DeepSeek-V4: a window of tokens and compressed entries, experts in every layer, several residual streams."""

from __future__ import annotations

from typing import Any

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.sections import experts_of, layers_of, model_keys, moe, mtp, without_absent

# How many tokens an entry stands for in each kind of layer, and what ours are called.
_RATIOS = {"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
_NAMES = {0: "window", 4: "csa", 128: "hca"}
_ROUTING = {"hash_moe": True, "moe": False}


@family("deepseek_v4", architectures=("DeepseekV4ForCausalLM",), source=transformers("deepseek_v4"))
def deepseek_v4(config: Config) -> Draft:
    """Reads `deepseek_v4` configs.

    Layers that compress four tokens at a time have an indexer; the first layers look their experts up by token.
    """
    count = layers_of(config)
    config.off("attention_bias", "mlp_bias")
    config.only("num_key_value_heads", 1, "all query heads read one vector per token")
    ratios, hashed = _ratios(config, count), _hashed(config, count)
    mixers = {ratio: _mixer(config, ratio) for ratio in sorted(set(ratios))}
    blocks = {routed: _experts(config, hash_routing=routed) for routed in (False, True)}
    layers = [
        Layer(_NAMES[ratio] + ("_hash" if routed else ""), mixers[ratio], blocks[routed])
        for ratio, routed in zip(ratios, hashed, strict=True)
    ]
    mtp(config, "num_nextn_predict_layers")
    streams = {name: config.whole(name) for name in ("hc_mult", "hc_sinkhorn_iters")}
    keys = model_keys(config, **streams)
    experts, chosen = blocks[False]["num_experts"], blocks[False]["num_experts_per_tok"]
    sizes = {
        "router_correction_bias": experts * hashed.count(False),
        "hash_routing_table": chosen * keys["vocab_size"] * hashed.count(True),
    }
    return Draft(layers, {**keys, "apart": {name: size for name, size in sizes.items() if size}})


def _mixer(config: Config, ratio: int) -> Section:
    head_dim = config.whole("head_dim")
    index = {name: config.whole(name) for name in ("index_n_heads", "index_head_dim", "index_topk")}
    n_q, groups = config.whole("num_attention_heads"), config.whole("o_groups")
    config.divides(("o_groups", groups), ("num_attention_heads", n_q))
    return {
        "kind": "csa",
        "num_attention_heads": n_q,
        "head_dim": head_dim,
        "q_lora_rank": config.whole("q_lora_rank"),
        "qk_rope_head_dim": _rotated(config, head_dim),
        "o_groups": groups,
        "o_lora_rank": config.whole("o_lora_rank"),
        "sliding_window": config.whole("sliding_window"),
        **({"compress_ratio": ratio} if ratio else {}),
        **(index if ratio == _RATIOS["compressed_sparse_attention"] else {}),
        "sinks": True,
    }


def _experts(config: Config, *, hash_routing: bool) -> Section:
    experts, chosen = experts_of(config, ("n_routed_experts", "num_local_experts"))
    width = config.whole("moe_intermediate_size", "intermediate_size")
    config.whole("n_shared_experts")
    config.only("n_shared_experts", 1, "the class has one shared expert, whatever the key says")
    return {**moe(experts, chosen, width, shared_intermediate_size=width), **without_absent(hash_routing=hash_routing)}


def _rotated(config: Config, head_dim: int) -> int:
    share = config.fraction("partial_rotary_factor", default=None)
    if share is None:
        return int(config.whole("qk_rope_head_dim"))
    rotated = int(head_dim * share)
    if config.whole("qk_rope_head_dim", default=rotated) != rotated:
        config.needs(f"says {rotated} elements", "partial_rotary_factor", "qk_rope_head_dim")
    config.only("qk_nope_head_dim", head_dim - rotated, "head_dim and partial_rotary_factor leave as many elements as they are")
    compressed = config.raw("compress_rope_parameters", default={})
    if not isinstance(compressed, dict) or compressed.get("partial_rotary_factor", share) != share:
        config.refuse("compress_rope_parameters", "must be an object whose partial_rotary_factor is that of the config")
    return rotated


def _ratios(config: Config, count: int) -> list[int]:
    """Tokens an entry stands for, layer by layer: by the kinds of layers, or as published, with one more for each layer
    of multi-token prediction."""
    kinds = config.words("layer_types", count, _RATIOS, default=None)
    config.only("compress_rate_csa", 4, "only layers that compress 4 or 128 tokens are known")
    config.only("compress_rate_hca", 128, "only layers that compress 4 or 128 tokens are known")
    rates = config.raw("compress_rates")
    if rates is not None and rates != {kind: ratio for kind, ratio in _RATIOS.items() if ratio}:
        config.refuse("compress_rates", "only layers that compress 4 or 128 tokens are known")
    if kinds is not None:
        config.harmless("compress_ratios")
        return [_RATIOS[kind] for kind in kinds]
    listed: Any = config.raw("compress_ratios")
    if listed is None:
        config.wholes("compress_ratios", count)  # names the missing key
    more = config.whole("num_nextn_predict_layers", default=0, low=0)
    if not isinstance(listed, list) or len(listed) not in (count, count + more):
        message = f"must have one entry for each of the {count} layers, and may have one for each of num_nextn_predict_layers"
        config.refuse("compress_ratios", f"{message} ({more})")
    if any(type(ratio) is not int or ratio not in _NAMES for ratio in listed):
        config.refuse("compress_ratios", f"entries must be {', '.join(map(str, _NAMES))}")
    return list(listed[:count])


def _hashed(config: Config, count: int) -> list[bool]:
    """Whether experts are looked up by the token's id: as listed, else in the first layers."""
    kinds = config.words("mlp_layer_types", count, _ROUTING, default=None)
    if kinds is not None:
        config.harmless("num_hash_layers")
        return [_ROUTING[kind] for kind in kinds]
    first = config.whole("num_hash_layers", low=0)
    return [index < first for index in range(count)]
