"""Ling and Ring (Bailing): grouped-query attention and DeepSeek's experts; Kimi Delta Attention and latent attention in turn.
Sarvam and Param 2 have the first, under keys of the same names; the larger Sarvam has latent attention alone."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers, vllm
from roofline.specs.huggingface.layer_types import (
    DENSE,
    FULL,
    LINEAR,
    SLIDING,
    SPARSE,
    attention_kinds,
    by_kind_and_block,
    dense_block,
    layer_names,
    listed_blocks,
    sparse_after,
)
from roofline.specs.huggingface.sections import (
    correction_biases,
    experts_of,
    gqa,
    heads,
    layers_of,
    mla,
    model_keys,
    moe,
    mtp,
    of_class,
    rotary,
    width_of_head,
    without_absent,
)


@family(
    "bailing_hybrid",
    architectures=("BailingHybridForCausalLM", "BailingMoeV3ForCausalLM", "BailingMoeV2_5ForCausalLM"),
    source=transformers("bailing_hybrid"),
)
def bailing_hybrid(config: Config) -> Draft:
    """Reads `bailing_hybrid` configs: V3, and V2.5, which has the same model_type and another class.

    `layer_group_size` layers end with one of latent attention, which has a gate a head.
    """
    if of_class(config, "BailingMoeV2_5ForCausalLM"):
        return _with_lightning_attention(config)
    count = layers_of(config)
    every = config.whole("layer_group_size", default=6)
    kinds = attention_kinds(config, count, (FULL, LINEAR), lambda index: LINEAR if (index + 1) % every else FULL)
    blocks = listed_blocks(config, count, lambda: sparse_after(config, count))
    config.harmless("first_k_dense_replace", "kda_safe_gate", "moe_renormalize", "kda_lower_bound", "q_lora_rank")
    config.off("q_lora_rank")
    # NB: transformers saves head_dim as the rotated part of latent attention, and the delta layers' apart.
    config.harmless("head_dim", "linear_num_heads", "linear_conv_kernel_dim")
    mtp(config, "num_mtp_layers", "num_nextn_predict_layers")
    delta = {
        "kind": "kda",
        "linear_num_heads": config.whole("num_attention_heads"),
        "linear_head_dim": config.whole("linear_head_dim" if config.has("linear_head_dim") else "head_dim"),
        "linear_conv_kernel_dim": config.whole("short_conv_kernel_size", "linear_conv_kernel_dim"),
        "full_rank_gates": True,
    }
    latent = {**mla(config, compressed_queries=False), "output_gate": "headwise"}
    experts, top_k = experts_of(config, ("num_local_experts", "num_experts"), ("num_experts_per_tok", "num_experts_per_token"))
    inner = config.whole("moe_intermediate_size")
    shared = inner * config.whole("n_shared_experts", "num_shared_experts")
    groups = {"n_group": config.whole("n_group", "num_expert_group"), "topk_group": config.whole("topk_group")}
    limited = groups if groups["topk_group"] < groups["n_group"] else {}
    feeds = {
        DENSE: dense_block(config, blocks),
        SPARSE: moe(experts, top_k, inner, shared_intermediate_size=shared, **without_absent(**limited)),
    }
    layers = by_kind_and_block(kinds, blocks, {FULL: latent, LINEAR: delta}, feeds)
    return Draft(
        layers,
        model_keys(config, positions=config.whole("max_position_embeddings", "model_max_length"), **correction_biases(layers)),
    )


def _with_lightning_attention(config: Config) -> Draft:
    """Ling and Ring 2.5: Lightning Attention with norms and rotation, latent attention without a gate.

    Source: https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/model_executor/models/bailing_moe_linear.py
    """
    count, every = layers_of(config), config.whole("layer_group_size")
    if count % every:
        config.refuse(
            "layer_group_size", f"{every} does not divide the {count} layers: classes differ on what the last ones are"
        )
    kinds = [LINEAR if (index + 1) % every else FULL for index in range(count)]
    into, biased = config.flag("use_qkv_bias", default=False), config.flag("use_bias", default=False)
    if biased:
        config.refuse("use_bias", "true: biases of experts are not understood")
    config.harmless("group_norm_size", "norm_head", "norm_softmax", "router_dtype", "use_rmsnorm", "max_window_layers")
    config.off("use_sliding_window", "linear_mode")
    n_q = config.whole("num_attention_heads")
    head_dim = width_of_head(config, n_q)
    turned = rotary(config, head_dim).get("rotary_dim", head_dim)
    if turned == head_dim and not config.has("partial_rotary_factor"):
        config.note("partial_rotary_factor", 1, "absent: all of a head is rotated")
    config.only("rotary_dim", turned, "partial_rotary_factor says otherwise")
    silu = config.flag("use_linear_silu", "linear_silu", default=False)
    linear = {
        "kind": "lightning_attention",
        "num_attention_heads": n_q,
        "head_dim": head_dim,
        "activation": silu,
        "rotary_dim": turned if config.flag("linear_rope", default=True) else 0,
        **({"chunk_size": config.whole("block")} if config.has("block") else {}),
        **without_absent(qk_norm=config.flag("use_qk_norm", default=False, why="the default of the class"), qkv_bias=into),
    }
    if config.data.get("q_lora_rank") is None:
        config.note("q_lora_rank", None, "absent: queries are not compressed")
    latent = mla(config, biases=False, any_share=True, compressed_queries=config.data.get("q_lora_rank") is not None)
    config.harmless("q_lora_rank", "moe_router_enable_expert_bias")
    blocks = sparse_after(config, count)
    experts, top_k = experts_of(config, ("num_experts",))
    inner = config.whole("moe_intermediate_size")
    shared = config.whole("moe_shared_expert_intermediate_size", default=inner)
    shared *= config.whole("num_shared_experts", low=0)
    for key in ("n_group", "topk_group"):
        if not config.has(key):
            config.note(key, None, "absent: experts of all groups can be chosen")
    sparse = moe(experts, top_k, inner, shared_intermediate_size=shared, **_groups(config))
    mtp(config, "num_nextn_predict_layers", "num_mtp_layers")
    feeds = {DENSE: dense_block(config, blocks), SPARSE: sparse}
    layers = by_kind_and_block(kinds, blocks, {FULL: latent, LINEAR: linear}, feeds)
    corrected = config.flag("moe_router_enable_expert_bias", default=False)
    return Draft(layers, model_keys(config, tie=False, **(correction_biases(layers) if corrected else {})))


@family(
    "bailing_moe",
    types=("bailing_moe_v2", "sarvam_moe"),
    architectures=("BailingMoeForCausalLM", "BailingMoeV2ForCausalLM", "SarvamMoEForCausalLM"),
    source=vllm("bailing_moe"),
)
def bailing_moe(config: Config) -> Draft:
    """Reads `bailing_moe` configs (Ling and Ring up to V2): one switch for biases in general, one for those of Q, K and V.

    V2 corrects its router by a buffer.
    """
    into, biased = config.flag("use_qkv_bias", default=False), config.flag("use_bias", default=False)
    config.off("use_sliding_window", "multi_gate", "shared_expert_gate")
    config.harmless("norm_head", "norm_softmax", "router_type", "router_dtype", "max_window_layers", "sliding_window")
    normed: Section = {"qk_norm": "head"} if config.flag("use_qk_norm", default=False) else {}
    if normed and not config.flag("use_rmsnorm", default=False):
        normed |= {"qk_norm_function": "layernorm", "qk_norm_bias": True}
    inner = config.whole("moe_intermediate_size")
    shared = config.whole("moe_shared_expert_intermediate_size", default=inner)
    shared *= config.whole("num_shared_experts", default=0, low=0)
    return _with_experts(config, {"qkv_bias": biased or into, "o_bias": biased, **normed}, shared, biased=biased)


@family("param2moe", types=("param2_moe",), architectures=("Param2MoEForCausalLM",), source=vllm("param2moe"))
def param2moe(config: Config) -> Draft:
    """Reads `param2moe` configs: the width of the shared experts is that of all of them, where it is given."""
    into, biased = config.flag("use_qkv_bias", default=False), config.flag("use_bias", default=False)
    config.harmless("router_dtype", "use_rmsnorm")
    normed: Section = {"qk_norm": "head"} if config.flag("use_qk_norm", default=False) else {}
    count = config.whole("num_shared_experts", default=1, low=0)
    each = config.whole("moe_intermediate_size")
    shared = config.whole("moe_shared_expert_intermediate_size", default=each * count) if count else 0
    return _with_experts(config, {"qkv_bias": into, "o_bias": biased, **normed}, shared, biased=False)


def _with_experts(config: Config, biases: dict[str, object], shared: int, *, biased: bool) -> Draft:
    """Grouped-query attention, dense layers first, then experts of which a token's may be limited to some groups."""
    count = layers_of(config)
    n_q, n_kv, head_dim = heads(config)
    turned = config.whole("rotary_dim", default=None)
    rotated = rotary(config, head_dim) if turned is None else {"rotary_dim": turned}
    config.harmless("partial_rotary_factor")
    blocks = sparse_after(config, count)
    experts, top_k = experts_of(config, ("num_experts",))
    corrected = config.flag("moe_router_enable_expert_bias", default=False)
    mtp(config, "num_nextn_predict_layers", "num_mtp_layers")
    if biased and SPARSE in blocks:
        config.refuse("use_bias", "true: biases of experts are not understood")
    dense = dense_block(config, blocks)
    feeds = {
        DENSE: {**dense, "bias": True} if dense and biased else dense,
        SPARSE: moe(experts, top_k, config.whole("moe_intermediate_size"), shared_intermediate_size=shared, **_groups(config)),
    }
    mixer = gqa(n_q, n_kv, head_dim, **rotated, **biases)
    layers = by_kind_and_block([FULL] * count, blocks, {FULL: mixer}, feeds)
    apart = correction_biases(layers) if corrected else {}
    return Draft(layers, model_keys(config, tie=False, **apart))


def _groups(config: Config) -> dict[str, int]:
    """How many groups of experts there are and a token's may be in, where that limits them."""
    groups, chosen = config.whole("n_group", default=None), config.whole("topk_group", default=None)
    return {"n_group": groups, "topk_group": chosen} if groups and chosen and chosen < groups else {}


@family("sarvam_mla", architectures=("SarvamMLAForCausalLM",), source=vllm("sarvam"))
def sarvam_mla(config: Config) -> Draft:
    """Reads `sarvam_mla` configs: latent attention without biases, and experts whose router is corrected by a buffer."""
    config.off("attention_bias")
    config.harmless("router_dtype", "use_qk_norm", "use_rmsnorm", "use_bias", "use_qkv_bias")
    config.only("moe_layer_freq", 1, "every layer behind the dense ones has experts")
    count = layers_of(config)
    blocks = sparse_after(config, count)
    experts, top_k = experts_of(config, ("num_experts",))
    inner = config.whole("moe_intermediate_size")
    shared = config.whole("moe_shared_expert_intermediate_size", default=inner)
    shared *= config.whole("num_shared_experts", default=1, low=0)
    sparse = moe(experts, top_k, inner, shared_intermediate_size=shared, **_groups(config))
    mixer = mla(config, compressed_queries=config.data.get("q_lora_rank") is not None)
    config.harmless("q_lora_rank")
    mtp(config, "num_nextn_predict_layers")
    layers = by_kind_and_block([FULL] * count, blocks, {FULL: mixer}, {DENSE: dense_block(config, blocks), SPARSE: sparse})
    corrected = config.flag("moe_router_enable_expert_bias", default=True, why="the default of the class")
    return Draft(layers, model_keys(config, tie=False, **(correction_biases(layers) if corrected else {})))


@family("pangu_ultra_moe", types=("PanguUltraMoE",), architectures=("PanguUltraMoEForCausalLM",), source=vllm("openpangu"))
def pangu_ultra_moe(config: Config) -> Draft:
    """Reads `pangu_ultra_moe` configs: DeepSeek-V3's attention and experts, with norms after the blocks as a switch says."""
    config.off("param_sink_number", "attention_bias", "mlp_bias")
    count = layers_of(config)
    norms = {"norms": "both"} if config.flag("sandwich_norm", default=False) else {}
    blocks = sparse_after(config, count)
    experts, top_k = experts_of(config, ("n_routed_experts",))
    inner = config.whole("moe_intermediate_size")
    sparse = moe(
        experts, top_k, inner, shared_intermediate_size=inner * config.whole("n_shared_experts", low=0), **_groups(config)
    )
    mtp(config, "num_nextn_predict_layers", "num_mtp_layers")
    feeds = {DENSE: dense_block(config, blocks), SPARSE: sparse}
    layers = by_kind_and_block([FULL] * count, blocks, {FULL: mla(config)}, feeds, **norms)
    corrected = config.flag("router_enable_expert_bias", default=False)
    return Draft(layers, model_keys(config, tie=False, **(correction_biases(layers) if corrected else {})))


@family(
    "pangu_pro_moe_v2",
    types=("PanguProMoEV2", "PanguProMoE", "pangu_pro_moe"),
    architectures=("PanguProMoEV2ForCausalLM",),
    source=vllm("openpangu"),
)
def pangu_pro_moe_v2(config: Config) -> Draft:
    """Reads `pangu_pro_moe_v2` configs: a norm of keys alone, and sinks that are learned keys (and values) of each KV head.

    `interleaved_sliding_window` is the window of all layers, or those of a period of them.
    """
    config.off("kv_lora_rank", "param_sink_scalar", "param_sink_of_head_dim", "mlp_bias", "attention_bias", "bias", "qkv_bias")
    count = layers_of(config)
    n_q, n_kv = config.whole("num_attention_heads"), config.whole("num_key_value_heads")
    config.divides(("num_key_value_heads", n_kv), ("num_attention_heads", n_q))
    turned, width = config.whole("qk_rope_dim"), config.whole("v_channels")
    head_dim = turned + config.whole("qk_nope_dim")
    config.only("head_dim", head_dim, "the class has heads of qk_nope_dim and qk_rope_dim elements")
    sinks = config.whole("param_sink_number")
    values = config.flag("param_sink_with_value", default=False, why="the default of the class")
    attention = [
        gqa(n_q, n_kv, head_dim, v_head_dim=width, rotary_dim=turned, sliding_window=window, qk_norm="key", sink_tokens=sinks)
        | ({} if values else {"sink_values": False})
        for window in _windows_in_turn(config, count)
    ]
    blocks = sparse_after(config, count)
    experts, top_k = experts_of(config, ("n_routed_experts",))
    inner = config.whole("moe_intermediate_size")
    shared = inner * config.whole("n_shared_experts", low=0)
    mtp(config, "num_nextn_predict_layers", "num_mtp_layers")
    feeds = {DENSE: dense_block(config, blocks), SPARSE: moe(experts, top_k, inner, shared_intermediate_size=shared)}
    norms = {"norms": "both"} if config.flag("sandwich_norm", default=False, why="the default of the class") else {}
    kinds = [SLIDING if "sliding_window" in mixer else FULL for mixer in attention]
    names = layer_names(kinds, blocks)
    layers = [
        Layer(name, mixer, feeds[block], dict(norms)) for name, mixer, block in zip(names, attention, blocks, strict=True)
    ]
    corrected = config.flag("router_enable_expert_bias", default=False)
    return Draft(layers, model_keys(config, tie=False, **(correction_biases(layers) if corrected else {})))


def _windows_in_turn(config: Config, count: int) -> list[int | None]:
    """The window of each layer in tokens, None without one: one for all, or a period of them."""
    given = config.raw("interleaved_sliding_window")
    if given is None:
        config.note("interleaved_sliding_window", None, "absent: every layer sees all of the context")
        return [None] * count
    period = given if isinstance(given, list) else [given]
    if not period or not all(isinstance(one, int) and not isinstance(one, bool) and one >= 1 for one in period):
        config.refuse("interleaved_sliding_window", "must be a number of tokens, or a list of them")
    longest = config.whole("max_position_embeddings")
    if max(period) >= longest:
        config.note(
            "interleaved_sliding_window", max(period), "over the longest context it cuts nothing: read as full attention"
        )
    reach = [period[index % len(period)] for index in range(count)]
    return [window if window < longest else None for window in reach]
