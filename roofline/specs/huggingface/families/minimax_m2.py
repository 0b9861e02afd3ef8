"""MiniMax-M2: one norm over all heads of queries, one over those of keys, and mixtures of experts in all layers."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.parts import experts_of, gqa, heads, layers_of, moe, mtp, stream


@family("minimax_m2", architectures=("MiniMaxM2ForCausalLM",), source=transformers("minimax_m2"))
def minimax_m2(config: Config) -> Draft:
    """`intermediate_size` is the width of an expert. Routing is corrected by a buffer that is no parameter."""
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
    return Draft([layer] * count, stream(config, apart={"router_correction_bias": count * experts}))
