"""EXAONE 3 has Llama's shape; EXAONE 4 norms after the blocks and of each head's queries and keys, and in the large model
windows on most layers. K-EXAONE has its attention with norms before the blocks, and experts."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers, vllm
from roofline.specs.huggingface.layer_types import (
    DENSE,
    FULL,
    SLIDING,
    SPARSE,
    attention_kinds,
    by_kind_and_block,
    dense_block,
    last_of_each,
    layer_names,
    listed_blocks,
    sparse_after,
    window_key,
    window_width,
)
from roofline.specs.huggingface.sections import (
    correction_biases,
    experts_of,
    gated_mlp,
    gqa,
    heads,
    layers_of,
    model_keys,
    moe,
    mtp,
)


@family("exaone4", types=("exaone4_5_text",), architectures=("Exaone4ForCausalLM",), source=transformers("exaone4"))
def exaone4(config: Config) -> Draft:
    """Reads `exaone4` configs: where there is a window, only the layers that have it are rotated."""
    n_q, n_kv, head_dim = heads(config)
    feed = gated_mlp(config.whole("intermediate_size"))
    keys = model_keys(config)
    width = window_width(config, keys["max_position_embeddings"])
    hybrid = config.data.get("sliding_window") is not None
    kinds = _kinds(config, layers_of(config), hybrid)
    mtp(config, "num_nextn_predict_layers")
    config.harmless("mtp_share_layers")
    layers = [
        Layer(
            name,
            gqa(
                n_q, n_kv, head_dim, **window_key(kind, width),
                rotary_dim=0 if hybrid and kind == FULL else None, qk_norm="head",
            ),
            feed,
            {"norms": "post"},
        )
        for name, kind in zip(layer_names(kinds), kinds, strict=True)
    ]  # fmt: skip
    return Draft(layers, keys)


@family("exaone_moe", architectures=("ExaoneMoeForCausalLM", "ExaoneMoEForCausalLM"), source=transformers("exaone_moe"))
def exaone_moe(config: Config) -> Draft:
    """Reads `exaone_moe` configs: as in EXAONE 4 the layers with a window alone are rotated, where there is a window."""
    count = layers_of(config)
    n_q, n_kv, head_dim = heads(config)
    keys = model_keys(config)
    width = window_width(config, keys["max_position_embeddings"])
    hybrid = config.data.get("sliding_window") is not None
    kinds = _kinds(config, count, hybrid)
    blocks = listed_blocks(config, count, lambda: sparse_after(config, count))
    config.harmless("first_k_dense_replace", "first_last_k_dense_replace")
    config.only("is_moe_layer", [block == SPARSE for block in blocks], "other layers than mlp_layer_types have experts")
    mtp(config, "num_nextn_predict_layers")

    def mixer(kind: str) -> Section:
        unrotated = 0 if hybrid and kind == FULL else None
        return gqa(n_q, n_kv, head_dim, **window_key(kind, width), rotary_dim=unrotated, qk_norm="head")

    experts, top_k = experts_of(config, ("num_experts", "num_local_experts"))
    inner = config.whole("moe_intermediate_size")
    sparse = moe(experts, top_k, inner, shared_intermediate_size=inner * config.whole("num_shared_experts"))
    feeds = {DENSE: dense_block(config, blocks), SPARSE: sparse}
    layers = by_kind_and_block(kinds, blocks, {kind: mixer(kind) for kind in kinds}, feeds)
    return Draft(layers, {**keys, **correction_biases(layers)})


def _kinds(config: Config, count: int, hybrid: bool) -> list[str]:
    """Of each layer: `layer_types`, or `sliding_window_pattern`: a full one every that many layers, or letters L and G."""
    full = [FULL] * count
    pattern = config.raw("sliding_window_pattern")
    if not hybrid:
        config.only("layer_types", full, "sliding_window is null")
        return full
    if pattern is None:
        return attention_kinds(config, count, (FULL, SLIDING))
    if not isinstance(pattern, str):
        every = config.whole("sliding_window_pattern")
        return last_of_each(config, count, every, "sliding_window_pattern, where there are no layer_types")
    if not pattern or set(pattern) - set("LG"):
        config.refuse("sliding_window_pattern", f"must be a number, or letters L (sliding) and G (full), not {pattern!r}")

    def spelled(index: int) -> str:
        return SLIDING if pattern[index % len(pattern)] == "L" and index < count - 1 else FULL

    return attention_kinds(config, count, (FULL, SLIDING), spelled)


@family("exaone", architectures=("ExaoneForCausalLM",), source=vllm("exaone"))
def exaone(config: Config) -> Draft:
    """Reads `exaone` configs (EXAONE 3 and 3.5, EXAONE Deep): Llama's layers; their number is `num_layers`."""
    n_q, n_kv, head_dim = heads(config)
    biased = config.flag("attention_bias", "bias", default=False)
    mlp_bias = config.flag("mlp_bias", default=False)
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased),
        gated_mlp(config.whole("intermediate_size"), bias=mlp_bias),
    )
    return Draft([layer] * config.whole("num_layers", "num_hidden_layers"), model_keys(config))


@family("kolibri1", architectures=("Kolibri1ForCausalLM",), source=transformers("kolibri1"))
def kolibri1(config: Config) -> Draft:
    """Reads `kolibri1` configs: EXAONE 4's attention, norms before and after each block, experts beside a shared one."""
    count = layers_of(config)
    n_q, n_kv, head_dim = heads(config, head_dim=config.whole("head_dim"))
    keys = model_keys(config)
    width = window_width(config, keys["max_position_embeddings"])
    hybrid = config.data.get("sliding_window") is not None
    kinds = attention_kinds(config, count, (FULL, SLIDING), lambda index: SLIDING if (index + 1) % 5 else FULL)
    config.off("attention_bias", "use_sliding_window")
    config.harmless("intermediate_size")
    mixers = {
        kind: gqa(
            n_q, n_kv, head_dim, **window_key(kind, width), rotary_dim=0 if hybrid and kind == FULL else None, qk_norm="head"
        )
        for kind in set(kinds)
    }
    experts, top_k = experts_of(config, ("num_experts", "num_local_experts"))
    shared = config.whole("shared_expert_intermediate_size")
    sparse = moe(experts, top_k, config.whole("moe_intermediate_size"), shared_intermediate_size=shared)
    layers = by_kind_and_block(kinds, [SPARSE] * count, mixers, {SPARSE: sparse}, norms="both")
    return Draft(layers, {**keys, **correction_biases(layers)})
