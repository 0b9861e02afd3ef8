"""MiniMax-Text-01 and M1 (Lightning Attention, softmax attention in every eighth layer, experts in all), and MiniMax-M2
(softmax
attention and experts in all, one norm over all heads of queries and one over those of keys)."""

from __future__ import annotations

from roofline.specs.huggingface.config import REQUIRED, Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.sections import experts_of, gqa, heads, layers_of, model_keys, moe, mtp, without_absent

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
