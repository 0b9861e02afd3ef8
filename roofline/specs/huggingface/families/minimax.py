"""MiniMax-Text-01 and M1 (Lightning Attention, softmax attention in every eighth layer, experts in all), MiniMax-M2 (softmax
attention and experts in all, one norm over all heads of queries and one over those of keys), and MiniMax-M3 (attention to
blocks of keys that an indexer chooses)."""

from __future__ import annotations

from roofline.specs.huggingface.config import REQUIRED, Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import DENSE, FULL, SPARSE, dense_block
from roofline.specs.huggingface.sections import (
    correction_biases,
    experts_of,
    gqa,
    heads,
    layers_of,
    model_keys,
    moe,
    mtp,
    rotary,
    without_absent,
)

_WORDS = {"linear_attention": "linear", "full_attention": "full"}
_NUMBERS = {0: "linear", 1: "full"}
_FACTORS = tuple(
    name
    for block in ("full_attention", "linear_attention", "mlp")
    for greek in ("alpha", "beta")
    for name in (f"layernorm_{block}_{greek}", f"{block.replace('attention', 'attn')}_{greek}_factor")
)


@family(
    "minimax",
    types=("minimax_text_01", "minimax_m1"),
    architectures=("MiniMaxForCausalLM", "MiniMaxText01ForCausalLM", "MiniMaxM1ForCausalLM"),
    source=transformers("minimax"),
)
def minimax(config: Config) -> Draft:
    """Reads `minimax` configs.

    Norms stand before each block; with `postnorm` it is their output that the residual carries on, which costs the same.
    """
    config.off("sliding_window", "shared_intermediate_size", "attention_bias")
    config.harmless("postnorm", "shared_moe_mode", *_FACTORS)
    count, head_dim = layers_of(config), config.whole("head_dim")
    n_q, n_kv = config.whole("num_attention_heads"), config.whole("num_key_value_heads")
    config.divides(("num_key_value_heads", n_kv), ("num_attention_heads", n_q))
    mixers = {"full": gqa(n_q, n_kv, head_dim, **_rotary(config, head_dim)), "linear": _lightning(config, n_q, head_dim)}
    experts, chosen = experts_of(config, ("num_local_experts", "num_experts"))
    mlp = moe(experts, chosen, config.whole("intermediate_size"))
    return Draft([Layer(kind, mixers[kind], mlp) for kind in _kinds(config, count)], model_keys(config))


def _lightning(config: Config, heads: int, head_dim: int) -> Section:
    sizes = {"num_attention_heads": heads, "head_dim": head_dim}
    return {"kind": "lightning_attention", **sizes, "chunk_size": config.whole("block_size", default=256)}


_WHOLE = "absent: heads are rotated as a whole"


def _rotary(config: Config, head_dim: int) -> Section:
    share = config.fraction("partial_rotary_factor", default=None)
    rotated = config.whole("rotary_dim", default=int(head_dim * share) if share else None, why="" if share else _WHOLE)
    return without_absent(rotary_dim=rotated)


def _kinds(config: Config, count: int) -> list[str]:
    """As listed in words, or in numbers; transformers alternates where nothing is listed, which no model does."""
    words = config.words("layer_types", count, _WORDS, default=None)
    numbers = config.wholes("attn_type_list", count, default=REQUIRED if words is None else None)
    spellings = []
    if numbers is not None:
        if max(numbers) not in _NUMBERS:
            config.refuse("attn_type_list", "must hold 0 (Lightning Attention) and 1 (softmax attention) alone")
        spellings.append([_NUMBERS[number] for number in numbers])
    if words is not None:
        spellings.append([_WORDS[word] for word in words])
    if spellings[0] != spellings[-1]:
        config.needs("says other layers than layer_types", "attn_type_list", "layer_types")
    return spellings[0]


@family("minimax_m2", architectures=("MiniMaxM2ForCausalLM",), source=transformers("minimax_m2"))
def minimax_m2(config: Config) -> Draft:
    """Reads `minimax_m2` configs.

    `intermediate_size` is the width of an expert. Routing is corrected by a buffer that is no parameter.
    """
    count = layers_of(config)
    n_q, n_kv, head_dim = heads(config, head_dim=config.whole("head_dim"))
    config.only("use_qk_norm", True, "this family has norms of queries and keys")
    config.only("qk_norm_type", "per_layer", "this family has one norm over all heads")
    config.only("use_routing_bias", True, "this family corrects its routing")
    config.only("attn_type_list", [1] * count, "all layers of this family attend to everything")
    config.off("attention_bias", "shared_intermediate_size", "sliding_window")
    # NB: keys of MiniMax-01, for layers that this family does not have.
    config.harmless("mlp_intermediate_size", "shared_moe_mode", "swa_rope_theta", "max_model_len", "num_expert_group")
    config.harmless(*(f"layernorm_{part}_beta" for part in ("full_attention", "linear_attention", "mlp")))
    config.harmless("use_mtp", "mtp_transformer_layers")
    mtp(config, "num_mtp_modules")
    experts, top_k = experts_of(config, ("num_local_experts", "num_experts"))
    turned = config.whole("rotary_dim", default=head_dim, why="config.json has none: all of a head")
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qk_norm="full", rotary_dim=turned),
        moe(experts, top_k, config.whole("intermediate_size")),
    )
    return Draft([layer] * count, model_keys(config, apart={"router_correction_bias": count * experts}))


_BLOCKS = "minimax_m3_sparse"
# What transformers calls the keys of `sparse_attention_config`, as published.
_INDEXER = {
    "index_n_heads": "sparse_num_index_heads",
    "index_head_dim": "sparse_index_dim",
    "index_block_size": "sparse_block_size",
    "index_topk_blocks": "sparse_topk_blocks",
    "index_local_blocks": "sparse_local_block",
}


@family(
    "minimax_m3_vl_text",
    types=("minimax_m3_text",),
    architectures=("MiniMaxM3SparseForCausalLM",),
    source=transformers("minimax_m3_vl"),
)
def minimax_m3(config: Config) -> Draft:
    """Reads the configs of MiniMax-M3's language model.

    The first layers attend to everything and have a dense feed-forward block; the others attend to blocks of keys that an
    indexer chooses. `intermediate_size` is the width of an expert. Routing is corrected by a buffer that is no parameter.
    """
    count = layers_of(config)
    n_q, n_kv, head_dim = heads(config, head_dim=config.whole("head_dim"))
    config.only("use_qk_norm", True, "this family has norms of queries and keys")
    config.only("qk_norm_type", "per_head", "this family has one norm for all heads")
    config.only("use_routing_bias", True, "this family corrects its routing")
    config.off("attention_output_gate", "attention_bias", "mlp_bias", "sliding_window")
    config.harmless("use_gemma_norm", "swiglu_beta")
    mtp(config, "num_mtp_modules")
    turned = _turned(config, head_dim)
    keys = {"qk_norm": "head", "rotary_dim": turned} if turned != head_dim else {"qk_norm": "head"}
    mixers = {FULL: gqa(n_q, n_kv, head_dim, **keys)}
    kinds, indexer = _attention_of_m3(config, count)
    if _BLOCKS in kinds:
        mixers[_BLOCKS] = {**mixers[FULL], "kind": "block_sparse_gqa", **_blocks_of_keys(indexer, n_kv)}
    blocks = _blocks_of_m3(config, count)
    experts, top_k = experts_of(config, ("num_local_experts", "num_experts"))
    width, shared = config.whole("intermediate_size"), config.whole("shared_intermediate_size")
    if shared != width * config.whole("n_shared_experts", default=shared // width):
        config.needs("is not intermediate_size for each of n_shared_experts", "shared_intermediate_size", "n_shared_experts")
    feeds = {
        DENSE: dense_block(config, blocks, "dense_intermediate_size"),
        SPARSE: moe(experts, top_k, width, shared_intermediate_size=shared),
    }
    words = {FULL: "full", _BLOCKS: "sparse", DENSE: "dense", SPARSE: "moe"}
    layers = [
        Layer(f"{words[kind]}_{words[block]}", mixers[kind], feeds[block]) for kind, block in zip(kinds, blocks, strict=True)
    ]
    return Draft(layers, model_keys(config, **correction_biases(layers)))


def _turned(config: Config, head_dim: int) -> int:
    """Rotated elements of a head: `rotary_dim`, with which a share of the head has to agree."""
    share = rotary(config, head_dim).get("rotary_dim")
    turned = config.whole("rotary_dim", default=share, why="" if share is not None else "absent: all of a head")
    if turned is None:
        return head_dim
    if share not in (None, turned):
        config.needs(f"{turned} elements are not partial_rotary_factor of head_dim", "rotary_dim", "partial_rotary_factor")
    if turned > head_dim:
        config.refuse("rotary_dim", f"is more than head_dim ({head_dim})")
    return int(turned)


def _attention_of_m3(config: Config, count: int) -> tuple[list[str], Config]:
    """The kind of attention of each layer, and where the keys of the indexer stand, under their published names or not."""
    published = config.part("sparse_attention_config", default=None)
    words = config.words("layer_types", count, (FULL, _BLOCKS), default=None)
    if published is None:
        if words is None:
            message = "is missing, and so is sparse_attention_config: one of them says which layers choose blocks of keys"
            config.refuse("layer_types", message)
        return list(words), config
    config.harmless(*_INDEXER)  # as transformers writes them beside the published ones
    flags = published.wholes("sparse_attention_freq", count)
    published.only("use_sparse_attention", True, "which layers are sparse is sparse_attention_freq")
    published.only("sparse_score_type", "max", "a block is worth as much as its best key")
    published.only("sparse_init_block", 0, "the class of transformers has no such blocks")
    published.harmless("sparse_disable_index_value")
    kinds = [_BLOCKS if flag else FULL for flag in flags]
    if words is not None and list(words) != kinds:
        config.needs("says other layers than sparse_attention_config.sparse_attention_freq", "layer_types")
    return kinds, published


def _blocks_of_keys(config: Config, n_kv: int) -> Section:
    """The keys of an indexer in a mixer's section."""
    names = _INDEXER if config.place and config.place[-1] == "sparse_attention_config" else {name: name for name in _INDEXER}
    sizes = {name: config.whole(spelled, low=0 if "local" in name else 1) for name, spelled in names.items()}
    if sizes["index_n_heads"] != n_kv:
        config.refuse(names["index_n_heads"], f"has to be num_key_value_heads ({n_kv}): each KV head has a choice of its own")
    if not 1 <= sizes["index_local_blocks"] <= sizes["index_topk_blocks"]:
        config.refuse(names["index_local_blocks"], "has to be from 1 to that of chosen blocks: a query sees its own")
    return {name: sizes[name] for name in ("index_head_dim", "index_block_size", "index_topk_blocks")}


def _blocks_of_m3(config: Config, count: int) -> list[str]:
    """SPARSE or DENSE for each layer: as listed in words, or in numbers."""
    flags = config.wholes("moe_layer_freq", count, default=None)
    words = config.words("mlp_layer_types", count, (DENSE, SPARSE), default=None)
    if flags is None:
        if words is None:
            config.refuse("mlp_layer_types", "is missing, and so is moe_layer_freq: one of them says which layers have experts")
        return list(words)
    blocks = [SPARSE if flag else DENSE for flag in flags]
    if words is not None and list(words) != blocks:
        config.needs("says other layers than moe_layer_freq", "mlp_layer_types", "moe_layer_freq")
    return blocks
